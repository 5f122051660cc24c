"""Split phrases where no token of a vocabulary matches across; see `chunk_kernel`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from modtok_cli.learn.trie import trie_of
from modtok_cli.modular.chunk_kernel import PAIRS, UNITS, chunk_end
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text import indirect
from modtok_cli.text.code_points import class_table
from modtok_cli.text.pretokenizer import Splitter

Bytes = npt.NDArray[np.uint8]

# Most tokens at once: one class of ASCII, after at most one space.
_PLAIN = re.compile(rb" ?(?:[A-Za-z]+|[0-9]+|[!-/:-@\[-`{-~]+)")
_OTHER, _LETTER, _NUMBER, _SPACE, _MARK = range(5)
# First class of a word of `bpe` -> the classes that continue it.
_RUNS = {
    _OTHER: {_OTHER, _MARK},
    _LETTER: {_LETTER, _MARK},
    _NUMBER: {_NUMBER},
    _SPACE: {_SPACE},
    _MARK: {_LETTER, _MARK},
}


class Chunks:
    """The splitter of a vocabulary with superwords.

    Args:
        tokens: all tokens that may be used.
    """

    def __init__(self, tokens: Sequence[bytes]) -> None:
        spanning = [token for token in tokens if may_span_words(token)]
        pairs = np.zeros(UNITS - PAIRS, dtype=np.uint8)
        for token in spanning:
            pair = token[0] | token[1] << 8
            pairs[pair >> 3] |= 1 << (pair & 7)
        units = trie_of(spanning).view(np.uint8)
        table = np.concatenate([class_table(), pairs, units])
        self._kernel = indirect.compile_word_end(chunk_end)  # its address is valid while it lives
        self.splitter = Splitter(np.array([self._kernel.address, 0], dtype=np.int64), table)


def superwords(vocabulary: Vocabulary) -> npt.NDArray[np.bool_]:
    """Which tokens consist of several words of `bpe`; (V,) bool."""
    first = len(vocabulary.specials)
    found = np.zeros(len(vocabulary), dtype=np.bool_)
    found[first:] = [has_several_words(token) for token in vocabulary.tokens()[first:]]
    return found


def has_several_words(token: bytes) -> bool:
    """Whether `bpe` splits a token, taken by itself.

    >>> [has_several_words(token) for token in (b" the", b" of the", b", and", b"  ")]
    [False, True, True, False]
    """
    if _PLAIN.fullmatch(token):
        return False
    return not _is_one_run(_kinds(token.decode(errors="ignore")))


@cache
def _classes() -> bytes:
    return class_table().tobytes()


def _kinds(text: str) -> list[int]:
    """The class of each character; one space before a word belongs to it."""
    classes = _classes()
    return [classes[ord(character)] for character in text.removeprefix(" ")]


def _is_one_run(kinds: list[int]) -> bool:
    return not kinds or _RUNS[kinds[0]].issuperset(kinds)


def may_span_words(token: bytes) -> bool:
    """Whether a word of `bpe` may end inside of a match of `token`; never wrongly False.

    Not if it has one class of characters, after at most one space. A mark continues a word of
    letters or of symbols; a token that begins with one may have the end of symbols inside.

    >>> [may_span_words(token) for token in (b" the", b" of the", b",", b", and", "é".encode())]
    [False, True, False, True, False]
    """
    if _PLAIN.fullmatch(token):
        return False
    if not any(byte & 0xC0 != 0x80 for byte in token[1:]):
        return False  # one character, or a part of one
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return True
    kinds = _kinds(text)
    return not _is_one_run(kinds) or (kinds[:1] == [_MARK] and len(kinds) > 1)
