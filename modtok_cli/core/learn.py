"""Learning: the merge loop of (sequential) BPE, the E-step of Unigram, losses of removals."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Float64Array, Int32Array, Int64Array, UInt8Array, UInt64Array
from modtok_cli.core.binding import Handle, LearnerContents, address, array_at, check, native


@dataclass(frozen=True)
class Learned:
    """T and a language after `learn_language`.

    Shapes: token_data (B,) uint8; token_offsets (V + 1,) int64; merges (M, 3) int32; member (V,)
    and merge_member (M,) uint8, what the language has; frequency (V,) int64, how often each token
    occurs in the final segmentation; slots (2^n,) int32, an index of T's strings. work: steps, see
    `learn.merges.Spent`.
    """

    token_data: UInt8Array
    token_offsets: Int64Array
    merges: Int32Array
    member: UInt8Array
    merge_member: UInt8Array
    frequency: Int64Array
    slots: Int32Array
    work: tuple[int, ...]


class LearnerHandle(Handle):
    """T's tokens and merges, and what a language has of them; arguments as in `Learned`.

    The first `specials` tokens are never the result of a merge.
    """

    def __init__(
        self,
        token_data: UInt8Array,
        token_offsets: Int64Array,
        specials: int,
        merges: Int32Array,
        member: UInt8Array,
        merge_member: UInt8Array,
        slots: Int32Array,
    ) -> None:
        tokens, total = len(token_offsets) - 1, len(merges)
        super().__init__(
            native.mt_learner_new(
                address(token_data, np.uint8, int(token_offsets[-1])),
                address(token_offsets, np.int64), tokens, specials,
                address(merges, np.int32, 3 * total), total,
                address(member, np.uint8, tokens), address(merge_member, np.uint8, total),
                address(slots, np.int32), len(slots),
            ),
            native.mt_learner_free,
        )  # fmt: skip

    def learn(
        self,
        symbols: Int32Array,
        word_offsets: Int64Array,
        word_counts: Int64Array,
        budget: int,
        *,
        floor: int,
        most_unspaced: int,
        signal: Int64Array,
    ) -> None:
        """Run the loop of Algorithm 2 for one language.

        Args:
            symbols, word_offsets, word_counts: the unique words as ids of T, (N,) int32, (W + 1,)
                and (W,) int64.
            budget: |V_i| to reach.
            floor: least count of a pair that is kept track of; affects time and memory only.
            most_unspaced: characters of scripts without spaces in a new token, at most.
            signal: (2,) int64; [0] is set to |V_i| as it grows, a non-zero [1] stops the loop.
        """
        words = len(word_counts)
        check(
            native.mt_learn(
                self.place, address(symbols, np.int32, int(word_offsets[-1])),
                address(word_offsets, np.int64, words + 1), address(word_counts, np.int64), words,
                budget, floor, most_unspaced, address(signal, np.int64, 2),
            )
        )  # fmt: skip

    def result(self) -> Learned:
        """Copies of what it holds."""
        view: LearnerContents = native.mt_learner_view(self.place)
        tokens, merges = view.tokens, view.merge_total
        offsets = _copy(view.token_offsets, tokens + 1, np.int64)
        return Learned(
            _copy(view.token_data, int(offsets[-1]), np.uint8),
            offsets,
            _copy(view.merges, 3 * merges, np.int32).reshape(-1, 3),
            _copy(view.member, tokens, np.uint8),
            _copy(view.merge_member, merges, np.uint8),
            _copy(view.frequency, tokens, np.int64),
            _copy(view.slots, view.slot_count, np.int32),
            tuple(view.work),
        )


def _copy(place: int, count: int, dtype: Any) -> npt.NDArray[Any]:
    return array_at(place, count, dtype).copy()


def expect(
    data: UInt8Array,
    offsets: Int64Array,
    counts: Float64Array,
    first: int,
    last: int,
    units: UInt64Array,
    table: Float64Array,
    byte_entries: Int32Array,
    log_scale: float,
) -> float:
    """Add the expected counts of words first … last - 1 to the table; return their likelihood.

    The likelihood is the sum of counts[w] × ln(alpha(n) of word w), without the scaling.

    Shapes: data (B,) uint8, whole UTF-8 characters; offsets (W + 1,) int64; counts (W,) float64, at
    least 0; units `segment.build_trie` of the pieces; table (V + 1, 2) float64: in row v + 1 the
    weight of v, p(v) times exp(log_scale) for every byte of v, and its expected count; row 0 is all
    0; byte_entries (256,) int32: the rows of the bytes.

    A character that is not a piece may be spelled in bytes: an edge with the product of their
    weights, and its expected count is added to each of them.
    """
    likelihood = ctypes.c_double()
    check(
        native.mt_expect(
            address(data, np.uint8, int(offsets[-1])), address(offsets, np.int64, last + 1),
            address(counts, np.float64, last), first, last, address(units, np.uint64, 1),
            address(table, np.float64), address(byte_entries, np.int32, 256), log_scale,
            ctypes.byref(likelihood),
        )
    )  # fmt: skip
    return likelihood.value


def removal_losses(
    data: UInt8Array,
    offsets: Int64Array,
    counts: Int64Array,
    units: UInt64Array,
    scores: Float64Array,
    active: UInt8Array,
    removable: UInt8Array,
) -> tuple[Int64Array, Int64Array, int]:
    """Number of additional tokens without each single token.

    Shapes: data (B,) uint8; offsets (W + 1,), counts (W,) int64; units `segment.build_trie` of
    tokens by id, every byte an active one; scores (V,) float64, which decide between segmentations
    of equally many tokens; active, removable (V,) uint8.

    Returns losses (V,) int64, 0 for tokens that are not removable; token_counts (V,) int64, how
    often each token occurs in the segmented words; and the number of tokens of all words.

    With a, b, ab and the word "ab" counted 3 times: the token count of ab is 3, its loss 3.
    """
    vocabulary, words = len(scores), len(counts)
    losses, token_counts = np.empty(vocabulary, np.int64), np.empty(vocabulary, np.int64)
    total = ctypes.c_int64()
    check(
        native.mt_removal_losses(
            address(data, np.uint8, int(offsets[-1])), address(offsets, np.int64, words + 1),
            address(counts, np.int64), words, address(units, np.uint64, 1),
            address(scores, np.float64), vocabulary, address(active, np.uint8, vocabulary),
            address(removable, np.uint8, vocabulary), address(losses, np.int64),
            address(token_counts, np.int64), ctypes.byref(total),
        )
    )  # fmt: skip
    return losses, token_counts, total.value
