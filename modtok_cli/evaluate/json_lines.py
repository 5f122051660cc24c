"""JSON lines written by users: examples, questions, documents."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.text.streams import Broken, read_chunks
from modtok_cli.text.text_format import BOM


def json_lines(path: Path, remedy: str = "") -> Iterator[tuple[int, Any]]:
    """(line number from 1, value) of each non-blank line; `.zst` and `.gz` are decompressed.

    Raises:
        ModtokError: the file cannot be read, or a line is not JSON.
    """
    try:
        data = b"".join(read_chunks(path))
    except Broken as error:
        raise ModtokError(str(error), where=str(path)) from error
    for number, line in enumerate(data.removeprefix(BOM).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except ValueError as error:
            raise ModtokError(
                f"invalid JSON ({error})", where=f"{path}:{number}", remedy=remedy
            ) from error
        yield number, value


def own_name(row: dict[str, Any], number: int, taken: Container[str]) -> str:
    """Name of a row that is unique in its file: its "id", or its line number.

    >>> own_name({"id": 7}, 2, ()), own_name({"id": None}, 2, ()), own_name({"id": "a"}, 2, ["a"])
    ('7', '2', 'a (line 2)')
    """
    name = str(number) if row.get("id") is None else str(row["id"])
    return f"{name} (line {number})" if name in taken else name
