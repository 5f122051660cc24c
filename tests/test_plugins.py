"""Plug-ins of this package and of others; one that raises costs a warning and nothing else."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.processes import python
from modtok_cli.base import plugins
from modtok_cli.base.plugins import Plugins
from modtok_cli.base.public import ModtokWarning
from modtok_cli.model.architecture.registry import architectures
from modtok_cli.text import pretokenizer
from modtok_cli.tokenizer import formats as tokenizer_formats
from modtok_cli.tokenizer.formats import format_of_content

FAMILIES = Plugins(
    "modtok.tests",
    lambda name, found: found,
    "modtok_cli.model.architecture.families",
    "ARCHITECTURE",
)
ENTRIES = """
[modtok.tests]
llama = pathlib:Path
theirs = pathlib:Path
broken = no_such_package:THING
[modtok.architectures]
missing = no_such_package:THING
wrong = pathlib:Path
exits = exiting:THING
[modtok.formats]
raising = raising:FORMAT
[modtok.pretokenizers]
bad = raising:PATTERN
good = raising:GOOD
"""
RAISING = """
from modtok_cli.tokenizer.formats import Format
class Raising(Format):
    priority = -1
    def recognizes(self, data):
        raise ZeroDivisionError("none")
    def read(self, data, name, where, variant):
        pass
FORMAT, PATTERN, GOOD = Raising(), "(", "[a-z]+|[^a-z]+"
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with entry points."""
    folder = tmp_path / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "exiting.py").write_text("raise SystemExit(3)")
    (tmp_path / "raising.py").write_text(RAISING)
    monkeypatch.syspath_prepend(str(tmp_path))
    caches = (plugins._entry_points, tokenizer_formats.formats, pretokenizer.pretokenizers)
    for cached in caches:
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()


def test_modules_and_entry_points() -> None:
    from modtok_cli.model.architecture.families.llama import ARCHITECTURE

    assert {"llama", "theirs", "broken"} < set(FAMILIES.names())
    assert "theirs" not in FAMILIES.own()
    assert FAMILIES.load("llama") is ARCHITECTURE  # ours first
    assert FAMILIES.load("theirs") is Path
    assert FAMILIES.load("none") is None
    assert Plugins("modtok.no_such_kind", lambda name, found: found).names() == ()


def test_one_that_cannot_be_loaded_is_left_out() -> None:
    with pytest.warns(ModtokWarning) as warned:
        assert architectures() == ("llama", "mistral", "qwen2", "qwen3")
    said = [
        str(each.message).partition(" (")[0] for each in warned if each.category is ModtokWarning
    ]
    names = ("exits", "missing", "wrong")
    assert said == [f"plug-in {name} of modtok.architectures is left out" for name in names]


def test_one_that_raises_later_is_left_out() -> None:
    with pytest.warns(ModtokWarning, match=r"raising of modtok\.formats .*\(ZeroDivisionError"):
        assert format_of_content(b"{}") is tokenizer_formats.formats()["hugging_face"]
    with pytest.warns(ModtokWarning, match=r"bad of modtok\.pretokenizers is left out"):
        assert {"good", "bpe"} < set(pretokenizer.pretokenizers()) ^ {"bad"}


def test_a_command_says_it_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "fr.json").write_text("{}")
    line = "-m modtok_cli encode -t fr.json raising.py"
    paths = f"{tmp_path}:{Path(__file__).parents[1]}"
    done = python(*line.split(), cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths})
    warning, error = done.stderr.splitlines()
    assert warning.startswith("modtok: warning: plug-in raising of modtok.formats is left out (")
    assert error.startswith("modtok: error: ")
    assert "fr.json" in error


def test_packages_in_a_zip_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as file:
        file.writestr("zipped-1.0.dist-info/METADATA", "Name: zipped\nVersion: 1.0\n")
        file.writestr("zipped-1.0.dist-info/entry_points.txt", "[modtok.zip]\npath = pathlib:Path")
    monkeypatch.syspath_prepend(str(tmp_path / "packages.zip"))
    assert Plugins("modtok.zip", lambda name, found: found).load("path") is Path
