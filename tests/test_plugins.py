"""Plug-ins of this package and of others."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from modtok_cli.base import plugins
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.plugins import Plugins

FAMILIES = Plugins("modtok.tests", "modtok_cli.architectures.families", "ARCHITECTURE")


ENTRIES = """
[modtok.tests]
llama = pathlib:Path
theirs = pathlib:Path
broken = no_such_package:THING
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with entry points."""
    folder = tmp_path / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._entry_points.cache_clear()
    yield
    plugins._entry_points.cache_clear()


def test_modules_and_entry_points() -> None:
    from modtok_cli.architectures.families.llama import ARCHITECTURE

    assert {"llama", "theirs"} < set(FAMILIES.names())
    assert "theirs" not in FAMILIES.own()
    assert FAMILIES.load("llama") is ARCHITECTURE  # ours first
    assert FAMILIES.load("theirs") is Path
    with pytest.raises(KeyError):
        FAMILIES.load("none")


def test_package_that_cannot_be_imported() -> None:
    with pytest.raises(ModtokError, match=r"plug-in broken of modtok\.tests: cannot be loaded"):
        FAMILIES.load("broken")
    assert Plugins("modtok.tests").own() == ()


def test_without_entry_points() -> None:
    assert Plugins("modtok.no_such_kind").names() == ()


def test_packages_in_a_zip_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as file:
        file.writestr("zipped-1.0.dist-info/METADATA", "Name: zipped\nVersion: 1.0\n")
        file.writestr("zipped-1.0.dist-info/entry_points.txt", "[modtok.zip]\npath = pathlib:Path")
    monkeypatch.syspath_prepend(str(tmp_path / "packages.zip"))
    assert Plugins("modtok.zip").load("path") is Path
