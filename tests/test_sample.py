"""The sample text of the project: aligned, clean, in the right script, as its README says."""

import json
import re
import unicodedata
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "modtok_cli" / "samples"
SCRIPTS = {
    "el": "GREEK",
    "en": "LATIN",
    "fi": "LATIN",
    "fr": "LATIN",
    "ne": "DEVANAGARI",
    "sw": "LATIN",
}
LANGUAGES = sorted(SCRIPTS)


def lines_of(path: Path) -> list[str]:
    """Return the lines of a UTF-8 file, split on line feeds only; the last one must be ended."""
    text = path.read_bytes().decode("utf-8", errors="strict")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def parallel(language: str) -> list[str]:
    return lines_of(SAMPLE / "parallel" / f"{language}.txt")


def paragraphs(language: str) -> list[str]:
    return [json.loads(line)["text"] for line in lines_of(SAMPLE / "data" / f"{language}.jsonl")]


def test_each_language_has_one_file_of_each_kind() -> None:
    names = {path.name for path in (SAMPLE / "parallel").iterdir()}
    assert names == {f"{language}.txt" for language in LANGUAGES}
    names = {path.name for path in (SAMPLE / "data").iterdir()}
    assert names == {f"{language}.jsonl" for language in LANGUAGES}


def test_parallel_files_have_the_same_number_of_lines() -> None:
    counts = {language: len(parallel(language)) for language in LANGUAGES}
    assert len(set(counts.values())) == 1, counts
    assert min(counts.values()) >= 100


@pytest.mark.parametrize("language", LANGUAGES)
def test_parallel_lines_are_clean_and_differ(language: str) -> None:
    lines = parallel(language)
    for number, line in enumerate(lines, start=1):
        assert line.strip() == line, f"{language}:{number} begins or ends with white space"
        assert line, f"{language}:{number} is empty"
        assert "  " not in line, f"{language}:{number} has two spaces in a row"
        assert unicodedata.is_normalized("NFC", line), f"{language}:{number} is not NFC"
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("language", LANGUAGES)
def test_aligned_lines_hold_the_same_numbers(language: str) -> None:
    # A line lost or moved in one language shows as a number that faces no number.
    # int() reads Devanagari digits; clock times differ in Swahili, so only long numbers count.
    for number, (english, other) in enumerate(
        zip(parallel("en"), parallel(language), strict=True), start=1
    ):
        here, there = (
            [int(digits) for digits in re.findall(r"\d{3,}", line)] for line in (english, other)
        )
        assert here == there, f"{language}:{number}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_paragraphs_are_long_clean_and_differ(language: str) -> None:
    for line in lines_of(SAMPLE / "data" / f"{language}.jsonl"):
        record = json.loads(line)
        assert set(record) == {"text", "source"}
        assert record["source"] == "modtok-sample"
    texts = paragraphs(language)
    assert len(texts) >= 15
    assert len(set(texts)) == len(texts)
    for number, text in enumerate(texts, start=1):
        assert len(text.split()) >= 50, f"{language}:{number} is short"
        assert "\n" not in text, f"{language}:{number} is more than one paragraph"
        assert text.strip() == text, f"{language}:{number} begins or ends with white space"
        assert unicodedata.is_normalized("NFC", text), f"{language}:{number} is not NFC"


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_parallel_line_is_in_the_training_text(language: str) -> None:
    training = "\n".join(paragraphs(language))
    assert [line for line in parallel(language) if line in training] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_letter_is_of_the_expected_script(language: str) -> None:
    text = "".join(parallel(language) + paragraphs(language))
    for character in sorted(set(text)):
        if unicodedata.category(character)[0] in "LM":
            name = unicodedata.name(character)
            assert name.startswith(SCRIPTS[language]), f"{language}: {character!r} {name}"


def test_nepali_is_written_with_combining_marks() -> None:
    for text in parallel("ne") + paragraphs("ne"):
        assert any(unicodedata.category(character)[0] == "M" for character in text), text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("part", ["", ".train"])
def test_summaries_are_clean_short_and_in_their_script(language: str, part: str) -> None:
    lines = lines_of(SAMPLE / "tasks" / "sum" / f"{language}{part}.jsonl")
    english = lines_of(SAMPLE / "tasks" / "sum" / f"en{part}.jsonl")
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows] == [json.loads(line)["id"] for line in english]
    assert len(rows) == 5
    for row in rows:
        assert set(row) == {"id", "document", "summary"}
        assert len(row["summary"].split()) < len(row["document"].split()) / 2
        for text in (row["document"], row["summary"]):
            assert text == " ".join(text.split(" ")).strip()
            assert "\n" not in text
            assert unicodedata.is_normalized("NFC", text)
            assert text not in "\n".join(paragraphs(language))
            for character in text:
                if unicodedata.category(character)[0] in "LM":
                    assert unicodedata.name(character).startswith(SCRIPTS[language]), text


def test_translation_is_evaluated_on_the_parallel_lines() -> None:
    assert (SAMPLE / "tasks" / "mt").resolve() == (SAMPLE / "parallel").resolve()


def test_readme_states_the_counts() -> None:
    readme = (SAMPLE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z]{2}) \| ([\d,| ]+) \|$", readme, flags=re.MULTILINE)
    stated = {
        language: [int(cell.replace(",", "")) for cell in cells.split(" | ")]
        for language, cells in rows
    }
    counted = {}
    for language in LANGUAGES:
        lines, texts = parallel(language), paragraphs(language)
        counted[language] = [
            len(lines),
            sum(len(line.split()) for line in lines),
            sum(len(line.encode()) + 1 for line in lines),
            len(texts),
            sum(len(text.split()) for text in texts),
            sum(len(text.encode()) for text in texts),
        ]
    assert stated == counted


@pytest.mark.parametrize("language", LANGUAGES)
def test_questions_are_on_the_training_text(language: str) -> None:
    folder = SAMPLE / "tasks" / "mcq"
    text = "\n".join(paragraphs(language))
    endings = [json.loads(line) for line in lines_of(folder / "endings" / f"{language}.jsonl")]
    assert len(endings) == 17
    for row in endings:
        assert f"{row['question']} {row['choices'][row['answer']]}" in text
        assert len(set(row["choices"])) == 4
        wrong = [choice for place, choice in enumerate(row["choices"]) if place != row["answer"]]
        assert not any(f"{row['question']} {choice}" in text for choice in wrong)
    facts = [
        json.loads(line)
        for part in (".train", "")
        for line in lines_of(folder / "facts" / f"{language}{part}.jsonl")
    ]
    assert [row["answer"] for row in facts] == [(2 * place + 1) % 3 for place in range(13)]
    for row in (*endings, *facts):
        written = "".join([row["question"], *row["choices"]])
        assert unicodedata.is_normalized("NFC", written)
        for character in written:
            if unicodedata.category(character)[0] in "LM":
                assert unicodedata.name(character).startswith(SCRIPTS[language]), row
