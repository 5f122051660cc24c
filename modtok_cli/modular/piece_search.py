"""What all subsets of a Unigram vocabulary share: the pieces, their scores, one trie."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modtok_cli.modular.piece_vocabulary import PieceVocabulary, clamp_bytes
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.pretokenizer import UNIGRAM, pretokenizer

if TYPE_CHECKING:
    # Who only cuts a subset out does not wait for numba.
    from modtok_cli.modular.piece_encoder import PieceEncoder

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class PieceSearch:
    """The pieces of a vocabulary under their ids, for any number of subsets and threads."""

    def __init__(self, vocabulary: PieceVocabulary, scores: Floats) -> None:
        self.vocabulary = vocabulary
        self.scores = np.ascontiguousarray(scores, dtype=np.float64)

    @cached_property
    def units(self) -> npt.NDArray[np.uint64]:
        """The trie: a quarter of a second for 350,000 pieces, on first use."""
        from modtok_cli.learn.trie import build_trie

        first = self.vocabulary.first
        ids = np.arange(first, len(self.vocabulary))
        return build_trie(self.vocabulary.data, self.vocabulary.offsets[first:], ids)

    def encoder(self, mask: Mask | None, local_of_global: Ids | None) -> PieceEncoder:
        """The encoder of the pieces in `mask` (V,), None for all; ids are then mapped."""
        from modtok_cli.learn.viterbi_kernel import UNKNOWN_PENALTY
        from modtok_cli.modular.piece_encoder import Lattice, PieceEncoder

        first, size = self.vocabulary.first, len(self.vocabulary)
        active = np.ones(size, dtype=np.uint8) if mask is None else mask.astype(np.uint8)
        chosen = self.scores[first:][active[first:] == 1]
        lattice = Lattice(
            pretokenizer=pretokenizer(UNIGRAM),
            units=self.units,
            scores=self.scores,
            active=active,
            byte_ids=self.vocabulary.byte_ids,
            # As both libraries have it: below the least likely piece of this subset.
            unknown=float(chosen.min() if len(chosen) else 0.0) - UNKNOWN_PENALTY,
            each=0,
            fallback=True,
        )
        return PieceEncoder(lattice, local_of_global)

    def scores_of(self, ids: Ids) -> Floats:
        """The scores in a file of these tokens alone; (n,) float64."""
        return clamp_bytes(self.scores[ids], len(self.vocabulary.specials))

    def to_json(
        self, vocabulary: Vocabulary, scores: Floats, provenance: Mapping[str, Any]
    ) -> bytes:
        """The `tokenizer.json` of these tokens and scores."""
        from modtok_cli.modular.unigram_file import unigram_json

        assert isinstance(vocabulary, PieceVocabulary)
        return unigram_json(vocabulary, scores, provenance)

    def to_model(self, vocabulary: Vocabulary, scores: Floats) -> bytes:
        """The SentencePiece `.model` of these tokens and scores."""
        from modtok_cli.modular.unigram_file import unigram_model

        assert isinstance(vocabulary, PieceVocabulary)
        return unigram_model(vocabulary, scores)
