"""Byte strings with ranks, merged by rank: the engine of tiktoken and tekken files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.modular.external import External, as_ids, as_list, in_library
from modtok_cli.modular.unicode import strings, utf8


class RankTokenizer(External):
    """Byte strings with ranks, merged by rank: tiktoken's rank files and Mistral's tekken.

    `first` ids come before rank 0 (tekken's control tokens); no text encodes to them.

    Raises:
        ModtokError: the package tiktoken is not there, or the pattern is none.
    """

    def __init__(
        self,
        name: str,
        data: bytes,
        where: str,
        *,
        ranks: dict[bytes, int],
        pattern: str,
        first: int = 0,
    ) -> None:
        super().__init__(name, data, pattern)
        tiktoken = _tiktoken(where)
        for byte in range(256):
            if bytes([byte]) not in ranks:
                raise ModtokError(f"byte 0x{byte:02x} has no rank", where=where)
        top = first + max(ranks.values())
        if first < 0 or min(ranks.values()) < 0 or top >= 1 << 31:
            raise ModtokError("a rank is out of range", where=where)
        if len(set(ranks.values())) != len(ranks):
            raise ModtokError("two tokens have one rank", where=where)
        with in_library("refuses it", where, "tiktoken"):
            self._inner = tiktoken.Encoding(
                name="modtok", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
            )
        self.ranks, self.pattern, self.first = ranks, pattern, first
        self.size = top + 1

    def encode(self, text: str) -> Int32Array:
        """Token ids of a text."""
        utf8(text)
        with in_library("cannot encode", self.name, "tiktoken"):
            return as_ids(self._inner.encode_ordinary(text)) + np.int32(self.first)

    def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]:
        """Token ids of each text."""
        strings(texts)
        with in_library("cannot encode", self.name, "tiktoken"):
            batch = self._inner.encode_ordinary_batch(list(texts))
        return [as_ids(ids) + np.int32(self.first) for ids in batch]

    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids; those before rank 0 give none."""
        ranks = [index - self.first for index in as_list(ids) if index >= self.first]
        try:
            return bytes(self._inner.decode_bytes(ranks))
        except (KeyError, OverflowError) as error:
            raise ModtokError(f"token id outside the vocabulary: {error}") from error


def _tiktoken(where: str) -> Any:
    try:
        import tiktoken
    except ImportError as error:
        raise ModtokError(
            "reading rank files needs the package tiktoken",
            where=where,
            remedy='pip install "modtok[tiktoken]"',
        ) from error
    return tiktoken
