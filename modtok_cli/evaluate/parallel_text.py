"""Parallel text in the common layouts.

    DIR/dev/eng_Latn.dev, DIR/devtest/eng_Latn.devtest     FLORES: shots from dev
    DIR/test.tsv, DIR/dev.tsv                              languages in the header, one row per line
    DIR/test.jsonl, DIR/dev.jsonl                          {"en": "…", "fr": "…"} per line, also as
                                                           the value of a field "translation"
    DIR/en.txt, DIR/fr.txt                                 line-aligned files, as in NTREX

or a single `.tsv` or `.jsonl` file. Language codes are as in `text.languages`. The layout may
also be in `DIR/mt/`, or in the only subdirectory of DIR. Without a dev split the first lines are
used as shots and not scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.task_files import Example, json_lines, with_shots
from modtok_cli.measure.aligned import parting
from modtok_cli.text.file_labels import label_of_path
from modtok_cli.text.languages import Label, by_label, matching
from modtok_cli.text.streams import SUFFIXES, Broken, read_chunks
from modtok_cli.text.text_format import format_of_name

_DEV, _TEST = ("dev", "valid", "validation"), ("devtest", "test")
LAYOUTS = (
    "provide parallel text as DIR/mt/dev/eng_Latn.dev and DIR/mt/devtest/eng_Latn.devtest "
    "(FLORES), DIR/mt/test.tsv with languages in its first line, DIR/mt/test.jsonl with "
    '{"en": "…", "fr": "…"} per line, or line-aligned DIR/mt/en.txt, DIR/mt/fr.txt; modtok eval '
    "fetch mt downloads FLORES"
)
_JSON = ".jsonl"
_ROW = 'a row is {"en": "…", "fr": "…"} or {"translation": {"en": "…", "fr": "…"}}'


@dataclass(frozen=True)
class _Side:
    """One split: a table in one file, or one file per language.

    `named`: the columns of a table without a header.
    """

    table: Path | None
    files: dict[str, Path]
    named: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> dict[str, list[str]]:
        """Lines by language, of a table."""
        if self.table is None:
            return {}
        if _JSON not in self.table.suffixes:
            return _read_table(self.table, self.named)
        if self.named:
            raise UsageError("is for TSV", where="--columns", remedy="omit it")
        return _read_rows(self.table)

    @property
    def languages(self) -> list[str]:
        return sorted(self.files if self.table is None else self.columns)

    def find(self, language: str) -> str | None:
        """Return its label here: the first that fits, as `zh` has text in both of its scripts."""
        return next(iter(matching(language, self.languages)), None)

    def lines(self, language: str) -> list[str]:
        if self.table is not None:
            return self.columns[language]
        return [line.strip() for line in _lines(self.files[language])]

    def name(self, language: str) -> str:
        return str(self.files[language] if self.table is None else self.table)


class Parallel:
    """Parallel text of any number of languages.

    Attributes:
        path: its location.
    """

    def __init__(self, path: Path, test: _Side, dev: _Side | None) -> None:
        self.path, self._test, self._dev = path, test, dev
        self._read: dict[tuple[int, str], list[str]] = {}

    @property
    def languages(self) -> list[str]:
        """Languages with test lines, ascending."""
        return self._test.languages

    def has(self, language: str) -> bool:
        """Return whether there are test lines in `language`."""
        return self._test.find(language) is not None

    def files_of(self, languages: Sequence[str]) -> list[Path]:
        """Return the files with the lines of some languages."""
        paths: list[Path] = []
        for part in filter(None, (self._test, self._dev)):
            labels = filter(None, map(part.find, languages))
            names = [part.files[label] for label in labels if label in part.files]
            paths += [part.table] if part.table is not None else names
        return paths

    def pair(
        self, source: str, target: str, shots: int, progress: Progress = SILENT
    ) -> tuple[Sequence[Example], Sequence[Example]]:
        """Return (shots, examples) of a pair, named by lines; shots are the first lines of dev.

        Lines that are empty on one side are skipped with a warning.
        """
        tests, pool = self._sentences(self._test, source, target, progress), None
        if self._dev is not None and all(map(self._dev.find, (source, target))):
            pool = self._sentences(self._dev, source, target, progress)
        return with_shots(tests, pool, shots, of=f"lines of {source}-{target}", where=self.path)

    def _sentences(
        self, part: _Side, source: str, target: str, progress: Progress
    ) -> list[Example]:
        source, target = (part.find(name) or name for name in (source, target))
        ours, theirs = self._lines(part, source), self._lines(part, target)
        if len(ours) != len(theirs):
            lengths = [np.array([len(line) for line in lines]) for lines in (ours, theirs)]
            line = parting(*lengths) + 1
            raise ModtokError(
                f"has {len(theirs):,} lines, {part.name(source)} has {len(ours):,}; they differ "
                "from this line on",
                where=f"{part.name(target)}:{line}",
                remedy="provide the same lines in both languages",
            )
        pairs = [
            Example(str(number), *both)
            for number, both in enumerate(zip(ours, theirs, strict=True), 1)
            if all(both)
        ]
        if len(pairs) < len(ours):
            progress.warn(
                f"{part.name(target)}: skipped {len(ours) - len(pairs):,} lines of "
                f"{source}-{target} that are empty on one side"
            )
        return pairs

    def _lines(self, part: _Side, language: str) -> list[str]:
        key = (id(part), language)
        if key not in self._read:
            self._read[key] = part.lines(language)
        return self._read[key]


def find_parallel(data: Path, progress: Progress = SILENT, columns: Sequence[str] = ()) -> Parallel:
    """Return parallel text in `data`, in `data`/mt, or in the only subdirectory.

    `columns`: languages of the columns of TSV without a header.
    """
    inside = data / "mt"
    start = inside if inside.is_dir() else data
    below = [child for child in _children(start) if child.is_dir()]
    for place in [start, *(below if len(below) == 1 else [])]:
        parallel = _open(place, progress, tuple(columns))
        if parallel is not None:
            return parallel
    if not start.exists():
        raise missing(start, LAYOUTS)
    raise ModtokError("no parallel text", where=start, remedy=LAYOUTS)


def _children(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else []


def _open(place: Path, progress: Progress, named: tuple[str, ...]) -> Parallel | None:
    if place.is_file():
        return Parallel(place, _Side(place, {}, named), None)
    parts = {}
    for name, choices in (("dev", _DEV), ("test", _TEST)):
        for choice in choices:
            if table := next((each for each in _tables(place) if _stem(each) == choice), None):
                parts[name] = _Side(table, {}, named)
            elif files := _files(place / choice, progress):
                parts[name] = _Side(None, files)
    if "test" in parts:
        return Parallel(place, parts["test"], parts.get("dev"))
    tables = _tables(place)
    if len(tables) == 1:
        return Parallel(place, _Side(tables[0], {}, named), None)
    files = _files(place, progress)
    return Parallel(place, _Side(None, files), None) if len(files) > 1 else None


def _tables(place: Path) -> list[Path]:
    """Return files with sentences in several languages."""
    kinds = (".tsv", *(_JSON + suffix for suffix in ("", *SUFFIXES)))
    return [path for path in _children(place) if path.name.endswith(kinds) and path.is_file()]


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _files(directory: Path, progress: Progress) -> dict[str, Path]:
    """Text files of a directory by language; the first by name if a language has several."""
    named: list[tuple[str, Path]] = []
    for path in _children(directory):
        form = format_of_name(path)
        label = label_of_path(path.name)
        if label is None or form is None or form.fields or not path.is_file():
            continue
        named.append((label, path))
    paths: dict[str, Path] = {}
    for language, those in by_label(named).items():
        paths[language] = those[0]
        for path in those[1:]:
            progress.note(f"{path}: ignored, {those[0].name} is used for {language}")
    return paths


def _lines(path: Path) -> list[str]:
    """Return lines, split at line feeds only."""
    try:
        data = b"".join(read_chunks(path))
    except Broken as error:
        raise ModtokError(str(error), where=path) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ModtokError("not UTF-8", where=f"{path}:{line}", remedy="save it as UTF-8") from error
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def _read_rows(path: Path) -> dict[str, list[str]]:
    """Sentences by language of JSON lines; other fields are ignored, a missing one is empty."""
    rows = []
    for number, row in json_lines(path, _ROW):
        texts = row.get("translation", row) if isinstance(row, dict) else None
        fields = texts.items() if isinstance(texts, dict) else ()
        own = {
            key: text for key, text in fields if Label.of(key).is_known and isinstance(text, str)
        }
        if len(own) < 2:
            what = "has no sentences in two languages"
            raise ModtokError(what, where=f"{path}:{number}", remedy=_ROW)
        rows.append({key: " ".join(text.split()) for key, text in own.items()})
    codes = dict.fromkeys(code for row in rows for code in row)
    columns = {}
    for language, spelled in by_label((code, code) for code in codes).items():
        if len(spelled) > 1:
            what = f"has {language} as {spelled[0]} and {spelled[1]}"
            raise ModtokError(what, where=path, remedy="use one code for a language")
        columns[language] = [row.get(spelled[0], "") for row in rows]
    return columns


def _read_table(path: Path, named: Sequence[str] = ()) -> dict[str, list[str]]:
    lines = _lines(path)
    header = [cell.strip() for cell in lines[0].split("\t")] if lines else []
    if named and all(Label.of(cell).is_known for cell in header):
        what = f"the first line names languages: {', '.join(header)}"
        raise UsageError(what, where=path, remedy="omit --columns")
    languages = list(named) or _header(path, header)
    columns: dict[str, list[str]] = {language: [] for language in languages}
    for number, line in enumerate(lines[not named :], 2 - bool(named)):
        cells = line.split("\t")
        if len(cells) != len(languages):
            raise ModtokError(
                f"expected {len(languages)} columns, got {len(cells)}",
                where=f"{path}:{number}",
                remedy="separate the sentences by exactly one tab",
            )
        for language, cell in zip(languages, cells, strict=True):
            columns[language].append(cell.strip())
    return columns


def _header(path: Path, header: Sequence[str]) -> list[str]:
    languages = list(by_label((cell, cell) for cell in header))
    wrong = [cell for cell in header if not Label.of(cell).is_known]
    if wrong or len(languages) < 2 or len(languages) < len(header):
        raise ModtokError(
            f"expected two or more languages in the first line, got {' '.join(header)[:60]!r}",
            where=f"{path}:1",
            remedy="start the file with language codes separated by tabs, or name the columns: "
            "--columns en,fr",
        )
    return languages
