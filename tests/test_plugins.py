"""Plug-ins of this package and of others."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from modtok_cli.base import plugins
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.plugins import Plugins

FAMILIES = Plugins("modtok.tests", "modtok_cli.architectures.families", "ARCHITECTURE")


@pytest.fixture(autouse=True)
def entries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    entries = [
        EntryPoint("llama", "pathlib:Path", "modtok.tests"),
        EntryPoint("theirs", "pathlib:Path", "modtok.tests"),
        EntryPoint("broken", "no_such_package:THING", "modtok.tests"),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    plugins._entry_points.cache_clear()
    yield
    plugins._entry_points.cache_clear()


def test_modules_and_entry_points() -> None:
    from pathlib import Path

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
