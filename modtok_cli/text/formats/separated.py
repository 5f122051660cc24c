"""CSV and TSV with a header: a document per row, with the text in one of the columns.

Cells are quoted as spreadsheets and pandas do it: `"a ""b"" c"`, and may then hold line ends. Many
programs write TSV without quoting (`_is_quoted`).
"""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.text.streams import CHUNK
from modtok_cli.text.table_files import TEXT_SUFFIX
from modtok_cli.text.text_format import Document, Lines, TextFormat, TextReader, is_prose

_MARKS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_MARKED = re.compile(r"[,\t;|]|.{30}")
"""In no name of a column: a separator, or a sentence."""
_WIDTH = 4
"""Bytes of a character while a cell is read. An open quote takes in all that follows."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row: line of its beginning, text, language; None for a cell that is not there."""

    line: int
    text: str
    language: str | None


class Commas(TextReader):
    """Cells separated by commas."""

    delimiter = ","

    def too_long(self, line: int) -> None:
        """Fail: a line that is left out may be part of a row."""
        raise ModtokError(
            f"a line of more than {self.reading.longest:,} bytes",
            where=f"{self.name}:{line}",
            remedy="break it into several, or write JSON lines, of which --errors skip skips one",
        )

    def blocks(self) -> Iterator[list[_Row]]:
        block: list[_Row] = []
        size = 0
        header: list[str] | None = None
        places: tuple[int, int | None] | None = None
        first = 0
        for line, row in self.rows(self.lines()):
            if header is None:
                header, first = row, line
                continue
            if places is None:
                if self.reading.field not in header and not any(map(_MARKED.search, header)):
                    cells = zip(header, row, strict=False)
                    self.take_field(name for name, cell in cells if is_prose(cell))
                places = self._places(header, first)
            if len(row) != len(header):
                raise ModtokError(
                    f"{len(row)} cells under a header of {len(header)}",
                    where=f"{self.name}:{line}",
                    remedy="quote cells that hold separators or line ends",
                )
            text = row[places[0]]
            language = None if places[1] is None else row[places[1]] or None
            block.append(_Row(line, text, language))
            size += len(text)
            if size >= CHUNK:
                yield block
                block, size = [], 0
        if header is not None and places is None:
            self._places(header, first)
        if block:
            yield block

    def rows(self, blocks: Iterable[Lines]) -> Iterator[tuple[int, list[str]]]:
        """Rows of quoted cells, with the line of their beginning."""
        # A limit of the process; other readers keep none of theirs.
        csv.field_size_limit(self.reading.longest // _WIDTH)
        blocks = iter(blocks)
        begin = next(blocks, None)
        if begin is None:
            return
        lines = (line for block in chain([begin], blocks) for line in _decoded(block))
        rows = csv.reader(lines, delimiter=self.delimiter, strict=True)
        line = begin.first
        try:
            for row in rows:
                first, line = line, rows.line_num + begin.first
                if row:
                    yield first, row
        except csv.Error as error:
            raise ModtokError(
                f"not {'TSV' if self.delimiter == chr(9) else 'CSV'} ({error})",
                where=f"{self.name}:{line}",
                remedy="quote cells that hold quotes or line ends, and close every quote",
            ) from error

    def _places(self, header: list[str], line: int) -> tuple[int, int | None]:
        """Return columns of the text and of the language."""
        reading = self.reading
        if reading.field not in header:
            for mark, marks in _MARKS.items():
                if mark == self.delimiter:
                    continue
                cells = self.delimiter.join(header).split(mark)
                if reading.field in cells or (len(header) == 1 and len(cells) > 1):
                    raise ModtokError(
                        f"cells are separated by {marks}, not by {_MARKS[self.delimiter]}",
                        where=f"{self.name}:{line}",
                        remedy="write the file again, with commas (.csv) or tabs (.tsv)",
                    )
            if header[-1].isdigit():  # "nice\t1": a row with a label, or a count
                raise ModtokError(
                    "no header",
                    where=f"{self.name}:{line}",
                    remedy=f"begin the file with names of its columns, as {reading.field} and "
                    f"label; a table of word counts is named NAME{TEXT_SUFFIX}",
                )
            raise self.no_field(header, line)
        for name in (reading.field, reading.language_field):
            if name is not None and header.count(name) > 1:
                raise ModtokError(f"two columns '{name}'", where=f"{self.name}:{line}")
        name = reading.language_field
        return header.index(reading.field), header.index(name) if name in header else None

    def documents(self, block: list[_Row]) -> list[Document]:
        documents = []
        for row in block:
            language = self.language(row.language, row.line)
            text = row.text.encode("utf-8", "surrogateescape")
            if self.reading.renderer is not None:
                text = self.reading.renderer(row.text, f"{self.name}:{row.line}")
            if not self.is_wanted(language, row.line):
                continue
            checked = self.checked(text, row.line)
            if checked is not None:
                documents.append(Document(checked, language, row.line))
        return documents


class Tabs(Commas):
    """Cells separated by tabs. The first half megabyte with quotes tells whether they quote."""

    delimiter = "\t"
    _unquoted = 0  # line of the first cell that begins with a quote, if that is text

    def report(self, progress: Progress) -> None:
        """As of any text; and where quotes are text."""
        super().report(progress)
        if self._unquoted:
            progress.note(f"{self.name}:{self._unquoted}: cells are not quoted; quotes are text")

    def rows(self, blocks: Iterable[Lines]) -> Iterator[tuple[int, list[str]]]:
        """As of CSV, or each line is a row."""
        blocks = iter(blocks)
        is_known, width = False, 0
        while block := next(blocks, None):
            lines = list(_decoded(block))
            if not is_known and b'"' in block.data:
                is_known, following = True, [each for each in [next(blocks, None)] if each]
                blocks = chain(following, blocks)
                if _is_quoted("".join(lines), width, is_whole=not following):
                    yield from super().rows(chain([block], blocks))
                    return
            for number, line in enumerate(lines, block.first):
                if row := line.rstrip("\r\n"):
                    cells = row.split("\t")
                    width = width or len(cells)
                    if not self._unquoted and any(cell.startswith('"') for cell in cells):
                        self._unquoted = number
                    yield number, cells


_CELL = re.compile(r'(?:"([^"]*(?:""[^"]*)*)("|\Z)(?=[\t\n]|\Z)|([^\t\n]*))(\t|\n|\Z)')


def _is_quoted(text: str, width: int, is_whole: bool) -> bool:
    """Whether quotes at the beginning of TSV cells quote: all agree with a program that quotes.

    It quotes every cell, or those with quotes, tabs and line ends, and these all; and a quoted
    cell does not begin and end within complete rows. `width`: cells of a row, 0 if the text begins
    with the header; `is_whole`: whether nothing follows the text.
    """
    text = text.replace("\r\n", "\n")
    at = column = 0
    all_quoted = are_needed = True
    while at < len(text):
        cell = _CELL.match(text, at)
        assert cell is not None  # it matches any text
        quoted, closed, plain, end = cell.groups()
        at = cell.end()
        if quoted is None:
            if '"' in plain:
                return False
            all_quoted = all_quoted and not plain.strip("0123456789.-")
        elif not closed and is_whole:
            return False
        else:
            first, *inner = (line.count("\t") for line in quoted.split("\n"))
            is_row = bool(inner) and column + first == width - 1 and inner[-1] == column
            if width > 1 and (is_row or width - 1 in inner[:-1]):
                return False
            is_needed = any(mark in quoted for mark in ('""', "\t", "\n", "\r"))
            are_needed = are_needed and (is_needed or (width == 1 and not quoted))
        column += 1
        if end != "\t":
            width, column = width or column, 0
    return all_quoted or are_needed


def _decoded(block: Lines) -> Iterator[str]:
    """Yield lines with their ends; invalid bytes are kept, and reported with the row."""
    lines = block.data.split(b"\n")
    last = lines.pop()
    yield from (line.decode("utf-8", "surrogateescape") + "\n" for line in lines)
    if last:
        yield last.decode("utf-8", "surrogateescape")


FORMATS = (TextFormat((".csv",), Commas), TextFormat((".tsv",), Tabs))
