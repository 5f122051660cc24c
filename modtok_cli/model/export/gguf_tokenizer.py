"""Our tokenizers as llama.cpp runs them, and a twin of each to compare ids.

llama.cpp has two segmentations that can represent ours.

*Merges* ("gpt2" there) replays merges within words. It splits words by one of a fixed list of
patterns that lacks ours; the twin is our own file with that pattern.

*Scores* ("plamo2" there) maximizes the sum of scores over a whole text. Scores are multiples of
1/10,000 and their sums 64-bit integers, pieces consist of whole characters, and an unknown
character is spelled in bytes at a fixed cost. This equals the search of Unigram and of fewest
tokens except for ties: among equal paths it prefers the longer first piece, ours the longer last
one. (Its other Unigram, "t5", has no bytes and loses unknown characters, llama.cpp#28862.)
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS, likelihood_of_scores
from modtok_cli.learn.pieces import UNKNOWN_PENALTY
from modtok_cli.text.pretokenizer import BPE, PHRASES, pretokenizers
from modtok_cli.tokenizer.adopted.restrict import BYTE_TOKENS
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.text_form import SPACE
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.segmenters.sentencepiece_file import Kind, read_model
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5
_CONVERTER = "use llama.cpp's own converter"
# Regular expressions of llama.cpp by their name in the file, the preferred one first.
PATTERNS = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "qwen35": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}

UNITS = 10_000
"""Units per score in "plamo2": scores are float32 and read as round(score · 10,000)."""

UNKNOWN_UNITS = -10_000_000
"""Cost of a character in bytes there."""

NEVER = -3_000.0
"""A score that it never uses (below -2,000), for special tokens, which no text may match."""

FEWEST_EACH = 1 << 22
FEWEST_STEP = 1 << 6
"""Fewest tokens in units: score = FEWEST_STEP · likelihood + length - FEWEST_EACH.

Below 2^23, round(float32(n / 10,000) · 10,000) is n. FEWEST_EACH = 64 · FEWEST_STEP · LEVELS: in
words of fewer than 64 tokens nothing outweighs a token. The length (characters; 0 for a token
with a leading space, the first of a word) breaks ties in favour of the shorter first token: of two
tokens each, the path with the longer last one, as ours does. In words of up to 63 characters it
never outweighs a likelihood.
"""


def _exact() -> str:
    """How to learn a tokenizer of merges that llama.cpp runs exactly."""
    names = [name for name, each in sorted(pretokenizers().items()) if each.llama_cpp is not None]
    return f"learn a tokenizer with --pretokenizer {', '.join(names[:-1])} or {names[-1]}"


class GgufTokenizer(ABC):
    """A tokenizer as a GGUF file holds it.

    Attributes:
        name: what the file calls it.
        twins: for each name that the file needs after our tokens, our token with that meaning.
        why: reason for different ids, for messages.
        remedy: how to have a tokenizer with equal ids; "" if there is no way.
        adds_space: whether llama.cpp puts a space before every text.
    """

    name: str
    twins: Sequence[int] = ()
    why: str
    remedy: str = ""
    adds_space: bool = False

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Ids that llama.cpp assigns."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids that llama.cpp assigns to each text."""
        return [self.encode(text) for text in texts]

    @abstractmethod
    def write(self, writer: Any) -> None:
        """Add the tokenizer to a `gguf.GGUFWriter`."""


class MergesTokenizer(GgufTokenizer):
    """Merges within words of one of llama.cpp's patterns; a `file` may name the tokens."""

    def __init__(
        self, tokenizer: Subtokenizer, pattern: str, file: TokenizerFile | None = None
    ) -> None:
        self._tokenizer, self._file = tokenizer, file
        self.name = self.pattern = pattern
        self.why = (
            f"its closest pre-tokenizer, '{pattern}', splits marks, contractions, numbers or "
            "whitespace differently"
        )
        self.remedy = _exact()

    @cached_property
    def _twin(self) -> Any:
        """The tokenizer in the `tokenizers` library, with llama.cpp's pattern."""
        from tokenizers import Tokenizer

        document = orjson.loads(self._tokenizer.to_json())
        if self.pattern != self._tokenizer.pretokenizer.llama_cpp:
            cut = document["pre_tokenizer"]["pretokenizers"][0]["pattern"]
            cut["Regex"] = PATTERNS[self.pattern]
        twin = Tokenizer.from_str(orjson.dumps(document).decode())
        twin.encode_special_tokens = True
        return twin

    def encode(self, text: str) -> list[int]:
        """Ids that llama.cpp assigns."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids that llama.cpp assigns to each text, by the library."""
        encodings = self._twin.encode_batch(list(texts), add_special_tokens=False)
        return [each.ids for each in encodings]

    def write(self, writer: Any) -> None:
        """Written as "gpt2", with merges."""
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.pattern)
        if self._file is not None:
            names = _add_names(writer, self._file)
        else:
            vocabulary = self._tokenizer.vocabulary
            names, specials = vocabulary.spellings(), len(vocabulary.specials)
            writer.add_token_list(names)
            writer.add_token_types([_CONTROL] * specials + [Kind.NORMAL] * (len(names) - specials))
        merges = self._tokenizer.merges.tolist()
        writer.add_token_merges([f"{names[left]} {names[right]}" for left, right, _ in merges])


class AdoptedPieces(GgufTokenizer):
    """SentencePiece BPE with byte fallback: llama.cpp joins the pair whose result scores most.

    The score of a token is the rank of its first merge, negative. Among equal scores the leftmost
    pair is joined, where the file has an order of its own; and any pair that makes a token is.
    """

    name = "llama"
    why = "its search joins other pairs than the merges of the file"

    def __init__(self, tokenizer: Subtokenizer, file: TokenizerFile) -> None:
        self._file = file
        self.adds_space = tokenizer.pretokenizer.rewrite is not None
        results = file.merges[:, 2]
        self._ranks = np.full(file.size, len(results), dtype=np.int64)
        self._ranks[results[::-1]] = np.arange(len(results))[::-1]

    def encode(self, text: str) -> list[int]:
        """Join the pair with the best score, leftmost first, until no pair makes a token."""
        ids, ranks = self._file.ids, self._ranks
        parts = list((" " * self.adds_space + text).replace(" ", SPACE)) if text else []
        after = list(range(1, len(parts) + 1))
        before = list(range(-1, len(parts) - 1))
        heap: list[tuple[int, int, str]] = []

        def add(left: int) -> None:
            if left >= 0 and after[left] < len(parts):
                joined = parts[left] + parts[after[left]]
                if joined in ids:
                    heapq.heappush(heap, (int(ranks[ids[joined]]), left, joined))

        for place in range(len(parts)):
            add(place)
        while heap:
            _, left, joined = heapq.heappop(heap)
            right = after[left]
            if not parts[left] or right >= len(parts) or parts[left] + parts[right] != joined:
                continue
            parts[left], parts[right] = joined, ""
            after[left] = after[right]
            if after[left] < len(parts):
                before[after[left]] = left
            add(left)
            add(before[left])
        output: list[int] = []
        for part in filter(None, parts):
            spelled = [ids[f"<0x{byte:02X}>"] for byte in part.encode()]
            output += [ids[part]] if part in ids else spelled
        return output

    def write(self, writer: Any) -> None:
        """Written as "llama", scored by rank."""
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        _add_names(writer, self._file)
        writer.add_token_scores((-self._ranks).tolist())


def _add_names(writer: Any, file: TokenizerFile) -> list[str]:
    names = [name or f"[PAD{index}]" for index, name in enumerate(file.names)]
    kinds = np.where(np.array([not name for name in file.names]), _UNUSED, Kind.NORMAL)
    if file.form.of_characters:
        kinds[[file.ids[name] for name in BYTE_TOKENS]] = Kind.BYTE
    kinds[file.added] = _USER_DEFINED
    kinds[file.special] = _CONTROL
    unknown = file.document["model"].get("unk_token")
    if unknown in file.ids:
        kinds[file.ids[unknown]] = Kind.UNKNOWN
    writer.add_token_list(names)
    writer.add_token_types(kinds.tolist())
    return names


def _adopted(tokenizer: Subtokenizer, file: TokenizerFile, where: str) -> GgufTokenizer:
    if not file.form.is_native or file.whole.any():
        raise UsageError(
            "llama.cpp has no equivalent of this tokenizer", where=where, remedy=_CONVERTER
        )
    if file.form.of_characters:
        return AdoptedPieces(tokenizer, file)
    pattern = tokenizer.pretokenizer.llama_cpp
    if pattern is None:
        raise UsageError(
            "llama.cpp has no known pre-tokenizer that splits as this tokenizer does",
            where=where,
            remedy=_exact() if tokenizer.pretokenizer is BPE else _CONVERTER,
        )
    return MergesTokenizer(tokenizer, pattern, file)


class ScoresTokenizer(GgufTokenizer):
    """The greatest sum of scores: Unigram, and fewest tokens of whole characters.

    The file needs the names of all 256 bytes. If a byte below 0x80 is an ordinary token, the name
    "<0x41>" follows our tokens, and no text is ever segmented into it.
    """

    name = "plamo2"

    def __init__(self, tokenizer: Subtokenizer, where: str) -> None:
        if tokenizer.pretokenizer is PHRASES:
            raise UsageError(
                "llama.cpp has no tokenizer with superwords", where=where, remedy="use transformers"
            )
        try:
            file = read_model(tokenizer.to_model(), where)
        except UsageError as error:
            raise UsageError(
                f"llama.cpp needs tokens of whole characters, and {error.what.split(',')[0]}",
                where=where,
                remedy="use transformers, or a tokenizer of bpe-merge --whole-characters",
            ) from None
        assert tokenizer.scores is not None
        names, kinds = list(file.pieces), list(file.kinds)
        if kinds[-1] == Kind.UNKNOWN:  # only SentencePiece needs it
            del names[-1], kinds[-1]
        if len(set(names)) < len(names):
            raise UsageError(
                "a token has the name of a byte in llama.cpp, such as '<0x41>'",
                where=where,
                remedy="use transformers",
            )
        self.names, self.kinds = names, kinds
        self.units = _units(tokenizer, names)
        byte_ids = tokenizer.vocabulary.byte_ids
        self.twins = [int(byte_ids[_byte(name)]) for name in names[tokenizer.size :]]
        self.why = "it breaks ties differently" + (
            " and does not split words first"
            if tokenizer.segmentation == FEWEST_TOKENS
            else " and rounds scores"
        )

    @cached_property
    def _bytes(self) -> dict[int, int]:
        """Byte → id of the token that spells it in unknown characters."""
        kinds = enumerate(self.kinds)
        return {_byte(self.names[index]): index for index, kind in kinds if kind == Kind.BYTE}

    @cached_property
    def _pieces(self) -> dict[str, tuple[int, int]]:
        """Text → (units, id) of the pieces."""
        return {
            name: (int(self.units[index]), index)
            for index, name in enumerate(self.names[: len(self.units)])
            if self.kinds[index] == Kind.NORMAL
        }

    @cached_property
    def _longest(self) -> dict[str, int]:
        """Character → length of the longest piece that begins with it."""
        longest: dict[str, int] = {}
        for piece in self._pieces:
            longest[piece[0]] = max(longest.get(piece[0], 0), len(piece))
        return longest

    def encode(self, text: str) -> list[int]:
        """Best path from the end; at each position the longest of equally good pieces."""
        text = text.removeprefix("\ufeff")
        best = [0] * (len(text) + 1)
        taken: list[tuple[int, int]] = [(1, -1)] * len(text)
        for place in range(len(text) - 1, -1, -1):
            top: int | None = None
            longest = min(self._longest.get(text[place], 0), len(text) - place)
            for length in range(longest, 0, -1):
                piece = self._pieces.get(text[place : place + length])
                if piece is None:
                    continue
                total = best[place + length] + piece[0]
                if top is None or total > top:
                    top, taken[place] = total, (length, piece[1])
            spelled = best[place + 1] + UNKNOWN_UNITS
            if top is None or spelled > top:
                top, taken[place] = spelled, (1, -1)
            best[place] = top
        ids: list[int] = []
        place = 0
        while place < len(text):
            length, index = taken[place]
            if index >= 0:
                ids.append(index)
            else:
                ids += [self._bytes[byte] for byte in text[place].encode()]
            place += length
        return ids

    def write(self, writer: Any) -> None:
        """Written as "plamo2", with scores."""
        scores = np.full(len(self.names), NEVER, dtype=np.float32)
        normal = np.array(self.kinds[: len(self.units)]) == Kind.NORMAL
        scores[: len(self.units)][normal] = self.units[normal] / UNITS
        writer.add_tokenizer_model(self.name)
        writer.add_tokenizer_pre("default")
        writer.add_token_list(self.names)
        writer.add_token_scores(scores.tolist())
        writer.add_token_types(self.kinds)


def _byte(name: str) -> int:
    """The byte that "<0x41>" names."""
    return int(name[3:5], 16)


def _units(tokenizer: Subtokenizer, names: Sequence[str]) -> Int64Array:
    """Score of each token in units; unused for special and byte tokens.

    Fewest tokens: see `FEWEST_STEP`. Unigram: scaled so that an unknown character costs what it
    costs here, the lowest score of a piece minus 10.
    """
    scores, specials = tokenizer.scores, len(tokenizer.vocabulary.specials)
    assert scores is not None
    if tokenizer.segmentation == FEWEST_TOKENS:
        likelihood = likelihood_of_scores(scores, specials)
        assert likelihood is not None
        lengths = [0 if name.startswith(" ") else len(name) for name in names[: tokenizer.size]]
        units: Int64Array = (
            FEWEST_STEP * likelihood.astype(np.int64) + np.array(lengths) - FEWEST_EACH
        )
        return units
    pieces = scores[specials + 256 :]
    unknown = float(pieces.min() if len(pieces) else 0.0) - UNKNOWN_PENALTY
    return units_in_file(np.round(scores * (UNKNOWN_UNITS / unknown)).astype(np.int64))


def units_in_file(units: Int64Array) -> Int64Array:
    """Units that llama.cpp reads back: beyond 2^23 a float32 is off by a unit or two.

    >>> units_in_file(np.array([-(1 << 23) + 1, -9_999_999])).tolist()
    [-8388607, -9999999]
    """
    stored = (units / UNITS).astype(np.float32).astype(np.float64)
    return np.round(stored * UNITS).astype(np.int64)


def candidates(tokenizer: Subtokenizer, where: str) -> Sequence[GgufTokenizer]:
    """How llama.cpp can run a tokenizer, the preferred way first."""
    if isinstance(tokenizer.segmenter, Library):
        return [_adopted(tokenizer, tokenizer.segmenter.file, where)]
    if tokenizer.segmentation == "merges":
        same = tokenizer.pretokenizer.llama_cpp
        names = PATTERNS if same is None else (same,)
        return [MergesTokenizer(tokenizer, pattern) for pattern in names]
    return [ScoresTokenizer(tokenizer, where)]
