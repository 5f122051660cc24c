"""Find repeated paragraphs by 64-bit hashes, over any number of shards, in bounded memory.

The first occurrence in (shard, position in the shard) is kept; later ones are dropped. A shard is
hashed in runs of at most `RUN` paragraphs, each saved as sorted distinct hashes. Ranges of hash
values are then compared over all runs, as many values at a time as fit into memory, and each run
gets the list of its hashes that an earlier run has.

Cost of a billion paragraphs: 8 GB of disk for the hashes (one `uint64` per distinct paragraph of a
run; 24 GB with those of sites and their counts) plus 8 bytes for each hash that an earlier run has.
A task takes at most `MEMORY` bytes while comparing and about 90 × `RUN` bytes while writing (twice
that with sites). Two different paragraphs collide with
probability n² / 2⁶⁵: among a billion (10⁹) distinct ones 0.03 paragraphs are lost on average.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson

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
    """Write hashes, ascending, and then the count of each."""
    hashes = np.fromiter(sorted(counts), dtype=_TYPE, count=len(counts))
    numbers = np.fromiter((counts[int(one)] for one in hashes), dtype=_TYPE, count=len(counts))
    write_bytes(path, hashes.tobytes() + numbers.tobytes())


def frequent(
    files: Sequence[Path], least: int, low: int, high: int, memory: int = MEMORY
) -> list[UInt64Array]:
    """Hashes in [low, high) whose counts in all files of `save_counts` are at least `least`.

    A list of ascending pieces. `memory` limits the bytes compared at once.
    """
    halves = [np.split(load_hashes(file), 2) for file in files]
    total = sum(int(_stop(hashes, high) - _start(hashes, low)) for hashes, _ in halves)
    found = []
    for first, last in split(high - low, max(1, -(-total * _BYTES_EACH // memory))):
        hashes, counts = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.uint64)]
        for own, numbers in halves:
            part = slice(_start(own, low + first), _stop(own, low + last))
            hashes.append(own[part])
            counts.append(numbers[part])
        distinct, places = np.unique(np.concatenate(hashes), return_inverse=True)
        sums = np.zeros(len(distinct), dtype=np.uint64)
        np.add.at(sums, places, np.concatenate(counts))
        found.append(np.asarray(distinct[sums >= least], dtype=np.uint64))
    return found


def save_hashes(path: Path, hashes: Iterable[int] | UInt64Array) -> int:
    """Write sorted distinct hashes, whole or not at all; returns their number."""
    array = hashes if isinstance(hashes, np.ndarray) else np.fromiter(hashes, dtype=_TYPE)
    distinct = np.unique(array.astype(_TYPE, copy=False))
    write_bytes(path, distinct.tobytes())
    return len(distinct)


def load_hashes(path: Path) -> UInt64Array:
    """Memory-map hashes written by `save_hashes`.

    Raises:
        ModtokError: the file's length is not a multiple of 8.
    """
    size = path.stat().st_size
    if size % 8:
        raise ModtokError("damaged hash file", where=path, remedy="build with --force")
    if not size:
        return np.zeros(0, dtype=np.uint64)
    return np.memmap(path, dtype=_TYPE, mode="r")


def save_pieces(path: Path, pieces_of: Mapping[str, Sequence[UInt64Array]]) -> None:
    """Write the hashes of each run to one file, with an index beside it."""
    index: dict[str, tuple[int, int]] = {}
    data: list[bytes] = []
    end = 0
    for run, pieces in pieces_of.items():
        size = sum(map(len, pieces))
        if size:
            index[run] = (end, end + size)
            data += [piece.astype(_TYPE).tobytes() for piece in pieces]
            end += size
    write_bytes(path, b"".join(data))
    write_bytes(path.with_suffix(".json"), orjson.dumps(index))


def load_piece(path: Path, run: str) -> UInt64Array:
    """Hashes of one run from a file of `save_pieces`."""
    start, stop = orjson.loads(path.with_suffix(".json").read_bytes()).get(run, (0, 0))
    return load_hashes(path)[start:stop]


def split(total: int, parts: int) -> list[tuple[int, int]]:
    """Split 0 … total into `parts` ranges [low, high) of nearly equal size."""
    cuts = [total * part // parts for part in range(parts + 1)]
    return list(pairwise(cuts))


def repeated(
    runs: Sequence[UInt64Array], low: int, high: int, memory: int = MEMORY
) -> list[list[UInt64Array]]:
    """Hashes of each run in [low, high) that an earlier run also has.

    `runs` hold sorted distinct hashes. The result of a run is a list of ascending pieces.
    `memory` limits the bytes compared at once, assuming evenly distributed hash values.
    """
    total = sum(int(_stop(run, high) - _start(run, low)) for run in runs)
    steps = max(1, -(-total * _BYTES_EACH // memory))
    hits: list[list[UInt64Array]] = [[] for _ in runs]
    for first, last in split(high - low, steps):
        pieces = [run[_start(run, low + first) : _stop(run, low + last)] for run in runs]
        lengths = [len(piece) for piece in pieces]
        if sum(map(bool, lengths)) < 2:
            continue
        joined = np.concatenate(pieces)
        # Stable sort: of equal hashes that of the earliest run comes first. The input is a few
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


def _start(run: UInt64Array, low: int) -> int:
    return int(np.searchsorted(run, np.uint64(low))) if low else 0


def _stop(run: UInt64Array, high: int) -> int:
    return len(run) if high >= 1 << 64 else int(np.searchsorted(run, np.uint64(high)))


class Seen:
    """Hashes that a run must not repeat: those of earlier runs, and its own so far."""

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
