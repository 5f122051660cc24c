"""The interface of segmenters, which split the words of a pre-tokenizer into tokens.

A `Segmenter` belongs to one tokenizer, with one numbering. A `ModularSegmenter` holds what the
segmenters of all sets of languages are made of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.base.state import Lasting
from modtok_cli.base.tensors import Array
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.tokenizer.segmenters import CLASSES
from modtok_cli.tokenizer.vocabulary import Selection, Vocabulary

if TYPE_CHECKING:
    from modtok_cli.tokenizer.encoding.encoder import Encoder
    from modtok_cli.tokenizer.encoding.external import Losses
    from modtok_cli.tokenizer.segmenters.sentencepiece_file import SentencePieceFile
    from modtok_cli.tokenizer.stored import Stored

NO_MERGES: Int32Array = np.zeros((0, 3), dtype=np.int32)
NO_MERGES.setflags(write=False)


class Segmenter(Lasting, ABC):
    """Splits words into tokens of a vocabulary; immutable, its tables are built on first use.

    Attributes:
        name: name of the segmentation in files and on the command line.
        pretokenizer: splits text into the words.
        selection: the tokens, as some of a larger vocabulary or all of one.
        scores: (n,) float64, as a file holds them; None for a segmenter without scores.
        of_file: whether its `tokenizer.json` is that of another program.
    """

    name: ClassVar[str]
    of_file: ClassVar[bool] = False

    def __init__(
        self, vocabulary: Vocabulary, pretokenizer: PreTokenizer, mask: BoolArray | None = None
    ) -> None:
        self.pretokenizer = pretokenizer
        self.selection = Selection(vocabulary, mask)

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens in local order."""
        return self.selection.vocabulary

    @property
    def size(self) -> int:
        """Number of tokens, special tokens and bytes included."""
        return len(self.selection.global_ids)

    @property
    def names(self) -> list[str]:
        """The name of each token in a `tokenizer.json`, in id order."""
        return self.vocabulary.spellings()

    @property
    def special(self) -> BoolArray:
        """Which tokens are special, (n,) bool."""
        return np.arange(self.size) < len(self.vocabulary.specials)

    @property
    def merges(self) -> Int32Array:
        """(m, 3) int32: left, right, result in local ids; the row is the rank."""
        return NO_MERGES

    @property
    def merge_ranks(self) -> Int64Array:
        """Rank in the whole vocabulary's list of each merge; (m,) int64, ascending."""
        return np.zeros(0, dtype=np.int64)

    @property
    def scores(self) -> Float64Array | None:
        """Scores of the tokens, (n,) float64; None without."""
        return None

    @cached_property
    def encoder(self) -> Encoder:
        """Made on first use."""
        return self._encoder()

    @abstractmethod
    def _encoder(self) -> Encoder: ...

    def forget_words(self) -> None:
        """Free the caches of words that encoding filled; an encoder that was not used has none."""
        if "encoder" in self.__dict__:
            self.encoder.forget_words()

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids; they may end within a character."""
        return self.vocabulary.decode_bytes(ids)

    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    @property
    def losses(self) -> Losses | None:
        """Counts what it cannot write; None if it can write every text."""
        return None

    def digest(self) -> tuple[bytes, ...]:
        """The data that decides its output beside vocabulary, pre-tokenizer and name."""
        merges = self.merges.astype("<i4").tobytes()
        return (merges,) if self.scores is None else (merges, score_bytes(self.scores))

    @property
    def needed(self) -> BoolArray:
        """Special tokens and bytes, (n,) bool."""
        return np.arange(self.size) < len(self.vocabulary.specials) + 256

    @abstractmethod
    def restricted(self, mask: BoolArray) -> Segmenter:
        """The segmenter of the tokens of `mask` (n,) bool, the needed ones among them."""

    @abstractmethod
    def to_json(self, provenance: Mapping[str, Any]) -> bytes:
        """The `tokenizer.json`; `provenance` is written into `model.modtok`."""

    @classmethod
    @abstractmethod
    def misfit(cls, document: Mapping[str, Any]) -> str | None:
        """The first field of a `tokenizer.json` that is not as `to_json` writes it; None if all."""

    @classmethod
    @abstractmethod
    def from_json(cls, document: Mapping[str, Any], where: str) -> Self:
        """The segmenter of a document without misfit."""

    def to_sentencepiece(self) -> bytes:
        """The SentencePiece `.model`."""
        raise UsageError(
            f"a SentencePiece .model cannot hold a tokenizer of segmentation '{self.name}'",
            remedy="write a .json",
        )

    @classmethod
    def from_sentencepiece(cls, model: SentencePieceFile, where: str) -> Self | None:
        """The segmenter of a `.model` that `to_sentencepiece` wrote; None for any other."""
        return None

    @abstractmethod
    def check(self, where: str) -> None:
        """Check the vocabulary and the rules of this selection, which need not be all of T."""

    def improper_merges(self) -> Int64Array:
        """Ranks of merges with a part that no earlier merge makes; (k,) int64."""
        return np.zeros(0, dtype=np.int64)

    def unreachable_tokens(self) -> Int64Array:
        """Ids of tokens that encoding their own bytes does not give; (k,) int64, ascending."""
        vocabulary = self.vocabulary
        first = len(vocabulary.specials)
        offsets = vocabulary.offsets[first:]
        ids, ends = self.encoder.words_flat(vocabulary.data, offsets[:-1], offsets[1:])
        reached = np.diff(ends) == 1
        reached &= ids[ends[:-1]] == np.arange(first, self.size)
        return np.flatnonzero(~reached) + first

    def unused_tokens(self) -> Int64Array:
        """Ids of tokens of two bytes or more that no training text uses, if known; (k,) int64."""
        return np.zeros(0, dtype=np.int64)


class ModularSegmenter(Lasting, ABC):
    """Vocabulary and rules of T, from which the segmenter of any set of languages is taken.

    Attributes:
        kind: the segmenters that it gives.
        vocabulary: T in order of creation.
        pretokenizer: splits text into words.
        merges: (M, 3) int32: left, right, result; the row is the rank.
        merge_membership: (M, L).
        scores: of T, if they do not depend on the set of languages, (V,) float64; None without.
        token_counts: how often the text of each language uses each of its tokens; () without.
        covers: whether each token belongs to a language, so that all languages together are T.
        whole_needs_members: whether `subset` looks at the membership for all of T too.
    """

    kind: ClassVar[type[Segmenter]]
    covers: ClassVar[bool] = True
    whole_needs_members: ClassVar[bool] = False

    def __init__(
        self,
        vocabulary: Vocabulary,
        pretokenizer: PreTokenizer,
        merges: Int32Array,
        merge_membership: Membership,
        *,
        scores: Float64Array | None = None,
        token_counts: Sequence[Int64Array] = (),
    ) -> None:
        self.vocabulary = vocabulary
        self.pretokenizer = pretokenizer
        self.merges = merges
        self.merge_membership = merge_membership
        self.scores = scores
        self.token_counts = tuple(token_counts)

    def has_model(self, settings: Mapping[str, Any]) -> bool:
        """Whether T can be written as a SentencePiece `.model`; `settings` are the tokenizer's."""
        return False

    def arrays(self) -> tuple[Array, ...]:
        """Everything that `validate` looks at, to be locked after it."""
        vocabulary = self.vocabulary
        scores = () if self.scores is None else (self.scores,)
        rules = (self.merges, self.merge_membership.planes, *scores, *self.token_counts)
        return (vocabulary.data, vocabulary.offsets, *rules)

    @abstractmethod
    def subset(
        self, members: Membership, columns: Sequence[int], mask: BoolArray | None
    ) -> Segmenter:
        """The segmenter of the languages `columns`, whose tokens are `mask` (V,), None for all.

        members (V, L) is the token membership of T.
        """

    @abstractmethod
    def validate(self, members: Membership, languages: Sequence[str], where: str) -> None:
        """Check vocabulary, rules and membership; members (V, L)."""

    def digest(self) -> tuple[bytes, ...]:
        """The data that decides its output beside vocabulary, merges and membership."""
        if self.scores is not None:
            return (score_bytes(self.scores),)
        return tuple(counts.astype("<i8").tobytes() for counts in self.token_counts)

    def check_part(self, members: Membership, languages: Sequence[str], where: str) -> None:
        """Check what a selection of these languages does not show; members (V, n).

        `languages`: the languages that this segmenter was read for, n of T's.
        """

    def tensors(self) -> dict[str, Array]:
        """The tensors of the file of arrays beside the memberships."""
        return {
            "token_data": self.vocabulary.data,
            "token_lengths": self.vocabulary.lengths.astype("<i4"),
        }

    @classmethod
    @abstractmethod
    def from_files(cls, stored: Stored) -> Self:
        """From what a directory holds of T."""

    def difference(self, child: Self, columns: Sequence[int], languages: Sequence[str]) -> str:
        """The difference from `child`, whose column i is `columns[i]` here; "" if there is none.

        Vocabulary, merges and membership have been compared before.
        """
        return ""


def score_bytes(scores: Float64Array) -> bytes:
    """Scores as a signature takes them."""
    return scores.astype("<f8").tobytes()


def other_score(new: Float64Array, old: Float64Array, first: int, stop: int) -> str:
    """The first token in [first, stop) with another score, "" without one."""
    changed = np.flatnonzero(new[first:stop] != old[first:stop])
    return f"token {first + changed[0]:,} of {stop:,} has another score" if len(changed) else ""


def segmentation(name: str) -> type[ModularSegmenter]:
    """The segmentation of that name. Commands start faster if they import one instead of four."""
    module, _, kind = CLASSES[name].partition(":")
    modular: type[ModularSegmenter] = getattr(import_module(f"modtok_cli.tokenizer.{module}"), kind)
    return modular
