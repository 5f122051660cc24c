"""What the tokenizers of other programs share behind our protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.signature import digest
from modtok_cli.modular.encoding.encoder import utf8
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import PreTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_PORTION_TEXTS, _PORTION_BYTES = 4096, 1 << 14


class External(ABC):
    """A tokenizer that a library runs: a name, a hash of the file, no word counts.

    Attributes:
        ignored: settings of the file that are not applied.
        content: the file, if it was made here.
    """

    pretokenizer: PreTokenizer | None = None
    size: int
    content = b""

    def __init__(self, name: str, data: bytes, *settings: str) -> None:
        self.name = name
        self.signature = digest(data, *(text.encode() for text in settings))
        self.ignored: tuple[str, ...] = ()

    @abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]:
        """Token ids of each text; special tokens written in it are text."""

    @abstractmethod
    def decode(self, ids: npt.ArrayLike) -> str:
        """Text of token ids."""

    def encode(self, text: str) -> Int32Array:
        """Token ids of a text."""
        utf8(text)
        return self.encode_batch([text])[0]

    def decode_bytes(self, ids: npt.ArrayLike) -> bytes:
        """Bytes of the decoded text."""
        return self.decode(ids).encode()

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


def as_ids(ids: Sequence[int]) -> Int32Array:
    """Ids of a library as an array; shape (N,) int32."""
    return np.array(ids, dtype=np.int32)


def as_list(ids: npt.ArrayLike) -> list[int]:
    """Ids as a library takes them."""
    return [int(i) for i in np.asarray(ids, dtype=np.int64).reshape(-1)]


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
    from tokenizers import Tokenizer

    with in_library("cannot load it", where):
        inner = Tokenizer.from_buffer(data)
    inner.encode_special_tokens = True
    inner.no_truncation()
    inner.no_padding()
    if hasattr(inner.model, "dropout"):
        inner.model.dropout = None
    return inner


def one_line(error: BaseException) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
