"""Running the command line: as a process, or in this one with a stand-in for a room."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.python_processes import run_python
from helpers.sample import sample_text
from modtok_cli.base.option import signature_of
from modtok_cli.cli.command import REGISTERED
from modtok_cli.cli.execute import run
from modtok_cli.cli.main import command_tree


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory, without settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("MODTOK_"):
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def here(workspace: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`modtok ARGS…` in this process: exit status, standard output, standard error."""

    def call(*args: str, root: Any = None) -> tuple[int, str, str]:
        capfd.readouterr()
        status = run(root or command_tree(), args)
        out, err = capfd.readouterr()
        return status, out, err

    return call


@pytest.fixture(scope="session")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with three languages of the sample and a tokenizer of k = 500."""
    place = tmp_path_factory.mktemp("workspace")
    for folder in ("data", "parallel"):
        sample_text(place / folder, "el", "en", "fr", folder=folder)
    shutil.copytree(place / "parallel", place, dirs_exist_ok=True)
    run_python(["-m", "modtok_cli", "bpe-seq", "-k", "500"], cwd=place, capture_output=True)
    return place


@pytest.fixture
def at(
    learned: Path, monkeypatch: pytest.MonkeyPatch, here: Callable[..., tuple[int, str, str]]
) -> Callable[..., tuple[int, str, str]]:
    """`here`, in the workspace `learned`, with standard input from a file or from nothing."""
    monkeypatch.chdir(learned)

    def call(*args: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        path = learned / "stdin"
        path.write_bytes(stdin or b"")
        saved = os.dup(0)
        source = os.open(path if stdin is not None else os.devnull, os.O_RDONLY)
        os.dup2(source, 0)
        os.close(source)
        try:
            with open(0, closefd=False) as reader:
                monkeypatch.setattr(sys, "stdin", reader)
                return here(*args)
        finally:
            os.dup2(saved, 0)
            os.close(saved)
            path.unlink()

    return call


def rows(out: str) -> list[dict[str, Any]]:
    """The rows of JSON lines."""
    return [json.loads(line) for line in out.splitlines()]


class StandIn:
    """Replaces one function of a package and keeps the arguments of its calls."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.args, self.kwargs = args, kwargs
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., StandIn]:
    """`stand_in("nsl", answer)`: in the place of the public function of a command."""

    def put(name: str, answer: Any = None) -> StandIn:
        command_tree()
        declared = filter(None, (command.declaration for command in REGISTERED.values()))
        (declaration,) = (each for each in declared if each.function.__name__ == name)
        function, signature = StandIn(answer), signature_of(declaration.function)

        def call(**arguments: Any) -> Any:
            signature.bind(**arguments)
            return function(**arguments)

        monkeypatch.setattr(declaration, "function", call)
        return function

    return put


class FakeReport:
    """Looks like a `BuildReport`."""

    output = Path("tokenizer")
    signature = "0123456789ab"

    def rows(self) -> list[dict[str, object]]:
        return [
            {"language": "en", "tokens": 300, "adopted": None, "seconds": 0.25},
            {"language": "fi", "tokens": 300, "adopted": 290, "seconds": 0.5},
        ]
