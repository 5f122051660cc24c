"""Characters of a text by its word counts: its words, and how much a character carries.

The tables are block ranges of Unicode, since only two properties of scripts are needed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import BoolArray, Int64Array
from modtok_cli.core.text import LETTER, MARK, NUMBER, classes
from modtok_cli.text.counts import WordCounts

# Scripts without spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Tai, Han, kana.
_UNSPACED = (
    (0x0E00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19FF), (0x1A20, 0x1AAF),
    (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029), (0x3031, 0x303C), (0x3040, 0x312F),
    (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA9E0, 0xA9FF),
    (0xAA60, 0xAADF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF),
)  # fmt: skip
# Scripts with a character per syllable or word: Ethiopic, Cherokee, Canadian syllabics, Yi,
# Hangul, and of those above Han and kana.
_SYLLABIC = (
    (0x1200, 0x139F), (0x13A0, 0x167F), (0x18B0, 0x18FF), (0x2D80, 0x2DDF), (0x2E80, 0x2FDF),
    (0x3005, 0x3007), (0x3021, 0x3029), (0x3031, 0x303C), (0x3040, 0x312F), (0x31A0, 0x31BF),
    (0x31F0, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xA000, 0xA4CF), (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x1B000, 0x1B16F), (0x20000, 0x3FFFF),
)  # fmt: skip


@dataclass(frozen=True)
class Scripts:
    """Shares of a text, from 0 to 1.

    Attributes:
        unspaced: share of its letters in scripts without spaces between words.
        syllabic: share of its characters that stand for a syllable or a word.
    """

    unspaced: float
    syllabic: float

    @property
    def has_words(self) -> bool:
        """Whether spaces separate its words."""
        return self.unspaced < 0.5


def scripts_of(counts: WordCounts) -> Scripts:
    """Return scripts of a text, every occurrence counted.

    >>> from modtok_cli.text.counts import count_documents
    >>> scripts_of(count_documents([["日本 a".encode()]])).syllabic
    0.5
    """
    points, words = _characters(counts)
    occurrences = counts.counts[words]
    kinds = classes()[points]
    letters = int(occurrences[(kinds == LETTER) | (kinds == MARK)].sum())
    total = int(occurrences.sum())
    unspaced = int(occurrences[_within(points, _UNSPACED)].sum())
    syllabic = int(occurrences[_within(points, _SYLLABIC)].sum())
    return Scripts(
        min(1.0, unspaced / letters) if letters else 0.0, syllabic / total if total else 0.0
    )


def word_mask(counts: WordCounts) -> BoolArray:
    """Mark unique pre-tokens that are words, with a letter, mark or digit; (W,) bool."""
    points, words = _characters(counts)
    kinds = classes()[points]
    wordlike = np.zeros(len(counts), dtype=np.bool_)
    wordlike[words[(kinds == LETTER) | (kinds == NUMBER) | (kinds == MARK)]] = True
    return wordlike


def word_total(counts: WordCounts) -> int | None:
    """Count the words, every occurrence; None in scripts without spaces between words.

    "l'eau, 3 fois" has four: l, eau, 3, fois. Unlike splitting at white space this can be computed
    exactly from word counts, and a dash between spaces is not a word.
    """
    return int(counts.counts[word_mask(counts)].sum()) if scripts_of(counts).has_words else None


def _characters(counts: WordCounts) -> tuple[npt.NDArray[np.uint32], Int64Array]:
    """Code points of the unique words one after the other, and the index of the word of each."""
    text = counts.data.tobytes().decode("utf-8")
    words = np.repeat(np.arange(len(counts)), np.diff(counts.offsets))
    starts = (counts.data & 0xC0) != 0x80
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32), words[starts]


def _within(points: npt.NDArray[np.uint32], ranges: tuple[tuple[int, int], ...]) -> BoolArray:
    """Return whether each code point is in one of the ascending ranges; shape (N,)."""
    edges = np.array([(first, last + 1) for first, last in ranges]).reshape(-1)
    within: BoolArray = np.searchsorted(edges, points, side="right") % 2 == 1
    return within
