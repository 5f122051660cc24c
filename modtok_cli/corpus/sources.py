"""Which files a corpus is built from, and the pages in each, by its format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus.members import Advance
from modtok_cli.corpus.pages import MAX_BYTES, Bad, Found, Page
from modtok_cli.corpus.parts import is_part
from modtok_cli.corpus.warc import read_warc
from modtok_cli.text.streams import Broken, is_pipe, read_chunks

# The end of a name, before `.gz` or `.zst`, and the format it stands for.
FORMATS = {
    ".warc": "warc",
    ".wet": "warc",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".txt": "lines",
    ".jsonl": "json",
    ".ndjson": "json",
}
_BOM = b"\xef\xbb\xbf"
_KNOWN = ".warc, .wet, .html, .txt, .jsonl (also .gz or .zst)"
# A suffix of language or number behind, as web servers have it: page.html.fi, index.htm.1
_LAST_TWO = re.compile(r"(\.[a-z]+)\.[A-Za-z0-9_-]{1,8}$")


def format_of(path: Path) -> str | None:
    """How the file holds its pages: "warc", "html", "lines", "json", or None.

    >>> [format_of(Path(name)) for name in ("CC-0.warc.wet.gz", "a.html.fi", "b.png")]
    ['warc', 'html', None]
    """
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    found = FORMATS.get(Path(name).suffix)
    if found is None and (match := _LAST_TWO.search(name)):
        found = "html" if FORMATS.get(match[1]) == "html" else None
    return found


def find_files(inputs: Sequence[str | Path], output: Path | None = None) -> list[Path]:
    """The files of `inputs`, directories searched through; sorted, each once.

    Where the corpus goes into a directory that is searched, at `output`, its own files are
    not taken for pages: the same call must mean the same after it was done.

    The order decides which of two equal paragraphs is the first, so it must not depend on
    the order they were named in, nor on the file system.

    Raises:
        UsageError: a name that tells no format, a pipe, or nothing named.
        ModtokError: no such file, or a directory without pages.
    """
    if not inputs:
        raise UsageError("no input named", remedy=f"name files or directories of {_KNOWN}")
    found: set[Path] = set()
    for each in inputs:
        path = Path(each)
        if is_pipe(each):
            raise UsageError(
                "a pipe cannot be read again after an interruption",
                where=str(each),
                remedy="put it into a file",
            )
        if path.is_dir():
            below = [
                file
                for file in path.rglob("*")
                if format_of(file)
                and file.is_file()
                and not any(part.startswith(".") for part in file.relative_to(path).parts)
                and not (output and is_part(file, output))
            ]
            if not below:
                raise ModtokError("no pages in this directory", where=str(path), remedy=_KNOWN)
            found.update(below)
        elif not path.exists():
            raise ModtokError("no such file or directory", where=str(path), remedy="check the name")
        elif format_of(path) is None:
            raise UsageError("the name tells no format", where=str(path), remedy=_KNOWN)
        else:
            found.add(path)
    return sorted(found)


def read_pages(
    path: Path, advance: Advance | None = None, limit: int = MAX_BYTES
) -> Iterator[Found]:
    """Every page of a file, whatever its format; nothing in it ends the reading.

    Raises:
        ModtokError: the file cannot be opened.
    """
    kind = format_of(path)
    if kind == "warc":
        return read_warc(path, advance, limit)
    if kind == "html":
        return _read_html(path, advance, limit)
    return _read_lines(path, advance, limit, is_json=kind == "json")


def _read_html(path: Path, advance: Advance | None, limit: int) -> Iterator[Found]:
    data = b""
    try:
        for chunk in _chunks(path, advance):
            data += chunk
            if len(data) > limit:
                yield Bad(0, "too large", f"over {limit:,} bytes")
                return
    except Broken as error:
        yield Bad(0, "damaged", str(error))
        return
    yield Page(data, True, 0)


def _read_lines(path: Path, advance: Advance | None, limit: int, is_json: bool) -> Iterator[Found]:
    offset = 0
    try:
        for line, size in _lines(path, advance, limit):
            if line is None:
                yield Bad(offset, "too large", f"{size:,} bytes")
            elif line.strip():
                if is_json:
                    yield _json_page(line if offset else line.removeprefix(_BOM), offset)
                else:
                    yield Page(line, False, offset)
            offset += size
    except Broken as error:
        yield Bad(offset, "damaged", str(error))


def _json_page(line: bytes, offset: int) -> Found:
    try:
        record: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Bad(offset, "not JSON", error.msg)
    text = record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str):
        return Bad(offset, "no text", "no field 'text' that is a string")
    url, date = record.get("url"), record.get("date")
    return Page(
        text.encode(),
        False,
        offset,
        "utf-8",
        url if isinstance(url, str) else None,
        date if isinstance(date, str) else None,
    )


def _lines(path: Path, advance: Advance | None, limit: int) -> Iterator[tuple[bytes | None, int]]:
    """(line, its bytes with the newline); None for a line longer than `limit`."""
    held: list[bytes] = []
    size = 0
    for chunk in _chunks(path, advance):
        start = 0
        while (stop := chunk.find(b"\n", start)) >= 0:
            piece = chunk[start:stop]
            whole = size + len(piece)
            yield (b"".join([*held, piece]) if whole <= limit else None), whole + 1
            held, size, start = [], 0, stop + 1
        size += len(chunk) - start
        if size <= limit:
            held.append(chunk[start:])
        else:
            held = []  # too long: only its length is of interest
    if size:
        yield (b"".join(held) if size <= limit else None), size


def _chunks(path: Path, advance: Advance | None) -> Iterator[bytes]:
    place = 0

    def read(amount: float) -> None:
        nonlocal place
        place += int(amount)
        if advance:
            advance(place)

    return read_chunks(path, read)
