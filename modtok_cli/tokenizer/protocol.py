"""The protocol of every tokenizer, of whatever kind."""

from collections.abc import Sequence
from typing import Protocol

import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import PreTokenizer


class Tokenizer(Protocol):
    """The tokenizer interface of measuring and the command line.

    Special tokens are never added, and special tokens written in a text are plain text.
    """

    @property
    def name(self) -> str:
        """Name that the user gave."""

    @property
    def signature(self) -> str:
        """Hash of everything that decides its output."""

    @property
    def size(self) -> int:
        """Number of tokens, special tokens included; ids are less than this."""

    @property
    def pretokenizer(self) -> PreTokenizer | None:
        """Splits text into the words of word counts; None if it splits in another way."""

    def encode(self, text: str) -> Int32Array:
        """Token ids of a text; shape (N,) int32."""

    def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]:
        """Token ids of each text."""

    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids; invalid UTF-8 becomes U+FFFD."""

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids."""

    def token_bytes(self, index: int) -> bytes:
        """Bytes of a token in the middle of a text."""

    def token_lengths(self, counts: WordCounts) -> Int64Array:
        """Number of tokens of each unique word; shape (W,) int64.

        Raises:
            ModtokError: the counts have another pre-tokenizer, so the answer would not be exact.
        """
