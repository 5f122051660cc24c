"""Identify the language of a page: py3langid's model, or one of fastText."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus.fasttext_file import FastText, load_fasttext
from modtok_cli.text.identify import identifier
from modtok_cli.text.languages import Label

THRESHOLD = 0.5
"""Minimum score of py3langid. On 27 languages all pages are above, and 99% of sentences (at 0.8
97%, of Spanish ones 72%), but also most pages of languages that the model lacks
(`python -m benchmarks page_filters`)."""
FASTTEXT_THRESHOLD = 0.4
"""Minimum score of a fastText model, the sum over close languages."""
CHARACTERS = 2000
"""Maximum number of characters of a page that are classified."""
_PIECES = 16  # of a page, spread evenly: the whole of it gives the same label
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Valid names of a language's directory; none can point elsewhere."""

# Wikipedia codes, used by lid.176, that differ from ISO codes.
_WIKIPEDIA = {"als": "gsw", "bh": "bho", "eml": "egl"}
_Ranking = tuple[set[str], Callable[[str], list[tuple[str, float]]]]
_PREFIX = "__label__"
_FIRST = 8  # number of best labels that are considered
_UNKNOWN = ("und", "zxx")  # no language
# Close languages: a model splits the score among them.
_CLOSE = (
    {"no", "nb", "nn", "da"},
    {"hr", "bs", "sr", "sh"},
    {"id", "ms"},
    {"cs", "sk"},
    {"zh", "yue", "wuu"},
    {"gl", "pt"},
    {"arz", "ary", "ar"},
    {"az", "azb"},
)
# Of these only a wanted one is returned, if one is: their texts hardly differ.
_SAME = ({"no", "nb", "nn"}, {"hr", "bs", "sh"})


class LanguageModel:
    """Language identification by py3langid, or by a fastText model with ISO codes as labels.

    `wanted` languages are preferred to languages whose texts hardly differ: Bosnian is identified
    as Croatian if only that is wanted. It changes nothing else: among the wanted languages alone
    every page of another language would be taken for one of them.

    Raises:
        UsageError: the model does not know a wanted language.
    """

    def __init__(self, path: Path | None = None, wanted: Sequence[str] | None = None) -> None:
        known, self._rank = _fasttext(path) if path else identifier()
        self.threshold = FASTTEXT_THRESHOLD if path else THRESHOLD
        where = path or "py3langid"
        for name in known:  # each becomes a directory name
            if not NAME.fullmatch(name):
                raise ModtokError(
                    f"invalid language label '{name[:40]}'",
                    where=where,
                    remedy="pass --lang-model with labels such as __label__fi",
                )
        self._names: dict[str, str] = {}
        for group in _SAME:
            chosen = sorted(group & {*(wanted or ())})
            reachable = bool(group & known)
            self._names |= {name: chosen[0] for name in group - {*chosen} if chosen and reachable}
        missing = sorted({*(wanted or ())} - known - {*self._names.values()})
        if missing:
            raise UsageError(
                f"the language model does not know {', '.join(missing)}",
                where=where,
                remedy="pass --lang-model, such as GlotLID"
                + ("" if path else f"; it knows {','.join(sorted(known))}"),
            )

    def identify(self, text: str) -> tuple[str, float]:
        """(language, score 0 … 1) of pieces of a text; "und" and 0.0 for no language.

        Croatian text gets Croatian 0.5, Bosnian 0.3 and Serbian 0.1. The score is of all three:
        0.5 alone would understate the confidence.

        >>> LanguageModel().identify("Tämä on suomea, eikä mitään muuta kieltä.")[0]
        'fi'
        """
        text = pieces_of(text).replace("\n", " ")
        if sum(map(str.isupper, text)) > len(text) / 3:
            text = text.lower()  # models confuse languages in capitals
        ranked = self._rank(text)
        if not ranked or ranked[0][0] in _UNKNOWN:
            return "und", 0.0
        language = ranked[0][0]
        close = {language}.union(*(group for group in _CLOSE if language in group))
        score = sum(score for name, score in ranked if name in close)
        return self._names.get(language, language), min(1.0, round(score, 4))


def pieces_of(text: str) -> str:
    """At most `CHARACTERS` of a text, from all over it: pages may begin in another language.

    >>> len(pieces_of("a" * 4000 + "b" * 12000)), pieces_of("a" * 4000 + "b" * 12000).count("b")
    (2000, 1500)
    """
    size = CHARACTERS // _PIECES
    if len(text) <= CHARACTERS:
        return text
    starts = ((len(text) - size) * n // (_PIECES - 1) for n in range(_PIECES))
    return "".join(text[start : start + size] for start in starts)


def _fasttext(path: Path) -> _Ranking:
    model = load_fasttext(path)

    def rank(text: str) -> list[tuple[str, float]]:
        labels, scores = model.predict(text, k=_FIRST)
        return list(zip(map(language_of_label, labels), map(float, scores), strict=True))

    return known_languages(model), rank


@cache
def language_of_label(label: str) -> str:
    """Language code of a model's label.

    >>> [language_of_label(f"__label__{name}") for name in ("fi", "als", "fin_Latn")]
    ['fi', 'gsw', 'fi']
    """
    name = label.removeprefix(_PREFIX)
    return Label.of(_WIKIPEDIA.get(name, name)).short


def known_languages(model: FastText) -> set[str]:
    """All languages that a model can return."""
    labels, _ = model.predict("a", k=-1, threshold=-1.0)
    return {language_of_label(label) for label in labels}
