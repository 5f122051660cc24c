"""Results as JSON lines on standard output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def emit(row: Mapping[str, Any]) -> None:
    """Print one row at once, so that an interrupted benchmark leaves what it measured."""
    print(orjson.dumps(row, option=OPTIONS).decode(), flush=True)
