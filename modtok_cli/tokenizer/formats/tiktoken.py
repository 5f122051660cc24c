"""tiktoken's rank files: a line of base64 and a rank for each token."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.extras import require
from modtok_cli.text.pretokenizer import find_pretokenizer
from modtok_cli.tokenizer.adopted.converted import of_ranks
from modtok_cli.tokenizer.encoding.encoder import strings
from modtok_cli.tokenizer.encoding.external import External, as_ids, as_list, in_library
from modtok_cli.tokenizer.formats import Format

_UPPER, _LOWER = (
    rf"[{kinds}\p{{Lm}}\p{{Lo}}\p{{M}}&&[^\p{{Han}}]]" for kinds in (r"\p{Lu}\p{Lt}", r"\p{Ll}")
)
_BEFORE, _CONTRACTION = r"[^\r\n\p{L}\p{N}]?", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_KIMI = (
    rf"[\p{{Han}}]+|{_BEFORE}{_UPPER}*{_LOWER}+{_CONTRACTION}"
    rf"|{_BEFORE}{_UPPER}+{_LOWER}*{_CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
RANK_PATTERNS = {
    {"gpt2": "r50k"}.get(ours, ours): find_pretokenizer(ours).pattern
    for ours in ("cl100k", "llama3", "o200k", "gpt2", "qwen2", "tekken", "qwen35")
} | {"kimi": _KIMI}
"""Patterns of published rank files, which do not contain them, by name; those before others are
chosen where a small vocabulary does not tell. Llama 4 has the pattern of o200k."""
_PUBLISHED = {
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": "cl100k",  # of OpenAI
    "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55": "llama3",  # of Llama 3
    "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186": "qwen2",  # of Qwen 1 to 3
}
"""SHA-256 of published files whose tokens do not tell: two patterns split none, or qwen2 some."""
_NARROW = ("kimi", "tekken", "qwen2", "qwen35")
"""Patterns that split all that another one splits, and more: where a large vocabulary has nothing
that they split, it was learned with them."""
_SAMPLE = 8000
_PLAIN = re.compile(rb" ?[a-z]+")


def choose_pattern(ranks: Mapping[bytes, int]) -> tuple[str, str]:
    """The pattern that splits the fewest tokens of a rank file: the right one splits none.

    At most `_SAMPLE` tokens are looked at, evenly spaced, without words of small ASCII letters.
    Returns also a line that says what was guessed; "" where the tokens tell.
    """
    import tiktoken

    telling = [each for each in ranks if len(each) > 1 and not _PLAIN.fullmatch(each)]
    chosen = telling[:: -(-len(telling) // _SAMPLE) or 1]
    texts = {
        each: text for each in chosen if (text := each.decode(errors="ignore")).encode() == each
    }
    known = {bytes([byte]): byte for byte in range(256)}
    known |= {each: rank for rank, each in enumerate(texts, 256)}
    split = {}
    for name, pattern in RANK_PATTERNS.items():
        inner = tiktoken.Encoding(
            name="modtok", pat_str=pattern, mergeable_ranks=known, special_tokens={}
        )  # of which a whole word that is a token is that token
        split[name] = sum(len(inner.encode_ordinary(text)) > 1 for text in texts.values())
    least = min(split.values())
    best = [name for name, count in split.items() if count == least]
    is_large = len(telling) > _SAMPLE
    narrow = [name for name in _NARROW if is_large and name in best]
    name = [*narrow, *best][0]
    line = ""
    if least or len(best) > 1:
        others = ", ".join(each for each in best if each != name)
        by = f", as by {others}" if others else ""
        line = (
            f"its pattern is not known: {name} was taken, by which {least:,} of {len(texts):,} "
            f"tokens are split{by}; FILE#NAME names another"
        )
    return RANK_PATTERNS[name], line


class Tiktoken(Format):
    """A rank file; `FILE#o200k` names its pattern, or gives one; by default its tokens tell."""

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
        require(f"{where}: a rank file", published=["tiktoken"])
        ranks, line = parse_ranks(data, where), ""
        if variant is None:
            known = _PUBLISHED.get(hashlib.sha256(data).hexdigest())
            pattern, line = (RANK_PATTERNS[known], "") if known else choose_pattern(ranks)
        elif variant in RANK_PATTERNS:
            pattern = RANK_PATTERNS[variant]
        elif re.fullmatch(r"[\w.-]*", variant):
            raise UsageError(
                f"unknown pattern '{variant}'",
                where=where,
                remedy=f"choose from: {', '.join(RANK_PATTERNS)}, or give a regular expression",
            )
        else:
            pattern = variant
        tokenizer = RankTokenizer(name, data, where, ranks=ranks, pattern=pattern)
        tokenizer.line = line
        return tokenizer


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
            if not rank_text.isdigit():  # int reads 1_0 and +1
                raise ValueError
            token, rank = base64.b64decode(code, validate=True), int(rank_text)
        except (ValueError, binascii.Error) as error:
            raise ModtokError("not 'base64 rank'", where=f"{where}:{number}") from error
        if not token or rank in seen or token in ranks:
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

    def document(self) -> dict[str, Any]:
        return of_ranks(self.ranks, self.pattern, self.first)

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
