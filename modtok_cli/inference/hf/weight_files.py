"""safetensors files read and rewritten as streams: tokens of tables selected on the way.

A model larger than memory is rewritten with a buffer of a few MB.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.architectures.hf_directory import HfDirectory
from modtok_cli.architectures.stored_tensors import StoredTensor, read_at, read_header
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.signature import digest

Ids = npt.NDArray[np.integer[Any]]

_CHUNK = 1 << 24
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Dtypes that can be converted → their names in torch."""
_SAMPLE = 4096


class Cut(NamedTuple):
    """The indices of an axis of a tensor to keep, ascending."""

    axis: int
    ids: Ids


class NewTensor(NamedTuple):
    """A tensor that is not in the files: its dtype as safetensors calls it, shape, and bytes."""

    dtype: str
    shape: list[int]
    data: bytes


class WeightFiles:
    """The safetensors files of a model directory."""

    def __init__(self, directory: Path | HfDirectory) -> None:
        model = directory if isinstance(directory, HfDirectory) else HfDirectory(directory)
        self.index, self.files, self.tensors = model.index, model.files, model.tensors

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
                    parts.append(read_at(source.fileno(), size, at, tensor.file))
        return digest(*parts)

    def rewrite(
        self,
        output: Path,
        select: Mapping[str, Cut],
        grafted: Mapping[str, StoredTensor] | None = None,
        new: Mapping[str, NewTensor] | None = None,
    ) -> int:
        """Copy the files to `output`, of the tensors in `select` what is to keep only.

        With `grafted` all is kept, and the tensors of that mapping replace those of their names: of
        tensors in `select` the selected indices, of others all. Tensors of `new` replace those of
        their names, or follow in the last file.

        Memory: one buffer, whatever the model's size. Returns bytes of all tensors written.
        """
        total, where, new = 0, {}, new or {}
        for file in self.files:
            tensors, metadata = read_header(file)
            tensors = [tensor for tensor in tensors if tensor.name not in new]
            more = new if file == self.files[-1] else {}
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
            for name, each in more.items():
                stop = at + len(each.data)
                header[name] = {
                    "dtype": each.dtype,
                    "shape": each.shape,
                    "data_offsets": [at, stop],
                }
                where[name], at = file.name, stop
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
                target.writelines(each.data for each in more.values())
            total += at
        if self.index is not None:
            index = {"metadata": {"total_size": total}, "weight_map": where}
            options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
            (output / self.index.name).write_bytes(orjson.dumps(index, option=options))
        return total

    def rows(self, name: str, ids: Ids | None = None) -> npt.NDArray[np.uint8]:
        """Rows of a tensor as bytes, (n, bytes of a row); all rows without `ids`."""
        tensor = self.tensors[name]
        with open(tensor.file, "rb") as source:
            cut = None if ids is None else Cut(0, ids)
            data = b"".join(_blocks(source.fileno(), tensor, cut))
        return np.frombuffer(data, dtype=np.uint8).reshape(-1, max(1, tensor.bytes_along(0)))


def _blocks(source: int, tensor: StoredTensor, cut: Cut | None) -> Iterator[bytes]:
    """The bytes of a tensor, or of some of its indices, in pieces."""
    file = tensor.file
    if cut is None:
        for at in range(tensor.start, tensor.stop, _CHUNK):
            yield read_at(source, min(_CHUNK, tensor.stop - at), at, file)
        return
    axis, rows = cut
    outer = prod(tensor.shape[:axis])
    if outer > 1:  # a piece for each index of the axes before
        width = (tensor.stop - tensor.start) // outer
        for at in range(tensor.start, tensor.stop, max(1, width)):
            block = read_at(source, width, at, file)
            table = np.frombuffer(block, dtype=np.uint8).reshape(tensor.shape[axis], -1)
            yield table[rows].tobytes()
        return
    width = tensor.bytes_along(axis)
    # Kept ids come in runs (special tokens, bytes, frequent tokens): one read for each run.
    ends = np.flatnonzero(np.diff(rows) != 1) + 1
    for run in np.split(np.asarray(rows, dtype=np.int64), ends):
        for first in range(0, len(run), max(1, _CHUNK // max(1, width))):
            part = run[first : first + max(1, _CHUNK // max(1, width))]
            yield read_at(source, len(part) * width, tensor.start + int(part[0]) * width, file)


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
                block = read_at(source, here * width, at, tensor.file)
                low, high = np.searchsorted(ids, [first, first + here]).tolist()
                if low < high:
                    at = part.start + (index * len(ids) + low) * of_part
                    rows = read_at(other, (high - low) * of_part, at, part.file)
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
