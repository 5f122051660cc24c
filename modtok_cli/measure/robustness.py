"""Text as people type it: with errors, in upper case, without diacritics, mixed with English.

Each change takes a line and gives a line, so that a changed text has as many lines as before.
"""

from __future__ import annotations

import random
import re
import unicodedata
from dataclasses import dataclass

from modtok_cli.measure.texts import Text
from modtok_cli.measure.usage import ratio, usage
from modtok_cli.tokenizer.protocol import Tokenizer

SEED = 1
FIELDS = ("errors_5", "errors_10", "upper_case", "no_diacritics", "mixed_with_english")
_MARKS = re.compile("[\u0300-\u036f]")


def with_errors(line: str, share: float, letters: str, chance: random.Random) -> str:
    """Change a share of the letters of a line; anything else stays where it is.

    A letter is replaced, deleted, followed by another, or exchanged with the next letter (replaced
    if there is none), each as often. New letters are drawn from `letters`. The number of changes is
    one of the two whole numbers around `share` times the letters of the line, and that on average.

    >>> with_errors("yksi 2 kolme", 0.2, "aeo", random.Random(0))
    'kysi 2 koeme'
    """
    characters = list(line)
    places = [place for place, character in enumerate(line) if character.isalpha()]
    number = int(share * len(places) + chance.random())
    for place in sorted(chance.sample(places, number), reverse=True):
        letter, new = characters[place], chance.choice(letters)
        after = characters[place + 1] if place + 1 < len(characters) else ""
        kind = chance.randrange(4)
        if kind == 0:
            characters[place] = ""
        elif kind == 1:
            characters[place] = letter + new
        elif kind == 2 and len(after) == 1 and after.isalpha() and after != letter:
            characters[place : place + 2] = after, letter
        else:
            characters[place] = new
    return "".join(characters)


def without_diacritics(line: str) -> str:
    """Remove the marks U+0300 to U+036F of letters; a letter of its own such as ø stays.

    >>> without_diacritics("Größe, žluťoučký, ένα, ø")
    'Große, zlutoucky, ενα, ø'
    """
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", line)))


def half(line: str) -> int:
    """Return the length of the first half of a line, which ends before a space if there is one.

    >>> half("yksi kaksi kolme"), half("on saat"), half("kolme")
    (4, 2, 2)
    """
    middle = len(line) // 2
    space = line.rfind(" ", 0, middle + 1)
    return space if space > 0 else middle


@dataclass(frozen=True)
class Changed:
    """A text in all changes, by field of a row.

    Attributes:
        texts: the changed texts; "mixed_with_english" if there is a parallel English text: the
            first half of each line, then the second half of the English line.
        halves: share of the characters of the text, and of the English one, that the mixture has.
    """

    texts: dict[str, Text]
    halves: tuple[float, float]

    @classmethod
    def of(cls, text: Text, english: Text | None) -> Changed:
        """Change a text whose documents are kept; `english` has the same lines in English."""
        lines = _lines(text)
        letters = "".join(filter(str.isalpha, "".join(lines)))
        chance = random.Random(SEED)
        some, many = (
            [with_errors(line, share, letters, chance) for line in lines] for share in (0.05, 0.1)
        )
        changes = [some, many, map(str.upper, lines), map(without_diacritics, lines)]
        halves = (0.0, 0.0)
        if english is not None:
            others = _lines(english)
            first = [line[: half(line)] for line in lines]
            second = [line[half(line) :] for line in others]
            changes.append(map(str.__add__, first, second))
            halves = (_share(first, lines), _share(second, others))
        texts = {
            field: text.like([line.encode() for line in changed])
            for field, changed in zip(FIELDS, changes, strict=False)
        }
        return cls(texts, halves)

    def relative(
        self, tokenizer: Tokenizer, tokens: int, english_tokens: int | None
    ) -> dict[str, float | None]:
        """Return tokens of each changed text relative to `tokens` of the text.

        Those of the mixture are relative to its share of both texts, of `english_tokens` in
        English. None without a parallel English text.
        """
        row: dict[str, float | None] = dict.fromkeys(FIELDS)
        for field, changed in self.texts.items():
            expected = float(tokens)
            if field == FIELDS[-1]:
                expected = self.halves[0] * tokens + self.halves[1] * (english_tokens or 0)
            row[field] = ratio(usage(tokenizer, changed).tokens, expected)
        return row


def _lines(text: Text) -> list[str]:
    assert text.documents is not None
    return [document.decode() for document in text.documents]


def _share(part: list[str], whole: list[str]) -> float:
    return sum(map(len, part)) / max(sum(map(len, whole)), 1)
