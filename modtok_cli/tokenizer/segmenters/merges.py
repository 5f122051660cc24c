"""Segmentation by merges: byte-level BPE with the semantics of the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.base.memory import no_collection
from modtok_cli.base.tensors import Array
from modtok_cli.core.segment import Pairs, SegmenterHandle, Symbols
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.tokenizer.segmenters.interface import ModularSegmenter, Segmenter
from modtok_cli.tokenizer.segmenters.json_frame import (
    BYTE_LEVEL,
    PROVENANCE,
    byte_level_misfit,
    byte_level_pretokenizer,
    in_parts,
    library_json,
    read_merges,
    read_vocabulary,
)
from modtok_cli.tokenizer.validate import (
    check_merge_membership,
    check_merges,
    check_vocabulary,
    improper_merges,
)
from modtok_cli.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from modtok_cli.tokenizer.encoding.encoder import Encoder
    from modtok_cli.tokenizer.stored import Stored

# Fields of the model that are written as null and false; another value is another tokenizer,
# except for dropout, which is never applied.
_UNSET = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix")
_FALSE = ("byte_fallback", "ignore_merges")


class Merges(Segmenter):
    """Of all adjacent pairs that a merge joins, the one of lowest rank first."""

    name = "merges"

    def __init__(
        self,
        vocabulary: Vocabulary,
        pretokenizer: PreTokenizer,
        merges: Int32Array,
        mask: BoolArray | None = None,
        merge_mask: BoolArray | None = None,
    ) -> None:
        super().__init__(vocabulary, pretokenizer, mask)
        self._all_merges = merges
        self._merge_mask = merge_mask

    @cached_property
    def merge_ranks(self) -> Int64Array:
        if self._merge_mask is None:
            return np.arange(len(self._all_merges))
        return np.flatnonzero(self._merge_mask)

    @cached_property
    def merges(self) -> Int32Array:
        local = self.selection.local_of_global
        return np.ascontiguousarray(local[self._all_merges[self.merge_ranks]])

    def _encoder(self) -> Encoder:
        from modtok_cli.tokenizer.encoding.encoder import Encoder

        segmenter = SegmenterHandle.by_merges(Pairs(self.merges), Symbols(self.vocabulary.byte_ids))
        return Encoder(self.pretokenizer, segmenter)

    def restricted(self, mask: BoolArray) -> Merges:
        """With a token, `mask` (n,) bool has all that it is built from, by its last merge."""
        selection, kept = self.selection, np.zeros(len(self._all_merges), dtype=np.bool_)
        kept[self.merge_ranks[mask[self.merges].all(axis=1)]] = True
        rules = (selection.whole, self.pretokenizer, self._all_merges)
        return Merges(*rules, selection.part(mask), kept)

    def to_json(self, provenance: Mapping[str, Any]) -> bytes:
        """The `tokenizer.json`, in bytes that depend on nothing but tokens and provenance.

        Merges are written as pairs of strings: a token may hold any byte, so nothing is joined
        by spaces.
        """
        with no_collection():
            vocabulary, merges = _as_json(self.vocabulary.spellings(), self.merges)
            model = {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                PROVENANCE: dict(provenance),
                "vocab": vocabulary,
                "merges": merges,
            }
            before = self.pretokenizer.to_json(byte_level=True)
            return library_json(self.vocabulary.specials, before, BYTE_LEVEL, model)

    @classmethod
    def misfit(cls, document: Mapping[str, Any]) -> str | None:
        """The first field that is not of a byte-level BPE with a known pre-tokenizer."""
        model = document["model"]
        if model.get("type", "BPE") != "BPE":
            return "model.type"
        odd = (f"model.{name}" for name in (*_UNSET, *_FALSE) if model.get(name))
        return next(odd, None) or byte_level_misfit(document)

    @classmethod
    def from_json(cls, document: Mapping[str, Any], where: str) -> Self:
        vocabulary, ids = read_vocabulary(document, where)
        merges = read_merges(document["model"].get("merges"), ids, where)
        return cls(vocabulary, byte_level_pretokenizer(document), merges)

    def check(self, where: str) -> None:
        check_vocabulary(self.vocabulary, where)
        check_merges(self.vocabulary, self.merges, where)

    def improper_merges(self) -> Int64Array:
        vocabulary = self.vocabulary
        single = vocabulary.lengths == 1
        single[: len(vocabulary.specials)] = True
        outside = np.flatnonzero((self.merges < 0).any(axis=1))
        first = np.where(single, -1, len(self.merges))
        late = improper_merges(self.merges, np.arange(len(self.merges)), first)
        ranks: Int64Array = np.union1d(outside, late)
        return ranks

    def unreachable_tokens(self) -> Int64Array:
        if (self.merges < 0).any():
            # What encoding does with an id that does not exist is undefined.
            return np.zeros(0, dtype=np.int64)
        return super().unreachable_tokens()

    def to_sentencepiece(self) -> bytes:
        raise UsageError(
            "the tokenizer works by merges of bytes; a .model holds Unigram only",
            remedy="write a .json",
        )


def _as_json(names: Sequence[str], merges: Int32Array) -> tuple[orjson.Fragment, orjson.Fragment]:
    """Name → id, and the merges as pairs of names."""
    by_id = np.array(names, dtype=object)

    def ids(some: slice) -> dict[str, int]:
        return dict(zip(names[some], range(*some.indices(len(names))), strict=True))

    def pairs(some: slice) -> list[tuple[str, str]]:
        left, right = (by_id[merges[some, side]].tolist() for side in (0, 1))
        return list(zip(left, right, strict=True))

    return in_parts(len(names), ids), in_parts(len(merges), pairs)


class ModularMerges(ModularSegmenter):
    """T by merges; a language has some of its tokens and some of its merges."""

    kind = Merges

    def subset(self, members: Membership, columns: Sequence[int], mask: BoolArray | None) -> Merges:
        """The merges of at least one of the languages, in T's order."""
        merge_mask = None if mask is None else self.merge_membership.union(columns)
        return Merges(self.vocabulary, self.pretokenizer, self.merges, mask, merge_mask)

    def validate(self, members: Membership, languages: Sequence[str], where: str) -> None:
        """Proper merges; a language that has a token or a merge has all that it is made of."""
        check_vocabulary(self.vocabulary, where)
        check_merges(self.vocabulary, self.merges, where)
        check_merge_membership(
            self.vocabulary, self.merges, members, self.merge_membership, languages, where
        )

    def tensors(self) -> dict[str, Array]:
        return {**super().tensors(), "merge_table": np.ascontiguousarray(self.merges, "<i4")}

    @classmethod
    def from_files(cls, stored: Stored) -> Self:
        vocabulary = stored.vocabulary(Vocabulary)
        return cls(vocabulary, stored.pretokenizer, stored.merge_table(), stored.merge_members)
