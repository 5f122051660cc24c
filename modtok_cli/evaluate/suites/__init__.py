"""The package's multiple-choice suites, one module each.

Every module of this package defines `SUITES`, a tuple of `Suite`s. To add a suite, add a module;
nothing else refers to it by name.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from modtok_cli.evaluate.suite import Suite


@cache
def suites() -> dict[str, Suite]:
    """All suites by task name, in table order."""
    found = [
        suite
        for module in iter_modules(__path__)
        for suite in getattr(import_module(f"{__name__}.{module.name}"), "SUITES", ())
    ]
    return {suite.task: suite for suite in sorted(found, key=lambda each: (each.order, each.task))}
