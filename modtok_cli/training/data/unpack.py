"""Unpack the text of a language: its files in parallel, in constant memory, resumable.

If the sources of documents are told apart, `sources.npy` holds the training documents by source,
and `sources.json` how many each has, with bytes and a checksum.

Every file becomes a part: its documents, and where they end. Parts are then joined in order. A
process that is killed leaves complete parts behind, and the next one continues from them. Processes
on any number of nodes divide the files by locks on the parts, which a kill releases.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
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
_JOINED = "joined.json"
_CLAIMS = "claims"


@dataclass(frozen=True)
class Facts:
    """Sizes of a text, and the CRC of its bytes.

    Attributes:
        parts: files that it holds.
        sources: names of the sources of its documents, in order of their numbers.
    """

    parts: int = 0
    documents: int = 0
    bytes: int = 0
    crc: int = 0
    sources: Sequence[str] = ()

    def save(self, path: Path) -> None:
        """Write them as JSON, durably."""
        write_bytes(path, orjson.dumps(asdict(self)))

    @staticmethod
    def load(path: Path) -> Facts | None:
        """Read them; None if they were not written yet."""
        try:
            return Facts(**orjson.loads(path.read_bytes()))
        except FileNotFoundError:
            return None


def start(directory: Path) -> None:
    """Let processes claim parts, unless all are there. One process at a time may call it."""
    if not _is_unpacked(directory):
        (directory / _CLAIMS).touch()


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
    try:
        claims = os.open(directory / _CLAIMS, os.O_RDWR)
    except FileNotFoundError:  # another process joins the parts
        return
    try:
        missing = [
            (part, file)
            for part, file in enumerate(files)
            if not _path(directory, part, "json").exists()
        ]
        if _is_unpacked(directory):  # parts are missing because they have been joined
            return

        def read(item: tuple[int, Path], advance: Advance) -> None:
            part, file = item
            if not _claim(claims, part) or _path(directory, part, "json").exists():
                return
            if not _is_unpacked(directory):
                blocks = _blocks(file, reading, progress, advance, may_be_empty=len(files) > 1)
                _unpack_part(directory, part, blocks, sources[part] if sources else "")

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


def _is_unpacked(directory: Path) -> bool:
    """Whether all parts were there, and are being joined."""
    return (directory / _JOINED).exists() or (directory / CHECKSUM).exists()


def join_parts(directory: Path, parts: int) -> int | None:
    """Write `text`, `ends.npy` and `checksum` to `directory`, from all parts. One process at a time
    may call it.

    `ends.npy` holds the end of each document in `text`, int64.

    Returns:
        Number of documents; None if some parts are not unpacked yet.
    """
    if not (directory / CHECKSUM).exists():
        joined = Facts.load(directory / _JOINED)
        if joined is None:
            if not all(_path(directory, part, "json").exists() for part in range(parts)):
                return None
            joined = Facts()
            joined.save(directory / _JOINED)
        _finish(directory, _join(directory, joined, parts))
    for name in ("ends", "sources", _CLAIMS, _JOINED):
        (directory / name).unlink(missing_ok=True)
    return len(np.load(directory / "ends.npy", mmap_mode="r"))


def _path(directory: Path, part: int, kind: str) -> Path:
    return directory / f"part-{part:06d}.{kind}"


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
    documents = size = crc = 0
    sources = {source: 0} if source else {}
    with (
        open(_path(directory, part, "text"), "wb") as text,
        open(_path(directory, part, "ends"), "wb") as ends,
        open(_path(directory, part, "sources"), "wb") as numbers,
    ):
        for spans, names in blocks:
            lengths = spans.stops - spans.starts
            positions = size + np.cumsum(lengths[lengths > 0])
            own = [sources.setdefault(name, len(sources)) for name in names] or [0] * len(lengths)
            if sources:
                numbers.write(np.array(own, dtype=np.int32)[lengths > 0].tobytes())
            data = packed(spans)
            text.write(data)
            crc = crc32(data, crc)
            size += len(data)
            documents += len(positions)
            ends.write(positions.tobytes())
        for handle in (text, ends, numbers):
            _sync(handle)
    Facts(1, documents, size, crc, [*sources]).save(_path(directory, part, "json"))


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


def _join(directory: Path, joined: Facts, parts: int) -> Facts:
    """Append the parts after those already joined, and remove each when it is."""
    with (
        _appending(directory / "text") as text,
        _appending(directory / "ends") as ends,
        _appending(directory / "sources") as numbers,
    ):
        for part in range(joined.parts, parts):
            text.truncate(joined.bytes)  # a part may have been appended in part
            ends.truncate(8 * joined.documents)
            numbers.truncate(4 * joined.documents if joined.sources else 0)
            for handle in (text, ends, numbers):
                handle.seek(0, os.SEEK_END)
            crc = joined.crc
            for chunk in _chunks(_path(directory, part, "text")):
                crc = crc32(chunk, crc)
                text.write(chunk)
            for chunk in _chunks(_path(directory, part, "ends")):
                ends.write((np.frombuffer(chunk, np.int64) + joined.bytes).tobytes())
            own = Facts.load(_path(directory, part, "json"))
            assert own is not None
            sources = list(dict.fromkeys([*joined.sources, *own.sources]))
            of = np.array([sources.index(name) for name in own.sources], dtype=np.int32)
            for chunk in _chunks(_path(directory, part, "sources")):
                numbers.write(of[np.frombuffer(chunk, np.int32)].tobytes())
            for handle in (text, ends, numbers):
                _sync(handle)
            documents, size = joined.documents + own.documents, joined.bytes + own.bytes
            joined = Facts(part + 1, documents, size, crc, sources)
            joined.save(directory / _JOINED)
            _remove(directory, part)
    for part in range(parts):
        _remove(directory, part)
    return joined


def _finish(directory: Path, facts: Facts) -> None:
    """Turn `ends` into `ends.npy`, and write the checksum."""
    crc = facts.crc
    shape = (facts.documents,)
    with open(directory / "ends.npy", "wb") as out:
        np.lib.format.write_array_header_1_0(
            out, {"descr": "<i8", "fortran_order": False, "shape": shape}
        )
        for chunk in _chunks(directory / "ends"):
            crc = crc32(chunk, crc)
            out.write(chunk)
        _sync(out)
    if facts.sources:
        _order_by_source(directory, facts)
    write_bytes(directory / CHECKSUM, f"{crc}\n".encode())


def _order_by_source(directory: Path, facts: Facts) -> None:
    """Write `sources.npy`, (T,) int64, and `sources.json`, of the T training documents."""
    stride = min(HELD_OUT_EVERY, facts.documents)
    documents = np.flatnonzero(np.arange(1, facts.documents + 1) % stride)
    numbers = np.fromfile(directory / "sources", np.int32)[documents]
    order = documents[np.argsort(numbers, kind="stable")]
    lengths = np.diff(np.load(directory / "ends.npy", mmap_mode="r"), prepend=0)
    known, start = {}, 0
    for number, name in enumerate(facts.sources):
        own = order[start : start + int(np.count_nonzero(numbers == number))]
        crc = crc32(own.tobytes(), facts.crc)
        known[name] = [start, len(own), int(lengths[own].sum()), crc]
        start += len(own)
    with open(directory / BY_SOURCE, "wb") as out:
        np.save(out, order)
        _sync(out)
    write_bytes(directory / SOURCES, orjson.dumps(known))


def _appending(path: Path) -> IO[bytes]:
    path.touch()
    return open(path, "r+b")  # the caller closes it


def _chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as handle:
        while chunk := handle.read(_CHUNK):
            yield chunk


def _sync(handle: IO[Any]) -> None:
    handle.flush()
    os.fsync(handle.fileno())


def _remove(directory: Path, part: int) -> None:
    for kind in ("text", "ends", "sources", "json"):
        _path(directory, part, kind).unlink(missing_ok=True)
