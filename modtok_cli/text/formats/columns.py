"""Parquet and Arrow files: a document per row, with the text in one of the columns.

Parquet as published (FineWeb-2), and Arrow files of the library `datasets`. Both are read in
batches of about half a megabyte, and only the columns in use. A text that a file stores once and
names a million times takes no more memory.
"""

import struct
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.arrays import Int64Array, UInt8Array
from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.remote import is_remote, path_of
from modtok_cli.core.text import is_utf8
from modtok_cli.text.streams import CHUNK, is_pipe
from modtok_cli.text.text_format import (
    PADDING,
    Document,
    Spans,
    TextFormat,
    TextReader,
)

_MOST_ROWS = 1 << 13
_BUFFER = 1 << 18
_REPEATED = 1 << 23


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows `first` … (from 1): row r has text `texts[r]` of the dictionary (-1: null).

    Text t of the dictionary is data[starts[t]:stops[t]], as the file has it; data ends with 16
    bytes more.
    """

    first: int
    texts: Int64Array
    data: UInt8Array
    starts: Int64Array
    stops: Int64Array
    languages: Sequence[str | None] | None
    sources: Sequence[str | None]


class Columns(TextReader):
    """Rows of a file that `pyarrow` reads."""

    kind: str

    def blocks(self) -> Iterator[_Batch]:
        if is_pipe(self.source.path):
            raise UsageError(f"{self.kind} cannot be read from a pipe", where=self.name)
        path = path_of(self.source.path)
        row = 1
        size, reported = path.stat().st_size, 0
        with _one_line_errors(self.kind, lambda: f"{self.name}:{row}"):
            for batch, total in self.batches(path):
                yield self._batch(batch, row)
                row += len(batch)
                if self.source.advance and total:
                    now = size * (row - 1) // total
                    self.source.advance(now - reported)
                    reported = now
        if self.source.advance:
            self.source.advance(size - reported)

    @abstractmethod
    def batches(self, path: Path) -> Iterator[tuple[Any, int]]:
        """Record batches with the columns in use, and the rows of the file (0: unknown)."""

    def columns_in(self, schema: Any) -> list[str]:
        """Return names of the columns in use that `schema` has, the column of the text first."""
        kind = self._type(schema, self.reading.field)
        if kind is None:
            raise self.no_field(schema.names, 1)
        if self.reading.renderer is None and not _is_text(kind):
            raise ModtokError(
                f"field '{self.reading.field}' is {kind}, not a string",
                where=f"{self.name}:1",
                remedy="choose another with --field; conversations: pretrain --chat-template",
            )
        others = [self.reading.language_field, *self.reading.source_fields]
        there = [name for name in others if name is not None and self._type(schema, name)]
        return list(dict.fromkeys([self.reading.field, *there]))

    def _type(self, schema: Any, name: str) -> Any:
        """Type of a column, of the whole name or nested by dots; None if there is none."""
        fields, kind = list(schema), None
        for part in [name] if name in schema.names else name.split("."):
            own = [field.type for field in fields if field.name == part]
            if len(own) > 1:
                raise ModtokError(
                    f"two columns '{part}'", where=f"{self.name}:1", remedy="rename one of them"
                )
            if not own:
                return None
            kind = own[0]
            fields = [kind.field(i) for i in range(kind.num_fields)] if _is_struct(kind) else []
        return kind

    def _batch(self, batch: Any, row: int) -> _Batch:
        import pyarrow as pa
        import pyarrow.compute as pc

        batch.validate()  # buffers of a damaged file may be too short
        texts = _column(batch, self.reading.field)
        if (renderer := self.reading.renderer) is not None:
            rendered = [
                None if value is None else renderer(value, f"{self.name}:{line}")
                for line, value in enumerate(texts.to_pylist(), row)
            ]
            texts = pa.array(rendered, pa.large_binary())
        if not pa.types.is_dictionary(texts.type):
            indices = np.arange(len(texts), dtype=np.int64)
            indices[np.asarray(texts.is_null())] = -1
        else:
            indices = np.asarray(pc.fill_null(texts.indices.cast(pa.int64()), -1))
            texts = texts.dictionary
        texts = texts.cast(pa.large_binary())
        texts.validate(full=True)  # offsets of a damaged file may point anywhere
        if len(indices) and not -1 <= indices.min() <= indices.max() < len(texts):
            raise ModtokError(f"damaged {self.kind} file", where=f"{self.name}:{row}")
        used = np.unique(indices[indices >= 0])
        if len(used) < len(texts):  # a dictionary of many batches is not copied for each
            texts = texts.take(pa.array(used))
            indices = np.where(indices < 0, -1, np.searchsorted(used, indices))
        _, offsets, content = texts.buffers()
        places = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
        begin, end = int(places[0]), int(places[-1])
        data = np.zeros(end - begin + len(PADDING), dtype=np.uint8)
        if content is not None:
            data[: -len(PADDING)] = np.frombuffer(content, np.uint8)[begin:end]
        places = places - begin
        values = {}
        for other in self.columns_in(batch.schema)[1:]:
            column = _column(batch, other)
            column.validate(full=True)
            values[other] = column.to_pylist()
        languages = values.get(self.reading.language_field or "")
        sources = [
            self.source_of({name: column[row] for name, column in values.items()})
            for row in range(len(indices) if self.reading.source_fields else 0)
        ]
        return _Batch(row, indices, data, places[:-1], places[1:], languages, sources)

    def documents(self, block: _Batch) -> list[Document]:
        known: dict[int, bytes] = {}
        documents = []
        for place, language, line in self._rows(block):
            if place not in known:
                known[place] = block.data[block.starts[place] : block.stops[place]].tobytes()
            text: bytes | None = known[place]
            if self.reading.renderer is None:  # which marks answers by bytes that are no UTF-8
                text = self.checked(known[place], line)
            if text is not None:
                source = block.sources[line - block.first] if block.sources else None
                documents.append(Document(text, language, line, source))
        return documents

    def _rows(self, block: _Batch) -> Iterator[tuple[int, str | None, int]]:
        languages = block.languages or [None] * len(block.texts)
        for row, (place, stated) in enumerate(zip(block.texts.tolist(), languages, strict=True)):
            line = block.first + row
            if place < 0:
                self.lacks_text(line)
                continue
            if block.stops[place] - block.starts[place] > self.reading.longest:
                self.too_long(line)
                continue
            language = self.language(stated or None, line)
            if self.is_wanted(language, line):
                yield place, language, line

    def spans(self, block: _Batch) -> Spans:
        """Return the texts where they are, if all are valid."""
        places = np.array([place for place, _, _ in self._rows(block)], dtype=np.int64)
        filled = block.starts[block.stops > block.starts]
        if not is_utf8(block.data) or bool(((block.data[filled] & 0xC0) == 0x80).any()):
            return super().spans(block)
        return Spans(block.data, block.starts[places], block.stops[places])


class Parquet(Columns):
    """Parquet files."""

    kind = "Parquet"

    def batches(self, path: Path) -> Iterator[tuple[Any, int]]:
        """Yield batches of row groups, decoded page by page."""
        import pyarrow.parquet as pq

        def opened(dictionary: list[str]) -> Any:
            source: Any = path.open("rb") if is_remote(path) else path
            return pq.ParquetFile(
                source, read_dictionary=dictionary, buffer_size=_BUFFER, pre_buffer=False
            )

        with opened([]) as file:
            metadata, columns = file.metadata, self.columns_in(file.schema_arrow)
            rows = metadata.num_rows
            most = max(1, min(_MOST_ROWS, CHUNK * max(rows, 1) // max(_row_bytes(metadata), 1)))
            with opened(columns[:1] if self.reading.renderer is None else []) as coded:
                for group in range(metadata.num_row_groups):
                    few = min(most, self._rows_at_once(coded, group, columns[0]))
                    for batch in file.iter_batches(few, [group], columns, use_threads=False):
                        yield batch, rows

    def _rows_at_once(self, coded: Any, group: int, column: str) -> int:
        """Rows of a group whose texts fit into `_REPEATED` bytes, if all are the longest repeated.

        A dictionary of all texts of a group has them in memory at once, so it is not read further
        than its first batch. That has the texts that the file stores once and may name often.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            batch = next(coded.iter_batches(1, [group], [column], use_threads=False), None)
        except OSError:  # texts of some encodings are not read as a dictionary
            return _MOST_ROWS
        if batch is None:
            return _MOST_ROWS
        batch.validate()
        texts = _column(batch, column)
        if not pa.types.is_dictionary(texts.type):
            return _MOST_ROWS
        longest = pc.max(pc.binary_length(texts.dictionary)).as_py()
        return max(1, _REPEATED // max(longest or 1, 1))


class Arrow(Columns):
    """Arrow files: streams, as `datasets` writes them, and files with an index."""

    kind = "Arrow"

    def batches(self, path: Path) -> Iterator[tuple[Any, int]]:
        """Yield batches, in slices of about half a megabyte."""
        import pyarrow as pa

        def opened() -> Any:
            is_far = is_remote(path)
            file = pa.PythonFile(path.open("rb")) if is_far else pa.memory_map(str(path))
            # A file with an index is a stream between eight bytes and the index.
            file.seek(8 if file.read(8) == b"ARROW1\0\0" else 0)
            return file

        with opened() as file:
            for message in pa.ipc.MessageReader.open_stream(file):
                if message.type == "record batch" and _is_compressed(message.metadata):
                    raise ModtokError(
                        "compressed Arrow files are not read",
                        where=self.name,
                        remedy="write it as Parquet, or without compression",
                    )
        with opened() as file:
            stream = pa.ipc.open_stream(file)
            columns = self.columns_in(stream.schema)
            top = sorted({_top(stream.schema, name) for name in columns})
            for batch in stream:
                part = batch.select(top)
                most = max(1, CHUNK * max(len(part), 1) // max(part.get_total_buffer_size(), 1))
                for start in range(0, len(part), most):
                    yield part.slice(start, most), 0


def _top(schema: Any, name: str) -> str:
    return name if name in schema.names else name.split(".")[0]


def _is_text(kind: Any) -> bool:
    """Return whether a column of this type has texts; one without any value has the type null."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    known = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(one(kind) for one in (*known, types.is_string_view, types.is_null))


def _is_struct(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_struct(kind))


def _column(batch: Any, name: str) -> Any:
    import pyarrow.compute as pc

    if name in batch.schema.names:
        return batch.column(name)
    top, *parts = name.split(".")
    return pc.struct_field(batch.column(top), parts)


def _row_bytes(metadata: Any) -> int:
    """Return the uncompressed size of all columns.

    Sizes of single columns are known too, but `pyarrow` ends the process if one is damaged.
    """
    groups = range(metadata.num_row_groups)
    return sum(int(metadata.row_group(group).total_byte_size) for group in groups)


def _is_compressed(metadata: Any) -> bool:
    """Return whether the flatbuffer of a record batch has the field `compression`.

    Sizes of compressed buffers are whatever the file says, and `pyarrow` allocates them.
    """
    data = memoryview(metadata)

    def field(table: int, number: int) -> int:
        """Return the position of a field of a table; 0 if it is not there."""
        described = table - struct.unpack_from("<i", data, table)[0]
        if 4 + 2 * number >= struct.unpack_from("<H", data, described)[0]:
            return 0
        offset = struct.unpack_from("<H", data, described + 4 + 2 * number)[0]
        return table + offset if offset else 0

    root = struct.unpack_from("<I", data, 0)[0]
    header = field(root, 2)
    batch = header + struct.unpack_from("<I", data, header)[0]
    return bool(field(batch, 3))


@contextmanager
def _one_line_errors(kind: str, where: Callable[[], str]) -> Iterator[None]:
    """Raise errors of `pyarrow` as a `ModtokError`; `where` names the file and the row."""
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            f"{kind} files require pyarrow", remedy="pip install 'modtok[data]'"
        ) from error
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, struct.error, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise missing(where().rpartition(":")[0]) from error
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModtokError(
            f"damaged {kind} file ({first[:200]})",
            where=where(),
            remedy="download or create it again",
        ) from error


def _is_cache(path: Path) -> bool:
    return path.name.startswith("cache-")


FORMATS = (
    TextFormat((".parquet",), Parquet, compressed=False, begins=lambda b: b[:4] == b"PAR1"),
    # `datasets` keeps results of transformations as cache-….arrow beside the data.
    TextFormat(
        (".arrow",),
        Arrow,
        compressed=False,
        begins=lambda b: b[:6] == b"ARROW1",
        left_out=_is_cache,
    ),
)
