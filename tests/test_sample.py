"""The sample text, as its README says: aligned, clean, in the right script.

The stories of the demo: complete, told alike in every language, and with one right answer.
"""

import contextlib
import io
import json
import random
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from helpers.sample import SAMPLE
from modtok_cli.cli.execute import run
from modtok_cli.cli.main import command_tree
from modtok_cli.samples import stories

SCRIPTS = {
    "el": "GREEK", "en": "LATIN", "fi": "LATIN", "fr": "LATIN", "ne": "DEVANAGARI", "sw": "LATIN",
}  # fmt: skip
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


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_parallel_line_is_in_the_training_text(language: str) -> None:
    training = "\n".join(paragraphs(language))
    assert [line for line in parallel(language) if line in training] == []


def test_readme_states_the_counts() -> None:
    readme = (SAMPLE / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z]{2}) \| ([\d,| ]+) \|$", readme, flags=re.MULTILINE)
    stated = {name: [int(cell.replace(",", "")) for cell in cells.split(" | ")]
              for name, cells in rows}  # fmt: skip
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
    assert {lines for lines, *_ in stated.values()} == {114}  # they are parallel


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


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names of the module, and the `place` where `modtok sample .` has written its files."""
    place = tmp_path_factory.mktemp("of")
    with contextlib.chdir(place), contextlib.redirect_stderr(io.StringIO()) as said:
        run(command_tree(), ["sample", "."])
    assert said.getvalue() == "wrote .: data, jobs, parallel, tasks, stories, unseen\n"
    assert sorted(path.name for path in place.iterdir()) == [
        "data", "jobs", "parallel", "stories", "tasks", "unseen",
    ]  # fmt: skip
    return vars(stories) | {"place": place}


def test_stories_are_complete_and_held_out(program: dict[str, Any]) -> None:
    for language in program["LANGUAGES"]:
        lines = (program["place"] / "stories" / f"{language}.jsonl").read_text("utf-8").splitlines()
        texts = [json.loads(line)["text"] for line in lines]
        unseen = (program["place"] / "unseen" / f"{language}.txt").read_text("utf-8").splitlines()
        assert (len(texts), len(unseen)) == (program["TRAINING"], program["UNSEEN"])
        for text in (*texts, *unseen):
            assert not set("{}?/:") & set(text), text
            assert "  " not in text
            assert text[0].isupper()
            assert text.endswith(".")
        assert set(texts).isdisjoint(unseen)


def test_a_story_names_the_same_people_in_every_language(program: dict[str, Any]) -> None:
    draw = random.Random(1)
    for _ in range(50):
        events = program["draw_events"](draw)
        people = {program["NAMES"][events[who]] for who in "nm"}
        for language in program["LANGUAGES"]:
            text = program["text_of"](program["tell"](events, language, draw))
            assert {name for name in program["NAMES"] if name in text} == people
            assert len(program["TEMPLATES"][language]) == len(program["TEMPLATES"]["en"])


def test_one_choice_helps(program: dict[str, Any]) -> None:
    column = {"en": 1, "fi": 2, "fr": 3}
    for language in program["LANGUAGES"]:
        path = program["place"] / "tasks/mcq/stories" / f"{language}.jsonl"
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        assert len(rows) == program["QUESTIONS"]
        for row in rows:
            need = next(
                number
                for number, words in enumerate(program["NEEDS"])
                if f" {words[column[language] - 1]}." in row["question"]
            )
            helps = [
                any(
                    f" {gift[column[language]].split('/')[1]} " in choice
                    for gift in program["GIFTS"]
                    if gift[0] == need
                )
                for choice in row["choices"]
            ]
            assert helps == [place == row["answer"] for place in range(4)], row
