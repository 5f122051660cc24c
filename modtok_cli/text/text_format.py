"""Definition of a text format, and the shared parts of readers.

A module of `text/formats` defines `FORMATS`, a tuple of `TextFormat`; modules of that package are
discovered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int64Array, UInt8Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.plugins import modules_of
from modtok_cli.base.progress import Progress
from modtok_cli.core import binding
from modtok_cli.core.text import joined
from modtok_cli.text.file_labels import has_script
from modtok_cli.text.languages import Label, canonical
from modtok_cli.text.reading import LONGEST, Reading
from modtok_cli.text.streams import CHUNK, SUFFIXES, Advance, Broken, display, read_chunks

PADDING = bytes(binding.PADDING)

FIELD = "text"
"""The field of the text, unless --field names another."""
_PROSE = 30  # characters
# After so many documents without the field, the field is taken for a wrong one.
_ENOUGH = 1000


@dataclass(frozen=True, slots=True)
class Document:
    """A text (valid UTF-8), its stated language, and its line or row number (from 1).

    `source`: where it comes from, if the file has one of `Reading.source_fields`.
    """

    text: bytes
    language: str | None
    line: int
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Spans:
    """Documents as places in one buffer: document d is data[starts[d]:stops[d]].

    Shapes: data (B,) uint8, with at least `PADDING` after the last document;
    starts, stops (D,) int64. Places may overlap.
    """

    data: UInt8Array
    starts: Int64Array
    stops: Int64Array


@dataclass(frozen=True)
class TextSource:
    """A file, pipe or "-". `begun`: its content, if reading has begun."""

    path: str | Path
    advance: Advance | None = None
    begun: Iterator[bytes] | None = None

    @property
    def name(self) -> str:
        """Its name in errors."""
        return display(self.path)

    def chunks(self) -> Iterator[bytes]:
        """Return its content in pieces of half a megabyte, as `streams.read_chunks`."""
        return read_chunks(self.path, self.advance) if self.begun is None else self.begun


class TextReader(ABC):
    """Reads one file in blocks, and counts what it leaves out.

    A format implements `blocks` (half a megabyte each, of any type) and `documents` of a block.
    """

    def __init__(self, source: TextSource, reading: Reading) -> None:
        self.source = source
        self.name = source.name
        self.reading = reading
        self.seen = 0
        self.repaired: list[int] = [0, 0]  # how many, and the line of the first
        self.empty: list[int] = [0, 0]
        self.unlabelled: list[int] = [0, 0]
        self._long: list[int] = [0, 0]
        self._damage: list[ModtokError] = []  # the first
        self._damaged = 0
        self._absent = 0
        self._fields: list[str] = []
        self._taken = ""

    @abstractmethod
    def blocks(self) -> Iterator[Any]:
        """Return the file in pieces."""

    @abstractmethod
    def documents(self, block: Any) -> list[Document]:
        """Return the documents of a block."""

    def spans(self, block: Any) -> Spans:
        """Return the documents of a block for counting: without Python objects where possible."""
        return Spans(*joined([document.text for document in self.documents(block)]))

    def report(self, progress: Progress) -> None:
        """Warn, in a line each, about documents that were changed or left out."""
        if self._taken:
            progress.note(
                f"{self.name}: has no field '{FIELD}'; '{self._taken}' is the only one with text, "
                "and is read (--field names another)"
            )
        if self._absent and not self.seen:
            raise self.no_field(self._fields, self.empty[1])
        if self._damage:
            if not self.seen:  # the wrong file or field, rather than a damaged document
                raise self._damage[0]
            place, what = self._damage[0].where, self._damage[0].what
            progress.warn(f"{place}: {what}; {_documents(self._damaged)} skipped")
        reading = self.reading
        done = "skipped" if reading.errors == "skip" else "read with U+FFFD for invalid bytes"
        for (number, first), what, how in (
            (self.repaired, "not UTF-8", done),
            (self._long, f"more than {reading.longest:,} bytes", "skipped"),
            (self.empty, f"no text in field '{reading.field}'", "skipped"),
            (self.unlabelled, f"no language in field '{reading.language_field}'", "skipped"),
        ):
            if number:
                progress.warn(f"{self.name}:{first}: {what}; {_documents(number)} {how}")

    def take_field(self, names: Iterable[str]) -> None:
        """Read the text from the only field that holds one, of a file without the usual field."""
        others = (self.reading.language_field, *self.reading.source_fields)
        found = [name for name in names if name not in others]
        if self.reading.field == FIELD and self.reading.renderer is None and len(found) == 1:
            self._taken = found[0]
            self.reading = replace(self.reading, field=found[0])

    def no_field(self, fields: Iterable[str], line: int) -> ModtokError:
        """Return the error for a file without the field of the text."""
        names = ", ".join(list(fields)[:8])
        return ModtokError(
            f"no field '{self.reading.field}'",
            where=f"{self.name}:{line}",
            remedy=f"choose one with --field: {names}" if names else "choose one with --field",
        )

    def lacks_text(self, line: int, fields: Iterable[str] | None = None) -> None:
        """Count a document whose text is null or missing; `fields`: what it has instead."""
        _count(self.empty, line)
        if fields is not None:
            self._absent += 1
            self._fields = self._fields or list(fields)
            if self._absent >= _ENOUGH and not self.seen:
                raise self.no_field(self._fields, self.empty[1])

    def language(self, value: Any, line: int) -> str | None:
        """Return the language of a document from the value of its field."""
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise ModtokError(
                f"field '{self.reading.language_field}' is not a language code",
                where=f"{self.name}:{line}",
                remedy="fix or drop it",
            )
        return canonical(value)

    def source_of(self, record: Mapping[str, Any]) -> str | None:
        """Return the source that a document states, if sources are read; of a URL its host."""
        for name in self.reading.source_fields:
            if isinstance(value := value_of(record, name)[1], str) and value:
                return value.split("/", 3)[2] if value.count("/") > 1 else value
        return None

    def is_wanted(self, language: str | None, line: int) -> bool:
        """Return whether a document of this language is read; count it if it has none."""
        self.seen += 1
        wanted = self.reading.language
        if wanted is not None and language is None:
            _count(self.unlabelled, line)
        return wanted is None or (
            language is not None and Label.of(wanted).fits(Label.of(language))
        )

    def repair(self, text: Callable[[], bytes], what: str, line: int) -> bytes | None:
        """Fail by `errors`, or return the text with replacements, or None to skip the document."""
        if self.reading.errors == "strict":
            raise ModtokError(
                what,
                where=f"{self.name}:{line}",
                remedy="pass --errors replace or --errors skip, or convert the file",
            )
        _count(self.repaired, line)
        return text() if self.reading.errors == "replace" else None

    def damaged(self, what: str, line: int, remedy: str = "fix or delete the line") -> None:
        """By `errors`: fail, or leave a document out that no replacement can mend."""
        where, way = f"{self.name}:{line}", f"{remedy}, or pass --errors skip"
        if self.reading.errors != "skip":
            raise ModtokError(what, where=where, remedy=way)
        self._damaged += 1
        if not self._damage:
            self._damage = [ModtokError(what, where=where, remedy=remedy)]

    def too_long(self, line: int) -> None:
        """By `errors`: fail, or leave out a document that is longer than `Reading.longest`."""
        if self.reading.errors != "skip":
            memory = "raise --memory, " if self.reading.longest < LONGEST else ""
            raise ModtokError(
                f"more than {self.reading.longest:,} bytes in one document",
                where=f"{self.name}:{line}",
                remedy=f"{memory}break it into several, or pass --errors skip",
            )
        _count(self._long, line)

    def lines(self) -> Iterator[Lines]:
        """Yield chunks that end at line ends, without lines that are `too_long`.

        A byte order mark before the first line is no text.
        """
        line = 1
        held: list[bytes] = []
        size, left_out = 0, False
        try:
            for number, read in enumerate(self.source.chunks()):
                if not number and read.startswith(_UTF_16):
                    raise ModtokError(
                        "is UTF-16",
                        where=self.name,
                        remedy="convert it: iconv -f UTF-16 -t UTF-8",
                    )
                chunk = read if number else read.removeprefix(BOM)
                start, cut = 0, chunk.rfind(b"\n") + 1
                if cut and left_out:
                    start, line, left_out = chunk.find(b"\n") + 1, line + 1, False
                if cut > start:
                    block = b"".join([*held, memoryview(chunk)[start:cut]])
                    held, size = [], 0
                    yield Lines(block, line)
                    line += line_ends(block)
                if cut < len(chunk) and not left_out:
                    held.append(chunk[cut:])
                    size += len(held[-1])
                    if size > self.reading.longest:
                        self.too_long(line)
                        held, size, left_out = [], 0, True
        except Broken as error:
            raise ModtokError(
                f"{error}",
                where=f"{self.name}:{line}",
                remedy="the lines before this one are complete; download or create the file again",
            ) from error
        if held:
            yield Lines(b"".join(held), line)

    def checked(self, text: bytes, line: int) -> bytes | None:
        """Return a text as UTF-8, by `errors`."""
        try:
            text.decode()
        except UnicodeDecodeError as error:
            what = f"not UTF-8 (byte 0x{text[error.start]:02x} at column {error.start + 1})"
            return self.repair(lambda: text.decode(errors="replace").encode(), what, line)
        return text


def is_prose(value: Any) -> bool:
    """Whether a value is text, and not a name, a code, a number or an address.

    >>> [is_prose(value) for value in ("Il était une fois un roi qui aimait le thé.", "fi", 3)]
    [True, False, False]
    """
    if not isinstance(value, str) or len(value) < _PROSE or "://" in value:
        return False
    return value.count(" ") > 3 or not value.isascii()


def value_of(record: Mapping[str, Any], name: str) -> tuple[bool, Any]:
    """Return whether a record has a field, and its value: of the whole name, else by dots."""
    if name in record:
        return True, record[name]
    value: Any = record
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return value is None, None
        value = value[part]
    return True, value


def _documents(number: int) -> str:
    return f"{number} document{'s' * (number != 1)}"


def _count(tally: list[int], line: int) -> None:
    tally[0] += 1
    tally[1] = tally[1] or line


@dataclass(frozen=True)
class TextFormat:
    """A format of text files.

    Attributes:
        suffixes: names of its files end with one of them.
        reader: reads a file.
        packed_suffixes: further ones, which count only before a suffix of compression.
        compressed: whether a suffix of compression may follow.
        fields: whether documents have fields; `--field` and `--lang-field` choose among them.
        begins: recognizes the beginning of a pipe, or of a compressed file without a suffix.
        left_out: recognizes files that programs leave beside those with text.
    """

    suffixes: tuple[str, ...]
    reader: type[TextReader]
    packed_suffixes: tuple[str, ...] = ()
    compressed: bool = True
    fields: bool = True
    begins: Callable[[bytes], bool] | None = None
    left_out: Callable[[Path], bool] | None = None


@cache
def text_formats() -> Mapping[str, TextFormat]:
    """Return formats by suffix; what a module does not know is not text."""
    every = modules_of("modtok_cli.text.formats", "FORMATS").values()
    return {suffix: each for some in every for each in some for suffix in each.suffixes}


def format_of_name(path: Path) -> TextFormat | None:
    """Return the format of a file by its name; None for other files, and if the content decides.

    Lines may have a label with a script as their suffix, as dev.fra_Latn.
    """
    known = text_formats()
    inner = (path.with_suffix("") if path.suffix in SUFFIXES else path).suffix
    if has_script(inner[1:]):
        return known[".txt"]
    if path.suffix not in SUFFIXES:
        format = known.get(path.suffix)
        return None if format and format.left_out and format.left_out(path) else format
    for each in known.values():
        if each.compressed and inner in (*each.suffixes, *each.packed_suffixes):
            return each
    return None


def format_of_content(begin: bytes) -> TextFormat:
    """Return the format of a pipe, or of a file such as `fr.gz`, by its first bytes."""
    for each in text_formats().values():
        if each.begins is not None and each.begins(begin):
            return each
    return text_formats()[".txt"]


BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines, and the number of the first (from 1)."""

    data: bytes
    first: int


def line_ends(block: bytes) -> int:
    """Count the line feeds of a block, ten times as fast as `block.count`."""
    return sum(int(np.count_nonzero(is_end)) for is_end in _ends(block))


def line_end_places(block: bytes | UInt8Array) -> Int64Array:
    """Return where the bytes "\\n" are."""
    return np.concatenate(
        [np.flatnonzero(is_end) + at * CHUNK for at, is_end in enumerate(_ends(block))]
    )


def _ends(block: bytes | UInt8Array) -> Iterator[BoolArray]:
    """Whether each byte ends a line, a chunk at a time: a long line is not held once more."""
    data = np.frombuffer(block, dtype=np.uint8)
    return (data[at : at + CHUNK] == 10 for at in range(0, max(len(data), 1), CHUNK))
