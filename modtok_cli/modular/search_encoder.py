"""Encode by search with a subset of a vocabulary.

The trie of the whole vocabulary is built once; a subset is a mask over its tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modtok_cli.learn.viterbi_kernel import viterbi_words
from modtok_cli.modular.chunks import Chunks
from modtok_cli.modular.encoder import Encoder
from modtok_cli.modular.word_cache import WordCache
from modtok_cli.text.pretokenizer import PreTokenizer, Splitter

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lattice:
    """What `learn.viterbi_kernel` searches with, and how text is split before.

    chunks: splits text into parts that are segmented independently, smaller than the words of the
    pre-tokenizer.

    Shapes: units (U,) uint64; scores (V,) float64; active (V,) uint8; byte_ids (256,) int32.
    """

    pretokenizer: PreTokenizer
    units: npt.NDArray[np.uint64]
    scores: Floats
    active: Bytes
    byte_ids: Ids
    unknown: float
    each: int
    fallback: bool
    chunks: Chunks | None = None


OWN_TRIE = 1 << 17
"""Bytes of new words after which a subset has a trie of its own. One of 24,000 tokens is built in
as much time as these were searched, and searches are then about twice as fast."""


class SearchEncoder(Encoder):
    """Segmentation by search over active tokens; see `encoder.Encoder` for what it offers.

    Args:
        lattice: of all tokens of a vocabulary.
        local_of_global: the id of each in the subset, None without a subset.
        alone: gives the lattice of the subset by itself, with the ids of the subset.
    """

    def __init__(
        self,
        lattice: Lattice,
        local_of_global: Ids | None = None,
        alone: Callable[[Lattice], Lattice] | None = None,
    ) -> None:
        self._pretokenizer = lattice.pretokenizer
        self._chunks = lattice.chunks
        # One attribute: other threads see both of one state or both of the other.
        self._search = (lattice, local_of_global)
        self._alone = alone
        self._searched = 0
        self._cache, self._scratch = WordCache(), []

    @property
    def _splitter(self) -> Splitter:
        return super()._splitter if self._chunks is None else self._chunks.splitter

    def words_flat(self, data: Bytes, starts: Ints, stops: Ints) -> tuple[Ids, Ints]:
        """Ids of each byte string data[starts[i]:stops[i]], taken as one word."""
        lattice, local = self._search
        ids, ends = viterbi_words(
            data,
            starts,
            stops,
            lattice.units,
            lattice.scores,
            lattice.active,
            lattice.byte_ids,
            lattice.unknown,
            lattice.each,
            lattice.fallback,
        )
        if local is None:
            return ids, ends
        self._searched += int((stops - starts).sum())
        if self._searched > OWN_TRIE and self._alone is not None:
            self._search = (self._alone(lattice), None)
        return local[ids], ends
