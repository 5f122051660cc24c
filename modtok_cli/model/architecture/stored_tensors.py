"""The header of a safetensors file: which tensors it holds, and where."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError

# A header of a model with 100,000 tensors takes about 15 MB; the library's limit is 100 MB.
_HEADER_LIMIT = 100_000_000
_BLOCK = 1 << 24
_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16,
    "BF16": 16, "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8, "F6_E2M3": 6, "F6_E3M2": 6,
    "F4": 4,
}  # fmt: skip


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor is stored; `start` and `stop` are bytes of its file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self.stop - self.start

    def bytes_along(self, axis: int) -> int:
        """Bytes of one index of an axis, over all others."""
        count = self.shape[axis] if axis < len(self.shape) else 0
        return self.nbytes // count if count else 0

    def data(self) -> npt.NDArray[np.uint8]:
        """All bytes, mapped into memory; (nbytes,)."""
        if not self.nbytes:
            return np.zeros(0, dtype=np.uint8)
        return np.memmap(self.file, np.uint8, "r", self.start, (self.nbytes,))

    def indices(self, axis: int) -> npt.NDArray[np.uint8]:
        """Bytes by index of an axis, mapped: (indices of the axes before, its own, bytes)."""
        before = prod(self.shape[:axis])
        width = self.bytes_along(axis) // max(1, before)
        return self.data().reshape(before, self.shape[axis], width)

    def blocks(self) -> Iterator[bytes]:
        """All bytes, in pieces."""
        data = self.data()
        for at in range(0, self.nbytes, _BLOCK):
            yield data[at : at + _BLOCK].tobytes()


def read_header(file: Path) -> tuple[list[StoredTensor], dict[str, str]]:
    """The tensors of a file by position, and its metadata.

    Raises:
        ModtokError: no safetensors file, or a dtype that is not known.
    """
    try:
        with open(file, "rb") as handle:
            length = int.from_bytes(handle.read(8), "little")
            size = os.fstat(handle.fileno()).st_size
            if not 2 <= length <= min(_HEADER_LIMIT, size - 8):
                raise ValueError("length of the header")
            header = orjson.loads(handle.read(length))
        metadata = header.pop("__metadata__", {})
        tensors = []
        for name, facts in header.items():
            start, stop = (8 + length + offset for offset in facts["data_offsets"])
            shape, dtype = tuple(facts["shape"]), facts["dtype"]
            if any(type(n) is not int or n < 0 for n in shape):
                raise ValueError(f"shape of '{name}'")
            if not 8 + length <= start <= stop <= size:
                raise ValueError(f"offsets of '{name}'")
            if dtype not in _BITS:
                raise ModtokError(
                    f"'{name}' has the dtype {dtype}, which this version of modtok does not know",
                    where=file,
                    remedy="update modtok, or convert the model to bfloat16",
                )
            if (stop - start) * 8 != prod(shape) * _BITS[dtype]:
                raise ValueError(f"size of '{name}'")
            tensors.append(StoredTensor(name, dtype, shape, file, start, stop))
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=file) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModtokError(f"is not a valid safetensors file ({error})", where=file) from error
    return sorted(tensors, key=lambda tensor: tensor.start), metadata
