"""Export formats, one module each: a new format is one file here that defines `FORMAT`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from modtok_cli.base.errors import UsageError

if TYPE_CHECKING:
    from modtok_cli.inference.export.export import ExportFormat


@cache
def export_formats() -> tuple[str, ...]:
    """Names of all formats, ascending; nothing is imported.

    >>> export_formats()
    ('gguf',)
    """
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def export_format(name: str) -> ExportFormat:
    """The format of that name.

    Raises:
        UsageError: the name is unknown.
    """
    if name not in export_formats():
        raise UsageError(
            f"format '{name}' is not supported",
            where="--format",
            remedy=f"choose from {', '.join(export_formats())}",
        )
    found: ExportFormat = import_module(f"{__name__}.{name}").FORMAT
    return found
