"""What every tokenizer can do, ours or another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import PreTokenizer

Ids = npt.NDArray[np.int32]


class Tokenizer(Protocol):
    """A tokenizer as measuring and the command line see it.

    Special tokens are never added, and those written in a text are plain text to ours.
    """

    @property
    def name(self) -> str:
        """How the user called it."""

    @property
    def signature(self) -> str:
        """Hash of what decides its output: equal for equal tokenizers."""

    @property
    def size(self) -> int:
        """Number of tokens, special tokens included."""

    @property
    def pretokenizer(self) -> PreTokenizer | None:
        """Splits text into the words of word counts; None if it splits in another way."""

    def encode(self, text: str) -> Ids:
        """Token ids of a text; shape (N,) int32."""

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Token ids of each text."""

    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids; bytes that are no UTF-8 become U+FFFD."""

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids."""

    def token_lengths(self, counts: WordCounts) -> npt.NDArray[np.int64]:
        """Number of tokens of each unique word; shape (W,) int64.

        Raises:
            ModtokError: the counts have another pre-tokenizer, so the answer would not be exact.
        """
