"""Methods of a tokenizer that programs call, by the names of `tokenizers` and transformers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from codecs import getincrementaldecoder
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from numbers import Integral
from typing import Literal

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Float64Array, Int32Array, Int64Array, offsets_of, token_ids
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.state import Lasting
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.tokenizer.encoding.encoder import strings, utf8
from modtok_cli.tokenizer.segmenters.interface import ModularSegmenter, Segmenter
from modtok_cli.tokenizer.vocabulary import Vocabulary


class TokenizerMethods(Lasting, ABC):
    """Methods that need nothing but the ids of plain texts and the vocabulary.

    `segmenter` owns vocabulary, pre-tokenizer, merges or scores.
    """

    segmenter: Segmenter | ModularSegmenter

    @property
    def pretokenizer(self) -> PreTokenizer:
        """Splits text into words."""
        return self.segmenter.pretokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens by id: special tokens, the 256 bytes, learned tokens in order of creation."""
        return self.segmenter.vocabulary

    @property
    def merges(self) -> Int32Array:
        """(M, 3) int32: left, right, result; the row is the rank."""
        return self.segmenter.merges

    @property
    def scores(self) -> Float64Array | None:
        """Scores as a file holds them, by id, (V,) float64; None without."""
        return self.segmenter.scores

    @property
    @abstractmethod
    def _plain(self) -> Segmenter:
        """The tokenizer that encodes a text into ids of this one."""

    @property
    @abstractmethod
    def signature(self) -> str:
        """Hash of what decides ids."""

    def _key(self) -> tuple[object, ...]:
        """The identity that equal tokenizers share."""
        return (self.signature,)

    def __eq__(self, other: object) -> bool:
        """Whether both give every text the same ids; names and places do not matter."""
        if not isinstance(other, TokenizerMethods) or type(self) is not type(other):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __len__(self) -> int:
        return self._plain.size

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special tokens and bytes included."""
        return self._plain.size

    @cached_property
    def _names(self) -> list[str]:
        return self._plain.names

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self._names) if name}

    def get_vocab(self) -> dict[str, int]:
        """Token → id, spelled as in `tokenizer.json`: "Ġthe" for " the"."""
        return dict(self._ids)

    def token_to_id(self, token: str) -> int | None:
        """Id of a token as `get_vocab` spells it; None if there is none."""
        return self._ids.get(token)

    def id_to_token(self, index: int) -> str | None:
        """The token of an id, as `get_vocab` spells it; None if there is none."""
        return self._names[index] or None if 0 <= index < len(self._names) else None

    def encode(
        self, text: str, *, specials: bool = False, max_length: int | None = None
    ) -> Int32Array:
        """Token ids of a text; shape (N,) int32.

        Args:
            text: any string.
            specials: encode special tokens written in the text; by default they are plain text.
            max_length: keep so many tokens at most; those at the end are dropped.

        Raises:
            UsageError: the text is no string.
            ModtokError: a lone surrogate in the text.
        """
        data = utf8(text)
        if not (specials and self._special_ids):
            return _cut(self._plain.encoder.text(data), max_length)
        # With a capturing group, re.split puts every special token at an odd index.
        pieces = self._specials_pattern.split(text)
        parts = self._plain.encoder.texts([utf8(piece) for piece in pieces[::2]])
        ids = [np.array([self._special_ids[piece]]) for piece in pieces[1::2]]
        both = [part for pair in zip(parts, [*ids, _NONE], strict=True) for part in pair]
        return _cut(np.concatenate(both).astype(np.int32), max_length)

    @cached_property
    def _special_ids(self) -> dict[str, int]:
        return {self._names[index]: index for index in np.flatnonzero(self._plain.special).tolist()}

    @cached_property
    def _specials_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self._special_ids, key=lambda text: (-len(text), text))
        return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def encode_batch(
        self, texts: Sequence[str], threads: int | None = None, *, max_length: int | None = None
    ) -> list[Int32Array]:
        """Token ids of each text, on `threads` threads (default: one a core).

        `max_length`: as in `encode`.

        Raises:
            UsageError: one text instead of several, or one that is no string.
            ModtokError: a lone surrogate in a text.
        """
        return [_cut(ids, max_length) for ids in self._plain.encoder.texts(strings(texts), threads)]

    def encode_with_offsets(
        self,
        text: str,
        *,
        unit: Literal["characters", "bytes"] = "characters",
        specials: bool = False,
        max_length: int | None = None,
    ) -> tuple[Int32Array, Int64Array]:
        """Token ids of a text, and where each token is in it.

        Args:
            text, specials, max_length: as in `encode`.
            unit: of the offsets; a token that is part of a character has that character.

        Returns:
            ids (N,) int32 and offsets (N, 2) int64: token i is text[offsets[i, 0]:offsets[i, 1]].

        Raises:
            UsageError, ModtokError: as `encode`, or the tokenizer changes the text.
        """
        if unit not in ("characters", "bytes"):
            raise UsageError(f"unit: expected 'characters' or 'bytes', got {unit!r}")
        ids = self.encode(text, specials=specials)
        data = text.encode()
        lengths = self._plain.vocabulary.lengths[ids]
        dropped = int(lengths.sum()) - len(data)  # by a decoder, before the first token
        joined = self._plain.vocabulary.decode_bytes(ids)
        if self.decode_bytes(ids) != data or dropped < 0 or joined[dropped:] != data:
            raise ModtokError(
                "the tokenizer changes this text, so tokens have no offsets in it",
                remedy="use encode",
            )
        ids = _cut(ids, max_length)
        ends = np.maximum(offsets_of(lengths)[: len(ids) + 1] - dropped, 0)
        offsets = np.stack([ends[:-1], ends[1:]], axis=1)
        if unit == "characters" and len(ids):
            begins = (np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80
            character = np.cumsum(begins) - 1  # of each byte
            offsets = np.stack([character[ends[:-1]], character[ends[1:] - 1] + 1], axis=1)
        return ids, offsets

    def count(self, text: str, *, specials: bool = False) -> int:
        """Number of tokens of a text; arguments and errors as of `encode`."""
        return len(self.encode(text, specials=specials))

    def decode(self, ids: npt.ArrayLike, *, skip_special_tokens: bool = False) -> str:
        """Text of token ids; invalid UTF-8 becomes U+FFFD.

        Raises:
            UsageError: something else than whole numbers.
            ModtokError: an id outside the vocabulary.
        """
        ids = token_ids(ids)
        if skip_special_tokens:
            ids = ids[~np.isin(ids, list(self._special_ids.values()))]
        return self._plain.decode(ids)

    def decode_batch(
        self, sequences: Iterable[npt.ArrayLike], *, skip_special_tokens: bool = False
    ) -> list[str]:
        """Text of each sequence of ids; see `decode`."""
        return [self.decode(ids, skip_special_tokens=skip_special_tokens) for ids in sequences]

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids; special tokens give their text."""
        return self._plain.decode_bytes(ids)

    def token_bytes(self, index: int) -> bytes:
        """Bytes of a token in the middle of a text; a decoder may drop a space at its beginning."""
        return self._plain.vocabulary.decode_bytes([index])

    def decode_stream(self, *, skip_special_tokens: bool = False) -> DecodeStream:
        """Decodes ids as they come; see `DecodeStream`."""
        return DecodeStream(self, skip_special_tokens)


class DecodeStream:
    """Text of ids that come one after the other; a character may take several tokens.

    The texts of all steps and of `finish` together are what `decode` gives.
    """

    def __init__(self, tokenizer: TokenizerMethods, skip_special_tokens: bool = False) -> None:
        self._tokenizer = tokenizer
        self._skipped: Collection[int] = (
            set(tokenizer._special_ids.values()) if skip_special_tokens else ()
        )
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._before: list[int] = []  # the last ids that give text: what a token adds depends on it

    def step(self, index: int) -> str:
        """The text that is complete with this id; "" within a character."""
        if index in self._skipped:
            return ""
        before = self._tokenizer.decode_bytes(self._before)
        data = self._tokenizer.decode_bytes([*self._before, index])[len(before) :]
        own = self._tokenizer.decode_bytes([index])
        self._before = [index] if own else [*self._before, index]
        return self._decoder.decode(data)

    def finish(self) -> str:
        """The rest of a character that is not complete, as U+FFFD; "" otherwise."""
        return self._decoder.decode(b"", final=True)


_NONE = np.zeros(0, dtype=np.int64)


def _cut(ids: Int32Array, max_length: int | None) -> Int32Array:
    if max_length is None:
        return ids
    if not isinstance(max_length, Integral) or max_length < 0:
        raise UsageError(f"max_length: expected 0 or more, got {max_length!r}")
    return ids[:max_length]
