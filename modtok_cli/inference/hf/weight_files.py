"""safetensors files read and rewritten as streams: tokens of tables selected on the way.

Only the headers are parsed. A model larger than memory is rewritten with a buffer of a few MB.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.architectures.hf_directory import INDEX, WEIGHTS, indexed_files
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.signature import digest

Ids = npt.NDArray[np.integer[Any]]

# A header of a model with 100,000 tensors takes about 15 MB; the library's limit is 100 MB.
_HEADER_LIMIT = 100_000_000
_CHUNK = 1 << 24
_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16,
    "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "I8": 8, "U8": 8, "BOOL": 8,
}  # fmt: skip
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Dtypes that can be converted → their names in torch."""
_SAMPLE = 4096


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor is stored; `start` and `stop` are bytes of its file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    start: int
    stop: int

    def bytes_along(self, axis: int) -> int:
        """Bytes of one index of an axis, over all others."""
        count = self.shape[axis] if axis < len(self.shape) else 0
        return (self.stop - self.start) // count if count else 0


class Cut(NamedTuple):
    """The indices of an axis of a tensor to keep, ascending."""

    axis: int
    ids: Ids


class WeightFiles:
    """The safetensors files of a model directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = self._files()

    def _files(self) -> list[Path]:
        indexed = indexed_files(self.directory)
        if indexed is not None:
            return sorted(set(indexed.values()))
        single = self.directory / WEIGHTS
        if not single.is_file():
            raise ModtokError(
                f"has no {WEIGHTS} and no {INDEX}",
                where=self.directory,
                remedy="save the model with save_pretrained(..., safe_serialization=True)",
            )
        return [single]

    @cached_property
    def tensors(self) -> dict[str, StoredTensor]:
        """All tensors by name, in the order in which they are stored."""
        return {tensor.name: tensor for file in self.files for tensor in _header(file)[0]}

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.stop - tensor.start for tensor in self.tensors.values())

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the tensors' names, dtypes, shapes, first and last bytes; 12 digits.

        It does not depend on how the tensors are divided into files.
        """
        parts: list[bytes] = []
        for name, tensor in sorted(self.tensors.items()):
            parts.append(f"{name} {tensor.dtype} {tensor.shape}".encode())
            size = min(_SAMPLE, tensor.stop - tensor.start)
            with open(tensor.file, "rb") as source:
                for at in (tensor.start, tensor.stop - size):
                    parts.append(_pread(source.fileno(), size, at, tensor.file))
        return digest(*parts)

    def rewrite(
        self,
        output: Path,
        select: Mapping[str, Cut],
        grafted: Mapping[str, StoredTensor] | None = None,
    ) -> int:
        """Copy the files to `output`, of the tensors in `select` what is to keep only.

        With `grafted` all is kept, and the tensors of that mapping replace those of their names: of
        tensors in `select` the selected indices, of others all.

        Memory: one buffer, whatever the model's size. Returns bytes of all tensors written.
        """
        total, where = 0, {}
        for file in self.files:
            tensors, metadata = _header(file)
            header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
            at = 0
            for tensor in tensors:
                shape = list(tensor.shape)
                size = tensor.stop - tensor.start
                if tensor.name in select and grafted is None:
                    axis, ids = select[tensor.name]
                    shape[axis] = len(ids)
                    size = len(ids) * tensor.bytes_along(axis)
                header[tensor.name] = {
                    "dtype": tensor.dtype,
                    "shape": shape,
                    "data_offsets": [at, at + size],
                }
                where[tensor.name] = file.name
                at += size
            head = orjson.dumps(header)
            head += b" " * (-len(head) % 8)
            with open(file, "rb") as source, open(output / file.name, "wb") as target:
                target.write(len(head).to_bytes(8, "little") + head)
                for tensor in tensors:
                    cut, handle = select.get(tensor.name), source.fileno()
                    if grafted is None:
                        blocks = _blocks(handle, tensor, cut)
                    elif tensor.name in grafted:
                        blocks = _grafted(handle, tensor, cut, grafted[tensor.name])
                    else:
                        blocks = _blocks(handle, tensor, None)
                    for block in blocks:
                        target.write(block)
            total += at
        if self.files[0].name != WEIGHTS:
            index = {"metadata": {"total_size": total}, "weight_map": where}
            options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
            (output / INDEX).write_bytes(orjson.dumps(index, option=options))
        return total

    def rows(self, name: str, ids: Ids | None = None) -> npt.NDArray[np.uint8]:
        """Rows of a tensor as bytes, (n, bytes of a row); all rows without `ids`."""
        tensor = self.tensors[name]
        with open(tensor.file, "rb") as source:
            cut = None if ids is None else Cut(0, ids)
            data = b"".join(_blocks(source.fileno(), tensor, cut))
        return np.frombuffer(data, dtype=np.uint8).reshape(-1, max(1, tensor.bytes_along(0)))


def _pread(source: int, size: int, at: int, file: Path) -> bytes:
    block = os.pread(source, size, at)
    if len(block) != size:
        raise ModtokError("the file is truncated", where=file)
    return block


def _blocks(source: int, tensor: StoredTensor, cut: Cut | None) -> Iterator[bytes]:
    """The bytes of a tensor, or of some of its indices, in pieces."""
    file = tensor.file
    if cut is None:
        for at in range(tensor.start, tensor.stop, _CHUNK):
            yield _pread(source, min(_CHUNK, tensor.stop - at), at, file)
        return
    axis, rows = cut
    outer = prod(tensor.shape[:axis])
    if outer > 1:  # a piece for each index of the axes before
        width = (tensor.stop - tensor.start) // outer
        for at in range(tensor.start, tensor.stop, max(1, width)):
            block = _pread(source, width, at, file)
            table = np.frombuffer(block, dtype=np.uint8).reshape(tensor.shape[axis], -1)
            yield table[rows].tobytes()
        return
    width = tensor.bytes_along(axis)
    # Kept ids come in runs (special tokens, bytes, frequent tokens): one read for each run.
    ends = np.flatnonzero(np.diff(rows) != 1) + 1
    for run in np.split(np.asarray(rows, dtype=np.int64), ends):
        for first in range(0, len(run), max(1, _CHUNK // max(1, width))):
            part = run[first : first + max(1, _CHUNK // max(1, width))]
            yield _pread(source, len(part) * width, tensor.start + int(part[0]) * width, file)


def _grafted(
    source: int, tensor: StoredTensor, cut: Cut | None, part: StoredTensor
) -> Iterator[bytes]:
    """The bytes of a tensor with those of `part` in place of some of its indices, or of all."""
    with open(part.file, "rb") as handle:
        other = handle.fileno()
        if cut is None:
            for block in _blocks(other, part, None):
                yield _converted(block, part, tensor)
            return
        axis, ids = cut
        count = tensor.shape[axis]
        outer = prod(tensor.shape[:axis])  # indices of the axes before
        width = tensor.bytes_along(axis) // outer
        of_part = part.bytes_along(axis) // outer
        for index in range(outer):
            for first in range(0, count, max(1, _CHUNK // max(1, width))):
                here = min(max(1, _CHUNK // max(1, width)), count - first)
                at = tensor.start + (index * count + first) * width
                block = _pread(source, here * width, at, tensor.file)
                low, high = np.searchsorted(ids, [first, first + here]).tolist()
                if low < high:
                    at = part.start + (index * len(ids) + low) * of_part
                    rows = _pread(other, (high - low) * of_part, at, part.file)
                    table = np.frombuffer(bytearray(block), dtype=np.uint8).reshape(here, width)
                    new = np.frombuffer(_converted(rows, part, tensor), dtype=np.uint8)
                    table[ids[low:high] - first] = new.reshape(-1, width)
                    block = table.tobytes()
                yield block


def _converted(data: bytes, part: StoredTensor, tensor: StoredTensor) -> bytes:
    """Values of `part` in the dtype of `tensor`, which holds the result."""
    if part.dtype == tensor.dtype or not data:
        return data
    import torch

    values = torch.frombuffer(bytearray(data), dtype=getattr(torch, FLOATS[part.dtype]))
    result = values.to(getattr(torch, FLOATS[tensor.dtype]))
    if not torch.equal(values.isfinite(), result.isfinite()):
        raise ModtokError(
            f"'{part.name}' has values beyond what {FLOATS[tensor.dtype]} can represent",
            where=part.file,
        )
    return result.view(torch.uint8).numpy().tobytes()


def _header(file: Path) -> tuple[list[StoredTensor], dict[str, str]]:
    """The tensors of a file by position, and its metadata."""
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
            shape = tuple(facts["shape"])
            if any(type(n) is not int or n < 0 for n in shape):
                raise ValueError(f"shape of '{name}'")
            if not 8 + length <= start <= stop <= size:
                raise ValueError(f"offsets of '{name}'")
            if (stop - start) * 8 != prod(shape) * _BITS[facts["dtype"]]:
                raise ValueError(f"size of '{name}'")
            tensors.append(StoredTensor(name, facts["dtype"], shape, file, start, stop))
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=file) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModtokError(f"is not a valid safetensors file ({error})", where=file) from error
    return sorted(tensors, key=lambda tensor: tensor.start), metadata
