"""The two vocabularies of a model, and how they are named.

A model has input rows for the tokens of both sides, because it reads what it predicted. A **row**
is an index into them. If both sides are one set of languages, rows are the ids of their
tokenizer; if the output is part of the input (`full-lang`: input T, output V_fr), rows are the ids
of the input tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.parameters import Languages
from modtok_cli.text.languages import language_list, matching, optional_languages
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

FULL, LANG = "full", "lang"
"""Inference modes: the whole vocabulary T, and the vocabulary of a language."""
Side = Sequence[str] | str | None
"""Languages of a side; "full" is the whole vocabulary T, None the default of the source."""


def is_full(side: Side) -> bool:
    """Whether a side is the whole vocabulary T."""
    return side is not None and (side == FULL or list(side) == [FULL])


def names_exactly(side: Sequence[str] | str, languages: Iterable[str]) -> bool:
    """Whether a side names these languages, all of them and no others."""
    own = tuple(languages)
    names = [side] if isinstance(side, str) else side
    return {label for name in names for label in matching(name, own) or [name]} == set(own)


def sides(
    languages: Languages | None, inputs: Languages | None, outputs: Languages | None
) -> tuple[list[str] | None, list[str] | None]:
    """(inputs, outputs) of languages for both, or for each; ["full"] is T, None means not given.

    >>> sides("fr,en", None, None), sides(None, None, "fr")
    ((['fr', 'en'], None), (['full'], ['fr']))
    """
    if languages is not None and (inputs is not None or outputs is not None):
        raise UsageError("--langs conflicts with --in and --out", remedy="use one or the other")
    if languages is not None:
        return language_list(languages), None
    reading, writing = optional_languages(inputs, "--in"), optional_languages(outputs, "--out")
    return (["full"] if writing and reading is None else reading), writing


@dataclass(frozen=True, eq=False)
class Vocabularies:
    """Two subtokenizers of one parent.

    Attributes:
        tokenizer_in, tokenizer_out: one object if the sides are equal.
    """

    tokenizer_in: Subtokenizer
    tokenizer_out: Subtokenizer

    @property
    def same(self) -> bool:
        """Whether the sides are equal."""
        return self.tokenizer_in is self.tokenizer_out

    @cached_property
    def ids(self) -> Int64Array:
        """The parent's id of each row, ascending; (n,)."""
        if self.same:
            return self.tokenizer_in.global_ids.astype(np.int64)
        return np.union1d(self.tokenizer_in.global_ids, self.tokenizer_out.global_ids).astype(
            np.int64
        )

    @cached_property
    def row_of_in(self) -> Int64Array:
        """Row of each token of `tokenizer_in`; (|V_in|,)."""
        return np.searchsorted(self.ids, self.tokenizer_in.global_ids).astype(np.int64)

    @cached_property
    def row_of_out(self) -> Int64Array:
        """Row of each token of `tokenizer_out`; (|V_out|,), ascending."""
        return np.searchsorted(self.ids, self.tokenizer_out.global_ids).astype(np.int64)

    @cached_property
    def out_of_row(self) -> Int64Array:
        """Id in `tokenizer_out` of each row, -1 if it has none; (n,)."""
        out = np.full(len(self.ids), -1, dtype=np.int64)
        out[self.row_of_out] = np.arange(self.tokenizer_out.size)
        return out

    def name_of(self, row: int) -> str:
        """Name in `tokenizer.json` of the token of a row of the input side, such as `</s>`."""
        return self.tokenizer_in.segmenter.names[int(np.searchsorted(self.row_of_in, row))]

    def row_bytes(self, row: int) -> bytes:
        """Bytes of the token of a row of the input side."""
        return self.tokenizer_in.vocabulary.token_bytes(int(np.searchsorted(self.row_of_in, row)))

    def encode_in(self, text: str) -> list[int]:
        """Rows of a text by `tokenizer_in`."""
        rows: list[int] = self.row_of_in[self.tokenizer_in.encode(text)].tolist()
        return rows

    def encode_out(self, text: str) -> list[int]:
        """Ids of a text by `tokenizer_out`."""
        ids: list[int] = self.tokenizer_out.encode(text).tolist()
        return ids


@dataclass(frozen=True)
class Ends:
    """The tokens that begin, end and fill up texts.

    Attributes:
        adds_begin: whether `begin` stands before every text.
        turn: what ends an answer of a conversation too, if there is such a token.
        message: a third such token.
        others: ids of further special tokens by their names in transformers: unk, sep, mask.
    """

    begin: int
    end: int
    pad: int
    adds_begin: bool
    turn: int | None = None
    message: int | None = None
    others: Mapping[str, int] = field(default_factory=dict)
