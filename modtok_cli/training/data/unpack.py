"""Unpack the text of a language: its files in parallel, in constant memory, resumable.

Every file becomes a part: its documents one after the other, where each ends, and sizes. A process
that is killed leaves complete parts behind, and the next one continues from them. Processes on any
number of nodes divide the files by locks on the parts, which a kill releases.

If the sources of documents are told apart, `sources.npy` holds the training documents by source,
and `sources.json` how many each has, with bytes and a checksum.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.progress import Progress
from modtok_cli.core.text import joined
from modtok_cli.text.parallel import read_each
from modtok_cli.text.readers import read_batches, read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance
from modtok_cli.text.text_format import Spans

HELD_OUT_EVERY = 100
"""The last of so many documents is held out for evaluation, at least one."""

_CHUNK = 1 << 24
CHECKSUM = "checksum"
SOURCES = "sources.json"
BY_SOURCE = "sources.npy"
_CLAIMS = "claims"


@dataclass(frozen=True)
class Facts:
    """Documents of a part, its bytes, and the names of their sources in order of their numbers."""

    documents: int
    bytes: int
    sources: Sequence[str] = ()


def facts_of(directory: Path) -> list[Facts]:
    """Of the parts that are complete, in order."""
    return [Facts(**orjson.loads(path.read_bytes())) for path in sorted(directory.glob("*.part"))]


def part_path(directory: Path, part: int, kind: str) -> Path:
    """A file of a part: `text`, `ends` (int64), `sources` (int32), and `part` with its facts."""
    return directory / f"{part:06d}.{kind}"


def unpack_parts(
    language: str,
    files: Sequence[Path],
    directory: Path,
    reading: Reading,
    progress: Progress,
    threads: int | None = None,
    sources: Sequence[str] = (),
) -> None:
    """Unpack the files that nobody has unpacked or is unpacking; any number of processes may call
    it for one `directory`. `sources`: the source of each file, if files tell them apart.
    """
    claims = os.open(directory / _CLAIMS, os.O_RDWR | os.O_CREAT)
    try:

        def is_missing(part: int) -> bool:
            return not part_path(directory, part, "part").exists()

        def read(item: tuple[int, Path], advance: Advance) -> None:
            part, file = item
            if _claim(claims, part) and is_missing(part):
                blocks = _blocks(file, reading, progress, advance, may_be_empty=len(files) > 1)
                _unpack_part(directory, part, blocks, sources[part] if sources else "")

        missing = [(part, file) for part, file in enumerate(files) if is_missing(part)]

        label = f"unpacking {language}"
        todo = [file for _, file in missing]
        read_each(read, missing, files=todo, label=label, threads=threads, progress=progress)
    finally:
        os.close(claims)  # and with it the claims


def _claim(claims: int, part: int) -> bool:
    """Whether no other process has claimed a part; a lock of one byte, which a kill releases."""
    try:
        fcntl.lockf(claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, part)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks is used without
        pass
    return True


def complete(directory: Path, parts: int) -> int | None:
    """Write the checksum of all documents, and their order by source. One process at a time may
    call it.

    Returns:
        Number of documents; None if some parts are not unpacked yet.
    """
    facts = facts_of(directory)
    if len(facts) < parts:
        return None
    if not (directory / CHECKSUM).exists():
        crc = 0
        for part in range(parts):
            for chunk in _chunks(part_path(directory, part, "text")):
                crc = crc32(chunk, crc)
        before = 0
        for part, one in enumerate(facts):
            for chunk in _chunks(part_path(directory, part, "ends")):
                crc = crc32((np.frombuffer(chunk, np.int64) + before).tobytes(), crc)
            before += one.bytes
        if any(one.sources for one in facts):
            _order_by_source(directory, facts, crc)
        write_bytes(directory / CHECKSUM, f"{crc}\n".encode())
    for path in directory.glob("*.sources"):
        path.unlink()
    return sum(one.documents for one in facts)


def _blocks(
    file: Path, reading: Reading, progress: Progress, advance: Advance, *, may_be_empty: bool
) -> Iterator[tuple[Spans, list[str]]]:
    """The documents of a file, and the source of each if fields tell them apart."""
    how: Any = {"progress": progress, "advance": advance, "may_be_empty": may_be_empty}
    if not reading.source_fields:
        for spans in read_spans(file, reading, **how):
            yield spans, []
        return
    for documents in read_batches(file, reading, **how):
        sources = [document.source for document in documents]
        if None in sources:
            raise ModtokError(
                f"no source in field '{reading.source_fields[0]}'",
                where=f"{file}:{documents[sources.index(None)].line}",
                remedy="write the source of every document there, or remove the document",
            )
        yield Spans(*joined([document.text for document in documents])), list(map(str, sources))


def _unpack_part(
    directory: Path, part: int, blocks: Iterable[tuple[Spans, list[str]]], source: str
) -> None:
    documents = size = 0
    sources = {source: 0} if source else {}
    with (
        open(part_path(directory, part, "text"), "wb") as text,
        open(part_path(directory, part, "ends"), "wb") as ends,
        open(part_path(directory, part, "sources"), "wb") as numbers,
    ):
        for spans, names in blocks:
            lengths = spans.stops - spans.starts
            positions = size + np.cumsum(lengths[lengths > 0])
            own = [sources.setdefault(name, len(sources)) for name in names] or [0] * len(lengths)
            if sources:
                numbers.write(np.array(own, dtype=np.int32)[lengths > 0].tobytes())
            data = packed(spans)
            text.write(data)
            size += len(data)
            documents += len(positions)
            ends.write(positions.tobytes())
        for handle in (text, ends, numbers):
            _sync(handle)
    content = orjson.dumps(Facts(documents, size, [*sources]))
    write_bytes(part_path(directory, part, "part"), content)


def packed(spans: Spans) -> memoryview | bytes:
    """The documents one after the other."""
    filled = spans.stops > spans.starts
    starts, stops = spans.starts[filled], spans.stops[filled]
    if not len(starts):
        return b""
    between = starts[1:] - stops[:-1]
    first, last = int(starts[0]), int(stops[-1])
    if not between.any():
        return spans.data[first:last].data
    if int(between.min()) < 0:  # not in order
        return b"".join(spans.data[a:b].tobytes() for a, b in zip(starts, stops, strict=True))
    if int(between.max()) == 1:  # lines: drop what ends them
        inside = np.ones(last - first, dtype=np.bool_)
        inside[stops[:-1][between == 1] - first] = False
        return spans.data[first:last][inside].data
    return b"".join(spans.data[a:b].tobytes() for a, b in zip(starts, stops, strict=True))


def _order_by_source(directory: Path, parts: Sequence[Facts], crc: int) -> None:
    """Write `sources.npy`, (T,) int64, and `sources.json`, of the T training documents."""
    names = list(dict.fromkeys(name for one in parts for name in one.sources))
    every, lengths = [], []
    for part, one in enumerate(parts):
        of = np.array([names.index(name) for name in one.sources], dtype=np.int32)
        every.append(of[np.fromfile(part_path(directory, part, "sources"), np.int32)])
        lengths.append(
            np.diff(np.fromfile(part_path(directory, part, "ends"), np.int64), prepend=0)
        )
    count = sum(map(len, every))
    documents = np.flatnonzero(np.arange(1, count + 1) % min(HELD_OUT_EVERY, count))
    numbers = np.concatenate(every)[documents]
    order = documents[np.argsort(numbers, kind="stable")]
    sizes = np.concatenate(lengths)
    known, start = {}, 0
    for number, name in enumerate(names):
        own = order[start : start + int(np.count_nonzero(numbers == number))]
        known[name] = [start, len(own), int(sizes[own].sum()), crc32(own.tobytes(), crc)]
        start += len(own)
    with open(directory / BY_SOURCE, "wb") as out:
        np.save(out, order)
        _sync(out)
    write_bytes(directory / SOURCES, orjson.dumps(known))


def _chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as handle:
        while chunk := handle.read(_CHUNK):
            yield chunk


def _sync(handle: IO[Any]) -> None:
    handle.flush()
    os.fsync(handle.fileno())
