"""Other people's tokenizers behind our protocol: `tokenizers`, SentencePiece, tiktoken, tekken.

Each reader takes the content of a file. None of them adds special tokens.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.signature import digest
from modtok_cli.modular.unicode import utf8
from modtok_cli.modular.vocabulary import unspell
from modtok_cli.text.counts import WordCounts

Ids = npt.NDArray[np.int32]


class _Foreign:
    """What the wrappers share: a name, a hash of the file, no word counts."""

    scheme: str | None = None

    def __init__(self, name: str, data: bytes, *settings: str) -> None:
        self.name = name
        self.signature = digest(data, *(text.encode() for text in settings))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    def token_lengths(self, counts: WordCounts) -> npt.NDArray[np.int64]:
        """Not known: it cuts words in its own way.

        Raises:
            ModtokError: always.
        """
        raise ModtokError(
            f"tokenizer {self.name} does not cut text into the words of our counts",
            remedy="give the text itself",
        )


def _as_ids(ids: Sequence[int]) -> Ids:
    return np.array(ids, dtype=np.int32)


def _as_list(ids: npt.ArrayLike) -> list[int]:
    return [int(i) for i in np.asarray(ids, dtype=np.int64).reshape(-1)]


@contextmanager
def _in_library(what: str, where: str, library: str = "the tokenizers library") -> Iterator[None]:
    """Turn whatever a library in Rust ends in to one line.

    It raises plain `Exception`, and where its own code fails (a token of another length than
    its merge says) a panic, which is a `BaseException`.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, ModtokError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModtokError(f"{library} {what}: {_one_line(error)}", where=where) from error


def _json_object(data: bytes, where: str) -> dict[str, Any]:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ModtokError(f"not JSON: {error.msg}", where=where) from error
    if not isinstance(document, dict):
        raise ModtokError("not a tokenizer: expected a JSON object", where=where)
    return document


def _check_prefix(document: dict[str, Any], where: str) -> None:
    """Refuse merges that end the process instead of being refused by the library.

    Where a model has a prefix of continuing subwords, the library (0.23) cuts as many bytes
    off the second part of each merge as the prefix has characters, without looking: in the
    middle of a character the process aborts.

    Raises:
        ModtokError: a second part that does not begin with the prefix.
    """
    model = document.get("model")
    prefix = model.get("continuing_subword_prefix") if isinstance(model, dict) else None
    if not isinstance(model, dict) or not isinstance(prefix, str) or not prefix:
        return
    merges = model.get("merges")
    for rank, merge in enumerate(merges if isinstance(merges, list) else ()):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str):
            right, size = pair[1].encode(), len(prefix)
            cut = right[:size].decode(errors="ignore").encode()
            if len(right) < size or len(cut) != size or not pair[1].startswith(prefix):
                raise ModtokError(
                    f"field 'model.merges[{rank}]': the second part does not begin with "
                    f"'{prefix}', the prefix of continuing subwords",
                    where=where,
                )


class LibraryTokenizer(_Foreign):
    """Any `tokenizer.json`, run by the `tokenizers` library.

    Raises:
        ModtokError: the library does not load it; says why.
    """

    def __init__(self, name: str, data: bytes, where: str) -> None:
        super().__init__(name, data)
        from tokenizers import Tokenizer

        document = _json_object(data, where)
        _check_prefix(document, where)
        with _in_library("cannot load it", where):
            self._inner = Tokenizer.from_buffer(data)
        self._inner.encode_special_tokens = True
        self.size = int(self._inner.get_vocab_size())
        decoder = document.get("decoder") or {}
        self._byte_level = decoder.get("type") == "ByteLevel"

    def encode(self, text: str) -> Ids:
        """Token ids; a special token that is written in the text is text."""
        utf8(text)
        with _in_library("cannot encode", self.name):
            return _as_ids(self._inner.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Token ids of each text."""
        for text in texts:
            utf8(text)
        with _in_library("cannot encode", self.name):
            batch = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
        return [_as_ids(encoding.ids) for encoding in batch]

    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids."""
        with _in_library("cannot decode", self.name):
            return str(self._inner.decode(_as_list(ids), skip_special_tokens=False))

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids; of a byte-level tokenizer exactly, else those of the text."""
        if not self._byte_level:
            return self.decode(ids).encode()
        parts = []
        for index in _as_list(ids):
            token = self._inner.id_to_token(index)
            if token is None:
                raise ModtokError(f"token id {index} is outside the vocabulary")
            spelled = unspell(token)
            parts.append(token.encode() if spelled is None else spelled.tobytes())
        return b"".join(parts)


class SentencePieceTokenizer(_Foreign):
    """A SentencePiece `.model`.

    Raises:
        ModtokError: the library does not load it.
    """

    def __init__(self, name: str, data: bytes, where: str) -> None:
        super().__init__(name, data)
        from sentencepiece import SentencePieceProcessor

        try:
            self._inner = SentencePieceProcessor(model_proto=data)
            self.size = int(self._inner.get_piece_size())
        except (RuntimeError, OSError, ValueError) as error:
            raise ModtokError(f"no SentencePiece model: {_one_line(error)}", where=where) from error
        if not self.size:
            raise ModtokError("no SentencePiece model: it has no pieces", where=where)

    def encode(self, text: str) -> Ids:
        """Token ids of a text."""
        utf8(text)
        return _as_ids(self._inner.encode(text))

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Token ids of each text."""
        for text in texts:
            utf8(text)
        return [_as_ids(ids) for ids in self._inner.encode(list(texts))]

    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids."""
        try:
            return str(self._inner.decode(_as_list(ids)))
        except (IndexError, RuntimeError) as error:
            raise ModtokError(f"cannot decode: {_one_line(error)}") from error

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of the decoded text."""
        return self.decode(ids).encode()


class RankTokenizer(_Foreign):
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
        with _in_library("refuses it", where, "tiktoken"):
            self._inner = tiktoken.Encoding(
                name="modtok", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
            )
        self._first = first
        self.size = top + 1

    def encode(self, text: str) -> Ids:
        """Token ids of a text."""
        utf8(text)
        with _in_library("cannot encode", self.name, "tiktoken"):
            return _as_ids(self._inner.encode_ordinary(text)) + np.int32(self._first)

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Token ids of each text."""
        for text in texts:
            utf8(text)
        with _in_library("cannot encode", self.name, "tiktoken"):
            batch = self._inner.encode_ordinary_batch(list(texts))
        return [_as_ids(ids) + np.int32(self._first) for ids in batch]

    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of token ids; those before rank 0 give none."""
        ranks = [index - self._first for index in _as_list(ids) if index >= self._first]
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


def is_rank_file(data: bytes) -> bool:
    """Does the content begin like a rank file: base64, a space, a number?"""
    first = data[:4096].split(b"\n", 1)[0].split()
    if len(first) != 2 or not first[1].isdigit():
        return False
    try:
        base64.b64decode(first[0], validate=True)
    except binascii.Error:
        return False
    return True


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
            raise ModtokError("a token or a rank for the second time", where=f"{where}:{number}")
        ranks[token] = rank
        seen.add(rank)
    return ranks


# What the names mean is a fact of the published vocabularies; a rank file does not hold it.
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
"""Pre-tokenizers of rank files by name: cl100k (also Llama 3's, but for details), o200k, r50k."""


def open_ranks(name: str, data: bytes, where: str, pattern: str | None) -> RankTokenizer:
    """A tiktoken rank file; `pattern` is a key of `RANK_PATTERNS`, by default "cl100k".

    Raises:
        UsageError: no such pattern.
        ModtokError: a bad line, or tiktoken is not installed.
    """
    pattern = pattern or "cl100k"
    if pattern not in RANK_PATTERNS:
        raise UsageError(
            f"no pattern '{pattern}'",
            where=where,
            remedy=f"there are: {', '.join(RANK_PATTERNS)}",
        )
    return RankTokenizer(
        name,
        data,
        where,
        ranks=parse_ranks(data, where),
        pattern=RANK_PATTERNS[pattern],
    )


def is_tekken(document: Any) -> bool:
    """Is a JSON document Mistral's tekken: a pattern in its config, tokens in base64?"""
    return (
        isinstance(document, dict)
        and isinstance(document.get("config"), dict)
        and "pattern" in document["config"]
        and isinstance(document.get("vocab"), list)
    )


def open_tekken(name: str, data: bytes, document: Any, where: str) -> RankTokenizer:
    """Mistral's tekken: ids are ranks after `default_num_special_tokens` control tokens.

    Raises:
        ModtokError: a field is amiss, or tiktoken is not installed.
    """
    config = document["config"]
    try:
        first = int(config.get("default_num_special_tokens", 0))
        size = int(config.get("default_vocab_size", first + len(document["vocab"])))
        if not 0 <= first <= size:
            raise ValueError(f"{first} control tokens in a vocabulary of {size}")
        ranks = {
            base64.b64decode(entry["token_bytes"], validate=True): int(entry["rank"])
            for entry in document["vocab"][: size - first]
        }
        pattern = str(config["pattern"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModtokError(f"tekken file: {_one_line(error)}", where=where) from error
    return RankTokenizer(name, data, where, ranks=ranks, pattern=pattern, first=first)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
