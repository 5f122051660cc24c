"""Tokenizers of other programs: what they share, and the `tokenizers` library as an encoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.arrays import (
    Int32Array,
    Int64Array,
    UInt8Array,
    offsets_of,
    token_ids,
    unflatten,
)
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import require
from modtok_cli.base.signature import digest
from modtok_cli.core.text import packed
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.tokenizer.adopted.restrict import is_byte_level, writes_all_text
from modtok_cli.tokenizer.encoding.encoder import Encoder, utf8
from modtok_cli.tokenizer.vocabulary import spell

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor
    from tokenizers import Tokenizer


_PORTION_TEXTS, _PORTION_BYTES = 4096, 1 << 14


class External(ABC):
    """A tokenizer that a library runs: a name, a hash of the file, no word counts.

    Attributes:
        ignored: settings of the file that are not applied.
        line: what was guessed about the file; "" for nothing.
        content: the file.
    """

    pretokenizer: PreTokenizer | None = None
    size: int
    line = ""

    def __init__(self, name: str, data: bytes, *settings: str) -> None:
        self.name, self.content = name, data
        self.signature = digest(data, *(text.encode() for text in settings))
        self.ignored: tuple[str, ...] = ()

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]:
        """Token ids of each text; special tokens written in it are text."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The file as a `tokenizer.json` with the same ids.

        Raises:
            UsageError: it has settings that a `tokenizer.json` lacks.
        """

    @abstractmethod
    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids."""

    def encode(self, text: str) -> Int32Array:
        """Token ids of a text."""
        utf8(text)
        return self.encode_batch([text])[0]

    def __len__(self) -> int:
        return self.size

    def count(self, text: str) -> int:
        """Number of tokens of a text."""
        return len(self.encode(text))

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of the decoded text."""
        return self.decode(ids).encode()

    def token_bytes(self, index: int) -> bytes:
        """Bytes of a token in the middle of a text."""
        return self.decode_bytes([index])

    def token_lengths(self, counts: WordCounts) -> Int64Array:
        """Unknown: it splits text into words in its own way."""
        raise ModtokError(
            f"tokenizer {self.name} does not split text into the words of our counts",
            remedy="give the text itself",
        )


def portions(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Places [first, stop) of the texts of one call of a library; `sizes` of the texts, in bytes.

    A library goes on to the end of its texts after one has failed, and prints a message for each.
    The first portion is one text, the others grow: what fails on all texts fails once. They end
    at `_PORTION_BYTES`, since a pattern that backtracks without end takes a second for a text.
    The objects that libraries return are larger than the text.
    """
    first, most = 0, 1
    while first < len(sizes):
        stop, total = first, 0
        while stop < min(first + most, len(sizes)) and total < _PORTION_BYTES:
            total += sizes[stop]
            stop += 1
        yield first, stop
        first, most = stop, min(2 * most, _PORTION_TEXTS)


def encoded_by(
    library: Tokenizer, texts: Sequence[str], sizes: Sequence[int], where: str
) -> list[Int32Array]:
    """Ids of each text by the `tokenizers` library; `sizes` in bytes."""
    ids = []
    for first, stop in portions(sizes):
        with in_library("cannot encode", where):
            batch = library.encode_batch_fast(list(texts[first:stop]), add_special_tokens=False)
        ids += [as_ids(encoding.ids) for encoding in batch]
    return ids


def as_ids(ids: Sequence[int]) -> Int32Array:
    """Ids of a library as an array; shape (N,) int32."""
    return np.array(ids, dtype=np.int32)


def as_list(ids: npt.ArrayLike) -> list[int]:
    """Ids as a library takes them."""
    return [*map(int, token_ids(ids))]


@contextmanager
def in_library(what: str, where: str, library: str = "the tokenizers library") -> Iterator[None]:
    """Turn any failure of a library in Rust into an error of one line.

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
        raise ModtokError(f"{library} {what}: {one_line(error)}", where=where) from error


def library_tokenizer(data: bytes, where: str) -> Tokenizer:
    """A `tokenizer.json` in the library: whole texts, special tokens as text, no dropout."""
    require(f"{where}: a tokenizer of another program", published=["tokenizers"])
    from tokenizers import Tokenizer

    with in_library("cannot load it", where):
        inner = Tokenizer.from_buffer(data)
    inner.encode_special_tokens = True
    inner.no_truncation()
    inner.no_padding()
    if hasattr(inner.model, "dropout"):
        inner.model.dropout = None
    return inner


def special_rows(document: Mapping[str, Any]) -> dict[int, str]:
    """The special tokens in the vocabulary of a Unigram `tokenizer.json`, by id.

    {} for other kinds, and for damaged fields, of which the library says what is wrong.
    """
    try:
        special = {each["content"] for each in document["added_tokens"] if each["special"]}
        model = document["model"]
        rows = enumerate(model["vocab"] if model["type"] == "Unigram" else ())
        return {index: row[0] for index, row in rows if row[0] in special}
    except (KeyError, TypeError, IndexError):
        return {}


def text_tokenizer(data: bytes, where: str) -> Tokenizer:
    """`library_tokenizer` for encoding: special tokens are text to Unigram as well.

    It finds each piece of its vocabulary in a text, those of special tokens too. Here these
    (`special_rows`) have names that nobody knows. All else, ids too, is as in the file.
    """
    document = orjson.loads(data)
    if not (special := special_rows(document)):
        return library_tokenizer(data, where)
    model, added, names = document["model"], document["added_tokens"], {*special.values()}
    rows = [
        [token_hex(16), *row[1:]] if index in special else row
        for index, row in enumerate(model["vocab"])
    ]
    kept = [token for token in added if token["content"] not in names]
    document |= {"added_tokens": kept, "model": {**model, "vocab": rows}}
    return library_tokenizer(orjson.dumps(document), where)


class Losses:
    """Counts what a `tokenizer.json` cannot write: text without a token.

    An unknown token stands for it, one for a whole run of characters in some files; a BPE model
    without one drops the characters.

    Attributes:
        unknown: id of that token; None if there is none.
    """

    def __init__(self, inner: Tokenizer, data: bytes) -> None:
        self._inner = inner
        document = orjson.loads(data)
        model = document["model"]
        token, index = model.get("unk_token"), model.get("unk_id")
        self.unknown: int | None = index if isinstance(index, int) else None
        if self.unknown is None and isinstance(token, str):
            self.unknown = inner.token_to_id(token)
        self._spelled = is_byte_level(document, ("normalizer", "pre_tokenizer"))
        drops = model.get("type") == "BPE" and self.unknown is None
        drops &= not writes_all_text(document)
        self._alphabet = frozenset("".join(inner.get_vocab())) if drops else None

    def of(self, text: str, ids: Int32Array) -> tuple[int, int]:
        """(number of unknown tokens, bytes of the text that no token stands for); of its ids."""
        count = 0 if self.unknown is None else int((ids == self.unknown).sum())
        if self._alphabet is not None:  # offsets of the library are wrong after what it drops
            normalizer = self._inner.normalizer
            text = normalizer.normalize_str(text) if normalizer else text
            if self._spelled:
                return 0, sum(each not in self._alphabet for each in spell(text.encode()))
            lost = [each for each in text if each not in self._alphabet]
            return 0, sum(len(each.encode()) for each in lost if not each.isspace())
        if not count:
            return 0, 0
        found = self._inner.encode(text, add_special_tokens=False)
        stands = np.zeros(len(text), dtype=np.bool_)
        for index, (start, stop) in zip(found.ids, found.offsets, strict=True):
            stands[start:stop] |= index != self.unknown
        lost = [each for each, kept in zip(text, stands, strict=True) if not kept]
        return count, sum(len(each.encode()) for each in lost if not each.isspace())


def one_line(error: BaseException) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__


class _TextEncoder(Encoder):
    """An encoder of which subclasses define `texts`."""

    can_drop = False

    def text(self, text: bytes) -> Int32Array:
        return self.texts([text])[0]

    def joined(
        self, texts: Sequence[bytes], threads: int | None = None
    ) -> tuple[Int32Array, Int64Array]:
        return joined_ids(self.texts(texts, threads))

    def flat(self, data: UInt8Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        return self.joined(unflatten(data, offsets))

    def words_flat(
        self, data: UInt8Array, starts: Int64Array, stops: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        return self.flat(*packed(data, starts, stops))


class LibraryEncoder(_TextEncoder):
    """Encodes as a `tokenizer.json` says; special tokens in a text are plain text.

    `data` is the file; `where` names the tokenizer in errors.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self._where = where
        self._inner = text_tokenizer(data, where)

    def forget_words(self) -> None:
        """The library's caches stay."""

    def first_of_text(self) -> int | None:
        """The token that its post-processor puts before a text; None if it puts none."""
        with in_library("cannot encode", self._where):
            plain = self._inner.encode("a", add_special_tokens=False).ids
            whole = self._inner.encode("a", add_special_tokens=True).ids
        return int(whole[0]) if whole[:1] != plain[:1] else None

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Int32Array]:
        strings, sizes = [text.decode() for text in texts], list(map(len, texts))
        return encoded_by(self._inner, strings, sizes, self._where)


def sentencepiece_processor(data: bytes, where: str) -> SentencePieceProcessor:
    """A `.model` in the library.

    Raises:
        ModtokError: the library does not load it, or it has no pieces.
    """
    from sentencepiece import SentencePieceProcessor

    try:
        processor = SentencePieceProcessor(model_proto=data)
        if not processor.get_piece_size():
            raise ValueError("it has no pieces")
    except (RuntimeError, OSError, ValueError) as error:
        raise ModtokError(f"not a SentencePiece model: {one_line(error)}", where=where) from error
    return processor


class SentencePieceEncoder(_TextEncoder):
    """Encodes by SentencePiece: control and byte pieces in a text are text."""

    def __init__(self, processor: SentencePieceProcessor) -> None:
        self._inner = processor

    def forget_words(self) -> None:
        """It has no caches."""

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Int32Array]:
        strings = [text.decode() for text in texts]
        return [as_ids(ids) for ids in self._inner.encode(strings, num_threads=threads or -1)]


class DividedEncoder(_TextEncoder):
    """Our encoder, but for texts that its pre-tokenizer leaves whole, which the library encodes."""

    def __init__(
        self, native: Encoder, library: _TextEncoder, is_whole: Callable[[bytes], bool]
    ) -> None:
        self._own, self._library, self._is_whole = native, library, is_whole

    def forget_words(self) -> None:
        """Free the caches of words of our encoder."""
        self._own.forget_words()

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Int32Array]:
        whole = list(map(self._is_whole, texts))
        by_library, own = (
            encoder.texts([t for t, one in zip(texts, whole, strict=True) if one == kind], threads)
            for kind, encoder in ((True, self._library), (False, self._own))
        )
        parts = {True: iter(by_library), False: iter(own)}
        return [next(parts[one]) for one in whole]

    def words_flat(
        self, data: UInt8Array, starts: Int64Array, stops: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of each word; words that are whole documents go to the library."""
        content = data.tobytes()
        words = [content[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        whole = [i for i, word in enumerate(words) if self._is_whole(word)]
        ids, ends = self._own.words_flat(data, starts, stops)
        if not whole:
            return ids, ends
        parts = np.split(ids, ends[1:-1])
        for i, one in zip(whole, self._library.texts([words[i] for i in whole]), strict=True):
            parts[i] = one
        return joined_ids(parts)


def joined_ids(parts: Sequence[Int32Array]) -> tuple[Int32Array, Int64Array]:
    """Ids of several texts one after the other, and their offsets."""
    return np.concatenate([np.zeros(0, dtype=np.int32), *parts]), offsets_of(map(len, parts))
