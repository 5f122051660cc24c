"""Architectures by name, found among the modules of `families` and imported when needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from modtok_cli.architectures import families
from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import UsageError


@cache
def architectures() -> tuple[str, ...]:
    """Names of all architectures, ascending.

    >>> "llama" in architectures()
    True
    """
    return tuple(sorted(module.name for module in iter_modules(families.__path__)))


def architecture(name: str) -> type[Shape]:
    """The `Shape` of a model family.

    >>> architecture("llama").__name__
    'Llama'

    Raises:
        UsageError: the name is unknown.
    """
    if name not in architectures():
        raise UsageError(
            f"architecture '{name}' is not supported",
            remedy=f"choose from {', '.join(architectures())}",
        )
    found: type[Shape] = import_module(f"{families.__name__}.{name}").ARCHITECTURE
    return found
