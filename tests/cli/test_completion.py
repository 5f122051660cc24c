"""What the shell completes: languages, and subsets of tokenizers."""

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


def test_tokenizers(place: Path) -> None:
    assert completion.tokenizers("tok") == []  # the shell has paths
    assert completion.tokenizers("tokenizer@") == [
        "tokenizer@each", "tokenizer@en", "tokenizer@fi",
    ]  # fmt: skip
    assert completion.tokenizers("tokenizer@fi,e") == ["tokenizer@fi,en"]
    assert completion.tokenizers("nowhere@") == []


def test_an_empty_or_damaged_workspace_has_no_candidates(workspace: Path) -> None:
    assert completion.languages(context("extract"), "") == []
    (workspace / "tokenizer").mkdir()
    (workspace / "tokenizer" / "manifest.json").write_text("[")
    assert completion.languages(context("extract"), "") == []
    assert completion.tokenizers("tokenizer@") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_ask_for_the_last_word(place: Path, shell: str) -> None:
    line = "modtok extract -t tokenizer --langs en,"
    given = {"_MODTOK_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
    given |= {"COMP_WORDS": "\n".join(line.split()), "COMP_CWORD": "5"}
    given |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = python("-m", "modtok_cli", env={**os.environ, **given})
    assert "en,fi" in done.stdout
