"""Read documents of files, directories and pipes, in any text format, compressed or not.

The formats are in `text/formats`. Text has one document per line; lines end at "\\n" only and are
otherwise kept byte for byte. Other formats have documents with fields: `Reading` says which.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, missing
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.remote import path_of
from modtok_cli.text.directory import Directory, names_of_text
from modtok_cli.text.formats.text_lines import TextLines
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import SUFFIXES, Advance, display, is_pipe, read_chunks
from modtok_cli.text.table_files import is_table
from modtok_cli.text.text_format import (
    Document,
    Spans,
    TextReader,
    TextSource,
    format_of_content,
    format_of_name,
)


def is_text(path: Path) -> bool:
    """Return whether a file with this name contains documents."""
    return (format_of_name(path) is not None or _is_only_packed(path)) and not is_table(path)


def _is_only_packed(path: Path) -> bool:
    """Return whether the name is like `fr.gz`: the content has the format."""
    return path.suffix in SUFFIXES and not path.with_suffix("").suffix


def has_fields(path: Path) -> bool:
    """Return whether the documents of a file have fields, such as their language."""
    format = format_of_name(path)
    if format is None:
        format = format_of_content(next(read_chunks(path), b""))
    return format.fields


def text_files(
    path: str | Path,
    progress: Progress = SILENT,
    accepts: Callable[[Path], bool] = is_text,
) -> list[str | Path]:
    """Return the files to read for `path`: itself, or for a directory those below it, sorted.

    `progress` is warned of what a directory has besides (`text.directory`).
    """
    if is_pipe(path):
        return [path]
    path = path_of(path)
    if path.is_dir():
        directory = Directory(path, accepts)
        files = directory.chosen()
        if not files:
            raise ModtokError(
                "no text in this directory",
                where=path,
                remedy=f"put files there named {names_of_text()}",
            )
        directory.tell(progress)
        return list(files)
    if not path.exists():
        raise missing(path, "check the name, or give - to read standard input")
    if not accepts(path):
        raise ModtokError(
            "unknown text format",
            where=path,
            remedy=f"name it {names_of_text()}, or pipe it in and give -",
        )
    return [path]


def read_documents(
    path: str | Path,
    reading: Reading = Reading(),
    *,
    progress: Progress = SILENT,
    advance: Advance | None = None,
    may_be_empty: bool = False,
) -> Iterator[Document]:
    """Return every document of a file, directory or "-", in order, in bounded memory.

    Documents without text, or that `reading` leaves out or changes, give a warning with their
    number. `advance` receives the number of (compressed) bytes read. A file without text is an
    error unless it `may_be_empty`, as one of several in a directory may.
    """
    return chain.from_iterable(
        read_batches(path, reading, progress=progress, advance=advance, may_be_empty=may_be_empty)
    )


def texts_in_turn(paths: Iterable[str | Path], reading: Reading = Reading()) -> Iterator[str]:
    """Return the text of every document, one of each path in turn."""
    streams = [iter(read_documents(path, reading)) for path in paths]
    while streams:
        for stream in list(streams):
            document = next(stream, None)
            if document is None:
                streams.remove(stream)
            else:
                yield document.text.decode()


def read_batches(
    path: str | Path,
    reading: Reading = Reading(),
    *,
    progress: Progress = SILENT,
    advance: Advance | None = None,
    may_be_empty: bool = False,
) -> Iterator[list[Document]]:
    """Yield `read_documents` in lists of about half a megabyte of input."""
    for reader, block in _blocks(path, reading, progress, advance, may_be_empty):
        documents = reader.documents(block)
        if documents:
            yield documents


def read_line_batches(
    path: str | Path,
    reading: Reading = Reading(),
    *,
    progress: Progress = SILENT,
    advance: Advance | None = None,
) -> Iterator[list[Document]]:
    """Yield the lines of one file of any name, in lists of about half a megabyte."""
    reader = TextLines(TextSource(path, advance), reading)
    for block in reader.blocks():
        yield reader.documents(block)
    reader.report(progress)


def read_spans(
    path: str | Path,
    reading: Reading = Reading(),
    *,
    progress: Progress = SILENT,
    advance: Advance | None = None,
    may_be_empty: bool = False,
) -> Iterator[Spans]:
    """Yield `read_documents` for counting: no Python object per document where that is possible."""
    for reader, block in _blocks(path, reading, progress, advance, may_be_empty):
        spans = reader.spans(block)
        if len(spans.starts):
            yield spans


def _blocks(
    path: str | Path,
    reading: Reading,
    progress: Progress,
    advance: Advance | None,
    may_be_empty: bool,
) -> Iterator[tuple[TextReader, Any]]:
    """Yield reader and block, for every block of every file of `path`."""
    empty = not may_be_empty
    for file in text_files(path, progress):
        reader = _open(TextSource(file, advance), reading)
        for block in reader.blocks():
            empty = False
            yield reader, block
        reader.report(progress)
    if empty:
        raise ModtokError(
            "holds no text",
            where=display(path),
            remedy="expected a file with one document per line",
        )


def _open(source: TextSource, reading: Reading) -> TextReader:
    """Return the reader of a file: by its name, or by its first bytes."""
    format = None if is_pipe(source.path) else format_of_name(Path(source.path))
    if format is None:
        chunks = source.chunks()
        first = next(chunks, b"")
        source = TextSource(source.path, source.advance, chain([first] if first else [], chunks))
        format = format_of_content(first)
    return format.reader(source, reading)
