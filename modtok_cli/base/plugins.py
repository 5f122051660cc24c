"""Plug-ins: the modules of a folder of this package, and entry points of other packages.

Each kind of plug-in is a folder, whose modules define one attribute, and a group of entry points
`modtok.GROUP`, which refer to a value of that attribute:

    [project.entry-points."modtok.formats"]
    mine = "my_package.my_format:FORMAT"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from modtok_cli.base.errors import ModtokError


@cache
def _entries(group: str) -> Mapping[str, Any]:
    # Takes tens of milliseconds.
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=f"modtok.{group}")}


@cache
def modules_in(package: str) -> tuple[str, ...]:
    """Names of the modules of a package, ascending; none is imported."""
    return tuple(sorted(module.name for module in iter_modules(import_module(package).__path__)))


def plugin_names(package: str, group: str) -> tuple[str, ...]:
    """Names of all plug-ins of a kind, ascending; none is imported."""
    return tuple(sorted({*modules_in(package), *_entries(group)}))


def entry_point(group: str, name: str) -> Any:
    """What the entry point of that name refers to.

    Raises:
        ModtokError: there is none, or it cannot be imported.
    """
    entry = _entries(group).get(name)
    if entry is None:
        raise ModtokError(f"no entry point '{name}' in modtok.{group}")
    try:
        return entry.load()
    except Exception as error:
        raise ModtokError(
            f"plug-in '{name}' cannot be imported: {error}",
            where=f"entry point of modtok.{group}",
            remedy=f"install {entry.dist.name if entry.dist else entry.value} again or remove it",
        ) from error


def plugin(package: str, attribute: str, group: str, name: str) -> Any:
    """The plug-in of that name; only its module is imported."""
    if name in modules_in(package):
        return getattr(import_module(f"{package}.{name}"), attribute)
    return entry_point(group, name)


def plugins(package: str, attribute: str, group: str) -> Iterator[tuple[str, Any]]:
    """Name and attribute of each module of a package that has it, then of each entry point.

    A module goes before an entry point of the same name.
    """
    own = modules_in(package)
    for name in own:
        module = import_module(f"{package}.{name}")
        if hasattr(module, attribute):
            yield name, getattr(module, attribute)
    for name in sorted(_entries(group).keys() - set(own)):
        yield name, entry_point(group, name)
