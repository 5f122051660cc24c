"""Encode by search with a subset of a vocabulary.

The trie of the whole vocabulary is built once; a subset is a mask over its tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modtok_cli.learn.viterbi_kernel import viterbi_words
from modtok_cli.modular.chunks import Chunks
from modtok_cli.modular.encoder import Encoder
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


class SearchEncoder(Encoder):
    """Segmentation by search over active tokens; see `encoder.Encoder` for what it offers."""

    def __init__(self, lattice: Lattice, local_of_global: Ids | None) -> None:
        self._pretokenizer = lattice.pretokenizer
        self._lattice = lattice
        self._local = local_of_global
        self._caches = []

    @property
    def _splitter(self) -> Splitter:
        chunks = self._lattice.chunks
        return super()._splitter if chunks is None else chunks.splitter

    def words_flat(self, data: Bytes, offsets: Ints) -> tuple[Ids, Ints]:
        """Ids of each byte string `data[offsets[i]:offsets[i + 1]]`, taken as one word."""
        lattice = self._lattice
        ids, ends = viterbi_words(
            data,
            offsets,
            lattice.units,
            lattice.scores,
            lattice.active,
            lattice.byte_ids,
            lattice.unknown,
            lattice.each,
            lattice.fallback,
        )
        return (ids if self._local is None else self._local[ids]), ends
