"""All file formats: the `FORMAT` of each module in this package that has one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

from modtok_cli.modular import formats as package
from modtok_cli.modular.formats.interface import Format

_NO_FORMATS = ("interface", "registry")


@cache
def formats() -> Sequence[Format]:
    """Formats in the order in which they are tried."""
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [
        importlib.import_module(f"{package.__name__}.{name}")
        for name in names
        if name not in _NO_FORMATS
    ]
    return sorted((module.FORMAT for module in modules), key=lambda found: found.priority)


def format_of(suffix: str) -> Format:
    """The format that is written to files with this suffix, such as ".json"."""
    found = [one for one in formats() if suffix in one.suffixes]
    return found[0] if found else next(one for one in formats() if "" in one.suffixes)
