"""What segmentation by search has in common: Unigram and least tokens are two of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.modular.vocabulary import Vocabulary

if TYPE_CHECKING:
    # Who only cuts a subset out does not wait for numba.
    from modtok_cli.modular.piece_encoder import PieceEncoder

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class Search(Protocol):
    """Tokens of a whole vocabulary with scores, for any number of subsets and threads."""

    @property
    def scores(self) -> Floats:
        """The score of each token as files hold it; (V,) float64."""

    def encoder(self, mask: Mask | None, local_of_global: Ids | None) -> PieceEncoder:
        """The encoder of the tokens in `mask` (V,), None for all; ids are then mapped."""

    def scores_of(self, ids: Ids) -> Floats:
        """The scores in a file of these tokens alone; (n,) float64."""

    def to_json(
        self, vocabulary: Vocabulary, scores: Floats, provenance: Mapping[str, Any]
    ) -> bytes:
        """The `tokenizer.json` of these tokens and scores."""

    def to_model(self, vocabulary: Vocabulary, scores: Floats) -> bytes:
        """The SentencePiece `.model` of these tokens and scores.

        Raises:
            UsageError: SentencePiece cannot carry them.
        """


def open_search(
    vocabulary: Vocabulary, scores: Floats | None, segmentation: str, scheme: str
) -> Search | None:
    """The search of a tokenizer read from a file; None without scores, that is, for merges."""
    if scores is None:
        return None
    if segmentation == FEWEST_TOKENS:
        from modtok_cli.modular.least_search import LeastSearch, TokenTrie

        return LeastSearch(TokenTrie(vocabulary), scores, scheme)
    from modtok_cli.modular.piece_search import PieceSearch
    from modtok_cli.modular.piece_vocabulary import PieceVocabulary

    assert isinstance(vocabulary, PieceVocabulary)
    return PieceSearch(vocabulary, scores)
