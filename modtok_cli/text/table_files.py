"""Count tables on disk: `<lang>.counts`, a safetensors file of three arrays.

The arrays are the fields of `WordCounts`. All else (format version, pre-tokenizer and pattern,
language, sizes, counted files) is one JSON object under the metadata key "modtok": one key,
because the library does not keep the order of several, and equal tables give equal files.

Tables are merged in bounded memory. Their words ascend, so they are merged a window at a time: up
to the smallest of the last words of their windows, all is known.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import atomic_file, write_bytes
from modtok_cli.base.memory import check_memory
from modtok_cli.base.records import from_json
from modtok_cli.base.remote import is_remote, path_of
from modtok_cli.base.signature import digest_chunks
from modtok_cli.base.tensors import HEAD, INVALID, Place, header_length, parse_header, write_header
from modtok_cli.text.counts import CorpusSize, WordCounts, common_pretokenizer, merge_counts
from modtok_cli.text.pretokenizer import restore_pretokenizer
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import SUFFIXES

SUFFIX = ".counts"
TEXT_SUFFIX = f"{SUFFIX}.tsv"
"""Tables of lines `word<TAB>count`, which other programs write (`corpus.read_tsv`)."""
FORMAT = "modtok word counts"
VERSION = 2
ARRAYS = {"data": np.uint8, "offsets": np.int64, "counts": np.int64}
"""The arrays of a table, in the order of its fingerprint."""
ORDER = ("counts", "offsets", "data")
"""The arrays in the order of the file."""
_REMEDY = "count the text again with `modtok corpus count --force`"


@dataclass(frozen=True)
class TableSource:
    """A counted file: its name, size in bytes and time of change (ns)."""

    name: str
    bytes: int
    modified: int


def sources_of(paths: Sequence[Path]) -> tuple[TableSource, ...]:
    """Return the files in their current state, by name."""
    sources = []
    for path in sorted(paths):
        status = path.stat()
        sources.append(TableSource(path.name, status.st_size, status.st_mtime_ns))
    return tuple(sources)


@dataclass(frozen=True)
class Header:
    """Header of a count table."""

    language: str
    pretokenizer: str
    pattern: str
    size: CorpusSize
    words: int
    unique: int
    fingerprint: str
    sources: tuple[TableSource, ...] = ()
    reading: Reading = Reading()


def is_table(path: str | Path) -> bool:
    """Return whether a name is of a count table: `.counts`, `.counts.tsv`, also compressed."""
    path = path_of(path)
    stem = path.with_suffix("") if path.suffix in SUFFIXES else path
    return path.suffix == SUFFIX or stem.name.endswith(TEXT_SUFFIX)


def save_counts(
    table: WordCounts,
    path: Path,
    language: str,
    sources: Sequence[TableSource] = (),
    reading: Reading = Reading(),
) -> None:
    """Write a table atomically; equal tables give equal files.

    `sources` and `reading`: what was counted, and how; `corpus count` compares them.
    """
    header = Header(
        language,
        table.pretokenizer.name,
        table.pretokenizer.pattern,
        table.size,
        table.occurrences,
        len(table),
        table.fingerprint(),
        tuple(sources),
        reading,
    )
    parts = (np.ascontiguousarray(getattr(table, name), ARRAYS[name]).data for name in ORDER)
    write_bytes(path, b"".join([header_bytes(header, len(table.data)), *parts]))


def header_bytes(header: Header, data: int) -> bytes:
    """Return the first bytes of a file of a table with `data` bytes of words."""
    content = {"format": FORMAT, "version": VERSION, **asdict(header)}
    content["reading"] = header.reading.as_json()
    lengths = {"counts": header.unique, "offsets": header.unique + 1, "data": data}
    arrays = {name: (ARRAYS[name], lengths[name]) for name in ORDER}
    return write_header(arrays, json.dumps(content, sort_keys=True))


def read_array(path: Path, place: Place, start: int = 0, stop: int | None = None) -> Any:
    """Return entries [start, stop) of an array, as far as it has them."""
    length = place.shape[0]
    number = max(0, min(length if stop is None else stop, length) - start)
    at, width = place.start + start * place.kind.itemsize, place.kind.itemsize
    if not is_remote(path):
        return np.fromfile(path, place.kind, number, offset=at)
    with path.open("rb") as file:
        file.seek(at)
        return np.frombuffer(file.read(number * width), place.kind)


def read_header(path: Path) -> Header:
    """Return the header of the table at `path`; its words are not read."""
    return open_counts(path)[0]


def load_counts(path: Path) -> WordCounts:
    """Return a saved table, validated."""
    if path.exists():  # what is read, and what validation needs
        check_memory(3 * path.stat().st_size, f"reading {path.name}", "use fewer or smaller tables")
    header, places = open_counts(path)
    arrays = {name: read_array(path, places[name]) for name in ARRAYS}
    splits = restore_pretokenizer(header.pretokenizer)
    table = WordCounts(**arrays, pretokenizer=splits, size=header.size)
    check_counts(table, str(path))
    for field, says, has in (
        ("unique", header.unique, len(table)),
        ("words", header.words, table.occurrences),
    ):
        if says != has:
            raise damaged(path, f"field '{field}' says {says}, there are {has}")
    if table.fingerprint() != header.fingerprint:
        raise damaged(path, "field 'fingerprint' does not fit the words and counts")
    return table


def damaged(path: Path | str, what: str) -> ModtokError:
    """Return the error for a damaged table."""
    return ModtokError(f"damaged count table: {what}", where=path, remedy=_REMEDY)


def open_counts(path: Path) -> tuple[Header, dict[str, Place]]:
    """Return the header of a table, and the places of its arrays."""
    if not path.exists():
        raise missing(path)
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            length = header_length(file.read(HEAD), size)
            metadata, places = parse_header(file.read(length), size)
            text = metadata.get("modtok")
    except INVALID as error:
        raise damaged(path, f"header ({error})") from error
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror or error}", where=path) from error
    if text is None:
        raise ModtokError("not a count table of modtok", where=path, remedy=_REMEDY)
    header = _header(path, text)
    for name, kind in ARRAYS.items():
        place = places.get(name)
        if place is None:
            raise damaged(path, f"field '{name}' is missing")
        if place.kind != kind or len(place.shape) != 1:
            raise damaged(path, f"field '{name}' is {place.kind} of {place.shape}")
    return header, places


def _header(path: Path, text: str) -> Header:
    try:
        content = json.loads(text)
    except (ValueError, TypeError) as error:
        raise damaged(path, "field 'modtok' is not JSON") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise damaged(path, "field 'format' is not a format of word counts")
    if content.get("version") != VERSION:
        raise ModtokError(
            f"count table of format version {content.get('version')}, this modtok reads {VERSION}",
            where=path,
            remedy=_REMEDY,
        )
    fields = {name: content[name] for name in content if name not in ("format", "version")}
    try:
        header = from_json(Header, fields, str(path))
    except ModtokError as error:
        raise damaged(path, error.what) from error
    try:
        pattern = restore_pretokenizer(header.pretokenizer).pattern
    except UsageError:
        pattern = None
    if pattern != header.pattern:
        raise ModtokError(
            f"the words were split by pre-tokenizer '{header.pretokenizer}' with another pattern "
            "than this modtok's",
            where=path,
            remedy=_REMEDY,
        )
    return header


def check_counts(table: WordCounts, where: str) -> None:
    """Validate a table that was read from a file."""
    from modtok_cli.core.text import first_disorder

    words = len(table.counts)
    offsets, data = table.offsets, table.data
    if len(offsets) != words + 1:
        raise damaged(where, f"field 'offsets' has {len(offsets)} entries, not {words + 1}")
    if offsets[0] != 0 or offsets[-1] != len(data) or offsets.min() < 0:
        raise damaged(where, "field 'offsets' does not run from 0 to the length of 'data'")
    # Compared, not subtracted: differences of arbitrary numbers can overflow.
    if words and bool((offsets[1:] <= offsets[:-1]).any()):
        raise damaged(where, "field 'offsets' does not ascend")
    if words and int(table.counts.min()) < 1:
        raise damaged(where, f"field 'counts' holds {int(table.counts.min())}, less than 1")
    try:
        data.tobytes().decode()
        split = bool(((data[offsets[:-1]] & 0xC0) == 0x80).any())
    except UnicodeDecodeError:
        split = True
    if split:
        raise damaged(where, "field 'data' has words that are not UTF-8")
    word = first_disorder(data, offsets)
    if word >= 0:
        raise damaged(where, f"field 'data': word {word} does not sort after the one before it")


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
        """Return the last word of the window."""
        return _word(self.window, len(self.window) - 1)

    def take(self, last: bytes | None) -> WordCounts:
        """Remove the words up to `last` from the window, or all; returns them."""
        window, start, stop = self.window, 0, len(self.window)
        while last is not None and start < stop:
            middle = (start + stop) // 2
            start, stop = (middle + 1, stop) if _word(window, middle) <= last else (start, middle)
        self.window = window.part(stop, len(window))
        return window.part(0, stop)

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
    """Return `WordCounts.fingerprint` of arrays given in pieces."""
    name = pretokenizer.encode()
    return digest_chunks([(len(name), [name]), *((sizes[key], chunks[key]) for key in ARRAYS)])


def merge_tables(tables: Sequence[TableReader], memory: int = MEMORY) -> Iterator[WordCounts]:
    """Yield consecutive parts of the merged table, of about `memory` bytes or less."""
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
    sources: Sequence[TableSource] = (),
    reading: Reading = Reading(),
    memory: int = MEMORY,
) -> Header:
    """Write the table of all the texts together: `save_counts` of `merge_counts`, byte for byte.

    Takes about 4 × `memory` bytes, and the size of `output` twice on the disk of `scratch`, a
    directory for intermediate files.
    """
    tables = [open_table(path) for path in paths]
    name = common_pretokenizer(table.header.pretokenizer for table in tables)
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
    pretokenizer = restore_pretokenizer(name)
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
