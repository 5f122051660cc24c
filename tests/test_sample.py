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


def test_parallel_files_have_the_same_number_of_lines() -> None:
    counts = {language: len(parallel(language)) for language in LANGUAGES}
    assert len(set(counts.values())) == 1, counts
    assert min(counts.values()) >= 100


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_parallel_line_is_in_the_training_text(language: str) -> None:
    training = "\n".join(paragraphs(language))
    assert [line for line in parallel(language) if line in training] == []


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
