"""Words that are frequent enough to learn from, where all of them would need too much memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import Float64Array, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.core.binding import PADDING
from modtok_cli.core.text import hash_spans
from modtok_cli.text.counts import WordCounts, concatenate
from modtok_cli.text.table_files import TableReader, check_counts, open_counts, open_table

_HIGHEST = 1 << 16
"""The highest weight that is tried: in no text do more words than fit occur so often."""
_WINDOW = 4 << 20
"""Bytes of a table that are read at a time."""
_PART = 1 << 16
"""Words whose bytes are looked at together."""


@dataclass(frozen=True)
class LeftOut:
    """Words that learning left out: with less than `min_count` occurrences, and by sampling.

    Words with less than `sample_weight` occurrences are sampled; a sampled word counts so often.
    1 for no sample.

    `words`: number of different ones; `occurrences`: of all of them; `bytes`: of these.
    `certain_merges`: how many merges of plain BPE do not depend on them, None if that is unknown.
    """

    min_count: int
    sample_weight: int = 1
    words: int = 0
    occurrences: int = 0
    bytes: int = 0
    certain_merges: int | None = None

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(
            self.min_count,
            self.sample_weight,
            self.words + other.words,
            self.occurrences + other.occurrences,
            self.bytes + other.bytes,
        )


@dataclass(frozen=True)
class Frequent:
    """The words to learn from, and what the others are.

    `counts` has the size of the whole text. `missing`, of the words that are left out, and
    `excess`, of occurrences that the sample has too many: (65,536,) int64, how often byte b follows
    byte a inside these words, at 256 a + b.
    """

    counts: WordCounts
    left_out: LeftOut
    missing: Int64Array
    excess: Int64Array


def frequent_words(counts: WordCounts, min_count: int, sample_weight: int = 1) -> Frequent:
    """Return the words that occur at least `min_count` times, the rarest of them as a sample.

    A word that occurs c < `sample_weight` times is in the sample with probability c /
    `sample_weight`, by its hash, and counts `sample_weight` times. So every pair of bytes or tokens
    is expected as often as in the whole text, with the least variance for a sample of this size
    (threshold sampling; Duffield, Lund, Thorup, "Learn more, sample less", 2005).

    >>> table = WordCounts.from_pairs([(b"a", 5), (b"ab", 2), (b"b", 1)])
    >>> found = frequent_words(table, 3)
    >>> list(found.counts.pairs()), found.left_out.words, found.left_out.bytes
    ([(b'a', 5)], 2, 5)
    """
    kept = counts.counts >= min_count
    if sample_weight > 1:
        data = np.append(counts.data, np.zeros(PADDING, dtype=np.uint8))
        hashes = hash_spans(data, counts.offsets[:-1], counts.offsets[1:])
        # The upper bits are mixed well.
        kept &= ((hashes >> 32) % sample_weight).astype(np.int64) < counts.counts
    if kept.all() and int(counts.counts.min(initial=sample_weight)) >= sample_weight:
        nothing = np.zeros(1 << 16, dtype=np.int64)
        return Frequent(counts, LeftOut(min_count, sample_weight), nothing, nothing)
    rare, remaining = counts.where(~kept), counts.where(kept)
    size = int(np.diff(rare.offsets) @ rare.counts)
    left_out = LeftOut(min_count, sample_weight, len(rare), rare.occurrences, size)
    weights = np.maximum(remaining.counts, sample_weight)
    excess = replace(remaining, counts=weights - remaining.counts)
    weighted = replace(remaining, counts=weights)
    return Frequent(weighted, left_out, _byte_pairs(rare), _byte_pairs(excess))


def _byte_pairs(counts: WordCounts) -> Int64Array:
    pairs = np.zeros(1 << 16, dtype=np.int64)
    for start in range(0, len(counts), _PART):
        part = counts.part(start, min(start + _PART, len(counts)))
        followed = np.ones(len(part.data), dtype=np.bool_)
        followed[part.offsets[1:] - 1] = False
        first = np.flatnonzero(followed)
        keys = part.data[first].astype(np.int64) << 8 | part.data[first + 1]
        weights = np.repeat(part.counts, np.diff(part.offsets))[first]
        # Sums in float64 are exact below 2^53; no text has as many bytes.
        pairs += np.bincount(keys, weights, 1 << 16).astype(np.int64)
    return pairs


class StoredCounts:
    """A count table larger than memory; `read` gives the words that fit.

    These are the words that occur at least `min_count` times, with the smallest `sample_weight`
    (`frequent_words`) for which `fits(words, bytes)`, given the expected number of words that
    remain and of their bytes, which are `words` and `bytes`.

    Raises:
        ModtokError: the table is damaged.
        UsageError: no weight fits.
    """

    def __init__(self, path: Path, fits: Callable[[int, int], bool], min_count: int = 1) -> None:
        self.path = path
        self.min_count = min_count
        table = open_table(path)
        self.header = table.header
        # By count: the number of words that have it, and of their bytes.
        sizes: Float64Array = np.zeros((2, _HIGHEST + 1))
        for part in _windows(table):
            counts = np.minimum(part.counts, _HIGHEST)
            sizes[0] += np.bincount(counts, minlength=_HIGHEST + 1)
            sizes[1] += np.bincount(counts, np.diff(part.offsets), _HIGHEST + 1)
        sizes[:, : min(min_count, _HIGHEST)] = 0  # the last has all that are as frequent or more
        whole = np.cumsum(sizes[:, ::-1], axis=1)[:, ::-1]
        shares = np.cumsum(sizes * np.arange(_HIGHEST + 1), axis=1)
        for weight in range(1, _HIGHEST + 1):
            expected = whole[:, weight] + shares[:, weight - 1] / weight
            self.words, self.bytes = map(int, expected)
            if fits(self.words, self.bytes):
                self.sample_weight = weight
                return
        raise UsageError(
            f"not enough to learn from the {self.words:,} most frequent words of {path.stem}",
            where="--memory",
            remedy="allow more",
        )

    def read(self) -> Frequent:
        """Return the words to learn from, validated."""
        kept = []
        left_out = LeftOut(self.min_count, self.sample_weight)
        missing, excess = np.zeros((2, 1 << 16), dtype=np.int64)
        for part in _windows(TableReader(self.path, *open_counts(self.path))):
            check_counts(part, str(self.path))
            found = frequent_words(part, self.min_count, self.sample_weight)
            kept.append(found.counts)
            left_out += found.left_out
            missing += found.missing
            excess += found.excess
        return Frequent(concatenate(kept, self.header.size), left_out, missing, excess)


def _windows(table: TableReader) -> Iterator[WordCounts]:
    while True:
        table.fill(_WINDOW)
        part = table.take(None)
        if not len(part):
            return
        yield part
