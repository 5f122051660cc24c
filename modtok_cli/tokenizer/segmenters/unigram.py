"""Segmentation by Unigram: the split into pieces with the greatest sum of scores.

Files are spelled with spaces as spaces and change nothing in the text, so that a literal
"▁" stays what it is: no piece holds it, bytes spell it. (SentencePiece's usual way, "▁"
for a space, cannot tell the two apart when it decodes.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from modtok_cli.base.arrays import BoolArray, Float64Array, Int64Array
from modtok_cli.base.membership import Membership
from modtok_cli.base.tensors import Array
from modtok_cli.learn.pieces import UNKNOWN, UNKNOWN_PENALTY
from modtok_cli.text.pretokenizer import UNIGRAM as PRETOKENIZER
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.tokenizer.segmenters.interface import NO_MERGES, ModularSegmenter, other_score
from modtok_cli.tokenizer.segmenters.json_frame import (
    added_misfit,
    only_adds_special_tokens,
    scored_rows,
)
from modtok_cli.tokenizer.segmenters.scored import Scored, Search
from modtok_cli.tokenizer.segmenters.sentencepiece_file import (
    Kind,
    SentencePieceFile,
    write_model,
)
from modtok_cli.tokenizer.validate import check_pieces, check_token_membership
from modtok_cli.tokenizer.vocabulary import PieceVocabulary, broken

if TYPE_CHECKING:
    from modtok_cli.tokenizer.stored import Stored

DECODER = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}


class Unigram(Scored):
    """Pieces of whole characters; characters that are no piece are spelled in bytes."""

    name = "unigram"

    @property
    def vocabulary(self) -> PieceVocabulary:
        return cast(PieceVocabulary, self.selection.vocabulary)

    @cached_property
    def scores(self) -> Float64Array:
        specials = len(self.selection.whole.specials)
        return clamp_bytes(self._all_scores[self.selection.global_ids], specials)

    def _search(self) -> Search:
        first, mask = self.selection.whole.first, self.selection.mask
        chosen = self._all_scores[first:]
        unknown = _unknown(chosen if mask is None else chosen[mask[first:]])
        return Search(self._all_scores, each=0, unknown=unknown, fallback=True)

    def to_json(self, provenance: Mapping[str, Any]) -> bytes:
        before = self.pretokenizer.to_json(byte_level=False)
        return self._json(provenance, before, DECODER, unknown=0)

    @classmethod
    def misfit(cls, document: Mapping[str, Any]) -> str | None:
        """The first field that is not as `to_json` writes it.

        Pieces may not reach across words, which only the pre-tokenizer `unigram` ensures.
        """
        model, added = document["model"], document.get("added_tokens")
        expected = {"type": "Unigram", "unk_id": 0, "byte_fallback": True}
        for name, value in expected.items():
            if model.get(name) != value:
                return f"model.{name}"
        before = PRETOKENIZER.to_json(byte_level=False)
        frame = {"normalizer": None, "pre_tokenizer": before, "decoder": DECODER}
        for name, value in frame.items():
            if document.get(name) != value:
                return name
        if not only_adds_special_tokens(document.get("post_processor")):
            return "post_processor"
        if not isinstance(added, list) or not added or not isinstance(added[0], dict):
            return "added_tokens"
        if added[0].get("content") != UNKNOWN:
            return "added_tokens"
        return added_misfit(document)

    @classmethod
    def from_json(cls, document: Mapping[str, Any], where: str) -> Self:
        specials, names, scores = scored_rows(document, where)
        vocabulary = PieceVocabulary.from_spellings(specials, names, where)
        check_pieces(vocabulary, scores, where)
        return cls(vocabulary, PRETOKENIZER, scores)

    def to_sentencepiece(self) -> bytes:
        vocabulary = self.vocabulary
        kinds = _kinds(len(vocabulary.specials), len(vocabulary))
        return write_model(
            SentencePieceFile(tuple(vocabulary.spellings()), tuple(self.scores.tolist()), kinds)
        )

    @classmethod
    def from_sentencepiece(cls, model: SentencePieceFile, where: str) -> Self | None:
        """The segmenter of a `.model` that `to_sentencepiece` wrote; None for any other."""
        specials = 0
        while specials < len(model.kinds) and model.kinds[specials] in (
            Kind.UNKNOWN,
            Kind.CONTROL,
        ):
            specials += 1
        ours = (
            specials > 0
            and model.pieces[0] == UNKNOWN
            and model.kinds == _kinds(specials, len(model.kinds))
            and replace(model, pieces=(), scores=(), kinds=()) == SentencePieceFile((), (), ())
        )
        if not ours:
            return None
        vocabulary = PieceVocabulary.from_spellings(model.pieces[:specials], model.pieces, where)
        scores = np.array(model.scores, dtype=np.float64)
        check_pieces(vocabulary, scores, where)
        return cls(vocabulary, PRETOKENIZER, scores)

    def check(self, where: str) -> None:
        check_pieces(self.vocabulary, self.scores, where)

    def unreachable_tokens(self) -> Int64Array:
        return np.zeros(0, dtype=np.int64)


def _unknown(scores: Float64Array) -> float:
    """Score of a character in bytes, as in both libraries: below the least likely piece."""
    return float(scores.min() if len(scores) else 0.0) - UNKNOWN_PENALTY


def _kinds(specials: int, size: int) -> tuple[int, ...]:
    """Kinds of pieces in a `.model`: the unknown piece, special tokens, bytes, pieces."""
    kinds = [Kind.UNKNOWN] + [Kind.CONTROL] * (specials - 1) + [Kind.BYTE] * 256
    return (*kinds, *[Kind.NORMAL] * (size - specials - 256))


def clamp_bytes(scores: Float64Array, specials: int) -> Float64Array:
    """Scores; scores of bytes are at least the least score of a piece.

    Both libraries take the least score, SentencePiece of pieces, `tokenizers` of all
    tokens, as the cost of an unknown character; clamping makes both use the same. No search
    uses the score of a byte token itself.
    """
    pieces = scores[specials + 256 :]
    clamped = scores.copy()
    if len(pieces):
        own = slice(specials, specials + 256)
        clamped[own] = np.maximum(scores[own], pieces.min())
    return clamped


class ModularUnigram(ModularSegmenter):
    """T of pieces; a subset keeps the scores and drops pieces."""

    kind = Unigram
    scores: Float64Array

    def __init__(
        self,
        vocabulary: PieceVocabulary,
        pretokenizer: PreTokenizer,
        scores: Float64Array,
        languages: int,
    ) -> None:
        no_members = Membership.everywhere(0, languages)
        scores = np.ascontiguousarray(scores, dtype=np.float64)
        super().__init__(vocabulary, pretokenizer, NO_MERGES, no_members, scores=scores)

    def has_model(self, settings: Mapping[str, Any]) -> bool:
        """Every Unigram tokenizer is a `.model` too."""
        return True

    def subset(
        self, members: Membership, columns: Sequence[int], mask: BoolArray | None
    ) -> Unigram:
        """The pieces of the mask under their scores."""
        return Unigram(self.vocabulary, self.pretokenizer, self.scores, mask)

    def validate(self, members: Membership, languages: Sequence[str], where: str) -> None:
        """Pieces and scores are valid, and every language has pieces."""
        check_pieces(self.vocabulary, self.scores, where)
        check_token_membership(self.vocabulary, members, languages, where)
        own = members.sizes() > len(self.vocabulary.specials) + 256
        if not own.all():
            language = languages[int(np.argmin(own))]
            raise broken(where, "token_membership", f"'{language}' has no pieces")

    def tensors(self) -> dict[str, Array]:
        return {**super().tensors(), "scores": self.scores.astype("<f8")}

    @classmethod
    def from_files(cls, stored: Stored) -> Self:
        vocabulary = stored.vocabulary(PieceVocabulary)
        scores = stored.arrays.take("scores", np.float64, (len(vocabulary),))
        return cls(vocabulary, stored.pretokenizer, scores, len(stored.columns))

    def difference(self, child: Self, columns: Sequence[int], languages: Sequence[str]) -> str:
        # Bytes come first; no search asks for their scores, which follow the scores of the pieces.
        first = len(child.vocabulary.specials) + 256
        return other_score(self.scores, child.scores, first, len(child.vocabulary))
