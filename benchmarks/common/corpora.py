"""The corpora that quality and speed are measured on."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import orjson
import zstandard

# The languages of the paper.
LANGUAGES = (
    "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "hu", "it", "lt", "lv", "nl", "pl",
    "pt", "ro", "sk", "sl", "sv",
)  # fmt: skip


def texts(path: Path) -> Iterator[str]:
    """The documents of a `.jsonl.zst` file, read without modtok."""
    with open(path, "rb") as handle:
        stream = zstandard.ZstdDecompressor().stream_reader(handle)
        for line in io.TextIOWrapper(stream, encoding="utf-8", newline="\n"):
            yield orjson.loads(line)["text"]
