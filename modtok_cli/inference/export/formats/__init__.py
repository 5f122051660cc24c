"""Export formats, one module each that defines `FORMAT`; entry points of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modtok_cli.base.errors import UsageError
from modtok_cli.base.plugins import Plugins

if TYPE_CHECKING:
    from modtok_cli.inference.export.export import ExportFormat


_FORMATS = Plugins("modtok.export_formats", __name__, "FORMAT")


def export_formats() -> tuple[str, ...]:
    """Names of the formats of this package, ascending; none is imported.

    >>> export_formats()
    ('gguf',)
    """
    return _FORMATS.own()


def export_format(name: str) -> ExportFormat:
    """The format of that name."""
    try:
        format: ExportFormat = _FORMATS.load(name)
    except KeyError:
        raise UsageError(
            f"format '{name}' is not supported",
            where="--format",
            remedy=f"choose from {', '.join(_FORMATS.names())}",
        ) from None
    return format
