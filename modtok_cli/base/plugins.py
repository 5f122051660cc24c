"""Plug-ins: the modules of a folder of this package, and entry points of other packages.

    FAMILIES = Plugins("modtok.architectures", check, "modtok_cli.model.architecture.families",
                       "ARCHITECTURE")
    FAMILIES.load("llama")      # ARCHITECTURE of modtok_cli/model/architecture/families/llama.py

Another package adds one in its pyproject.toml:

    [project.entry-points."modtok.architectures"]
    olmo2 = "their_package.olmo2:ARCHITECTURE"

One that cannot be loaded is left out with a warning that names it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from modtok_cli.base.public import PythonWarnings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


def modules_of(folder: str, attribute: str) -> dict[str, Any]:
    """The definitions of one name in the modules of a folder of this package, by module, ascending.

    >>> sorted(modules_of("modtok_cli.model.architecture.families", "ARCHITECTURE"))
    ['llama', 'mistral', 'qwen2', 'qwen3']
    """
    return {name: _own(folder, attribute, name) for name in names_of(folder)}


@dataclass(frozen=True)
class Plugins(Generic[T]):
    """The plug-ins of one kind.

    Attributes:
        group: entry points of other packages.
        make: the plug-in, of the name of an entry point and what it refers to; raises anything if
            that is none.
        folder: package with a module for each plug-in of ours; "" if there are none.
        attribute: what each of these modules defines.
    """

    group: str
    make: Callable[[str, Any], T]
    folder: str = ""
    attribute: str = ""

    def own(self) -> tuple[str, ...]:
        """Names of our modules, ascending; only the folder is imported."""
        return names_of(self.folder) if self.folder else ()

    def names(self) -> tuple[str, ...]:
        """All names, ascending, also of plug-ins that cannot be loaded; none is loaded."""
        return tuple(sorted({*self.own(), *_entry_points(self.group)}))

    def load(self, name: str) -> T | None:
        """The plug-in of a name, ours before other packages'.

        None if there is none, and with a warning if it raises anything.
        """
        if name in self.own():
            own: T = _own(self.folder, self.attribute, name)
            return own
        entry = _entry_points(self.group).get(name)
        if entry is None:
            return None
        try:
            return self.make(name, entry.load())
        except (Exception, SystemExit) as error:
            self.warn(name, error)
            return None

    def warn(self, name: str, error: BaseException) -> None:
        """Warn that a plug-in of another package is left out."""
        what = " ".join(f"{type(error).__name__}: {error}".split())
        place = _entry_points(self.group)[name].value
        PythonWarnings().warn(f"plug-in {name} of {self.group} is left out ({what}); see {place}")

    def all(self) -> dict[str, T]:
        """All plug-ins that can be loaded, by name."""
        loaded = {name: self.load(name) for name in self.names()}
        return {name: each for name, each in loaded.items() if each is not None}


def _own(folder: str, attribute: str, name: str) -> Any:
    return getattr(import_module(f"{folder}.{name}"), attribute)


@cache
def names_of(folder: str) -> tuple[str, ...]:
    """Names of the modules of a folder of this package, ascending; only the folder is imported."""
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
