"""Segmentation into the fewest tokens; of several splits as short, the likeliest.

Its `tokenizer.json` equals a byte-level BPE's except for the model, which is of type Unigram
with the scores of `learn.fewest_tokens.file_scores`. SentencePiece has no byte-level
pre-tokenizer: a `.model` needs tokens of whole characters, and spells the rest by bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.base.tensors import Array
from modtok_cli.learn.fewest_tokens import (
    EACH,
    FEWEST_TOKENS,
    NO_PIECE,
    SHORT_EACH,
    file_scores,
    likelihood_of_scores,
    likelihoods,
)
from modtok_cli.text.pretokenizer import PHRASES
from modtok_cli.tokenizer.segmenters.interface import ModularSegmenter
from modtok_cli.tokenizer.segmenters.json_frame import (
    BYTE_LEVEL,
    all_bytes,
    byte_level_misfit,
    byte_level_pretokenizer,
    scored_rows,
)
from modtok_cli.tokenizer.segmenters.scored import Scored, Search
from modtok_cli.tokenizer.segmenters.sentencepiece_file import (
    Kind,
    SentencePieceFile,
    write_model,
)
from modtok_cli.tokenizer.validate import (
    check_merge_membership,
    check_merges,
    check_token_membership,
    check_vocabulary,
)
from modtok_cli.tokenizer.vocabulary import Vocabulary, broken, byte_piece

if TYPE_CHECKING:
    from modtok_cli.core.binding import Splitter
    from modtok_cli.tokenizer.stored import Stored


class FewestTokens(Scored):
    """Scores as `learn.fewest_tokens.file_scores` gives them, so that any Unigram search does."""

    name = FEWEST_TOKENS

    def _search(self) -> Search:
        # The core counts tokens apart, so only likelihoods are summed: exact at any length.
        likelihood = self._all_scores + EACH
        likelihood[: len(self.selection.whole.specials)] = 0.0
        return Search(likelihood, each=1)

    def _splitter(self) -> Splitter | None:
        if self.pretokenizer is not PHRASES:
            return None
        from modtok_cli.tokenizer.segmenters.chunks import splitter_of

        return splitter_of(self.vocabulary.tokens()[len(self.selection.whole.specials) :])

    def to_json(self, provenance: Mapping[str, Any]) -> bytes:
        return self._json(provenance, self.pretokenizer.to_json(byte_level=True), BYTE_LEVEL)

    @classmethod
    def misfit(cls, document: Mapping[str, Any]) -> str | None:
        """The first field that is not as `to_json` writes it."""
        model = document["model"]
        if model.get("type") != "Unigram":
            return "model.type"
        for name in ("unk_id", "byte_fallback"):
            if model.get(name) not in (None, False):
                return f"model.{name}"
        odd = byte_level_misfit(document)
        if odd is not None:
            return odd
        try:
            scores = np.array([float(score) for _, score in model.get("vocab") or [()]])
        except (TypeError, ValueError):
            return None  # damaged rather than of another kind: `from_json` says where
        specials = len(document["added_tokens"])
        if len(scores) < specials or likelihood_of_scores(scores, specials) is None:
            return "model.vocab"
        return None

    @classmethod
    def from_json(cls, document: Mapping[str, Any], where: str) -> Self:
        specials, names, scores = scored_rows(document, where)
        if len(set(names)) != len(names):
            raise broken(where, "model.vocab", "a token occurs twice")
        vocabulary = all_bytes(specials, names, where)
        return cls(vocabulary, byte_level_pretokenizer(document), scores)

    def to_sentencepiece(self) -> bytes:
        """The SentencePiece `.model`, with the same ids.

        A byte below 0x80 is a character, hence an ordinary piece; one above is a byte piece.
        SentencePiece requires all 256 byte pieces and an unknown one: those that no text
        needs come last.
        """
        if self.pretokenizer is PHRASES:
            raise UsageError(
                "a SentencePiece .model cannot express superwords",
                remedy="write a .json, or learn without --superwords",
            )
        specials = self.vocabulary.specials
        first = len(specials)
        tokens = self.vocabulary.tokens()
        pieces, kinds = list(specials), [Kind.CONTROL] * first
        missing = set(range(256))
        singles = set()
        for token in tokens[first:]:
            if len(token) == 1 and (token[0] >= 0x80 or token[0] == 0):
                pieces.append(byte_piece(token[0]))
                kinds.append(Kind.BYTE)
                missing.discard(token[0])
                continue
            try:
                text = token.decode()
            except UnicodeDecodeError:
                raise _not_whole(f"token {token!r} cuts a character") from None
            if len(text) == 1:
                singles.add(text)
            pieces.append(text)
            kinds.append(Kind.NORMAL)
        for text, kind in zip(pieces, kinds, strict=True):
            if kind == Kind.NORMAL and (NO_PIECE & {*text} or not singles.issuperset(text)):
                raise _not_whole(f"token {text!r} holds a character that no piece can be")
        pieces += [byte_piece(byte) for byte in sorted(missing)]
        kinds += [Kind.BYTE] * len(missing)
        if "<unk>" in specials:
            kinds[specials.index("<unk>")] = Kind.UNKNOWN
        else:
            pieces.append("<unk>")
            kinds.append(Kind.UNKNOWN)
        short = np.zeros(len(pieces))
        short[first : len(tokens)] = self.scores[first:] + (EACH - SHORT_EACH)
        return write_model(SentencePieceFile(tuple(pieces), tuple(short.tolist()), tuple(kinds)))

    def check(self, where: str) -> None:
        """The vocabulary; scores follow from the counts."""
        check_vocabulary(self.vocabulary, where)

    def unused_tokens(self) -> Int64Array:
        first = len(self.vocabulary.specials)
        likelihood = likelihood_of_scores(self.scores, first)
        assert likelihood is not None
        idle = (likelihood == 0) & (self.vocabulary.lengths > 1)
        idle[:first] = False
        return np.flatnonzero(idle)


def _not_whole(why: str) -> UsageError:
    return UsageError(
        f"{why}, which a SentencePiece .model cannot express",
        remedy="write a .json, or learn with bpe-merge --whole-characters",
    )


class ModularFewestTokens(ModularSegmenter):
    """T with the token counts of each language, which decide the scores of a subset.

    `token_counts`: for each language as many numbers as it has tokens. Merges, if there are any, do
    not segment: to continue learning they are needed.
    """

    kind = FewestTokens
    whole_needs_members = True

    def has_model(self, settings: Mapping[str, Any]) -> bool:
        """Whether it was learned so that no token cuts a character."""
        return settings.get("whole_characters") is True

    def subset(
        self, members: Membership, columns: Sequence[int], mask: BoolArray | None
    ) -> FewestTokens:
        """Likelihoods are for the text of all the languages together."""
        total = np.zeros(len(self.vocabulary), dtype=np.int64)
        for column in columns:
            total[members[:, column]] += self.token_counts[column]
        scores = file_scores(likelihoods(total), len(self.vocabulary.specials))
        return FewestTokens(self.vocabulary, self.pretokenizer, scores, mask)

    def validate(self, members: Membership, languages: Sequence[str], where: str) -> None:
        """A count for every token of every language; merges, if there are any, are proper."""
        check_vocabulary(self.vocabulary, where)
        check_token_membership(self.vocabulary, members, languages, where)
        self.check_part(members, languages, where)
        if len(self.merges):
            check_merges(self.vocabulary, self.merges, where)
            check_merge_membership(
                self.vocabulary, self.merges, members, self.merge_membership, languages, where
            )
        elif len(self.merge_membership):
            raise broken(where, "merges", "membership of merges that do not exist")

    def check_part(self, members: Membership, languages: Sequence[str], where: str) -> None:
        """A count for every token of every language."""
        if len(self.token_counts) != len(languages):
            raise broken(where, "token_counts", "not there for every language")
        for counts, size, language in zip(
            self.token_counts, members.sizes().tolist(), languages, strict=True
        ):
            if counts.shape != (size,):
                what = f"{len(counts)} numbers for {size} tokens"
                raise broken(where, "token_counts", f"'{language}' has {what}")
            if (counts < 0).any():
                raise broken(where, "token_counts", f"'{language}' has a negative number")
        # The sum of any set of languages must fit `learn.fewest_tokens.likelihoods`.
        if sum(int(row.max(initial=0)) for row in self.token_counts) >= 1 << 62:
            raise broken(where, "token_counts", "the numbers are too large to add up")

    def tensors(self) -> dict[str, Array]:
        """With the token counts, and merges, which a Unigram file has no place for."""
        return {
            **super().tensors(),
            "merge_table": np.ascontiguousarray(self.merges, dtype="<i4"),
            "token_counts": np.concatenate(self.token_counts).astype("<i8"),
        }

    @classmethod
    def from_files(cls, stored: Stored) -> Self:
        """Tokens, merges and token counts are arrays; scores follow from the counts."""
        ends = np.cumsum([0, *(row.tokens for row in stored.manifest.languages)])
        counts = stored.arrays.take("token_counts", np.int64, (int(ends[-1]),))
        return cls(
            stored.vocabulary(Vocabulary),
            stored.pretokenizer,
            stored.merge_table(),
            stored.merge_members,
            token_counts=[counts[ends[column] : ends[column + 1]] for column in stored.columns],
        )

    def difference(self, child: Self, columns: Sequence[int], languages: Sequence[str]) -> str:
        for language, column, counts in zip(languages, columns, child.token_counts, strict=True):
            if not np.array_equal(self.token_counts[column], counts):
                return f"'{language}' has other token counts"
        return ""
