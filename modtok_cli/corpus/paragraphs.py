"""Drop paragraphs that an earlier page of the language has: three datatrove blocks.

`HashParagraphs` and `DropRepeated` read the same documents in the same tasks; `FindRepeated` runs
between them. The first occurrence in (task, place in the task) is kept; later ones are dropped.
A task writes the hashes of its paragraphs and their places, sorted by hash, in files of some `RUN`
paragraphs. Ranges of hash values are then compared over all files, as many values at a time as fit
into memory, and each task gets the places of the paragraphs that occur before.

Cost of a billion paragraphs: 16 GB of disk (two `uint64` each), and 24 bytes for each that is
repeated. A task takes at most `MEMORY` bytes while comparing and about 80 × `RUN` bytes
while writing. Two different paragraphs collide with probability n² / 2⁶⁵: among a billion (10⁹)
distinct ones 0.03 paragraphs are lost on average.
"""

from array import array
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import numpy as np
from datatrove.data import Document

from modtok_cli.base.arrays import UInt64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import atomic_file
from modtok_cli.corpus.blocks import Documents, FileBlock, PageBlock
from modtok_cli.corpus.build_plan import MIN_CHARACTERS

RUN = 2_000_000
MEMORY = 512 << 20
_BYTES_EACH = 80  # hash, sort order, copies, and the result if all are repeated
_TYPE = np.dtype("<u8")


def paragraph_hash(paragraph: str, language: str = "") -> int:
    """First 64 bits of BLAKE2b of the paragraph, in lower case with white space collapsed.

    >>> paragraph_hash("One  Two") == paragraph_hash("one two") != paragraph_hash("one two", "en")
    True
    """
    key = f"{language}\n{' '.join(paragraph.lower().split())}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")


def save(path: Path, rows: UInt64Array) -> None:
    """Write an array, complete or not at all."""
    with atomic_file(path) as beside, beside.open("wb") as handle:
        np.save(handle, rows.astype(_TYPE, copy=False))


def load(path: Path) -> UInt64Array:
    """Memory-map the arrays of a file of `save`.

    Raises:
        ModtokError: the file is damaged.
    """
    try:
        rows: UInt64Array = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise ModtokError("damaged hash file", where=path, remedy="build with --force") from error
    return rows


def _files(folder: Path) -> list[Path]:
    if found := list(folder.glob("*.npy")):
        return found
    raise ModtokError(
        "has no hashes", where=folder, remedy="run HashParagraphs, then FindRepeated, before"
    )


def split(low: int, high: int, parts: int) -> list[tuple[int, int]]:
    """Split low … high into `parts` ranges [low, high) of nearly equal size."""
    return list(pairwise(low + (high - low) * part // parts for part in range(parts + 1)))


def _place(hashes: UInt64Array, value: int) -> int:
    """Number of elements below a value."""
    return len(hashes) if value >= 1 << 64 else int(np.searchsorted(hashes, np.uint64(value)))


def sorted_hashes(hashes: Sequence[int], start: int = 0) -> UInt64Array:
    """Hashes in ascending order, equal ones by place; and their places, from `start` on: (2, N)."""
    given = np.array(hashes, dtype=_TYPE)
    order = np.argsort(given, kind="stable")
    return np.stack([given[order], order.astype(_TYPE) + np.uint64(start)])


def repeated(files: Sequence[UInt64Array], low: int, high: int) -> list[UInt64Array]:
    """Columns of each file with a hash in [low, high) that occurs before, in the order of files.

    `files` are as of `sorted_hashes`.
    """
    pieces = [rows[:, _place(rows[0], low) : _place(rows[0], high)] for rows in files]
    joined = np.concatenate([hashes for hashes, _ in pieces])
    # Stable sort: of equal hashes the earliest comes first. The input is a few sorted runs, which
    # the sort exploits.
    order = np.argsort(joined, kind="stable")
    ascending = joined[order]
    again = np.zeros(len(joined), dtype=np.bool_)
    again[order[1:]] = ascending[1:] == ascending[:-1]
    cuts = np.cumsum([piece.shape[1] for piece in pieces])[:-1]
    return [piece[:, own] for piece, own in zip(pieces, np.split(again, cuts), strict=True)]


class HashParagraphs(PageBlock):
    """Write the hashes of a task's paragraphs to a directory."""

    name = "hash"

    def __init__(self, hashes: Path) -> None:
        super().__init__()
        self.hashes = hashes

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """The documents, unchanged."""
        start, found = 0, array("Q")
        for document in data:
            with self.track_time():
                language = document.metadata.get("lang", "")
                found.extend(paragraph_hash(text, language) for text in document.text.split("\n"))
                if len(found) >= RUN:
                    self._save(rank, start, found)
                    start, found = start + len(found), array("Q")
            yield document
        self._save(rank, start, found)

    def _save(self, rank: int, start: int, found: Sequence[int]) -> None:
        save(self.hashes / f"{rank:05d}-{start:010d}.npy", sorted_hashes(found, start))


class FindRepeated(FileBlock):
    """Find the paragraphs that occur before; each task compares a range of hash values."""

    name = "compare"

    def __init__(self, hashes: Path, repeated: Path) -> None:
        super().__init__()
        self.hashes, self.repeated = hashes, repeated

    def _do(self, rank: int, world_size: int) -> None:
        named = {tuple(map(int, path.stem.split("-"))): path for path in _files(self.hashes)}
        runs = sorted(named)  # by task, then by place
        files = [load(named[run]) for run in runs]
        low, high = split(0, 1 << 64, world_size)[rank]
        total = sum(_place(hashes, high) - _place(hashes, low) for hashes, _ in files)
        # As if hash values were distributed evenly, which they are.
        parts = split(low, high, max(1, -(-total * _BYTES_EACH // MEMORY)))
        for number, (first, last) in enumerate(parts):
            found = repeated(files, first, last)
            tasks = [
                np.full(rows.shape[1], task, _TYPE)
                for (task, _), rows in zip(runs, found, strict=True)
            ]
            columns = [np.concatenate(tasks), *np.concatenate(found, axis=1)]
            save(self.repeated / f"{rank:05d}-{number:04d}.npy", np.stack(columns))


class DropRepeated(PageBlock):
    """Drop repeated paragraphs, and pages of which less than `min_characters` remain."""

    name = "deduplicate"

    def __init__(self, repeated: Path, min_characters: int = MIN_CHARACTERS) -> None:
        super().__init__()
        self.repeated, self.min_characters = repeated, min_characters

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents without the paragraphs.

        Raises:
            ModtokError: the documents are not those of `HashParagraphs`.
        """
        hashes, places = self._of_task(rank)
        at = 0
        for document in data:
            with self.track_time():
                self.count_page("before", document)
                paragraphs = document.text.split("\n")
                here = slice(_place(places, at), _place(places, at + len(paragraphs)))
                drop = dict(
                    zip((places[here] - np.uint64(at)).tolist(), hashes[here].tolist(), strict=True)
                )
                at += len(paragraphs)
                self._shorten(document, paragraphs, drop)
            reason = "repeated" if not document.text else "short after deduplication"
            if document.text and (not drop or len(document.text) >= self.min_characters):
                self.count_page("kept", document)
                yield document
            else:
                self.count_page("dropped", document, reason)

    def _of_task(self, rank: int) -> UInt64Array:
        """Hashes and places of the task's repeated paragraphs, by place."""
        files = map(load, _files(self.repeated))
        pieces = [rows[1:, _place(rows[0], rank) : _place(rows[0], rank + 1)] for rows in files]
        found = np.concatenate(pieces, axis=1)
        return found[:, np.argsort(found[1])]

    def _shorten(self, document: Document, paragraphs: list[str], drop: dict[int, int]) -> None:
        language = document.metadata.get("lang", "")
        if any(paragraph_hash(paragraphs[at], language) != drop[at] for at in drop):
            raise ModtokError(
                "other documents than those that were compared",
                where=document.id,
                remedy="give DropRepeated the documents of HashParagraphs",
            )
        document.text = "\n".join(text for at, text in enumerate(paragraphs) if at not in drop)
        lost = sum(len(paragraphs[at]) for at in drop)
        self.count(
            "dropped", "paragraph: repeated", language, paragraphs=len(drop), characters=lost
        )
