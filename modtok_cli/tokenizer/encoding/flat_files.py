"""Encode a corpus to flat files of token ids: in bounded memory, whole or not at all.

NumPy's files, or Megatron's and nanoGPT's: a directory of either form holds the ids of all
documents one after the other and where each document is. Ids take two bytes each if the vocabulary
has at most 65,536 tokens, else four.
"""

import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar

import numpy as np
import orjson

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_directory, check_new, refuse_others
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.text.file_labels import label_of_path
from modtok_cli.text.identify import identified
from modtok_cli.text.parallel import cores, total_bytes
from modtok_cli.text.readers import read_spans, text_files
from modtok_cli.text.reading import Reading
from modtok_cli.text.text_format import Spans
from modtok_cli.tokenizer.encoding.external import joined_ids
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

FACTS = "tokens.json"
_SMALL = 1 << 16
_CHUNK = 1 << 20  # numbers that are read back at a time
_HEADER = 128
# Megatron's `IndexedDataset`: its mark, the version, and the codes of uint16 and int32.
_INDEX_MARK = b"MMIDIDX\x00\x00"
_INDEX_VERSION = 1
_INDEX_CODES = {2: 8, 4: 4}


class TokenFiles(ABC):
    """Writes the files of one form into an empty directory.

    Attributes:
        documents, tokens: how many were written.
        dtype: of an id in the file.
    """

    names: ClassVar[tuple[str, ...]]

    def __init__(self, directory: Path, vocabulary: int) -> None:
        self.directory = directory
        self.dtype = np.dtype("<u2" if vocabulary <= _SMALL else "<u4")
        self.documents = self.tokens = 0

    @abstractmethod
    def append(self, ids: Int32Array, ends: Int64Array) -> None:
        """Write documents: ids (N,) int32, ends (D,) int64 within them, the last one N."""

    @abstractmethod
    def close(self) -> None:
        """Write what needs the totals, and close the files. Not called after an error."""

    def _count(self, ids: Int32Array, ends: Int64Array) -> None:
        self.documents += len(ends)
        self.tokens += len(ids)


class NpyFiles(TokenFiles):
    """`tokens.npy` (N,), and `offsets.npy` (D + 1,) int64: document d is offsets[d] to [d + 1]."""

    names = ("tokens.npy", "offsets.npy")

    def __init__(self, directory: Path, vocabulary: int) -> None:
        super().__init__(directory, vocabulary)
        self._ids, self._offsets = (_new(directory / name) for name in self.names)
        for handle in (self._ids, self._offsets):
            handle.write(bytes(_HEADER))  # filled in when the length is known
        self._offsets.write(np.zeros(1, dtype="<i8").data)

    def append(self, ids: Int32Array, ends: Int64Array) -> None:
        self._ids.write(ids.astype(self.dtype).data)
        self._offsets.write((ends + self.tokens).astype("<i8").data)
        self._count(ids, ends)

    def close(self) -> None:
        _finish_npy(self._ids, self.dtype, self.tokens)
        _finish_npy(self._offsets, np.dtype("<i8"), self.documents + 1)


class BinFiles(TokenFiles):
    """`tokens.bin`, nothing but ids, and `tokens.idx`, Megatron's index of the documents."""

    names = ("tokens.bin", "tokens.idx")

    def __init__(self, directory: Path, vocabulary: int) -> None:
        super().__init__(directory, vocabulary)
        self._ids, self._index = (_new(directory / name) for name in self.names)
        self._index.write(bytes(len(self._head())))

    def _head(self) -> bytes:
        # A sequence is a document; Megatron counts the ends of documents, from 0.
        code = _INDEX_CODES[self.dtype.itemsize]
        numbers = (_INDEX_VERSION, code, self.documents, self.documents + 1)
        return _INDEX_MARK + struct.pack("<QBQQ", *numbers)

    def append(self, ids: Int32Array, ends: Int64Array) -> None:
        self._ids.write(ids.astype(self.dtype).data)
        self._index.write(np.diff(ends, prepend=0).astype("<i4").data)
        self._count(ids, ends)

    def close(self) -> None:
        self._ids.close()
        index, head = self._index, self._head()
        begin = 0
        for first in range(0, self.documents, _CHUNK):
            index.seek(len(head) + 4 * first)
            lengths = np.frombuffer(index.read(4 * min(_CHUNK, self.documents - first)), "<i4")
            begins = np.cumsum(lengths, dtype=np.int64) - lengths
            index.seek(0, 2)
            index.write(((begins + begin) * self.dtype.itemsize).astype("<i8").data)
            begin += int(lengths.sum(dtype=np.int64))
        for first in range(0, self.documents + 1, _CHUNK):
            last = min(first + _CHUNK, self.documents + 1)
            index.write(np.arange(first, last, dtype="<i8").data)
        index.seek(0)
        index.write(head)
        index.close()


def _new(path: Path) -> IO[bytes]:
    return open(path, "w+b")  # `TokenFiles.close` closes it


def _finish_npy(handle: IO[bytes], dtype: np.dtype[np.generic], length: int) -> None:
    """Write the header of one dimension that was left free, and close the file."""
    handle.seek(0)
    head = {"descr": dtype.str, "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(handle, head)
    assert handle.tell() == _HEADER
    handle.close()


FORMS: dict[str, type[TokenFiles]] = {"npy": NpyFiles, "bin": BinFiles}
"""Forms by name."""
_OURS = {FACTS, *(name for form in FORMS.values() for name in form.names)}


GlobalIds = Annotated[
    bool, Option("Use ids of the full vocabulary instead of the subset's local ids.")
]


def encode_files(
    tokenizer: Tokenizer,
    texts: Sequence[Path | str],
    output: Path,
    format: str = "npy",
    *,
    end_of_text: str | None = None,
    global_ids: bool = False,
    reading: Reading = Reading(),
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write the ids of texts, one after the other, as `encode` does; gives what `tokens.json` says.

    Blocks of about a megabyte are read in this thread and encoded in `threads` others.

    Raises:
        UsageError: `output` exists, or the tokenizer lacks the token or global ids.
    """
    refuse_others(output, _OURS.__contains__)
    check_new(output, force=force)
    ours = tokenizer if isinstance(tokenizer, Subtokenizer) else None
    if global_ids and ours is None:
        raise UsageError(
            "--global-ids is not supported for external tokenizers", where=tokenizer.name
        )
    end = None if end_of_text is None else _token_id(tokenizer, end_of_text)
    size, names = tokenizer.size, None
    if ours is not None and global_ids:
        size, names = len(ours.local_of_global), ours.global_ids

    def encode(spans: Spans) -> tuple[Int32Array, Int64Array, int]:
        ids, ends = _ids_of(tokenizer, spans)
        if end is not None:
            ids = np.insert(ids, ends, end)
            ends = ends + np.arange(1, len(ends) + 1)
        return (ids if names is None else names[ids]), ends, int((spans.stops - spans.starts).sum())

    files = [file for text in texts for file in text_files(text)]
    count = 0
    with (
        atomic_directory(output) as directory,
        progress.task("encoding", total_bytes(files), "B") as task,
    ):
        written: TokenFiles = FORMS[format](directory, size)
        blocks = (
            spans
            for text in texts
            for spans in read_spans(text, reading, progress=progress, advance=task.advance)
        )
        for ids, ends, taken in _in_order(encode, blocks, threads or cores()):
            written.append(ids, ends)
            count += taken
        written.close()
        facts = {
            "format": format,
            "dtype": written.dtype.name,
            "tokens": written.tokens,
            "documents": written.documents,
            "bytes": count,
            "tokenizer": tokenizer.signature,
            "size": size,
            "end_of_text": end if end is None or names is None else int(names[end]),
        }
        (directory / FACTS).write_bytes(orjson.dumps(facts, option=orjson.OPT_APPEND_NEWLINE))
    return facts


def count_tokens(
    tokenizer: Tokenizer,
    texts: Sequence[Path | str],
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> Iterator[dict[str, Any]]:
    """Documents, tokens and bytes of each file of `texts`, as rows."""
    for file in (file for text in texts for file in text_files(text, progress)):
        language = label_of_path(file) or identified(file, reading, progress)
        row: dict[str, Any] = {"text": str(file), "language": language}
        row |= {"documents": 0, "tokens": 0, "bytes": 0}
        for spans in read_spans(file, reading, progress=progress, may_be_empty=True):
            row["documents"] += len(spans.starts)
            row["tokens"] += len(_ids_of(tokenizer, spans)[0])
            row["bytes"] += int((spans.stops - spans.starts).sum())
        yield row


def _in_order(
    work: Callable[[Spans], tuple[Int32Array, Int64Array, int]],
    items: Iterable[Spans],
    threads: int,
) -> Iterator[tuple[Int32Array, Int64Array, int]]:
    """`work` of each item, in order; a few items per thread are read ahead."""
    if threads <= 1:
        yield from map(work, items)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    waiting: deque[Future[tuple[Int32Array, Int64Array, int]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # no effect when all are done
            for future in waiting:
                future.cancel()


def _ids_of(tokenizer: Tokenizer, spans: Spans) -> tuple[Int32Array, Int64Array]:
    """Ids of a block of documents, and the end of each among them."""
    if isinstance(tokenizer, Subtokenizer):
        ids, offsets = tokenizer.encoder.spans(spans.data, spans.starts, spans.stops)
        return ids, offsets[1:]
    places = zip(spans.starts.tolist(), spans.stops.tolist(), strict=True)
    texts = [spans.data[a:b].tobytes().decode() for a, b in places]
    ids, offsets = joined_ids(tokenizer.encode_batch(texts))
    return ids, offsets[1:]


def _token_id(tokenizer: Tokenizer, text: str) -> int:
    """The id of a token that stands for itself: a special one, or an added one of a file."""
    wanted = text.encode()
    if isinstance(tokenizer, Subtokenizer):
        vocabulary = tokenizer.vocabulary
        if text in vocabulary.specials:
            return vocabulary.specials.index(text)
        index = vocabulary.find(wanted)
    else:
        each = range(tokenizer.size - 1, -1, -1)  # added tokens are the last
        index = next((i for i in each if tokenizer.token_bytes(i) == wanted), None)
    if index is not None:
        return index
    raise UsageError(
        f"the tokenizer has no token '{text}'",
        where="--end-of-text",
        remedy="give one of its special tokens",
    )
