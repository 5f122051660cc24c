"""Find repeated paragraphs by 64-bit hashes, over any number of shards, in bounded memory.

The first occurrence in (shard, position in the shard) is kept; later ones are dropped. A shard is
hashed in runs of at most `RUN` paragraphs, each saved as sorted distinct hashes. Ranges of hash
values are then compared over all runs, as many values at a time as fit into memory, and each run
gets the list of its hashes that an earlier run has.

Cost of a billion paragraphs: 8 GB of disk for the hashes (one `uint64` per distinct paragraph of a
run; 24 GB with the hashes and counts of sites) plus 16 bytes for each hash that an earlier run has.
A task takes at most `MEMORY` bytes while comparing and about 90 × `RUN` bytes while writing (twice
that with sites). Two different paragraphs collide with
probability n² / 2⁶⁵: among a billion (10⁹) distinct ones 0.03 paragraphs are lost on average.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import UInt64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import write_bytes

RUN = 2_000_000
MEMORY = 512 << 20
_NUMBER = re.compile(r"\d+")
_BYTES_EACH = 40  # hash, run, sort order, and copies
_TYPE = np.dtype("<u8")


def paragraph_hash(paragraph: str) -> int:
    """First 64 bits of BLAKE2b of the paragraph, in lower case with white space collapsed.

    >>> paragraph_hash("One  Two") == paragraph_hash("one two") != paragraph_hash("one two.")
    True
    """
    key = " ".join(paragraph.lower().split()).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")


def site_hash(host: str, paragraph: str) -> int:
    """Hash of a paragraph on a site; numbers in it are alike, such as dates and pages.

    >>> site_hash("a.fi", "Page 2 of 31") == site_hash("a.fi", "Page 10 of 31")
    True
    """
    return paragraph_hash(f"{host} {_NUMBER.sub('0', paragraph)}")


def save_counts(path: Path, counts: Mapping[int, int]) -> None:
    """Write hashes, ascending, and the count of each, as (2, N) uint64."""
    hashes = np.fromiter(sorted(counts), dtype=_TYPE, count=len(counts))
    numbers = np.fromiter(map(counts.__getitem__, hashes.tolist()), _TYPE, len(counts))
    _save(path, np.stack([hashes, numbers]))


def save_hashes(path: Path, hashes: Iterable[int] | UInt64Array) -> None:
    """Write distinct hashes, ascending, as (N,) uint64."""
    array = hashes if isinstance(hashes, np.ndarray) else np.fromiter(hashes, dtype=_TYPE)
    _save(path, np.unique(array))


def _save(path: Path, array: UInt64Array) -> None:
    np.save(content := BytesIO(), array.astype(_TYPE, copy=False))
    write_bytes(path, content.getvalue())


def load_hashes(path: Path) -> UInt64Array:
    """Memory-map the array of a file of `save_hashes` or `save_counts`.

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
    hashes = np.concatenate([np.zeros(0, dtype=_TYPE), *pieces])
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


def _slices(
    arrays: Sequence[UInt64Array], low: int, high: int, memory: int
) -> Iterator[list[slice]]:
    """Places of the hashes of a part of [low, high) in each ascending array, part by part.

    `memory` limits the bytes compared at once, assuming evenly distributed hash values.
    """
    total = sum(_place(array, high) - _place(array, low) for array in arrays)
    for first, last in split(high - low, max(1, -(-total * _BYTES_EACH // memory))):
        yield [slice(_place(array, low + first), _place(array, low + last)) for array in arrays]


def _place(array: UInt64Array, value: int) -> int:
    """Number of elements below a value."""
    return len(array) if value >= 1 << 64 else int(np.searchsorted(array, np.uint64(value)))


def frequent(
    files: Sequence[Path], least: int, low: int, high: int, memory: int = MEMORY
) -> list[UInt64Array]:
    """Hashes in [low, high) whose counts in all files of `save_counts` are at least `least`.

    A list of ascending pieces. `memory` limits the bytes compared at once.
    """
    tables = [load_hashes(file) for file in files]
    found = []
    for slices in _slices([hashes for hashes, _ in tables], low, high, memory):
        parts = [table[:, part] for table, part in zip(tables, slices, strict=True)]
        hashes, counts = np.concatenate([np.zeros((2, 0), dtype=np.uint64), *parts], axis=1)
        distinct, places = np.unique(hashes, return_inverse=True)
        sums = np.zeros(len(distinct), dtype=np.uint64)
        np.add.at(sums, places, counts)
        found.append(distinct[sums >= least])
    return found


def repeated(
    runs: Sequence[UInt64Array], low: int, high: int, memory: int = MEMORY
) -> list[list[UInt64Array]]:
    """Hashes of each run in [low, high) that an earlier run also has.

    `runs` hold sorted distinct hashes. The result of a run is a list of ascending pieces.
    """
    hits: list[list[UInt64Array]] = [[] for _ in runs]
    for slices in _slices(runs, low, high, memory):
        pieces = [run[part] for run, part in zip(runs, slices, strict=True)]
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
