"""The tokenizer of a set of languages, cut from a modular one, or any of the same shape.

Local id ↔ global id is ascending order, so special tokens and bytes keep their places at
the front. Nothing is built when a subset is taken: tables for encoding come on first use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.signature import digest
from modtok_cli.modular.search import open_search
from modtok_cli.modular.serialize import tokenizer_json
from modtok_cli.modular.unicode import utf8
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import pretokenizer

if TYPE_CHECKING:
    from modtok_cli.modular.encoder import Encoder
    from modtok_cli.modular.search import Search

Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Subtokenizer:
    """A tokenizer over part, or all, of a vocabulary: by merges, by scores, or of least tokens.

    Attributes:
        name: how the user called it.
        languages: in the parent's order; empty if unknown.
        scheme, segmentation: as in `ModularTokenizer`.
        parent_signature: of the modular tokenizer that it was cut from, None if from none.
        global_ids: (n,) int32, ascending; the parent's id of each local id.
        local_of_global: (V,) int32; -1 for what is outside.
        provenance: what its own file says of where it came from; empty if from no file.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        merges: Ids,
        *,
        scheme: str,
        segmentation: str = "merges",
        languages: Sequence[str] = (),
        parent_signature: str | None = None,
        token_mask: Mask | None = None,
        merge_mask: Mask | None = None,
        name: str | None = None,
        provenance: Mapping[str, Any] | None = None,
        search: Search | None = None,
    ) -> None:
        self.languages = tuple(languages)
        self.name = name or ",".join(self.languages) or "tokenizer"
        self.scheme: str | None = scheme
        self.segmentation = segmentation
        self.parent_signature = parent_signature
        self.provenance: Mapping[str, Any] = provenance or {}
        self._all_tokens = vocabulary
        self._all_merges = merges
        self._merge_mask = merge_mask
        self._token_mask = token_mask
        self._search = search
        if token_mask is None:
            self.global_ids = np.arange(len(vocabulary), dtype=np.int32)
            self.local_of_global = self.global_ids
        else:
            self.global_ids = np.flatnonzero(token_mask).astype(np.int32)
            self.local_of_global = np.where(
                token_mask, np.cumsum(token_mask, dtype=np.int32) - np.int32(1), np.int32(-1)
            )

    def __repr__(self) -> str:
        return (
            f"Subtokenizer(name={self.name!r}, segmentation={self.segmentation!r}, "
            f"size={self.size}, languages={list(self.languages)})"
        )

    @property
    def size(self) -> int:
        """Number of tokens, special tokens and bytes included."""
        return len(self.global_ids)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens in local order."""
        if self.size == len(self._all_tokens):
            return self._all_tokens
        return self._all_tokens.take(self.global_ids)

    @cached_property
    def merge_ranks(self) -> Ints:
        """Rank in the parent of each merge; (m,) int64, ascending."""
        if self._merge_mask is None:
            return np.arange(len(self._all_merges))
        return np.flatnonzero(self._merge_mask)

    @cached_property
    def merges(self) -> Ids:
        """Merges in local ids, in the parent's order; (m, 3) int32."""
        return np.ascontiguousarray(self.local_of_global[self._all_merges[self.merge_ranks]])

    @cached_property
    def scores(self) -> npt.NDArray[np.float64] | None:
        """Scores as a file holds them, in local order, (n,) float64; None for merges."""
        return None if self._search is None else self._search.scores_of(self.global_ids)

    @cached_property
    def signature(self) -> str:
        """Hash of vocabulary, merges, scores, pre-tokenizer and segmentation.

        Equal whether a subset was taken from its directory or read from its own file.
        """
        return digest(
            self.segmentation.encode(),
            str(self.scheme).encode(),
            orjson.dumps(self.vocabulary.specials),
            self.vocabulary.data.tobytes(),
            self.vocabulary.lengths.astype("<i4").tobytes(),
            self.merges.astype("<i4").tobytes(),
            *score_bytes(self.scores),
        )

    @cached_property
    def encoder(self) -> Encoder:
        """The compiled encoder; made on first use, in milliseconds."""
        # Who only cuts a subset out does not wait for numba.
        if self._search is not None:
            local = None if self._token_mask is None else self.local_of_global
            return self._search.encoder(self._token_mask, local)
        from modtok_cli.modular.encoder import Encoder

        return Encoder(pretokenizer(str(self.scheme)), self.vocabulary.byte_ids, self.merges)

    def encode(self, text: str, *, specials: bool = False) -> Ids:
        """Token ids of a text; shape (N,) int32.

        A special token written in the text is plain text, unless `specials` asks for its id.

        Raises:
            ModtokError: a lone surrogate in the text.
        """
        if not (specials and self.vocabulary.specials):
            return self.encoder.text(utf8(text))
        # With a capturing group, re.split puts every special token at an odd place.
        pieces = self._specials_pattern.split(text)
        parts = [
            np.array([self.vocabulary.specials.index(piece)], dtype=np.int32)
            if i % 2
            else self.encoder.text(utf8(piece))
            for i, piece in enumerate(pieces)
        ]
        return np.concatenate(parts)

    @cached_property
    def _specials_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.vocabulary.specials, key=lambda text: (-len(text), text))
        return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def encode_global(self, text: str) -> Ids:
        """Token ids of a text in the parent's numbering."""
        return self.global_ids[self.encode(text)]

    def encode_batch(self, texts: Sequence[str], threads: int | None = None) -> list[Ids]:
        """Token ids of each text, on `threads` threads (default: one a core)."""
        return self.encoder.texts([utf8(text) for text in texts], threads)

    def encode_utf8(self, texts: Sequence[bytes], threads: int | None = None) -> list[Ids]:
        """Token ids of each text, given in valid UTF-8."""
        return self.encoder.texts(texts, threads)

    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids; bytes that are no UTF-8 become U+FFFD.

        Raises:
            ModtokError: an id outside the vocabulary.
        """
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids; special tokens give their text."""
        return self.vocabulary.decode_bytes(ids)

    def token_lengths(self, counts: WordCounts) -> Ints:
        """Number of tokens of each unique word; shape (W,) int64.

        Raises:
            ModtokError: the words were cut by another pre-tokenizer.
        """
        self._same_scheme(counts)
        return np.diff(self.encoder.words(counts)[1])

    def token_occurrences(self, counts: WordCounts) -> Ints:
        """How often each token occurs in the counted text; shape (n,) int64.

        With the word "ab" counted 3 times and encoded as [a, b], both get 3.

        Raises:
            ModtokError: the words were cut by another pre-tokenizer.
        """
        self._same_scheme(counts)
        ids, ends = self.encoder.words(counts)
        total = np.zeros(self.size, dtype=np.int64)
        np.add.at(total, ids, np.repeat(counts.counts, np.diff(ends)))
        return total

    def _same_scheme(self, counts: WordCounts) -> None:
        if counts.scheme != self.scheme:
            raise ModtokError(
                f"the word counts are of pre-tokenizer '{counts.scheme}', "
                f"tokenizer {self.name} uses '{self.scheme}'",
                remedy="count the text again with that pre-tokenizer",
            )

    def restricted(self, kept: Mask) -> Subtokenizer:
        """The same Unigram tokenizer with the tokens of `kept` (n,) bool only.

        Raises:
            UsageError: a tokenizer by merges, or `kept` lacks a special token or a byte.
        """
        base = len(self.vocabulary.specials) + 256
        if self.scores is None or not kept[:base].all():
            raise UsageError(f"tokenizer {self.name} cannot lose these tokens")
        return Subtokenizer(
            self.vocabulary,
            self.merges,
            scheme=str(self.scheme),
            segmentation=self.segmentation,
            languages=self.languages,
            parent_signature=self.parent_signature or self.signature,
            token_mask=kept,
            name=self.name,
            search=open_search(self.vocabulary, self.scores, self.segmentation, str(self.scheme)),
        )

    def save(self, path: str | Path) -> None:
        """Write a plain `tokenizer.json`, or a SentencePiece model if `path` ends in `.model`.

        The file appears whole or not at all and replaces an existing one.

        Raises:
            UsageError: SentencePiece cannot express the tokenizer.
            ModtokError: the file cannot be written.
        """
        path = Path(path)
        write_bytes(path, self.to_model() if path.suffix == ".model" else self.to_json())

    def to_json(self, said: Mapping[str, Any] | None = None) -> bytes:
        """A plain `tokenizer.json` that the `tokenizers` library and transformers load.

        `said` is added to what the file says of where it came from.
        """
        provenance = {
            "format": 1,
            "languages": list(self.languages),
            "parent": self.parent_signature,
            "scheme": self.scheme,
            "segmentation": self.segmentation,
            **(said or {}),
        }
        if self._search is not None:
            assert self.scores is not None
            return self._search.to_json(self.vocabulary, self.scores, provenance)
        return tokenizer_json(self.vocabulary, self.merges, str(self.scheme), provenance)

    def to_model(self) -> bytes:
        """A SentencePiece `.model`, of a Unigram or a least-token tokenizer.

        Raises:
            UsageError: a tokenizer by merges, or tokens that cut characters: SentencePiece
                can express neither.
        """
        if self._search is None:
            raise UsageError(
                f"tokenizer {self.name} works by merges of bytes; a .model holds Unigram only",
                remedy="write a .json",
            )
        assert self.scores is not None
        return self._search.to_model(self.vocabulary, self.scores)


def score_bytes(scores: npt.NDArray[np.float64] | None) -> tuple[bytes, ...]:
    """What scores contribute to a signature: nothing where there are none."""
    return () if scores is None else (scores.astype("<f8").tobytes(),)
