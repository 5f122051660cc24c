"""Word counts written as text, as other programs might write them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import zstandard

from modtok_cli.text.counts import WordCounts

_ESCAPES = {b"\t": rb"\t", b"\n": rb"\n", b"\r": rb"\r", b"\\": rb"\\"}


def write_tsv(table: WordCounts, path: Path) -> None:
    """A file that `read_tsv` reads; `.zst` and `.gz` are compressed."""
    data = b"".join(
        b"%b\t%d\n" % (re.sub(rb"[\t\n\r\\]", lambda found: _ESCAPES[found[0]], word), count)
        for word, count in table.pairs()
    )
    if path.suffix == ".zst":
        data = zstandard.compress(data)
    elif path.suffix == ".gz":
        data = gzip.compress(data)
    path.write_bytes(data)
