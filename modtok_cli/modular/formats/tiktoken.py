"""tiktoken's rank files: a line of base64 and a rank for each token."""

from __future__ import annotations

import base64
import binascii

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.modular.formats.interface import Format, Own
from modtok_cli.modular.protocol import Tokenizer
from modtok_cli.modular.ranks import RankTokenizer

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

    def read(self, data: bytes, name: str, where: str, variant: str | None) -> Own | Tokenizer:
        """By the tiktoken package.

        Raises:
            UsageError: an unknown pre-tokenizer.
            ModtokError: an invalid line, or tiktoken is not installed.
        """
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
    """Token → rank, from lines of base64 and a number.

    Raises:
        ModtokError: a line of another form, or a token or rank twice; names the line.
    """
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
