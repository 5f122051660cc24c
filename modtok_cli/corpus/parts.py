"""Files of a corpus: `<language>/<task>.jsonl.zst`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.text.streams import read_chunks

SUFFIX = ".jsonl.zst"
_PART = re.compile(rf"[0-9]{{5,}}{re.escape(SUFFIX)}")


def is_part(path: Path, place: Path) -> bool:
    """Whether `path` is a file of a task's records below `place`.

    >>> is_part(Path("data/fi/00001.jsonl.zst"), Path("data"))
    True
    """
    above = path.absolute().parent.parent
    return above == place.absolute() and _PART.fullmatch(path.name) is not None


def read_part(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a part, in order."""
    held = b""
    for chunk in read_chunks(path):
        lines = (held + chunk).split(b"\n")
        held = lines.pop()
        for line in lines:
            yield orjson.loads(line)
