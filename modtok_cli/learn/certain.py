"""How many merges are proven to equal the whole text's, where rare words were left out."""

import numpy as np

from modtok_cli.base.arrays import Int64Array
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.learn.sequential import segment
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.frequent import Frequent

MOST = 64
"""Merges that are examined at most. Each takes a pass over the words."""
_WORDS = 1 << 16


def certain_merges(found: Frequent, merges: GlobalMerges, most: int = MOST) -> int:
    """The number of first merges that plain BPE of the whole text begins with, in this order.

    `merges` is plain BPE of `found.counts`; up to `most` merges are examined. The result is a lower
    bound. Proof, by induction over the merges: let those before be the same. They segment a word in
    the same way in both runs, so of a pair (a, b) the two texts differ by its occurrences in words
    that are missing, and by those in excess. Wherever it occurs, the last byte of a is followed by
    the first byte of b, at a place of its own; so these are at most as many as occurrences of the
    two bytes. If the count of the merged pair, less its possible excess, is above the count of
    every other pair with all that may be missing, then no other pair is as frequent in the whole
    text, and plain BPE merges the same.
    """
    specials = len(merges.specials)
    ends, starts = np.arange(256), np.arange(256)
    ids = merges.byte_ids() - specials
    ends[ids], starts[ids] = np.arange(256), np.arange(256)
    for step in range(min(most, len(merges.merges))):
        left, right, _ = merges.merges[step] - specials
        known = merges.cut(merges.base + step, step)
        pairs = _pairs(found.counts, known, 256 + step)
        seams = ends[:, None] << 8 | starts
        chosen = pairs[left, right] - found.excess[seams[left, right]]
        rivals = pairs + found.missing[seams]
        rivals[left, right] = -1
        if chosen <= rivals.max():
            return step
        ends, starts = np.append(ends, ends[right]), np.append(starts, starts[left])
    return min(most, len(merges.merges))


def _pairs(counts: WordCounts, merges: GlobalMerges, symbols: int) -> Int64Array:
    """How often each symbol follows another one, (symbols, symbols) int64."""
    total = np.zeros(symbols * symbols, dtype=np.int64)
    for first in range(0, len(counts), _WORDS):
        part = counts.part(first, min(first + _WORDS, len(counts)))
        ids, offsets = segment(merges, part)
        followed = np.ones(len(ids), dtype=np.bool_)
        followed[offsets[1:] - 1] = False
        at = np.flatnonzero(followed)
        codes = ids.astype(np.int64) - len(merges.specials)
        weights = np.repeat(part.counts, np.diff(offsets))[at]
        # Sums in float64 are exact below 2^53.
        total += np.bincount(codes[at] * symbols + codes[at + 1], weights, len(total)).astype(
            np.int64
        )
    return total.reshape(symbols, symbols)
