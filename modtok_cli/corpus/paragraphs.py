"""Drop paragraphs that an earlier page of the language has: three datatrove blocks.

`HashParagraphs` and `DropRepeated` read the same documents in the same tasks; `FindRepeated` runs
between them. The first occurrence in (task, position in the task) is kept; later ones are dropped.
A task hashes in runs of at most `RUN` paragraphs, each saved as sorted distinct hashes. Ranges of
hash values are then compared over all runs, as many values at a time as fit into memory, and each
run gets the list of its hashes that an earlier run has.

Cost of a billion paragraphs: 8 GB of disk for the hashes (one `uint64` per distinct paragraph of a
run) plus 16 bytes for each hash that an earlier run has. A task takes at most `MEMORY` bytes while
comparing and about 90 × `RUN` bytes while writing. Two different paragraphs collide with
probability n² / 2⁶⁵: among a billion (10⁹) distinct ones 0.03 paragraphs are lost on average.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from datatrove.data import Document

from modtok_cli.base.arrays import UInt64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import write_bytes
from modtok_cli.corpus.blocks import Documents, FileStep, Step
from modtok_cli.corpus.plan import MIN_CHARACTERS

RUN = 2_000_000
MEMORY = 512 << 20
_BYTES_EACH = 40  # hash, run, sort order, and copies
_TYPE = np.dtype("<u8")
_NONE: UInt64Array = np.zeros(0, dtype=_TYPE)


def paragraph_hash(paragraph: str, language: str = "") -> int:
    """First 64 bits of BLAKE2b of the paragraph, in lower case with white space collapsed.

    >>> paragraph_hash("One  Two") == paragraph_hash("one two") != paragraph_hash("one two", "en")
    True
    """
    key = f"{language}\n{' '.join(paragraph.lower().split())}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")


def save_hashes(path: Path, hashes: set[int]) -> None:
    """Write distinct hashes, ascending, as (N,) uint64."""
    _save(path, np.sort(np.fromiter(hashes, _TYPE, len(hashes))))


def _save(path: Path, array: UInt64Array) -> None:
    np.save(content := BytesIO(), array.astype(_TYPE, copy=False))
    write_bytes(path, content.getvalue())


def load_hashes(path: Path) -> UInt64Array:
    """Memory-map the array of a file of `save_hashes` or `save_pieces`.

    Raises:
        ModtokError: the file is damaged.
    """
    try:
        hashes: UInt64Array = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise ModtokError("damaged hash file", where=path, remedy="build with --force") from error
    return hashes


def save_pieces(path: Path, pieces_of: Mapping[int, Sequence[UInt64Array]]) -> None:
    """Write the hashes of runs by number, and before each its run, as (2, N) uint64."""
    runs = sorted(pieces_of)
    sizes = [sum(map(len, pieces_of[run])) for run in runs]
    pieces = [piece for run in runs for piece in pieces_of[run]]
    hashes = np.concatenate([_NONE, *pieces])
    _save(path, np.stack([np.repeat(np.array(runs, dtype=_TYPE), sizes), hashes]))


def load_piece(path: Path, run: int) -> UInt64Array:
    """Hashes of one run from a file of `save_pieces`, which may have many runs."""
    runs, hashes = load_hashes(path)
    piece: UInt64Array = hashes[_place(runs, run) : _place(runs, run + 1)]
    return piece


def split(total: int, parts: int) -> list[tuple[int, int]]:
    """Split 0 … total into `parts` ranges [low, high) of nearly equal size."""
    cuts = [total * part // parts for part in range(parts + 1)]
    return list(pairwise(cuts))


def _place(array: UInt64Array, value: int) -> int:
    """Number of elements below a value."""
    return len(array) if value >= 1 << 64 else int(np.searchsorted(array, np.uint64(value)))


def repeated(
    runs: Sequence[UInt64Array], low: int, high: int, memory: int = MEMORY
) -> list[list[UInt64Array]]:
    """Hashes of each run in [low, high) that an earlier run also has.

    `runs` hold sorted distinct hashes. The result of a run is a list of ascending pieces. `memory`
    limits the bytes compared at once, assuming evenly distributed hash values.
    """
    hits: list[list[UInt64Array]] = [[] for _ in runs]
    total = sum(_place(run, high) - _place(run, low) for run in runs)
    for first, last in split(high - low, max(1, -(-total * _BYTES_EACH // memory))):
        pieces = [run[_place(run, low + first) : _place(run, low + last)] for run in runs]
        lengths = [len(piece) for piece in pieces]
        if sum(map(bool, lengths)) < 2:
            continue
        joined = np.concatenate(pieces)
        # Stable sort: of equal hashes the earliest run comes first. The input is a few
        # sorted runs, which the sort exploits.
        order = np.argsort(joined, kind="stable")
        ascending = joined[order]
        again = np.zeros(len(joined), dtype=np.bool_)
        again[order[1:]] = ascending[1:] == ascending[:-1]
        end = 0
        for number, (piece, length) in enumerate(zip(pieces, lengths, strict=True)):
            hit = again[end : end + length]
            end += length
            if hit.any():
                hits[number].append(np.asarray(piece[hit], dtype=np.uint64))
    return hits


class Seen:
    """Hashes that a run must not repeat, of earlier runs and of its own begin."""

    def __init__(self, elsewhere: UInt64Array) -> None:
        self._elsewhere = elsewhere
        self._here: set[int] = set()

    def again(self, hashes: Sequence[int]) -> list[bool]:
        """Whether each hash occurred before; all of them count as seen afterwards."""
        array = np.array(hashes, dtype=np.uint64)
        places = np.searchsorted(self._elsewhere, array)
        known = np.zeros(len(array), dtype=np.bool_)
        inside = places < len(self._elsewhere)
        known[inside] = self._elsewhere[places[inside]] == array[inside]
        answers = []
        for one, before in zip(hashes, known.tolist(), strict=True):
            answers.append(before or one in self._here)
            self._here.add(one)
        return answers


def runs_of(data: Documents) -> Iterator[tuple[int, Document, list[int]]]:
    """(run, document, hashes of its paragraphs) of the documents of a task."""
    run = filled = 0
    for document in data:
        language = document.metadata.get("lang", "")
        hashes = [paragraph_hash(text, language) for text in document.text.split("\n")]
        if filled and filled + len(hashes) > RUN:
            run, filled = run + 1, 0
        filled += len(hashes)
        yield run, document, hashes


class HashParagraphs(Step):
    """Write the sorted hashes of a task's paragraphs to a directory, run by run."""

    name = "hash"

    def __init__(self, hashes: Path) -> None:
        super().__init__()
        self.hashes = hashes

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """The documents, unchanged."""
        current, found = 0, set[int]()
        for run, document, hashes in runs_of(data):
            if run != current:
                self._save(rank, current, found)
                current, found = run, set()
            found.update(hashes)
            yield document
        self._save(rank, current, found)

    def _save(self, rank: int, run: int, found: set[int]) -> None:
        with self.track_time("task"):
            save_hashes(self.hashes / f"{rank:05d}-{run:04d}.npy", found)


class FindRepeated(FileStep):
    """Find the hashes of each run that an earlier run has; each task compares a range of values."""

    name = "compare"

    def __init__(self, hashes: Path, repeated: Path) -> None:
        super().__init__()
        self.hashes, self.repeated = hashes, repeated

    def _do(self, rank: int, world_size: int) -> None:
        low, high = split(1 << 64, world_size)[rank]
        paths = sorted(self.hashes.glob("[0-9]*.npy"))
        pieces = repeated([load_hashes(path) for path in paths], low, high)
        numbered = {_number(path.stem): own for path, own in zip(paths, pieces, strict=True)}
        save_pieces(self.repeated / f"{rank:05d}.npy", numbered)


class DropRepeated(Step):
    """Drop repeated paragraphs, and pages of which less than `min_characters` remain."""

    name = "deduplicate"

    def __init__(self, repeated: Path, min_characters: int = MIN_CHARACTERS) -> None:
        super().__init__()
        self.repeated, self.min_characters = repeated, min_characters

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:
        """Documents without the paragraphs."""
        current, seen = -1, Seen(_NONE)
        for run, document, hashes in runs_of(data):
            with self.track_time():
                if run != current:
                    current, seen = run, self._seen(rank, run)
                self.count_page("before", document)
                is_whole = self._shorten(document, seen.again(hashes))
            reason = "repeated" if not document.text else "short after deduplication"
            if document.text and (is_whole or len(document.text) >= self.min_characters):
                self.count_page("kept", document)
                yield document
            else:
                self.count_page("dropped", document, reason)

    def _shorten(self, document: Document, again: Sequence[bool]) -> bool:
        """Remove paragraphs; whether there were none."""
        paragraphs = document.text.split("\n")
        left = [text for text, drop in zip(paragraphs, again, strict=True) if not drop]
        lost = sum(len(text) for text, drop in zip(paragraphs, again, strict=True) if drop)
        document.text = "\n".join(left)
        amounts: Any = {"paragraphs": len(paragraphs) - len(left), "characters": lost}
        language = document.metadata.get("lang", "")
        self.count("dropped", "paragraph: repeated", language, **amounts)
        return len(left) == len(paragraphs)

    def _seen(self, rank: int, run: int) -> Seen:
        number = _number(f"{rank:05d}-{run:04d}")
        pieces = [load_piece(path, number) for path in sorted(self.repeated.glob("*.npy"))]
        return Seen(np.concatenate([_NONE, *pieces]))


def _number(stem: str) -> int:
    """Number of a run, by the name of its file of hashes."""
    return int(stem.replace("-", ""))
