"""One module for each kind of result rows.

Every module of this package defines `KIND`. To show the rows of a new command in plots and in the
report, add a module; nothing else refers to it by name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from modtok_cli.measure.kind import Kind


@cache
def kinds() -> dict[str, Kind]:
    """All kinds by name, in the order of the report."""
    found: list[Kind] = [
        import_module(f"{__name__}.{module.name}").KIND for module in iter_modules(__path__)
    ]
    return {kind.name: kind for kind in sorted(found, key=lambda kind: kind.order)}
