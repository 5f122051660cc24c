"""The documents of a language as one memory-mapped file, and the order of reading.

Text in `data/` is compressed and can only be read sequentially, but training needs random
access to documents. So each language is unpacked once into `runs/.text/<hash of the files>/`,
which all runs, ranks and workers share through the page cache.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import fsync_directory, remove_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest
from modtok_cli.text.readers import is_text
from modtok_cli.text.reading import Reading
from modtok_cli.training.data.unpack import discard, unpack

# The last of every hundred documents is held out for evaluation, at least one.
HELD_OUT_EVERY = 100
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class TextStore:
    """Documents of one language on disk: `text` and `ends.npy`, mapped, and `checksum`.

    Document d is data[ends[d-1]:ends[d]], valid UTF-8 and not empty.
    """

    directory: Path

    @cached_property
    def _data(self) -> npt.NDArray[np.uint8]:
        return np.memmap(self.directory / "text", dtype=np.uint8, mode="r")

    @cached_property
    def _ends(self) -> npt.NDArray[np.int64]:
        ends: npt.NDArray[np.int64] = np.load(self.directory / "ends.npy", mmap_mode="r")
        return ends

    def __len__(self) -> int:
        return len(self._ends)

    @cached_property
    def checksum(self) -> int:
        """CRC of all documents and their boundaries."""
        return int((self.directory / "checksum").read_text())

    @property
    def text_bytes(self) -> int:
        """Total size of the documents."""
        return int(self._ends[-1])

    def document(self, index: int, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes of a document, or of a part of it."""
        first = int(self._ends[index - 1]) if index else 0
        last = int(self._ends[index])
        end = last if stop is None else min(last, first + stop)
        return self._data[first + start : end].tobytes()

    def length(self, index: int) -> int:
        """Bytes of a document."""
        return int(self._ends[index]) - (int(self._ends[index - 1]) if index else 0)

    @property
    def stride(self) -> int:
        """One of this number of documents is held out."""
        return min(HELD_OUT_EVERY, len(self))

    @property
    def held_out(self) -> range:
        """Documents that are not trained on."""
        return range(self.stride - 1, len(self), self.stride)

    @property
    def training_size(self) -> int:
        """Number of training documents."""
        return len(self) - len(self.held_out)

    def training_document(self, position: int, seed: int) -> int:
        """The document at `position` (0 …) of the endless shuffled order.

        Every epoch contains each training document once, in a different order.
        """
        epoch, place = divmod(position, self.training_size)
        shuffled = permuted(place, self.training_size, seed, epoch)
        return shuffled + shuffled // (self.stride - 1)


def permuted(index: int, size: int, seed: int, epoch: int) -> int:
    """Image of `index` under a pseudo-random permutation of range(size), in constant memory.

    A four-round Feistel network on an even number of bits, iterated until the result is below
    `size` (fewer than four iterations on average).
    """
    half = max(1, (max(1, size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(4):
            left, right = right, left ^ (_mix(right, seed, epoch * 4 + turn) & mask)
        index = (left << half) | right
        if index < size:
            return index


def _mix(value: int, seed: int, turn: int) -> int:
    """SplitMix64's finalizer over the three numbers."""
    z = (value + seed * 0x9E3779B97F4A7C15 + turn * 0xD1B54A32D192ED03) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def text_store(
    language: str,
    files: Sequence[Path],
    cache: Path,
    *,
    reading: Reading = Reading(),
    least: int = 2,
    progress: Progress = SILENT,
) -> TextStore:
    """The store of a language's files, created in `cache` if it does not exist.

    `least`: required number of documents.

    Its name is a hash of size and time of each file, so changed text gives another store. A
    process that is killed leaves what it has unpacked, and the next one continues from it.

    Raises:
        ModtokError: unreadable text, only word counts, or too few documents.
    """
    texts = [file for file in files if is_text(file)]
    if not texts:
        raise ModtokError(
            f"language '{language}' has word counts only, no text",
            where=str(files[0]),
            remedy="add its text, or exclude the language with --langs",
        )
    stamps = [f"{file.resolve()}:{(s := file.stat()).st_size}:{s.st_mtime_ns}" for file in texts]
    settings = orjson.dumps(reading.as_json())
    reading = reading.of(language)
    final = cache / f"{language}-{digest(settings, *map(os.fsencode, stamps))}"
    if not (final / "checksum").is_file():
        _create(language, texts, final, reading, least, progress)
    store = TextStore(final)
    _check_count(language, texts, len(store), least)
    return store


def _check_count(language: str, texts: Sequence[Path], count: int, least: int) -> None:
    if count < least:
        one = "; one is held out for evaluation" if least > 1 else ""
        raise ModtokError(
            f"language '{language}' has {count} documents{one}",
            where=", ".join(map(str, texts)),
            remedy=f"add documents (at least {least}), or exclude the language with --langs",
        )


def _create(
    language: str,
    texts: Sequence[Path],
    final: Path,
    reading: Reading,
    least: int,
    progress: Progress,
) -> None:
    """Unpack texts beside `final`, from where a killed process stopped, and rename the result."""
    working = final.with_name(f".{final.name}.unpacking")
    try:
        with _alone(working):
            if (final / "checksum").is_file():  # another process was faster
                discard(working)
                return
            try:
                facts = unpack(language, texts, working, reading, progress)
                _check_count(language, texts, facts.documents, max(1, least))
                if final.exists():
                    remove_directory(final)
                working.rename(final)
                fsync_directory(final.parent)
            except (ModtokError, OSError):
                discard(working)
                raise
    except OSError as error:
        raise ModtokError(
            f"cannot unpack text: {error.strerror}", where=str(final.parent), remedy="free space"
        ) from error


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Create a directory, and wait until no other process works in it."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):  # a file system without locks is used without
                fcntl.flock(handle, fcntl.LOCK_EX)
            # The other process may have finished, or failed and removed it.
            if not directory.is_dir() or not os.path.samestat(os.fstat(handle), directory.stat()):
                continue
            yield
            return
        finally:
            os.close(handle)
