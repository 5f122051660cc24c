"""Agreement of token boundaries with morpheme boundaries.

Two published measures on words with known boundaries:

    MorphScore             share of morpheme boundaries that are token boundaries, without words of
                           a single token (Arnett and Bergen 2025)
    precision, recall, F1  of token boundaries, over all words, as in Morpho Challenge

A word is tokenized as within a text, after a space where its script uses spaces.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.signature import digest
from modtok_cli.measure.usage import ratio
from modtok_cli.text.file_labels import label_of_path
from modtok_cli.text.languages import Label, by_label, canonical
from modtok_cli.tokenizer.protocol import Tokenizer

_SUFFIXES = (".tsv", ".csv")
_FORMAT = "a line of a .tsv is 'talossa<TAB>talo|ssa'; a .csv has the columns full_word, pt1, rest"
# Languages whose scripts put no space before a word.
_UNSPACED = frozenset({"ja", "km", "lo", "my", "th", "yue", "zh"})


Morphs = tuple[str, ...]
"""The morphemes of a word, whose concatenation it is."""


def align(
    tokenizer: Tokenizer, words: Sequence[Morphs], language: str
) -> dict[str, float | int | None]:
    """Compare token boundaries with the morphemes of words; returns fields of a row.

    `morph_score`: share of the morpheme boundaries of words of several tokens that are token
    boundaries; `boundary_precision`: share of token boundaries that are morpheme boundaries;
    `boundary_recall`: the reverse, over all words; `boundary_f1`: their harmonic mean.
    """
    space = "" if Label.of(language).short in _UNSPACED else " "
    batch = tokenizer.encode_batch([space + "".join(morphemes) for morphemes in words])
    shared = expected = expected_split = placed = 0
    for morphemes, ids in zip(words, batch, strict=True):
        *ends, size = accumulate(len(each.encode()) for each in morphemes)
        # From the end: decoding may drop the space before the first token.
        sizes = [len(tokenizer.token_bytes(index)) for index in ids.tolist()]
        starts = {size - sum(sizes[start:]) for start in range(1, len(ids))}
        inner = {start for start in starts if 0 < start < size}
        expected += len(ends)
        expected_split += len(ends) if inner else 0
        shared += len(inner.intersection(ends))
        placed += len(inner)
    return {
        "morph_score": ratio(shared, expected_split),
        "boundary_precision": ratio(shared, placed),
        "boundary_recall": ratio(shared, expected),
        "boundary_f1": ratio(2 * shared, placed + expected),
        "morph_words": len(words),
    }


class Morphemes:
    """Segmented words by language, from a file or a directory of files.

    Attributes:
        path: the file or directory.

    Raises:
        UsageError: the path does not exist, holds no such file, or a file's language is unknown.
    """

    def __init__(self, path: Path, language: str | None = None) -> None:
        self.path = path
        named: list[tuple[str, Path]] = []
        files = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
        for file in files:
            if file.suffix not in _SUFFIXES:
                continue
            own = label_of_path(file.name)
            name = canonical(language) if language and path.is_file() else own
            if name is None:
                raise UsageError(
                    "unknown language", where=file, remedy="name it after one, such as fi.tsv"
                )
            named.append((name, file))
        self._files = {name: those[-1] for name, those in by_label(named).items()}
        if not self._files:
            raise missing(path, _FORMAT, "contains no .tsv or .csv file")
        self._read: dict[str, list[Morphs]] = {}

    def of(self, language: str) -> list[Morphs] | None:
        """Return words of a language; None if there is no file.

        Raises:
            ModtokError: the file is damaged.
        """
        if language not in self._files:
            return None
        if language not in self._read:
            self._read[language] = read_morphemes(self._files[language])
        return self._read[language]

    def fingerprint(self, language: str) -> str:
        """Return the digest of the words of a language."""
        words = self.of(language) or []
        return digest(*("|".join(morphemes).encode() for morphemes in words))


def read_morphemes(path: Path) -> list[Morphs]:
    """Read segmented words: TSV of words and morphemes, or CSV in the format of MorphScore.

    Raises:
        ModtokError: the file cannot be read, or the morphemes of a line do not make up its word.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = _tsv(file.read()) if path.suffix == ".tsv" else _csv(csv.DictReader(file))
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=path) from error
    except UnicodeDecodeError as error:
        raise ModtokError("not UTF-8", where=path) from error
    except csv.Error as error:
        raise ModtokError(f"invalid CSV ({error})", where=path) from error
    words = []
    for number, word, morphemes in rows:
        if not word or "".join(morphemes) != word or not all(morphemes):
            raise ModtokError(
                f"the morphemes {'|'.join(morphemes)!r} do not spell the word {word!r}",
                where=f"{path}:{number}",
                remedy=_FORMAT,
            )
        words.append(tuple(morphemes))
    if not words:
        raise ModtokError("contains no words", where=path, remedy=_FORMAT)
    return words


Rows = list[tuple[int, str, list[str]]]


def _tsv(text: str) -> Rows:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            word, _, morphemes = line.partition("\t")
            rows.append((number, word.strip(), morphemes.strip().split("|")))
    return rows


def _csv(reader: csv.DictReader[str]) -> Rows:
    def cell(row: Mapping[str, str | None], name: str) -> str:
        return (row.get(name) or "").strip()

    return [
        (reader.line_num, cell(row, "full_word"), [cell(row, "pt1"), cell(row, "rest")])
        for row in reader
    ]
