"""tiktoken's rank files: a line of base64 and a rank for each token."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.extras import require
from modtok_cli.modular.encoding.encoder import strings
from modtok_cli.modular.encoding.external import External, as_ids, as_list, in_library
from modtok_cli.modular.formats import Format

# Patterns of the published vocabularies; a rank file does not contain its pattern.
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
RANK_PATTERNS = {"cl100k": _CL100K, "o200k": _O200K, "r50k": _R50K}
"""Pre-tokenizers of rank files by name: cl100k (nearly Llama 3's), o200k, r50k."""


class Tiktoken(Format):
    """A rank file; `FILE#o200k` names its pre-tokenizer, by default cl100k."""

    has_variants = True

    def recognizes(self, data: bytes) -> bool:
        """The first line is base64, a space, a number."""
        first = data[:4096].split(b"\n", 1)[0].split()
        if len(first) != 2 or not first[1].isdigit():
            return False
        try:
            base64.b64decode(first[0], validate=True)
        except binascii.Error:
            return False
        return True

    def read(self, data: bytes, name: str, where: str, variant: str | None) -> RankTokenizer:
        """By the tiktoken package."""
        variant = variant or "cl100k"
        if variant not in RANK_PATTERNS:
            raise UsageError(
                f"unknown pattern '{variant}'",
                where=where,
                remedy=f"choose from: {', '.join(RANK_PATTERNS)}",
            )
        return RankTokenizer(
            name, data, where, ranks=parse_ranks(data, where), pattern=RANK_PATTERNS[variant]
        )


FORMAT = Tiktoken()


def parse_ranks(data: bytes, where: str) -> dict[bytes, int]:
    """Token → rank, from lines of base64 and a number."""
    ranks: dict[bytes, int] = {}
    seen: set[int] = set()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            code, rank_text = line.split()
            token, rank = base64.b64decode(code, validate=True), int(rank_text)
        except (ValueError, binascii.Error) as error:
            raise ModtokError("not 'base64 rank'", where=f"{where}:{number}") from error
        if not token or rank < 0 or rank in seen or token in ranks:
            raise ModtokError("a token or a rank occurs twice", where=f"{where}:{number}")
        ranks[token] = rank
        seen.add(rank)
    return ranks


class RankTokenizer(External):
    """Byte strings with ranks, merged by rank: tiktoken's rank files and Mistral's tekken.

    `first` ids come before rank 0 (tekken's control tokens); no text encodes to them.

    Raises:
        UsageError: the package tiktoken is not there.
        ModtokError: the pattern is none.
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
        require(f"{where}: a rank file", published=["tiktoken"])
        import tiktoken

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

    def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]:
        strings(texts)
        with in_library("cannot encode", self.name, "tiktoken"):
            batch = self._inner.encode_ordinary_batch(list(texts))
        return [as_ids(ids) + np.int32(self.first) for ids in batch]

    def decode(self, ids: npt.ArrayLike) -> str:
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids; those before rank 0 give none."""
        ranks = [index - self.first for index in as_list(ids) if index >= self.first]
        try:
            return bytes(self._inner.decode_bytes(ranks))
        except (KeyError, OverflowError) as error:
            raise ModtokError(f"token id outside the vocabulary: {error}") from error
