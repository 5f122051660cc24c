"""Merge count tables on disk in bounded memory: the file that merging them in memory would give.

The words of every table ascend, so tables are merged a window at a time: up to the smallest of the
last words of their windows, all is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_file
from modtok_cli.base.signature import digest_chunks
from modtok_cli.base.tensors import Place
from modtok_cli.text.counts import CorpusSize, WordCounts, merge_counts
from modtok_cli.text.reading import Reading
from modtok_cli.text.rewriting import restore_pretokenizer
from modtok_cli.text.table_files import (
    ARRAYS,
    ORDER,
    Header,
    Source,
    damaged,
    header_bytes,
    open_counts,
    read_array,
)

MEMORY = 64 << 20
"""Bytes of the windows of all tables together; merging them takes about four times as much."""
_COPY = 1 << 20


class TableReader:
    """A table that is read a window after the other.

    Attributes:
        header: of the table.
        window: the words that are read and not taken yet.
    """

    def __init__(self, path: Path, header: Header, places: dict[str, Place]) -> None:
        self.header = header
        self._path = path
        self._places = places
        self._pretokenizer = restore_pretokenizer(header.pretokenizer)
        self._next = 0
        self.window = self._read(0, 0)

    @property
    def is_last(self) -> bool:
        """Whether the file has no words after the window."""
        return self._next == self._places["counts"].shape[0]

    def fill(self, size: int) -> None:
        """Read the next window, of about `size` bytes, if all words of this one are taken."""
        if len(self.window) or self.is_last:
            return
        start = self._next
        offsets = read_array(self._path, self._places["offsets"], start, start + size // 16 + 2)
        # A word takes its bytes, and 16 for count and offset.
        taken = offsets[1:] - offsets[0] + 16 * np.arange(1, len(offsets))
        self._next = start + max(1, int(np.searchsorted(taken, size, side="right")))
        self.window = self._read(start, self._next)

    def last(self) -> bytes:
        """The last word of the window."""
        return _word(self.window, len(self.window) - 1)

    def take(self, last: bytes | None) -> WordCounts:
        """Remove the words up to `last` from the window, or all; returns them."""
        window, start, stop = self.window, 0, len(self.window)
        while last is not None and start < stop:
            middle = (start + stop) // 2
            start, stop = (middle + 1, stop) if _word(window, middle) <= last else (start, middle)
        self.window = _part(window, stop, len(window))
        return _part(window, 0, stop)

    def _read(self, start: int, stop: int) -> WordCounts:
        offsets = read_array(self._path, self._places["offsets"], start, stop + 1)
        first, end = int(offsets[0]), int(offsets[-1])
        return WordCounts(
            read_array(self._path, self._places["data"], first, end),
            offsets - first,
            read_array(self._path, self._places["counts"], start, stop),
            self._pretokenizer,
            CorpusSize(),
        )


def _word(table: WordCounts, number: int) -> bytes:
    return table.data[table.offsets[number] : table.offsets[number + 1]].tobytes()


def _part(table: WordCounts, start: int, stop: int) -> WordCounts:
    first, end = int(table.offsets[start]), int(table.offsets[stop])
    return WordCounts(
        table.data[first:end].copy(),
        table.offsets[start : stop + 1] - first,
        table.counts[start:stop].copy(),
        table.pretokenizer,
        CorpusSize(),
    )


def open_table(path: Path) -> TableReader:
    """Open a table, verified by its fingerprint."""
    header, places = open_counts(path)
    chunks = {name: _chunks(path, places[name]) for name in ARRAYS}
    sizes = {name: place.shape[0] * place.kind.itemsize for name, place in places.items()}
    if fingerprint(header.pretokenizer, sizes, chunks) != header.fingerprint:
        raise damaged(path, "field 'fingerprint' does not fit the words and counts")
    return TableReader(path, header, places)


def fingerprint(
    pretokenizer: str, sizes: dict[str, int], chunks: dict[str, Iterator[bytes]]
) -> str:
    """`WordCounts.fingerprint` of arrays given in pieces."""
    name = pretokenizer.encode()
    return digest_chunks([(len(name), [name]), *((sizes[key], chunks[key]) for key in ARRAYS)])


def merge_tables(tables: Sequence[TableReader], memory: int = MEMORY) -> Iterator[WordCounts]:
    """Consecutive parts of the merged table, of about `memory` bytes or less."""
    while True:
        for table in tables:
            table.fill(memory // len(tables))
        known = [table.last() for table in tables if not table.is_last]
        last = min(known) if known else None
        parts = [part for part in (table.take(last) for table in tables) if len(part)]
        if not parts:
            return
        yield merge_counts(parts)


def merge_files(
    paths: Sequence[Path],
    output: Path,
    language: str,
    scratch: Path,
    sources: Sequence[Source] = (),
    reading: Reading = Reading(),
    memory: int = MEMORY,
) -> Header:
    """Write the table of all the texts together: `save_counts` of `merge_counts`, byte for byte.

    Takes about 4 × `memory` bytes, and the size of `output` twice on the disk of `scratch`, a
    directory for intermediate files.
    """
    tables = [open_table(path) for path in paths]
    names = sorted({table.header.pretokenizer for table in tables})
    if len(names) > 1:
        raise UsageError(
            f"count tables of different pre-tokenizers ({', '.join(names)}) do not add up",
            remedy="count the text again with one of them",
        )
    scratch.mkdir(parents=True, exist_ok=True)
    parts = {name: scratch / f"{output.name}.{name}" for name in ARRAYS}
    words = occurrences = filled = 0
    files = {name: path.open("wb") for name, path in parts.items()}
    try:
        files["offsets"].write(np.zeros(1, dtype="<i8").tobytes())
        for merged in merge_tables(tables, memory):
            files["data"].write(merged.data.tobytes())
            files["offsets"].write((merged.offsets[1:] + filled).astype("<i8").tobytes())
            files["counts"].write(merged.counts.astype("<i8").tobytes())
            words += len(merged)
            occurrences += merged.occurrences
            filled += len(merged.data)
    finally:
        for file in files.values():
            file.close()
    sizes = {name: path.stat().st_size for name, path in parts.items()}
    pretokenizer = restore_pretokenizer(names[0])
    header = Header(
        language,
        pretokenizer.name,
        pretokenizer.pattern,
        reduce(add, (table.header.size for table in tables)),
        occurrences,
        words,
        fingerprint(pretokenizer.name, sizes, {name: _read(parts[name]) for name in ARRAYS}),
        tuple(sources),
        reading,
    )
    with atomic_file(output) as beside, beside.open("wb") as file:
        file.write(header_bytes(header, filled))
        for name in ORDER:
            for chunk in _read(parts[name]):
                file.write(chunk)
    for path in parts.values():
        path.unlink()
    return header


def _chunks(path: Path, place: Place) -> Iterator[bytes]:
    step = _COPY // place.kind.itemsize
    for at in range(0, place.shape[0], step):
        yield read_array(path, place, at, at + step).tobytes()


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_COPY):
            yield chunk
