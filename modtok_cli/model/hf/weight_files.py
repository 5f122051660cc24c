"""safetensors files rewritten as streams: tokens of tables selected or replaced on the way.

A model larger than memory is rewritten with a buffer of a few MB.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.signature import digest
from modtok_cli.model.architecture.stored_model import HfDirectory
from modtok_cli.model.architecture.stored_tensors import StoredTensor, read_header

Ids = npt.NDArray[np.integer[Any]]
Bytes = npt.NDArray[np.uint8]
Blocks = Iterable[bytes | memoryview]

_CHUNK = 1 << 24
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Dtypes that can be converted → their names in torch."""
_SAMPLE = 4096


class Cut(NamedTuple):
    """The indices of an axis of a tensor to keep, ascending."""

    axis: int
    ids: Ids


class NewTensor(NamedTuple):
    """A tensor in place of a stored one: dtype as safetensors calls it, shape, bytes in pieces."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    blocks: Callable[[], Blocks]

    @classmethod
    def of(cls, dtype: str, shape: Sequence[int], values: npt.NDArray[Any]) -> "NewTensor":
        """With these values, or their bytes."""
        data = np.ascontiguousarray(values)
        return cls(dtype, tuple(shape), data.nbytes, lambda: [data.data])


def cut_tensor(tensor: StoredTensor, cut: Cut) -> NewTensor:
    """Some of the indices of a tensor."""
    shape = list(tensor.shape)
    shape[cut.axis] = len(cut.ids)
    size = len(cut.ids) * tensor.bytes_along(cut.axis)
    return NewTensor(tensor.dtype, tuple(shape), size, partial(_selected, tensor, cut))


def grafted_tensor(tensor: StoredTensor, cut: Cut | None, part: StoredTensor) -> NewTensor:
    """A tensor with the values of `part` in place of some of its indices, or of all."""
    blocks = partial(_grafted, tensor, cut, part)
    return NewTensor(tensor.dtype, tensor.shape, tensor.nbytes, blocks)


def fingerprint(model: HfDirectory) -> str:
    """Digest of the tensors' names, dtypes, shapes, first and last bytes; 12 digits.

    It does not depend on how the tensors are divided into files.
    """
    parts: list[bytes] = []
    for name, tensor in sorted(model.tensors.items()):
        parts.append(f"{name} {tensor.dtype} {tensor.shape}".encode())
        data = tensor.data()
        parts += [data[:_SAMPLE].tobytes(), data[-_SAMPLE:].tobytes()]
    return digest(*parts)


def rewrite(model: HfDirectory, output: Path, changed: Mapping[str, NewTensor]) -> int:
    """Copy the files of weights to `output` with the tensors of `changed` in place of theirs.

    Tensors that the model does not have follow in the last file. Memory: one buffer, whatever
    the model's size. Returns bytes of all tensors written.
    """
    total, where = 0, {}
    for file in model.files:
        stored, metadata = read_header(file)
        parts: dict[str, StoredTensor | NewTensor]
        parts = {tensor.name: changed.get(tensor.name, tensor) for tensor in stored}
        if file == model.files[-1]:
            parts |= {name: each for name, each in changed.items() if name not in model.tensors}
        header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
        at = 0
        for name, part in parts.items():
            stop = at + part.nbytes
            shape = list(part.shape)
            header[name] = {"dtype": part.dtype, "shape": shape, "data_offsets": [at, stop]}
            where[name], at = file.name, stop
        head = orjson.dumps(header)
        head += b" " * (-len(head) % 8)
        with open(output / file.name, "wb") as target:
            target.write(len(head).to_bytes(8, "little") + head)
            for part in parts.values():
                target.writelines(part.blocks())
        total += at
    if model.index is not None:
        index = {"metadata": {"total_size": total}, "weight_map": where}
        options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
        (output / model.index.name).write_bytes(orjson.dumps(index, option=options))
    return total


def overwrite(file: Path, name: str, values: NewTensor) -> None:
    """Replace the values of a tensor of a file by others of the same dtype and shape."""
    (place,) = (each for each in read_header(file)[0] if each.name == name)
    with open(file, "r+b") as target:
        target.seek(place.start)
        target.writelines(values.blocks())


def _selected(tensor: StoredTensor, cut: Cut) -> Blocks:
    for table in tensor.indices(cut.axis):
        step = _step(table)
        for at in range(0, len(cut.ids), step):
            yield table[cut.ids[at : at + step]].data


def _grafted(tensor: StoredTensor, cut: Cut | None, part: StoredTensor) -> Blocks:
    if cut is None:
        for whole in part.blocks():
            yield _converted(np.frombuffer(whole, dtype=np.uint8), part, tensor).data
        return
    axis, ids = cut
    for table, new in zip(tensor.indices(axis), part.indices(axis), strict=True):
        step = _step(table)
        for first in range(0, len(table), step):
            block = np.array(table[first : first + step])
            low, high = np.searchsorted(ids, [first, first + step]).tolist()
            rows = _converted(new[low:high], part, tensor)
            block[ids[low:high] - first] = rows.reshape(high - low, table.shape[1])
            yield block.data


def _step(table: Bytes) -> int:
    """Rows of a piece."""
    return max(1, _CHUNK // max(1, int(table.shape[1])))


def _converted(data: Bytes, part: StoredTensor, tensor: StoredTensor) -> Bytes:
    """Values of `part` in the dtype of `tensor`, which holds the result."""
    if part.dtype == tensor.dtype or not data.size:
        return data
    import torch

    values = torch.from_numpy(np.array(data)).view(getattr(torch, FLOATS[part.dtype]))
    result = values.to(getattr(torch, FLOATS[tensor.dtype]))
    if not torch.equal(values.isfinite(), result.isfinite()):
        raise ModtokError(
            f"'{part.name}' has values beyond what {FLOATS[tensor.dtype]} can represent",
            where=part.file,
        )
    converted: Bytes = result.view(torch.uint8).numpy()
    return converted
