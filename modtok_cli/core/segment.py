"""Words to ids: tries, tables of merges, segmenters, and encoders with a cache of words."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import (
    Float64Array,
    Int32Array,
    Int64Array,
    UInt8Array,
    UInt64Array,
    flatten,
)
from modtok_cli.core.binding import (
    PADDING,
    EncoderWork,
    Handle,
    Splitter,
    address,
    array_at,
    check,
    native,
)
from modtok_cli.core.text import CODE_POINTS

OVER = 3
"""Ids that may be written behind the last one."""


def build_trie(
    data: UInt8Array, offsets: Int64Array, ids: npt.NDArray[np.integer] | None = None
) -> UInt64Array:
    """The double array (`src/common.h`) of pieces data[offsets[i]:offsets[i + 1]], in any order.

    `ids`: the id of each piece; by default its index.

    Shapes: data (B,) uint8; offsets (P + 1,) int64; ids (P,), 0 to 2^27 - 2.
    Gives (U,) uint64; about 8 bytes for every different prefix of a piece.

    Raises:
        ValueError: a piece is empty or occurs twice.
    """
    pieces = len(offsets) - 1
    numbers = np.arange(pieces) if ids is None else ids
    numbers = np.ascontiguousarray(numbers, dtype=np.int64)
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(last - first + PADDING, dtype=np.uint8)
    padded[: last - first] = data[first:last]
    begins = offsets - first
    wrong = np.zeros(1, dtype=np.int64)
    place = native.mt_trie_new(
        address(padded, np.uint8), address(begins, np.int64), pieces,
        address(numbers, np.int64, pieces), address(wrong, np.int64),
    )  # fmt: skip
    if not place and wrong[0] >= 0:
        piece = data[offsets[wrong[0]] : offsets[wrong[0] + 1]].tobytes()
        if not piece:
            raise ValueError(f"piece {int(wrong[0])} is empty")
        raise ValueError(f"the piece {piece!r} occurs twice")
    trie = Handle(place, native.mt_trie_free)
    size = ctypes.c_int64()
    units = native.mt_trie_units(trie.place, ctypes.byref(size))
    return array_at(units, size.value, np.uint64, trie)


def trie_of(pieces: list[bytes]) -> UInt64Array:
    """The double array of a list of pieces; piece i is found as i."""
    return build_trie(*flatten(pieces))


class Pairs(Handle):
    """A table of merges (M, 3) int32, left, right, result, by pair; the row is the rank."""

    def __init__(self, merges: Int32Array) -> None:
        merges = np.ascontiguousarray(merges, dtype=np.int32)
        super().__init__(
            native.mt_pairs_new(address(merges, np.int32), len(merges)), native.mt_pairs_free
        )
        self.total = len(merges)

    def extend(self, merges: Int32Array) -> None:
        """Add merges[total:]; the others are in the table."""
        merges = np.ascontiguousarray(merges, dtype=np.int32)
        check(
            native.mt_pairs_extend(self.place, address(merges, np.int32), len(merges), self.total)
        )
        self.total = len(merges)

    def last_merges(
        self, symbols: Int32Array, offsets: Int64Array
    ) -> tuple[Int32Array, Int32Array]:
        """The result of merging each sequence of symbols, and the rank of its last merge.

        Shapes: symbols (N,) int32, -1 where no token spells a character; offsets (S + 1,) int64.
        Returns results and ranks, (S,) int32: the result is -1 if more than one symbol is left; the
        rank is -1 if no merge was applied.

        With merges a+b → ab and ab+c → abc, [a, b, c] gives abc, and rank 1.
        """
        count = len(offsets) - 1
        results, last = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int32)
        check(
            native.mt_last_merges(
                self.place, address(symbols, np.int32), address(offsets, np.int64), count,
                address(results, np.int32), address(last, np.int32),
            )
        )  # fmt: skip
        return results, last


def likelihood_steps(counts: Int64Array) -> Int32Array:
    """⌊16 · log2(1 + 2 · count)⌋ of counts from 0 to 2^62 - 1; (V,) int32 of (V,) int64."""
    steps = np.empty(len(counts), dtype=np.int32)
    native.mt_likelihoods(address(counts, np.int64), len(counts), address(steps, np.int32))
    return steps


class Symbols(NamedTuple):
    """The symbols that merging starts from: which token each byte, character and added token is.

    Shapes: byte_ids (256,) int32, -1 for a byte that is left out; characters (0x110000,) int32, -1
    where bytes spell the character, None if bytes spell all text; added_units (U,) uint64, a trie
    of added tokens, which are found first, at each position the longest; added (A,) int32, their
    ids by their number in the trie, -1 for those that a text never contains as such; whole (U,)
    uint64, a trie of words that are tokens before anything is merged, under their ids.
    """

    byte_ids: Int32Array
    characters: Int32Array | None = None
    added_units: UInt64Array | None = None
    added: Int32Array | None = None
    whole: UInt64Array | None = None


class _Fields(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in (
            "pairs", "byte_ids", "characters", "added_units", "added", "units", "scores", "active",
            "local",
        )),
        ("unknown", ctypes.c_double),
        ("each", ctypes.c_int64),
        ("fallback", ctypes.c_int64),
        ("keys", ctypes.c_void_p),
        ("dropout", ctypes.c_double),
    )  # fmt: skip


class SegmenterHandle:
    """How words are split into tokens; `segment` gives their ids.

    Made by `by_merges` or `by_search`.
    """

    def __init__(self, fields: dict[str, Any], keep: tuple[Any, ...]) -> None:
        self.fields = _Fields(**fields)
        self._keep = keep  # what the addresses belong to

    @classmethod
    def by_merges(cls, pairs: Pairs, symbols: Symbols) -> SegmenterHandle:
        """Of all adjacent pairs that a merge joins, the one of lowest rank first."""
        fields = {
            "pairs": pairs.place,
            "byte_ids": address(symbols.byte_ids, np.int32, 256),
            "characters": address(symbols.characters, np.int32, CODE_POINTS),
            "added_units": address(symbols.added_units, np.uint64, 1),
            "added": address(symbols.added, np.int32),
            "units": address(symbols.whole, np.uint64, 1),
        }
        return cls(fields, (pairs, symbols))

    @classmethod
    def by_search(
        cls,
        units: UInt64Array,
        scores: Float64Array,
        active: UInt8Array,
        *,
        each: int,
        byte_ids: Int32Array | None = None,
        unknown: float = 0.0,
        fallback: bool = False,
        local: Int32Array | None = None,
    ) -> SegmenterHandle:
        """Fewest `each` × tokens, then the greatest sum of scores.

        Shapes: units `build_trie` of all pieces under their ids; scores (V,) float64; active (V,)
        uint8, 1 for the pieces that may be used; byte_ids (256,) int32, for characters that no
        piece spells alone, with `fallback`, each with the score `unknown`; local (V,) int32, the
        ids to give instead.
        """
        fields = {
            "byte_ids": address(byte_ids, np.int32, 256),
            "units": address(units, np.uint64, 1),
            "scores": address(scores, np.float64),
            "active": address(active, np.uint8, len(scores)),
            "local": address(local, np.int32, len(scores)),
            "unknown": unknown,
            "each": each,
            "fallback": fallback,
        }
        if fallback and byte_ids is None:
            raise ValueError("characters in bytes need byte_ids")
        return cls(fields, (byte_ids, units, scores, active, local))

    def segment(
        self,
        data: UInt8Array,
        starts: Int64Array,
        stops: Int64Array,
        keys: UInt64Array | None = None,
        dropout: float = 0.0,
    ) -> tuple[Int32Array, Int64Array]:
        """Token ids of each word data[starts[i]:stops[i]].

        With `keys` (W,) uint64, each merge and each piece of several characters is left out with
        the chance `dropout` at each place, which the key of the word decides.

        Returns ids (N,) int32 and their offsets (W + 1,) int64. A word that cannot be spelled gives
        -1 for each byte.
        """
        starts = np.ascontiguousarray(starts, dtype=np.int64)
        stops = np.ascontiguousarray(stops, dtype=np.int64)
        if len(starts) and (
            int(starts.min()) < 0 or int(stops.max()) > len(data) or bool((stops < starts).any())
        ):
            raise ValueError("expected words inside the data")
        ids = np.empty(int((stops - starts).sum()), dtype=np.int32)
        offsets = np.zeros(len(starts) + 1, dtype=np.int64)
        fields = self.fields
        if keys is not None:
            fields = _Fields.from_buffer_copy(self.fields)
            fields.keys, fields.dropout = address(keys, np.uint64, len(starts)), dropout
        check(
            native.mt_segment(
                ctypes.byref(fields), address(data, np.uint8), len(starts),
                address(starts, np.int64), address(stops, np.int64), address(ids, np.int32),
                address(offsets, np.int64),
            )
        )  # fmt: skip
        ids.resize(int(offsets[-1]), refcheck=False)  # nothing is copied
        return ids, offsets


class NativeEncoder(Handle):
    """A splitter and a segmenter with a cache of words, for any number of threads."""

    def __init__(self, splitter: Splitter, segmenter: SegmenterHandle) -> None:
        # The encoder refers to all of them.
        self._splitter, self._segmenters = splitter, [segmenter]
        super().__init__(
            native.mt_encoder_new(ctypes.addressof(splitter), ctypes.byref(segmenter.fields)),
            native.mt_encoder_free,
        )

    def change(self, segmenter: SegmenterHandle) -> None:
        """Go on with another segmenter that gives the same ids."""
        self._segmenters.append(segmenter)
        native.mt_encoder_change(self.place, ctypes.byref(segmenter.fields))

    def encode(
        self, data: UInt8Array, offsets: Int64Array, ids: Int32Array, id_offsets: Int64Array
    ) -> None:
        """Ids of texts data[offsets[i]:offsets[i + 1]] into `ids` and `id_offsets`.

        Shapes: data (B,) uint8 with `PADDING` bytes after the last text; offsets (D + 1,) int64;
        ids (bytes of the texts + `OVER`,) int32; id_offsets (D + 1,) int64.
        """
        texts = len(offsets) - 1
        first, last = int(offsets[0]), int(offsets[-1])
        if first < 0 or last + PADDING > len(data) or bool((offsets[1:] < offsets[:-1]).any()):
            raise ValueError(f"expected {PADDING} bytes after the text in the buffer")
        check(
            native.mt_encode(
                self.place, address(data, np.uint8), address(offsets, np.int64), texts,
                address(ids, np.int32, last - first + OVER),
                address(id_offsets, np.int64, texts + 1),
            )
        )  # fmt: skip

    def expect(self, size: int) -> None:
        """Be ready for the words of `size` bytes of text."""
        check(native.mt_encoder_expect(self.place, size))

    def forget(self) -> None:
        """Free the cache of words."""
        native.mt_encoder_forget(self.place)

    @property
    def spent(self) -> EncoderWork:
        """The work so far."""
        spent: EncoderWork = native.mt_encoder_spent(self.place)
        return spent

    def set_cache_sizes(self, first: int, most: int) -> None:
        """Slots of the first cache, and of those that follow it; powers of two above 1."""
        native.mt_encoder_cache_sizes(self.place, first, most)
