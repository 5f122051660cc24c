"""CSV and TSV with a header: a document per row, with the text in one of the columns.

Cells are quoted as spreadsheets and pandas do it: `"a ""b"" c"`, and may then hold line ends. A
`.tsv` without a header is a table of word counts (`table_files.is_table`).
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.text.streams import CHUNK
from modtok_cli.text.text_format import Document, TextFormat, TextReader

_MARKS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
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
    _swallowed: int | None = None

    def swallows(self, cell: str) -> bool:
        """Whether a cell probably holds the next rows, since its quote was none."""
        return False

    def too_long(self, line: int) -> None:
        """Fail: a line that is left out may be part of a row."""
        raise ModtokError(
            f"a line of more than {self.reading.longest:,} bytes",
            where=f"{self.name}:{line}",
            remedy="break it into several, or write JSON lines, of which --errors skip skips one",
        )

    def report(self, progress: Progress) -> None:
        """As of any text; and where quotes may be text."""
        super().report(progress)
        if self._swallowed is not None:
            progress.warn(
                f"{self.name}:{self._swallowed}: a quoted cell holds tabs and line ends; if "
                "cells of this file are not quoted, rows were read as one: write cells with "
                'quotes as "a ""b"" c"'
            )

    def blocks(self) -> Iterator[list[_Row]]:
        # A limit of the process; other readers keep none of theirs.
        csv.field_size_limit(self.reading.longest // _WIDTH)
        rows = csv.reader(self._lines(), delimiter=self.delimiter, strict=True)
        block: list[_Row] = []
        size, line = 0, 1
        header: list[str] | None = None
        places: tuple[int, int | None] = (0, None)
        try:
            for row in rows:
                first, line = line, rows.line_num + 1
                if not row:
                    continue
                if header is None:
                    header, places = row, self._places(row, first)
                    continue
                if len(row) != len(header):
                    raise ModtokError(
                        f"{len(row)} cells under a header of {len(header)}",
                        where=f"{self.name}:{first}",
                        remedy="quote cells that hold separators or line ends",
                    )
                if line - first > 1 and self._swallowed is None and any(map(self.swallows, row)):
                    self._swallowed = first
                text = row[places[0]]
                language = None if places[1] is None else row[places[1]] or None
                block.append(_Row(first, text, language))
                size += len(text)
                if size >= CHUNK:
                    yield block
                    block, size = [], 0
        except csv.Error as error:
            raise ModtokError(
                f"not {'TSV' if self.delimiter == chr(9) else 'CSV'} ({error})",
                where=f"{self.name}:{line}",
                remedy="quote cells that hold quotes or line ends, and close every quote",
            ) from error
        if block:
            yield block

    def _lines(self) -> Iterator[str]:
        for block in self.lines():
            # Invalid bytes are kept, and reported with the row.
            for line in _with_ends(block.data):
                yield line.decode("utf-8", "surrogateescape")

    def _places(self, header: list[str], line: int) -> tuple[int, int | None]:
        """Columns of the text and of the language."""
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
            if not self.is_wanted(language, row.line):
                continue
            checked = self.checked(text, row.line)
            if checked is not None:
                documents.append(Document(checked, language, row.line))
        return documents


class Tabs(Commas):
    """Cells separated by tabs."""

    delimiter = "\t"

    def swallows(self, cell: str) -> bool:
        """A cell with tabs and line ends: many programs write TSV without quoting."""
        return "\t" in cell and "\n" in cell


def _with_ends(data: bytes) -> Iterator[bytes]:
    """Lines with their "\\n"; no other character ends a line."""
    lines = data.split(b"\n")
    last = lines.pop()
    yield from (line + b"\n" for line in lines)
    if last:
        yield last


FORMATS = (TextFormat((".csv",), Commas), TextFormat((".tsv",), Tabs))
