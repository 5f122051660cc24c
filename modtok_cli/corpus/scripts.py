"""Script of a text by ISO 15924, as names of FineWeb-2's folders have it: `Latn`, `Jpan`."""

from __future__ import annotations

from collections import Counter
from functools import cache

CHARACTERS = 2000
"""Maximum number of characters of a text that are looked at."""
UNKNOWN = "Zyyy"
"""ISO's code for text without a script."""
# The living scripts of Unicode and the more frequent ones of old texts, by how often they occur.
_CODES = """
Latn Cyrl Hani Arab Hira Kana Hang Grek Deva Hebr Thai Armn Geor Beng Taml Telu Knda Mlym Gujr Guru
Orya Sinh Mymr Khmr Laoo Tibt Ethi Thaa Mong Syrc Cher Cans Nkoo Tfng Vaii Yiii Bopo Olck Mtei Java
Sund Bali Bugi Cham Lana Tale Talu Tavt Lisu Limb Lepc Saur Sylo Kali Rjng Hano Buhd Tglg Tagb Batk
Bamu Adlm Osge Rohg Wcho Hmnp Hmng Nand Newa Takr Sind Khoj Mroo Plrd Copt Goth Glag Runr Ogam Ital
Xsux Egyp Phnx Armi Samr Avst Brah Khar Orkh Dsrt Shaw Bass Mend Cakm
"""


def script_of(text: str) -> str:
    """Script of most letters of a text. Japanese is `Jpan`, Korean `Hang` also with Han characters.

    >>> [script_of(text) for text in ("Säde 7", "мир, peace на земле", "東京へ行く", "東京", "12")]
    ['Latn', 'Cyrl', 'Jpan', 'Hani', 'Zyyy']
    """
    counts: Counter[str] = Counter()
    for letter, number in Counter(filter(str.isalpha, text[:CHARACTERS])).items():
        counts[_script(letter)] += number
    kana = counts.pop("Hira", 0) + counts.pop("Kana", 0)
    for code, number in (("Jpan", kana), ("Hang", counts["Hang"])):
        if 4 * number > counts["Hani"]:  # Han characters of Japanese, or of Korean
            counts[code] = number + counts.pop("Hani", 0)
    del counts[UNKNOWN]
    code, number = max(counts.items(), key=lambda one: (one[1], one[0]), default=(UNKNOWN, 0))
    return code if number else UNKNOWN


@cache
def _script(letter: str) -> str:
    import regex

    for code in _CODES.split():
        if regex.match(rf"\p{{Script={code}}}", letter):
            return code
    return UNKNOWN
