"""The documents of a language in memory-mapped files, and the order of reading.

Text in `data/` is compressed and can only be read sequentially, but training needs random
access to documents. So each language is unpacked once into `runs/.text/<hash of the files>/`,
which all runs, ranks and workers share through the page cache.
"""

from __future__ import annotations

import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import fsync_directory, remove_directory
from modtok_cli.base.locks import alone
from modtok_cli.base.progress import SILENT, Progress, Task
from modtok_cli.base.signature import digest
from modtok_cli.text.readers import is_text
from modtok_cli.text.reading import Reading
from modtok_cli.training.data.sources import NO_SOURCES, Sources
from modtok_cli.training.data.unpack import (
    BY_SOURCE,
    CHECKSUM,
    HELD_OUT_EVERY,
    SOURCES,
    complete,
    facts_of,
    part_path,
    unpack_parts,
)

_POLL_SECONDS = 0.5
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class TextStore:
    """Documents of one language on disk, in parts that are mapped; valid UTF-8 and not empty.

    With `source`, training documents are of this source only.
    """

    directory: Path
    source: str = ""

    @cached_property
    def _counts(self) -> list[int]:
        """How many documents there are up to the end of each part."""
        return list(accumulate(part.documents for part in facts_of(self.directory)))

    @cached_property
    def _mapped(self) -> dict[int, tuple[Any, Any]]:
        """Text of parts that were read, and where documents end in it."""
        return {}

    def __len__(self) -> int:
        return self._counts[-1]

    @cached_property
    def checksum(self) -> int:
        """CRC of all documents, and of the numbers of documents of the source."""
        if self.source:
            return self.sources[self.source][3]
        return int((self.directory / CHECKSUM).read_text())

    @cached_property
    def sources(self) -> dict[str, list[int]]:
        """Of each source with training documents: first place in `sources.npy`, documents, bytes,
        and checksum. Empty if sources are not told apart."""
        path = self.directory / SOURCES
        known: dict[str, list[int]] = orjson.loads(path.read_bytes()) if path.is_file() else {}
        return {name: facts for name, facts in known.items() if facts[1]}

    @cached_property
    def _documents(self) -> Int64Array:
        """Training documents of the source."""
        first, count, *_ = self.sources[self.source]
        order: Int64Array = np.load(self.directory / BY_SOURCE, mmap_mode="r")
        return order[first : first + count]

    @cached_property
    def text_bytes(self) -> int:
        """Total size of the documents."""
        return sum(part.bytes for part in facts_of(self.directory))

    def _place(self, index: int) -> tuple[Any, int, int]:
        """The text that holds a document, where it begins there, and where it ends."""
        part = bisect_right(self._counts, index)
        if part not in self._mapped:
            self._mapped[part] = (
                np.memmap(part_path(self.directory, part, "text"), np.uint8, "r"),
                np.memmap(part_path(self.directory, part, "ends"), np.int64, "r"),
            )
        text, ends = self._mapped[part]
        number = index - (self._counts[part - 1] if part else 0)
        return text, int(ends[number - 1]) if number else 0, int(ends[number])

    def document(self, index: int, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes of a document, or of a part of it."""
        text, first, last = self._place(index)
        end = last if stop is None else min(last, first + stop)
        found: bytes = text[first + start : end].tobytes()
        return found

    def length(self, index: int) -> int:
        """Bytes of a document."""
        _, first, last = self._place(index)
        return last - first

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
        return self.sources[self.source][1] if self.source else len(self) - len(self.held_out)

    @property
    def training_bytes(self) -> float:
        """Bytes of the training documents; about, if they are of all sources."""
        if self.source:
            return self.sources[self.source][2]
        return self.text_bytes * self.training_size / len(self)

    @property
    def training_texts(self) -> Iterator[bytes]:
        """The training documents in order."""
        if self.source:
            return (self.document(int(number)) for number in self._documents)
        return (self.document(n) for n in range(len(self)) if n not in self.held_out)

    def training_document(self, position: int, seed: int) -> int:
        """The document at `position` (0 …) of the endless shuffled order.

        Every epoch contains each training document once, in a different order.
        """
        epoch, place = divmod(position, self.training_size)
        shuffled = permuted(place, self.training_size, seed, epoch)
        if self.source:
            return int(self._documents[shuffled])
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
            left, right = right, left ^ (mixed(right, seed, epoch * 4 + turn) & mask)
        index = (left << half) | right
        if index < size:
            return index


def mixed(value: int, seed: int, turn: int) -> int:
    """SplitMix64's finalizer over the three numbers."""
    z = (value + seed * 0x9E3779B97F4A7C15 + turn * 0xD1B54A32D192ED03) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def text_stores(
    files: Mapping[str, Sequence[Path]],
    cache: Path,
    *,
    reading: Reading = Reading(),
    sources: Sources = NO_SOURCES,
    least: int = 2,
    threads: int | None = None,
    progress: Progress = SILENT,
) -> dict[str, TextStore]:
    """The stores of the files of each language, created in `cache` if they do not exist.

    Processes that call it at the same time, on any number of nodes with this file system, share
    the files; each returns when all stores are there. `least`: required number of documents;
    `threads`: files that this process unpacks at once, by default one per core.

    The name of a store is a hash of size and time of each file, of `reading`, and of what tells
    `sources` apart, so changed text gives another store. A process that is killed leaves what it
    has unpacked, and the next one continues from it.

    Raises:
        ModtokError: unreadable text, only word counts, or too few documents.
    """
    wanted = {
        language: _Wanted.of(language, paths, cache, reading, sources, least)
        for language, paths in files.items()
    }
    missing = [each for each in wanted.values() if not each.is_done]
    for each in missing:
        each.unpack(progress, threads)
    with ExitStack() as stack:
        task: Task | None = None
        while missing := [each for each in missing if not each.join()]:
            if task is None:
                task = stack.enter_context(
                    progress.task("waiting for other processes to unpack text", None, "languages")
                )
            time.sleep(_POLL_SECONDS)
            for each in missing:  # what a killed process has left
                each.unpack(SILENT, threads)
    stores = {language: TextStore(each.final) for language, each in wanted.items()}
    for language, store in stores.items():
        _check_count(language, wanted[language].texts, len(store), least)
    return stores


@dataclass(frozen=True)
class _Wanted:
    """A store that is to be: unpacked beside `final`, and renamed when it is complete."""

    language: str
    texts: Sequence[Path]
    final: Path
    reading: Reading
    sources: Sequence[str]
    least: int

    @staticmethod
    def of(
        language: str,
        files: Sequence[Path],
        cache: Path,
        reading: Reading,
        sources: Sources,
        least: int,
    ) -> _Wanted:
        texts = [file for file in files if is_text(file)]
        if not texts:
            raise ModtokError(
                f"language '{language}' has word counts only, no text",
                where=files[0],
                remedy="add its text, or exclude the language with --langs",
            )
        stamps = [
            f"{file.resolve()}:{(s := file.stat()).st_size}:{s.st_mtime_ns}" for file in texts
        ]
        reading, labels = sources.reading(language, reading), sources.of_files(language, texts)
        settings = orjson.dumps(reading.as_json()), *map(os.fsencode, [*stamps, *labels])
        name = f"{language}-{digest(*settings)}"
        return _Wanted(language, texts, cache / name, reading.of(language), labels, least)

    @property
    def working(self) -> Path:
        """Where parts are."""
        return self.final.with_name(f".{self.final.name}.unpacking")

    @property
    def is_done(self) -> bool:
        """Whether the store is there."""
        return (self.final / CHECKSUM).is_file()

    def unpack(self, progress: Progress, threads: int | None) -> None:
        """Unpack the files that no other process does."""
        if self.is_done:
            return
        try:
            self.working.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModtokError(
                f"cannot write: {error.strerror}",
                where=self.final.parent,
                remedy="choose another --runs",
            ) from error
        with self._one_line_errors():
            if self.is_done:  # meanwhile
                shutil.rmtree(self.working, ignore_errors=True)
                return
            how = self.reading, progress, threads, self.sources
            unpack_parts(self.language, self.texts, self.working, *how)

    def join(self) -> bool:
        """Complete the store if all files are unpacked and no other process does it; whether it is
        there."""
        if self.is_done:
            return True
        with self._one_line_errors(), alone(self.working) as is_alone:
            if not is_alone:
                return False
            if not self.is_done:  # another process was faster
                documents = complete(self.working, len(self.texts))
                if documents is None:
                    return False
                _check_count(self.language, self.texts, documents, max(1, self.least))
                if self.final.exists():
                    remove_directory(self.final)
                self.working.rename(self.final)
                fsync_directory(self.final.parent)
        return True

    @contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        try:
            yield
        except (ModtokError, OSError) as error:
            if self.is_done:  # completed by another process meanwhile
                return
            was_there = self.working.is_dir()
            shutil.rmtree(self.working, ignore_errors=True)
            if isinstance(error, ModtokError):
                raise
            raise ModtokError(
                f"cannot unpack text: {error.strerror}"
                if was_there
                else "another process could not unpack the text",
                where=self.final.parent if was_there else str(self.texts[0].parent),
                remedy="free space" if was_there else "its message says why",
            ) from error


def _check_count(language: str, texts: Sequence[Path], count: int, least: int) -> None:
    if count < least:
        one = "; one is held out for evaluation" if least > 1 else ""
        raise ModtokError(
            f"language '{language}' has {count} document{'' if count == 1 else 's'}{one}",
            where=", ".join(map(str, texts)),
            remedy=f"add documents (at least {least}), or exclude the language with --langs",
        )
