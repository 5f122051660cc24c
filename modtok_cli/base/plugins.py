"""Plug-ins: the modules of a folder of this package, and entry points of other packages.

    FAMILIES = Plugins("modtok.architectures", "modtok_cli.architectures.families", "ARCHITECTURE")
    FAMILIES.load("llama")      # ARCHITECTURE of modtok_cli/architectures/families/llama.py

Another package adds one in its pyproject.toml:

    [project.entry-points."modtok.architectures"]
    olmo2 = "their_package.olmo2:ARCHITECTURE"
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from modtok_cli.base.errors import ModtokError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class Plugins:
    """The plug-ins of one kind.

    Attributes:
        group: entry points of other packages.
        folder: package with a module for each plug-in of ours; "" if there are none.
        attribute: what each of these modules defines.
    """

    group: str
    folder: str = ""
    attribute: str = ""

    def own(self) -> tuple[str, ...]:
        """Names of our modules, ascending; only the folder is imported."""
        return _modules(self.folder) if self.folder else ()

    def others(self) -> Mapping[str, EntryPoint]:
        """Entry points by name."""
        return _entry_points(self.group)

    def names(self) -> tuple[str, ...]:
        """All names, ascending."""
        return tuple(sorted({*self.own(), *self.others()}))

    def load(self, name: str) -> Any:
        """The plug-in of one of `names`; ours before those of other packages.

        Raises:
            KeyError: there is none.
            ModtokError: the other package cannot be imported.
        """
        if name in self.own():
            return getattr(import_module(f"{self.folder}.{name}"), self.attribute)
        entry = self.others()[name]
        try:
            return entry.load()
        except (ImportError, AttributeError) as error:
            raise ModtokError(
                f"cannot be loaded ({' '.join(str(error).split())})",
                where=f"plug-in {name} of {self.group}",
                remedy=f"reinstall or remove the package of {entry.value}",
            ) from error

    def all(self) -> dict[str, Any]:
        """All plug-ins by name."""
        return {name: self.load(name) for name in self.names()}


@cache
def _modules(folder: str) -> tuple[str, ...]:
    return tuple(sorted(module.name for module in iter_modules(import_module(folder).__path__)))


@cache
def _entry_points(group: str) -> Mapping[str, EntryPoint]:
    if not _is_named(group.encode()):
        return {}
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=group)}


def _is_named(group: bytes) -> bool:
    """Whether an installed package names the group. `importlib.metadata` takes 20 ms, this 2."""
    for place in sys.path:
        try:
            folders = list(os.scandir(place or "."))
        except NotADirectoryError:
            return True  # perhaps a zip file with packages
        except OSError:
            continue
        for folder in folders:
            if folder.name.endswith((".dist-info", ".egg-info", "EGG-INFO")):
                try:
                    with open(f"{folder.path}/entry_points.txt", "rb") as file:
                        if group in file.read():
                            return True
                except OSError:
                    pass  # it has none
    return False
