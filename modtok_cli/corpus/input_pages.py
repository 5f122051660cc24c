"""Find the input files of a build and read their pages."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.remote import path_of
from modtok_cli.corpus.parts import is_part
from modtok_cli.corpus.warc import MAX_BYTES, Bad, Page, Record, read_warc
from modtok_cli.text.directory import Directory
from modtok_cli.text.streams import Broken, is_pipe, read_chunks
from modtok_cli.text.text_format import BOM

# File name suffix (without `.gz` or `.zst`) -> format.
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
_KNOWN = ".warc, .wet, .html, .txt, .jsonl (also .gz or .zst)"
# Web servers append a language or number: page.html.fi, index.htm.1
_LAST_TWO = re.compile(r"(\.[a-z]+)\.[A-Za-z0-9_-]{1,8}$")
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{2,40})", re.I)
_HEAD = 2048
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# Declared by default. Not believed if the bytes look like another script.
_DEFAULTS = frozenset({"windows-1252", "cp1252", "iso-8859-1", "latin-1", "us-ascii", "utf-8"})


def format_of(path: Path) -> str | None:
    """Format of a file: "warc", "html", "lines", "json", or None.

    >>> [format_of(Path(name)) for name in ("CC-0.warc.wet.gz", "a.html.fi", "b.png")]
    ['warc', 'html', None]
    """
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    kind = FORMATS.get(Path(name).suffix)
    if kind is None and (match := _LAST_TWO.search(name)):
        kind = "html" if FORMATS.get(match[1]) == "html" else None
    return kind


def find_files(
    inputs: Sequence[str | Path], output: Path | None = None, progress: Progress = SILENT
) -> list[Path]:
    """Files of `inputs`, with directories searched recursively; sorted, without duplicates.

    The corpus itself is skipped if `output` lies in a searched directory, so that the same call
    finds the same files again.

    The order decides which of two equal paragraphs is kept. It therefore does not depend on the
    order of `inputs` or on the file system.

    Raises:
        UsageError: a name has no known format, an input is a pipe, or there are no inputs.
        ModtokError: a file does not exist, or a directory contains no pages.
    """
    if not inputs:
        raise UsageError("no input", remedy=f"pass files or directories of {_KNOWN}")
    files: set[Path] = set()
    for each in inputs:
        path = path_of(each)
        if is_pipe(each):
            raise UsageError(
                "a pipe cannot be read again after an interruption",
                where=each,
                remedy="save it to a file",
            )
        if path.is_dir():
            directory = Directory(path, lambda file: format_of(file) is not None, _KNOWN)
            below = [
                file for file in directory.below(path) if not (output and is_part(file, output))
            ]
            directory.tell(progress)
            if not below:
                raise ModtokError(
                    "directory contains no pages", where=path, remedy=f"expected {_KNOWN}"
                )
            files.update(below)
        elif not path.exists():
            raise missing(path)
        elif format_of(path) is None:
            raise UsageError("unknown file format", where=path, remedy=f"expected {_KNOWN}")
        else:
            files.add(path)
    return sorted(files)


def read_pages(path: Path, limit: int = MAX_BYTES) -> Iterator[Record]:
    """Yield every page of a file; damaged records do not stop the reading.

    Raises:
        ModtokError: the file cannot be opened.
    """
    kind = format_of(path)
    if kind == "warc":
        return read_warc(path, limit)
    if kind == "html":
        return _read_html(path, limit)
    return _read_lines(path, limit, is_json=kind == "json")


def _read_html(path: Path, limit: int) -> Iterator[Record]:
    data = b""
    try:
        for chunk in read_chunks(path):
            data += chunk
            if len(data) > limit:
                yield Bad(0, "too large", f"over {limit:,} bytes")
                return
    except Broken as error:
        yield Bad(0, "damaged", str(error))
        return
    yield Page(data, True, 0)


def _read_lines(path: Path, limit: int, is_json: bool) -> Iterator[Record]:
    offset = 0
    try:
        for line, size in _lines(path, limit):
            if line is None:
                yield Bad(offset, "too large", f"{size:,} bytes")
            elif line.strip():
                text = line if offset else line.removeprefix(BOM)
                yield _json_page(text, offset) if is_json else Page(text, False, offset)
            offset += size
    except Broken as error:
        yield Bad(offset, "damaged", str(error))


def _json_page(line: bytes, offset: int) -> Record:
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


def _lines(path: Path, limit: int) -> Iterator[tuple[bytes | None, int]]:
    """(line, size with its newline); the line is None if it is longer than `limit`."""
    held: list[bytes] = []
    size = 0
    for chunk in read_chunks(path):
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
            held = []  # too long: only its size is needed
    if size:
        yield (b"".join(held) if size <= limit else None), size


def decode(data: bytes, declared: str | None, is_html: bool) -> str:
    """Decode `data`; bytes that fit no encoding become U+FFFD.

    In this order: a byte order mark; UTF-8, if the bytes are valid; the charset declared by server
    or page, if the bytes are valid and it is not a default Latin-1 over what looks like another
    script; the detected charset.

    >>> decode("ääni".encode("latin-1"), "utf-8", False), decode(b"\\xef\\xbb\\xbfa", None, False)
    ('ääni', 'a')
    """
    from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

    for mark, name in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, errors="replace")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(data) - error.start < 4:
            return data[: error.start].decode()  # truncated by the crawler within a character
    meta = _META.search(data, 0, _HEAD) if is_html else None
    declarations = [declared, meta[1].decode("ascii") if meta else None]
    known = [map_encoding_to_html5(name, fallback_utf8=False) for name in declarations if name]
    guessed = detect_encoding(data)
    candidates = [name for name in known if name and name.lower() not in _DEFAULTS]
    if guessed:
        candidates.append(guessed)
    candidates += [name for name in known if name]
    for name in candidates:
        try:
            text = data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
        return text
    return data.decode(errors="replace")
