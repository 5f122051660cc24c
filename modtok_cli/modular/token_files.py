"""Token ids of a corpus as flat files, written as they come: NumPy's, or Megatron's and nanoGPT's.

A directory of either form holds the ids of all documents one after the other and where each
document is. Ids take two bytes each if the vocabulary has at most 65,536 tokens, else four.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, ClassVar

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array

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
        """Write documents."""
        self._ids.write(ids.astype(self.dtype).data)
        self._offsets.write((ends + self.tokens).astype("<i8").data)
        self._count(ids, ends)

    def close(self) -> None:
        """Write the headers."""
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
        """Write documents."""
        self._ids.write(ids.astype(self.dtype).data)
        self._index.write(np.diff(ends, prepend=0).astype("<i4").data)
        self._count(ids, ends)

    def close(self) -> None:
        """Write where each document begins, in bytes, and the numbers of all documents."""
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
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({length},), }}"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", _HEADER - 10)
    handle.seek(0)
    handle.write(start + text.encode().ljust(_HEADER - 11) + b"\n")
    handle.close()


FORMS: dict[str, type[TokenFiles]] = {"npy": NpyFiles, "bin": BinFiles}
"""Forms by name."""
