"""The arrays of a modular directory: a safetensors file that is mapped into memory, not parsed.

Its pages are read when an array is used, and shared by all processes that use the tokenizer. The
header is checked here, since an array must not reach beyond the file.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.reading import map_file
from modtok_cli.modular.json_frame import REBUILD

Array = npt.NDArray[Any]

# Little-endian, as safetensors stores them.
_TYPES = {
    **{
        f"{letter.upper()}{8 * size}": f"<{letter}{size}"
        for letter in "iu"
        for size in (1, 2, 4, 8)
    },
    **{f"F{8 * size}": f"<f{size}" for size in (2, 4, 8)},
}
_HEAD = 8
_LONGEST_HEADER = 1 << 16


@dataclass(frozen=True)
class ArraysFile:
    """Arrays by name, read-only; `where` names the file in errors."""

    where: str
    content: bytes | mmap.mmap
    tensors: Mapping[str, Array]

    @classmethod
    def open(cls, path: Path, *, largest: int) -> ArraysFile:
        """Map a file of at most `largest` bytes.

        Raises:
            ModtokError: it cannot be read, or is no safetensors file of whole arrays.
        """
        content = map_file(path, largest=largest, remedy=REBUILD)
        try:
            tensors = _tensors(content)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ModtokError(
                f"not safetensors: {error}", where=str(path), remedy=REBUILD
            ) from error
        return cls(str(path), content, tensors)

    @cached_property
    def sha256(self) -> str:
        """Of the whole file, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def take(self, name: str, kind: npt.DTypeLike, shape: tuple[int | None, ...]) -> Array:
        """An array of this type and shape, where None is any number.

        Raises:
            ModtokError: it is missing, or another; names the field.
        """
        found = self.tensors.get(name)
        if found is None or found.dtype != kind or not _fits(found.shape, shape):
            what = "missing" if found is None else f"{found.dtype} {found.shape}"
            expected = f"{np.dtype(kind)} {shape}".replace("None", "…")
            raise self.broken(name, f"{what}, expected {expected}")
        return found

    def broken(self, name: str, what: str) -> ModtokError:
        """The error of an invalid array."""
        return ModtokError(f"field '{name}': {what}", where=self.where, remedy=REBUILD)


def _fits(found: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(found) == len(shape) and all(
        size is None or size == has for has, size in zip(found, shape, strict=True)
    )


def _tensors(content: bytes | mmap.mmap) -> dict[str, Array]:
    """Views of the arrays of a safetensors file, which cover it without gaps."""
    length = int.from_bytes(content[:_HEAD], "little")
    if not 2 <= length <= min(_LONGEST_HEADER, len(content) - _HEAD):
        raise ValueError("the header is damaged or cut off")
    header = orjson.loads(content[_HEAD : _HEAD + length])
    header.pop("__metadata__", None)
    found, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        kind = np.dtype(_TYPES[entry["dtype"]])
        shape, (start, stop) = entry["shape"], entry["data_offsets"]
        if any(type(size) is not int or size < 0 for size in (*shape, start, stop)):
            raise ValueError(f"'{name}' has an invalid size")
        if start != end or stop - start != prod(shape) * kind.itemsize:
            raise ValueError(f"'{name}' is not where the one before it ends, or has another size")
        if _HEAD + length + stop > len(content):
            raise ValueError(f"'{name}' reaches beyond the end of the file")
        # A view of read-only memory, so it is read-only itself.
        found[name] = np.ndarray(tuple(shape), kind, content, _HEAD + length + start)
        end = stop
    if _HEAD + length + end != len(content):
        raise ValueError("the file does not end with the last array")
    return found
