"""The stories of the demo: complete, told alike in every language, and with one right answer."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pytest

from modtok_cli.cli.main import command_tree
from modtok_cli.cli.run import run
from modtok_cli.samples import stories


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
    import random

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
