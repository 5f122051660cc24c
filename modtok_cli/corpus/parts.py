"""Records of one shard, one file per language: `<directory>/<lang>/<shard>.jsonl.zst`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import zstandard

from modtok_cli.base.files import atomic_file
from modtok_cli.text.streams import read_chunks

SUFFIX = ".jsonl.zst"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Valid names of a language's directory; none can point elsewhere."""
_PART = re.compile(rf"[0-9]{{5,}}{re.escape(SUFFIX)}")
_LEVEL = 3


def part_path(place: Path, language: str, rank: int) -> Path:
    """Path of a shard's records in a language."""
    return place / language / f"{rank:05d}{SUFFIX}"


def is_part(path: Path, place: Path) -> bool:
    """Whether `path` is a file of a shard's records below `place`.

    >>> is_part(Path("data/fi/00001.jsonl.zst"), Path("data"))
    True
    """
    above = path.absolute().parent.parent
    return above == place.absolute() and _PART.fullmatch(path.name) is not None


class PartWriters:
    """Open files of one shard; all appear if the block succeeds, none otherwise."""

    def __init__(self, place: Path, rank: int) -> None:
        self._place = place
        self._rank = rank
        self._open: dict[str, Any] = {}
        self._stack = ExitStack()

    def write(self, language: str, record: dict[str, Any]) -> None:
        """Append a record to its language's file."""
        writer = self._open.get(language)
        if writer is None:
            path = part_path(self._place, language, self._rank)
            beside = self._stack.enter_context(atomic_file(path))
            handle = self._stack.enter_context(beside.open("wb"))
            compressor = zstandard.ZstdCompressor(level=_LEVEL)
            writer = self._stack.enter_context(compressor.stream_writer(handle))
            self._open[language] = writer
        writer.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

    def __enter__(self) -> PartWriters:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.__exit__(*exception)


def read_part(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a part, in order."""
    held = b""
    for chunk in read_chunks(path):
        lines = (held + chunk).split(b"\n")
        held = lines.pop()
        for line in lines:
            yield orjson.loads(line)


def languages_in(place: Path) -> list[str]:
    """Languages that have parts, ascending."""
    if not place.is_dir():
        return []
    return sorted(entry.name for entry in place.iterdir() if entry.is_dir())
