"""What subsets of a least-token vocabulary search with: one trie, scores for each subset."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from modtok_cli.learn.fewest_tokens import EACH
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.pretokenizer import pretokenizer

if TYPE_CHECKING:
    from modtok_cli.modular.piece_encoder import PieceEncoder

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class TokenTrie:
    """The trie over all tokens but the special ones; it is built on first use, once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @cached_property
    def units(self) -> npt.NDArray[np.uint64]:
        """The double array of `learn.trie`: a quarter of a second for 350,000 tokens."""
        from modtok_cli.learn.trie import build_trie

        first = len(self.vocabulary.specials)
        ids = np.arange(first, len(self.vocabulary))
        return build_trie(self.vocabulary.data, self.vocabulary.offsets[first:], ids)


class LeastSearch:
    """Fewest tokens, then likeliest, by the scores of `learn.least.file_scores`; (V,)."""

    def __init__(self, trie: TokenTrie, scores: Floats, scheme: str) -> None:
        self._trie = trie
        self.scores = scores
        self._scheme = scheme

    def encoder(self, mask: Mask | None, local_of_global: Ids | None) -> PieceEncoder:
        """The encoder of the tokens in `mask` (V,), None for all; ids are then mapped."""
        from modtok_cli.modular.piece_encoder import Lattice, PieceEncoder

        vocabulary = self._trie.vocabulary
        first, size = len(vocabulary.specials), len(vocabulary)
        # The kernel counts tokens apart, so likelihoods alone are summed: exact at any length.
        likelihoods = self.scores + EACH
        likelihoods[:first] = 0.0
        lattice = Lattice(
            pretokenizer=pretokenizer(self._scheme),
            units=self._trie.units,
            scores=likelihoods,
            active=np.ones(size, dtype=np.uint8) if mask is None else mask.astype(np.uint8),
            byte_ids=vocabulary.byte_ids,
            unknown=0.0,
            each=1,
            fallback=False,
        )
        return PieceEncoder(lattice, local_of_global)

    def scores_of(self, ids: Ids) -> Floats:
        """The scores in a file of these tokens alone; (n,) float64."""
        return self.scores[ids]

    def to_json(
        self, vocabulary: Vocabulary, scores: Floats, provenance: Mapping[str, Any]
    ) -> bytes:
        """The `tokenizer.json` of these tokens and scores."""
        from modtok_cli.modular.least_file import least_json

        return least_json(vocabulary, scores, self._scheme, provenance)

    def to_model(self, vocabulary: Vocabulary, scores: Floats) -> bytes:
        """The SentencePiece `.model` of these tokens and scores."""
        from modtok_cli.modular.least_file import least_model

        return least_model(vocabulary, scores)
