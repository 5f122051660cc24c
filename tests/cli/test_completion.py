"""What the shell completes: languages, subsets, presets, tasks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.toy_tokenizers import toy
from modtok_cli.cli import completion


@pytest.fixture
def place(workspace: Path) -> Path:
    """A workspace with two languages in tokenizer/ and one more in data/."""
    toy(languages=("en", "fi")).save(workspace / "tokenizer")
    (workspace / "data").mkdir()
    for name in ("sv.txt", "en.txt", "notes.txt"):
        (workspace / "data" / name).touch()
    (workspace / "tasks" / "mcq" / "mine").mkdir(parents=True)
    return workspace


def test_languages(place: Path) -> None:
    assert completion.languages("") == ["en", "fi", "sv"]
    assert completion.languages("en,") == ["en,fi", "en,sv"]
    assert completion.languages("fi,s") == ["fi,sv"]
    assert completion.language("e") == ["en"]


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
        # without "@" in COMP_WORDBREAKS
        (["tokenizer@"], ["tokenizer@each", "tokenizer@en", "tokenizer@fi"]),
        (["tokenizer", "@"], ["each", "en", "fi"]),
        (["tokenizer", "@", "f"], ["fi"]),
        (["tokenizer", "@", "fi,"], ["fi,en"]),
        (["tok"], ["tokenizer/"]),
    ],
)
def test_bash_splits_words_at_signs(place: Path, words: list[str], printed: list[str]) -> None:
    line = ["modtok", "nsl", "-t", *words]
    done = subprocess.run(
        [sys.executable, "-c", "from modtok_cli.cli.main import main; main()"],
        env={
            **os.environ,
            "_MODTOK_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(line),
            "COMP_CWORD": str(len(line) - 1),
        },
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == printed


def test_presets_and_tasks(place: Path) -> None:
    assert completion.presets("ti") == ["tiny"]
    assert completion.tasks("mi") == ["mine"]
    assert "arc_easy,arc_challenge" in completion.tasks("arc_easy,arc")


def test_an_empty_or_damaged_workspace_has_no_candidates(workspace: Path) -> None:
    assert completion.languages("") == []
    (workspace / "tokenizer").mkdir()
    (workspace / "tokenizer" / "manifest.json").write_text("[")
    assert completion.languages("") == []
    assert completion.tokenizers("tokenizer@") == []


def test_the_shell_gets_them(place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modtok_cli"],
        env={
            **os.environ,
            "COMP_WORDS": "modtok encode --langs en,",
            "COMP_CWORD": "3",
            "_MODTOK_COMPLETE": "complete_bash",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.split() == ["en,fi", "en,sv"]
