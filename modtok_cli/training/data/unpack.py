"""Unpack the text of a language: its files in parallel, in constant memory, resumable.

Every file becomes a part: its documents, and where they end. Parts are then joined in order. A
process that is killed leaves complete parts behind, and the next one continues from them.
"""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np
import orjson

from modtok_cli.base.files import write_bytes
from modtok_cli.base.progress import Progress
from modtok_cli.text.parallel import read_each
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance

_CHUNK = 1 << 24
_DONE = "joined.json"


@dataclass(frozen=True)
class Facts:
    """Sizes of a text, and the CRC of its bytes.

    Attributes:
        parts: files that it holds.
    """

    parts: int = 0
    documents: int = 0
    bytes: int = 0
    crc: int = 0

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


def unpack(
    language: str, files: Sequence[Path], directory: Path, reading: Reading, progress: Progress
) -> Facts:
    """Write `text`, `ends.npy` and `checksum` to `directory`; continues what it already holds.

    Empty documents are left out. `ends.npy` holds the end of each document in `text`, int64.

    Raises:
        ModtokError: a file is invalid.
    """
    joined = Facts.load(directory / _DONE) or Facts()
    missing = [
        (part, file)
        for part, file in enumerate(files)
        if part >= joined.parts and not _path(directory, part, "json").exists()
    ]

    def read(item: tuple[int, Path], advance: Advance) -> None:
        _unpack_part(directory, *item, reading, progress, advance, alone=len(files) == 1)

    label = f"unpacking {language}"
    todo = [file for _, file in missing]
    read_each(read, missing, files=todo, label=label, threads=None, progress=progress)
    facts = _join(directory, joined, len(files))
    _finish(directory, facts)
    return facts


def _path(directory: Path, part: int, kind: str) -> Path:
    return directory / f"part-{part:06d}.{kind}"


def _unpack_part(
    directory: Path,
    part: int,
    file: Path,
    reading: Reading,
    progress: Progress,
    advance: Advance,
    *,
    alone: bool,
) -> None:
    documents = size = crc = 0
    with (
        open(_path(directory, part, "text"), "wb") as text,
        open(_path(directory, part, "ends"), "wb") as ends,
    ):
        for batch in read_batches(
            file, reading, progress=progress, advance=advance, may_be_empty=not alone
        ):
            positions = array("q")
            for document in batch:
                if document.text:
                    text.write(document.text)
                    crc = crc32(document.text, crc)
                    size += len(document.text)
                    positions.append(size)
            documents += len(positions)
            ends.write(positions.tobytes())
        _sync(text)
        _sync(ends)
    Facts(1, documents, size, crc).save(_path(directory, part, "json"))


def _join(directory: Path, joined: Facts, parts: int) -> Facts:
    """Append the parts after those already joined, and remove each when it is."""
    with _appending(directory / "text") as text, _appending(directory / "ends") as ends:
        for part in range(joined.parts, parts):
            text.truncate(joined.bytes)  # a part may have been appended in part
            ends.truncate(8 * joined.documents)
            text.seek(joined.bytes)
            ends.seek(8 * joined.documents)
            crc = joined.crc
            for chunk in _chunks(_path(directory, part, "text")):
                crc = crc32(chunk, crc)
                text.write(chunk)
            for chunk in _chunks(_path(directory, part, "ends")):
                ends.write((np.frombuffer(chunk, np.int64) + joined.bytes).tobytes())
            _sync(text)
            _sync(ends)
            own = Facts.load(_path(directory, part, "json"))
            assert own is not None
            joined = Facts(
                part + 1, joined.documents + own.documents, joined.bytes + own.bytes, crc
            )
            joined.save(directory / _DONE)
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
    (directory / "checksum").write_text(f"{crc}\n")
    for name in ("ends", _DONE):
        (directory / name).unlink()


def _appending(path: Path) -> IO[bytes]:
    path.touch()
    return open(path, "r+b")  # noqa: SIM115: the caller's `with` closes it


def _chunks(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as handle:
        while chunk := handle.read(_CHUNK):
            yield chunk


def _sync(handle: IO[Any]) -> None:
    handle.flush()
    os.fsync(handle.fileno())


def _remove(directory: Path, part: int) -> None:
    for kind in ("text", "ends", "json"):
        _path(directory, part, kind).unlink(missing_ok=True)


def discard(directory: Path) -> None:
    """Remove what was unpacked so far."""
    shutil.rmtree(directory, ignore_errors=True)
