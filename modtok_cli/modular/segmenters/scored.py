"""What segmentations by search share: scores, and a trie over the tokens built once."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from modtok_cli.modular.segmenters.interface import Floats, Mask, Segmenter
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.pretokenizer import PreTokenizer

if TYPE_CHECKING:
    from modtok_cli.modular.search_encoder import Lattice, SearchEncoder


class Trie:
    """The double array of `learn.trie` over the tokens from `first` on, built on first use."""

    def __init__(self, vocabulary: Vocabulary, first: int) -> None:
        self._vocabulary = vocabulary
        self._first = first

    @cached_property
    def units(self) -> npt.NDArray[np.uint64]:
        """A quarter of a second for 350,000 tokens."""
        from modtok_cli.learn.trie import build_trie

        ids = np.arange(self._first, len(self._vocabulary))
        return build_trie(self._vocabulary.data, self._vocabulary.offsets[self._first :], ids)


class Scored(Segmenter):
    """The best path over tokens with scores; a subset is a mask over the trie of all tokens.

    `all_scores` (V,) float64 are those of the vocabulary before the selection.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        pretokenizer: PreTokenizer,
        all_scores: Floats,
        mask: Mask | None = None,
        trie: Trie | None = None,
    ) -> None:
        super().__init__(vocabulary, pretokenizer, mask)
        self._all_scores = np.ascontiguousarray(all_scores, dtype=np.float64)
        self._trie = trie or Trie(vocabulary, self._first(vocabulary))

    @staticmethod
    def _first(vocabulary: Vocabulary) -> int:
        """Id of the first token that the trie holds."""
        return len(vocabulary.specials)

    @cached_property
    def scores(self) -> Floats:
        """Scores in local order, (n,) float64."""
        return self._all_scores[self.selection.global_ids]

    def _encoder(self) -> SearchEncoder:
        from modtok_cli.modular.search_encoder import SearchEncoder

        selection = self.selection
        size = len(selection.whole)
        if selection.mask is None:
            return SearchEncoder(self._lattice(np.ones(size, dtype=np.uint8)))
        lattice = self._lattice(selection.mask.astype(np.uint8))
        return SearchEncoder(lattice, selection.local_of_global, self._alone)

    def _alone(self, lattice: Lattice) -> Lattice:
        """`lattice` with the tokens of the selection only, under their local ids."""
        vocabulary = self.vocabulary
        return replace(
            lattice,
            units=Trie(vocabulary, self._first(vocabulary)).units,
            scores=lattice.scores[self.selection.global_ids],
            active=np.ones(len(vocabulary), dtype=np.uint8),
            byte_ids=vocabulary.byte_ids,
        )

    def _lattice(self, active: npt.NDArray[np.uint8]) -> Lattice:
        raise NotImplementedError

    def restricted(self, kept: Mask) -> Scored:
        """The same scores over the tokens of `kept`."""
        return type(self)(self.vocabulary, self.pretokenizer, self.scores, kept)
