"""Read documents: text lines and JSON lines, compressed or not, from files, directories, pipes.

A text file has one document per line. Lines end at "\\n" only and are otherwise kept byte for
byte; a blank line is an empty document, so lines of parallel files stay aligned. A JSON line
is an object with the text under "text" and optionally its language under "lang".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.text.counts import Bytes, Ints
from modtok_cli.text.languages import normalize
from modtok_cli.text.streams import Advance, Broken, display, is_pipe, read_chunks

ERRORS = ("strict", "replace", "skip")

LINE_SUFFIXES = (".txt", ".dev", ".devtest", ".test")
JSON_SUFFIXES = (".jsonl", ".ndjson")
COMPRESSED = (".zst", ".gz")

LONGEST_LINE = 1 << 28
"""Bytes of the longest line that is read: a gigabyte without a line end may be kilobytes of
compressed file, and would be held in memory several times."""

_PADDING = bytes(16)  # kernels load 16 bytes at a time
_ASCII = bytes(3)  # `is_utf8` needs it before the tested bytes
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Document:
    """A text (valid UTF-8), its stated language, and its line number (from 1)."""

    text: bytes
    language: str | None
    line: int


@dataclass(frozen=True, slots=True)
class Spans:
    """Documents as places in one buffer: document d is data[starts[d]:stops[d]].

    Shapes: data (B,) uint8, with at least 16 bytes after the last document;
    starts, stops (D,) int64.
    """

    data: Bytes
    starts: Ints
    stops: Ints


def is_text(path: Path) -> bool:
    """Whether a file with this name contains documents."""
    return _format(path) is not None


def _format(path: Path) -> str | None:
    stem = path.with_suffix("") if path.suffix in COMPRESSED else path
    if stem.suffix in LINE_SUFFIXES:
        return "lines"
    return "json" if stem.suffix in JSON_SUFFIXES else None


def text_files(path: str | Path) -> list[str | Path]:
    """The files to read for `path`: itself, or for a directory those below it, sorted.

    Hidden files and other formats in a directory are skipped.

    Raises:
        ModtokError: no such file; a directory without text; an unknown format.
    """
    if is_pipe(path):
        return [path]
    path = Path(path)
    known = ", ".join((*LINE_SUFFIXES, *JSON_SUFFIXES))
    if path.is_dir():
        found = sorted(
            file
            for file in path.rglob("*")
            if is_text(file)
            and file.is_file()
            and not any(part.startswith(".") for part in file.relative_to(path).parts)
        )
        if not found:
            raise ModtokError(
                "no text in this directory",
                where=str(path),
                remedy=f"put files there named {known} (also .zst or .gz)",
            )
        return list(found)
    if not path.exists():
        raise ModtokError(
            "no such file or directory",
            where=str(path),
            remedy="check the name, or give - to read standard input",
        )
    if not is_text(path):
        raise ModtokError(
            "unknown text format",
            where=str(path),
            remedy=f"name it {known} (also .zst or .gz), or pipe it in and give -",
        )
    return [path]


def read_documents(
    path: str | Path,
    errors: str = "strict",
    *,
    progress: Progress = SILENT,
    advance: Advance | None = None,
    may_be_empty: bool = False,
) -> Iterator[Document]:
    """Every document of a file, directory or "-", in order, in bounded memory.

    `errors` selects the treatment of text that is not UTF-8: "strict" is an error, "replace"
    substitutes U+FFFD for invalid bytes, "skip" drops the document; the last two warn with
    the number of documents. `advance` receives the number of (compressed) bytes read. A file
    without text is an error unless it `may_be_empty`, as one of several in a directory may.

    Raises:
        ModtokError: the file is invalid, as `file:line`.
    """
    return chain.from_iterable(
        read_batches(path, errors, progress=progress, advance=advance, may_be_empty=may_be_empty)
    )


def read_batches(
    path: str | Path,
    errors: str = "strict",
    *,
    progress: Progress = SILENT,
    advance: Advance | None = None,
    may_be_empty: bool = False,
) -> Iterator[list[Document]]:
    """`read_documents` in lists of about a megabyte of input."""
    for reader, block, line in _blocks(path, errors, progress, advance, may_be_empty):
        documents = reader.documents(block, line)
        if documents:
            yield documents


def read_line_batches(
    path: str | Path,
    errors: str = "strict",
    *,
    progress: Progress = SILENT,
    advance: Advance | None = None,
) -> Iterator[list[Document]]:
    """The lines of one file of any name, in lists of about a megabyte."""
    _check_errors(errors)
    reader = _TextLines(path, errors)
    for block, line in _whole_lines(path, advance):
        yield reader.documents(block, line)
    reader.report(progress)


def read_spans(
    path: str | Path,
    errors: str = "strict",
    *,
    progress: Progress = SILENT,
    advance: Advance | None = None,
    may_be_empty: bool = False,
) -> Iterator[Spans]:
    """`read_documents` for counting: no Python object per document where that is possible."""
    for reader, block, line in _blocks(path, errors, progress, advance, may_be_empty):
        spans = reader.spans(block, line)
        if len(spans.starts):
            yield spans


def _blocks(
    path: str | Path,
    errors: str,
    progress: Progress,
    advance: Advance | None,
    may_be_empty: bool,
) -> Iterator[tuple[_Reader, bytes, int]]:
    """(reader, whole lines, number of the first) for every file of `path`."""
    _check_errors(errors)
    empty = not may_be_empty
    for file in text_files(path):
        reader: _Reader | None = None
        for block, line in _whole_lines(file, advance):
            if reader is None:
                form = None if is_pipe(file) else _format(Path(file))
                begin = block.removeprefix(_BOM).lstrip()[:1]
                form = form or ("json" if begin == b"{" else "lines")
                reader = _JsonLines(file, errors) if form == "json" else _TextLines(file, errors)
            empty = False
            yield reader, block, line
        if reader is not None:
            reader.report(progress)
    if empty:
        raise ModtokError(
            "holds no text",
            where=display(path),
            remedy="expected a file with one document per line",
        )


def _check_errors(errors: str) -> None:
    if errors not in ERRORS:
        raise UsageError(f"'{errors}' is not one of {', '.join(ERRORS)}", where="--errors")


def _whole_lines(file: str | Path, advance: Advance | None) -> Iterator[tuple[bytes, int]]:
    """Chunks that end at line ends; a line longer than a chunk is joined."""
    line = 1
    held: list[bytes] = []
    size = 0
    try:
        for chunk in read_chunks(file, advance):
            cut = chunk.rfind(b"\n") + 1
            if cut:
                block = b"".join([*held, memoryview(chunk)[:cut]])
                yield block, line
                line += _line_ends(block)
                held, size = [], 0
            if cut < len(chunk):
                held.append(chunk[cut:])
                size += len(held[-1])
                if size > LONGEST_LINE:
                    raise ModtokError(
                        f"a line of more than {LONGEST_LINE:,} bytes",
                        where=f"{display(file)}:{line}",
                        remedy="a line is a document; break the text into lines",
                    )
    except Broken as error:
        raise ModtokError(
            f"{error}",
            where=f"{display(file)}:{line}",
            remedy="the lines before this one are complete; download or create the file again",
        ) from error
    if held:
        yield b"".join(held), line


def _line_ends(block: bytes) -> int:
    """As `block.count(b"\\n")`, which takes ten times as long."""
    return int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == 10))


class _Reader:
    """One file: turns blocks of whole lines into documents, with the treatment of invalid UTF-8."""

    def __init__(self, file: str | Path, errors: str) -> None:
        self.name = display(file)
        self.errors = errors
        self.repaired = 0
        self.first_repaired = 0

    def documents(self, block: bytes, line: int) -> list[Document]:
        raise NotImplementedError

    def spans(self, block: bytes, line: int) -> Spans:
        raise NotImplementedError

    def report(self, progress: Progress) -> None:
        """Warn about replaced or skipped documents."""
        if self.repaired:
            done = "skipped" if self.errors == "skip" else "read with U+FFFD for invalid bytes"
            noun = "document" if self.repaired == 1 else "documents"
            progress.warn(
                f"{self.name}:{self.first_repaired}: not UTF-8; {self.repaired} {noun} {done}"
            )

    def repair(self, text: Callable[[], bytes], what: str, line: int) -> bytes | None:
        """By `errors`: fail, the text with replacements, or None to skip the document."""
        if self.errors == "strict":
            raise ModtokError(
                what,
                where=f"{self.name}:{line}",
                remedy="pass --errors replace or --errors skip, or convert the file",
            )
        self.repaired += 1
        self.first_repaired = self.first_repaired or line
        return text() if self.errors == "replace" else None


class _TextLines(_Reader):
    def documents(self, block: bytes, line: int) -> list[Document]:
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if _is_utf8(block):
            return [Document(text, None, line + i) for i, text in enumerate(lines)]
        checked = ((self._check(text, line + i), line + i) for i, text in enumerate(lines))
        return [Document(text, None, number) for text, number in checked if text is not None]

    def _check(self, text: bytes, line: int) -> bytes | None:
        try:
            text.decode()
        except UnicodeDecodeError as error:
            what = f"not UTF-8 (byte 0x{text[error.start]:02x} at column {error.start + 1})"
            return self.repair(lambda: text.decode(errors="replace").encode(), what, line)
        return text

    def spans(self, block: bytes, line: int) -> Spans:
        from modtok_cli.text.utf8_kernel import is_utf8

        data = np.frombuffer(b"".join([_ASCII, block, _PADDING]), dtype=np.uint8)
        end = len(_ASCII) + len(block)
        if not is_utf8(data[:end]):
            return _join([document.text for document in self.documents(block, line)])
        stops = np.flatnonzero(data[:end] == 10)
        if not block.endswith(b"\n"):
            stops = np.append(stops, end)
        starts = np.full(len(stops), len(_ASCII), dtype=np.int64)
        starts[1:] = stops[:-1] + 1
        return Spans(data, starts, stops.astype(np.int64, copy=False))


class _JsonLines(_Reader):
    def documents(self, block: bytes, line: int) -> list[Document]:
        found = []
        for number, text in enumerate(block.split(b"\n"), line):
            document = self._document(text, number)
            if document is not None:
                found.append(document)
        return found

    def spans(self, block: bytes, line: int) -> Spans:
        from modtok_cli.text.json_kernel import ROOM, read_json_lines

        lines = _line_ends(block) + 1
        out = np.empty(len(block) + ROOM, dtype=np.uint8)
        starts, stops = np.empty(lines, dtype=np.int64), np.empty(lines, dtype=np.int64)
        doubts = np.empty((lines, 4), dtype=np.int64)
        texts, doubtful = read_json_lines(
            np.frombuffer(block, dtype=np.uint8), out, starts, stops, doubts
        )
        starts, stops = starts[:texts], stops[:texts]
        if not doubtful:
            return Spans(out, starts, stops)
        # Lines that the kernel left are parsed by the slow path and appended.
        end = len(block)
        pieces: list[memoryview | bytes] = [out[:end].data]
        kept = np.ones(texts, dtype=np.bool_)
        for text, number, begin, stop in doubts[:doubtful].tolist():
            document = self._document(block[begin:stop], line + number)
            if document is None:
                kept[text] = False
                continue
            pieces.append(document.text)
            starts[text], stops[text] = end, end + len(document.text)
            end += len(document.text)
        data = np.frombuffer(b"".join([*pieces, _PADDING]), dtype=np.uint8)
        return Spans(data, starts[kept], stops[kept])

    def _document(self, raw: bytes, line: int) -> Document | None:
        if not raw.strip():
            return None
        if line == 1:
            raw = raw.removeprefix(_BOM)
        try:
            record: Any = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            repaired = self._decode_again(raw, error, line)
            if repaired is None:
                return None
            record = repaired
        where = f"{self.name}:{line}"
        example = 'a line is an object such as {"text": "..."}'
        if not isinstance(record, dict):
            raise ModtokError("not a JSON object", where=where, remedy=example)
        if "text" not in record:
            raise ModtokError("no field 'text'", where=where, remedy=example)
        text = record["text"]
        if not isinstance(text, str):
            kind = "null" if text is None else type(text).__name__
            raise ModtokError(f"field 'text' is {kind}, not a string", where=where, remedy=example)
        language = record.get("lang")
        if language is not None:
            if not isinstance(language, str) or not language:
                raise ModtokError(
                    "field 'lang' is not a language code", where=where, remedy="fix or drop it"
                )
            language = normalize(language)
        return Document(text.encode(), language, line)

    def _decode_again(self, raw: bytes, error: orjson.JSONDecodeError, line: int) -> Any:
        """The record of `raw` if only its characters are invalid, by `errors`; None to skip it.

        Invalid characters are bytes that are not UTF-8, and escapes of lone surrogates, which
        Python's parser accepts and UTF-8 cannot encode.
        """
        try:
            # Parsed by orjson again: Python's parser also accepts NaN and infinite numbers.
            record = json.loads(raw.decode(errors="replace"))
            repaired = orjson.loads(_without_surrogates(json.dumps(record)))
        except ValueError:
            raise ModtokError(
                f"not JSON ({error.msg}, column {error.colno})",
                where=f"{self.name}:{line}",
                remedy="expected one JSON object per line; fix or delete the line",
            ) from error
        except RecursionError:
            raise ModtokError(
                "JSON nested too deeply",
                where=f"{self.name}:{line}",
                remedy="fix or delete the line",
            ) from error
        what = "not UTF-8" if not _is_utf8(raw) else "escape of a lone surrogate"
        return None if self.repair(lambda: raw, what, line) is None else repaired


def _without_surrogates(escaped: str) -> bytes:
    """JSON with ASCII escapes → JSON in UTF-8, lone surrogates as U+FFFD."""
    plain = json.dumps(json.loads(escaped), ensure_ascii=False)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _join(texts: list[bytes]) -> Spans:
    stops = np.cumsum([len(text) for text in texts], dtype=np.int64)
    starts = np.zeros(len(texts), dtype=np.int64)
    starts[1:] = stops[:-1]
    return Spans(np.frombuffer(b"".join([*texts, _PADDING]), dtype=np.uint8), starts, stops)
