"""What the shell completes: languages, subsets, presets, tasks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer

from helpers.processes import python
from helpers.toy_tokenizers import toy
from modtok_cli.cli import completion
from modtok_cli.cli.main import command_tree


@pytest.fixture
def place(workspace: Path) -> Path:
    """A workspace with two languages in tokenizer/ and one more in data/."""
    toy(languages=("en", "fi")).save(workspace / "tokenizer")
    (workspace / "data").mkdir()
    for name in ("sv.txt", "en.txt", "notes.txt"):
        (workspace / "data" / name).touch()
    (workspace / "tasks" / "mcq" / "mine").mkdir(parents=True)
    return workspace


def context(command: str, **values: object) -> typer.Context:
    """The context of a command whose options before the incomplete word are `values`."""
    found = typer.Context(command_tree(command).commands[command])
    found.params = dict(values)
    return found


def test_languages_of_data_and_tokenizer(place: Path) -> None:
    learning = context("bpe-seq", data=Path("data"))
    assert completion.languages(learning, "") == ["en", "fi", "sv"]
    assert completion.languages(learning, "en,") == ["en,fi", "en,sv"]
    assert completion.languages(learning, "fi,s") == ["fi,sv"]
    assert completion.language("e") == ["en"]


def test_languages_of_the_named_tokenizer(place: Path) -> None:
    toy(languages=("el", "en")).save(place / "other")
    assert completion.languages(context("extract", tokenizer="tokenizer"), "") == ["en", "fi"]
    assert completion.languages(context("extract", tokenizer="other"), "") == ["el", "en"]
    # Nothing there: any language of the workspace.
    assert completion.languages(context("extract", tokenizer="none"), "") == ["en", "fi", "sv"]


def test_only_new_languages_are_appended(place: Path) -> None:
    assert completion.appended(context("bpe-seq"), "") == ["sv"]
    assert completion.appended(context("bpe-seq", tokenizer=place / "none"), "e") == ["en"]


def test_names(place: Path) -> None:
    assert completion.pretokenizers("gp") == ["gpt2"]
    assert {"bpe", "qwen2"} <= set(completion.pretokenizers(""))
    assert {"none", "phrases", "unigram", "gemma"}.isdisjoint(completion.pretokenizers(""))
    assert completion.chat_templates("cha") == ["chatml"]
    (place / "chat.jinja").touch()
    assert completion.chat_templates("cha") == ["chatml", "chat.jinja"]


def test_tokenizers(place: Path) -> None:
    assert completion.tokenizers("tok") == ["tokenizer/"]
    assert completion.tokenizers("tokenizer/man") == ["tokenizer/manifest.json"]
    assert completion.tokenizers("tokenizer@") == [
        "tokenizer@each", "tokenizer@en", "tokenizer@fi",
    ]  # fmt: skip
    assert completion.tokenizers("tokenizer@fi,e") == ["tokenizer@fi,en"]
    assert completion.tokenizers("nowhere@") == []
    assert completion.tokenizers("nowhere/x") == []


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        # What bash replaces begins with the "@": tried in bash 5.2. First: "@" divides no words.
        (["tokenizer@"], ["tokenizer@each", "tokenizer@en", "tokenizer@fi"]),
        (["tokenizer", "@"], ["@each", "@en", "@fi"]),
        (["tokenizer", "@", "f"], ["@fi"]),
        (["tokenizer", "@", "fi,"], ["@fi,en"]),
        (["tok"], ["tokenizer/"]),
    ],
)
def test_bash_splits_words_at_signs(place: Path, words: list[str], printed: list[str]) -> None:
    line = ["modtok", "nsl", "-t", *words]
    given = {
        "_MODTOK_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    done = python("-m", "modtok_cli", env={**os.environ, **given})
    assert done.stdout.split() == printed


def test_presets_and_tasks(place: Path) -> None:
    assert completion.presets("ti") == ["tiny"]
    assert completion.tasks("mi") == ["mine"]
    assert "arc_easy,arc_challenge" in completion.tasks("arc_easy,arc")


def test_an_empty_or_damaged_workspace_has_no_candidates(workspace: Path) -> None:
    assert completion.languages(context("extract"), "") == []
    (workspace / "tokenizer").mkdir()
    (workspace / "tokenizer" / "manifest.json").write_text("[")
    assert completion.languages(context("extract"), "") == []
    assert completion.tokenizers("tokenizer@") == []
