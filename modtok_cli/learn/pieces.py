"""The result of Unigram learning: pieces with scores, and the languages each belongs to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import (
    Float64Array,
    Int32Array,
    Int64Array,
    UInt8Array,
    flatten,
    unflatten,
)
from modtok_cli.base.membership import Membership
from modtok_cli.learn.merges import byte_ids, byte_order

UNKNOWN = "<unk>"
"""First special token of every Unigram vocabulary: both libraries require an unknown piece.
No text is encoded to it, because bytes spell everything that no piece does."""

UNKNOWN_PENALTY = 10.0
"""What a character in bytes costs beyond the least likely piece, as in both libraries."""

SCORE_STEP = 2.0**-10
"""Scores are multiples of this. SentencePiece adds scores in 32-bit floats, `tokenizers` in
64-bit ones; on this grid both sums are exact up to 16,384 nats, about two thousand tokens,
so that all three implementations see the same ties and break them equally."""


def on_grid(scores: npt.ArrayLike) -> Float64Array:
    """Scores rounded to multiples of `SCORE_STEP`."""
    rounded: Float64Array = np.rint(np.asarray(scores, dtype=np.float64) / SCORE_STEP) * SCORE_STEP
    return rounded + 0.0  # no negative zero


@dataclass(frozen=True)
class LearnedPieces:
    """A Unigram vocabulary with language membership.

    Ids: special tokens 0 … s-1, the first of them `UNKNOWN`, then the 256 bytes in
    `byte_order()`, then pieces. Special tokens and bytes are members of every language.
    A byte token spells one byte of a character that no piece spells; it is not a piece, even
    if a piece has the same bytes ("a" may be both). Scores are log-probabilities on the
    grid of `SCORE_STEP`; scores of special tokens are 0 and have no meaning.

    Shapes: token_data (B,) uint8; token_offsets (V + 1,) int64; scores (V,) float64;
    token_membership (V, L).
    """

    languages: tuple[str, ...]
    specials: tuple[str, ...]
    token_data: UInt8Array
    token_offsets: Int64Array
    scores: Float64Array
    token_membership: Membership

    @property
    def size(self) -> int:
        """Number of tokens, special tokens and bytes included."""
        return len(self.token_offsets) - 1

    @property
    def first(self) -> int:
        """Id of the first piece: special tokens and bytes come before."""
        return len(self.specials) + 256

    @property
    def byte_ids(self) -> Int32Array:
        """Id of each byte; shape (256,) int32."""
        return byte_ids(len(self.specials))

    def pieces(self) -> list[bytes]:
        """The pieces, without special tokens and bytes, in id order."""
        return unflatten(self.token_data, self.token_offsets[self.first :])


def make_pieces(
    languages: Sequence[str],
    specials: Sequence[str],
    pieces: Sequence[bytes],
    scores: npt.ArrayLike,
    membership: Membership,
    byte_scores: npt.ArrayLike | None = None,
) -> LearnedPieces:
    """A vocabulary of special tokens, bytes and pieces.

    scores (P,) and membership (P, L) are of the pieces only; byte_scores (256,) in the
    order of `byte_order()`, by default the lowest score of a piece.
    """
    tokens = [text.encode() for text in specials]
    tokens += [bytes([byte]) for byte in byte_order()]
    tokens += pieces
    data, offsets = flatten(tokens)
    own = np.asarray(scores, dtype=np.float64)
    if byte_scores is None:
        byte_scores = np.full(256, own.min() if len(own) else 0.0)
    every = Membership.everywhere(len(specials) + 256, len(languages)).planes
    return LearnedPieces(
        tuple(languages),
        tuple(specials),
        data.copy(),
        offsets,
        on_grid(np.concatenate([np.zeros(len(specials)), np.asarray(byte_scores), own])),
        Membership(np.concatenate([every, membership.planes], axis=1), len(languages)),
    )


def unite(models: Mapping[str, LearnedPieces]) -> LearnedPieces:
    """Unite models: a piece belongs to every language whose model has it.

    Special tokens and bytes occur once. Pieces are in order of first appearance, languages in
    the given order; the score is the mean over the languages that have the piece (of the
    probabilities, not of their logarithms).

    Raises:
        ValueError: the models have different special tokens, or no model was given.
    """
    languages = list(models)
    if len({model.specials for model in models.values()}) != 1:
        raise ValueError("the models have different special tokens, or no model was given")
    specials = models[languages[0]].specials
    place: dict[bytes, int] = {}
    columns: list[Int64Array] = []
    for model in models.values():
        columns.append(
            np.array(
                [place.setdefault(piece, len(place)) for piece in model.pieces()], dtype=np.int64
            )
        )
    total = np.zeros(len(place))
    membership = Membership.of_columns(len(place), columns, len(languages))
    byte_total = np.zeros(256)
    for model, ids in zip(models.values(), columns, strict=True):
        total[ids] += np.exp(model.scores[model.first :])
        byte_total += np.exp(model.scores[len(specials) : model.first])
    scores = np.log(total / membership.owners())
    byte_scores = np.log(byte_total / len(languages))
    return make_pieces(languages, specials, list(place), scores, membership, byte_scores)
