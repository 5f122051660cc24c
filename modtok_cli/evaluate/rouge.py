"""ROUGE-1, -2 and -L (F1) for every script.

The rouge-score package deletes all characters except a-z and 0-9, so a Telugu text scores 0 against
itself. Here a word is a run of letters, marks and digits of any script. On ASCII text both split
alike and the scores are equal, which a property test checks.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache

METRICS = ("rouge1", "rouge2", "rougeL")
# Prefixes of Unicode character names of scripts without spaces between words. Each letter with
# its marks is a word.
_UNSPACED = (
    "CJK ",
    "HIRAGANA ",
    "KATAKANA ",
    "KATAKANA-HIRAGANA ",
    "IDEOGRAPHIC ",
    "THAI ",
    "LAO ",
    "KHMER ",
    "MYANMAR ",
)
# Soft hyphen, zero-width non-joiner and joiner: optional within words.
_INVISIBLE = "\u00ad\u200c\u200d"
_OUTSIDE, _LETTER, _MARK, _ALONE = range(4)


@cache
def _kind(character: str) -> int:
    major = unicodedata.category(character)[0]
    if major not in "LMN":
        return _OUTSIDE
    if major == "M":
        return _MARK
    if major == "L" and unicodedata.name(character, "").startswith(_UNSPACED):
        return _ALONE
    return _LETTER


def words(text: str) -> list[str]:
    """Words of a text, in lower case and normalization form C.

    A word is a run of letters, marks and digits. In scripts without spaces between words (Chinese,
    Japanese, Thai, Lao, Khmer, Burmese) each letter with its marks is a word. Soft hyphens and
    zero-width joiners are removed.

    >>> words("It's 2024: état-major, నమస్తే!")
    ['it', 's', '2024', 'état', 'major', 'నమస్తే']
    >>> words("東京2020年")
    ['東', '京', '2020', '年']
    """
    found: list[str] = []
    open_word = False  # whether a letter or digit continues the last word
    text = unicodedata.normalize("NFC", text.lower()).translate(dict.fromkeys(map(ord, _INVISIBLE)))
    within = False  # whether a mark continues it
    for character in text:
        kind = _kind(character)
        if kind == _OUTSIDE:
            open_word = within = False
            continue
        continues = within if kind == _MARK else kind == _LETTER and open_word
        if continues:
            found[-1] += character
        else:
            found.append(character)
            open_word = kind != _ALONE
        within = True
    return found


def scores(reference: str, output: str) -> dict[str, float]:
    """F1 of 1-grams, 2-grams and the longest common subsequence; fractions of 1.

    The longest common subsequence is over whole texts, as rouge-score's "rougeL".
    """
    wanted, written = words(reference), words(output)
    common = common_subsequence(wanted, written)
    return {
        "rouge1": _overlap(wanted, written, 1),
        "rouge2": _overlap(wanted, written, 2),
        "rougeL": _f1(common, len(wanted), len(written)),
    }


def _overlap(wanted: Sequence[str], written: Sequence[str], size: int) -> float:
    there, here = (
        Counter(tuple(text[i : i + size]) for i in range(len(text) - size + 1))
        for text in (wanted, written)
    )
    return _f1((there & here).total(), there.total(), here.total())


def _f1(common: int, wanted: int, written: int) -> float:
    return 2 * common / (wanted + written) if common else 0.0


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence, with one table row per integer.

    Bit j of the row is 0 where the table increases at column j (Hyyrö 2004, "Bit-parallel
    LCS-length computation revisited"). A row costs one addition of len(a) bits instead of len(a)
    steps.
    """
    places: dict[str, int] = {}
    for place, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(a)) - 1
    row = every
    for word in b:
        met = row & places.get(word, 0)
        row = (row + met | row - met) & every
    return len(a) - row.bit_count()
