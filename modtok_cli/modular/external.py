"""What the tokenizers of other programs share behind our protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.signature import digest
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import PreTokenizer

Ids = npt.NDArray[np.int32]


class External:
    """A name, a hash of the file, no word counts.

    Attributes:
        ignored: settings of the file that are not applied.
    """

    pretokenizer: PreTokenizer | None = None

    def __init__(self, name: str, data: bytes, *settings: str) -> None:
        self.name = name
        self.signature = digest(data, *(text.encode() for text in settings))
        self.ignored: tuple[str, ...] = ()

    def token_lengths(self, counts: WordCounts) -> npt.NDArray[np.int64]:
        """Unknown: it splits text into words in its own way.

        Raises:
            ModtokError: always.
        """
        raise ModtokError(
            f"tokenizer {self.name} does not split text into the words of our counts",
            remedy="give the text itself",
        )


def as_ids(ids: Sequence[int]) -> Ids:
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


def one_line(error: BaseException) -> str:
    """The message of an error without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
