"""Arrays in safetensors files: places in a checked header, and arrays mapped into memory.

Pages of a mapped file are read when an array is used, and shared by all processes that use it. The
header is checked here, since an array must not reach beyond the file.
"""

from __future__ import annotations

import hashlib
import json
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
from modtok_cli.base.read_file import map_file

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
HEAD = 8
_LONGEST_HEADER = 1 << 26
INVALID = (ValueError, KeyError, TypeError, AttributeError, OverflowError)
"""What parsing an invalid header raises."""


@dataclass(frozen=True)
class Place:
    """Where an array is in its file: `shape` entries of `kind` from byte `start`."""

    kind: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


def header_length(head: bytes, size: int) -> int:
    """Bytes of the header of a file of `size` bytes that begins with `head`.

    Raises:
        ValueError: they are not a header's.
    """
    length = int.from_bytes(head[:HEAD], "little")
    if not 2 <= length <= min(_LONGEST_HEADER, size - HEAD):
        raise ValueError("the header is damaged or cut off")
    return length


def parse_header(header: bytes, size: int) -> tuple[Mapping[str, str], dict[str, Place]]:
    """Metadata, and arrays, which cover a file of `size` bytes without gaps.

    Raises:
        One of `INVALID`: something is wrong.
    """
    content = orjson.loads(header)
    metadata = content.pop("__metadata__", {})
    places, end = {}, HEAD + len(header)
    for name, entry in sorted(content.items(), key=lambda item: item[1]["data_offsets"]):
        kind = np.dtype(_TYPES[entry["dtype"]])
        shape, (start, stop) = entry["shape"], entry["data_offsets"]
        if any(type(number) is not int or number < 0 for number in (*shape, start, stop)):
            raise ValueError(f"'{name}' has an invalid size")
        begin = HEAD + len(header) + start
        if begin != end or stop - start != prod(shape) * kind.itemsize:
            raise ValueError(f"'{name}' is not where the one before it ends, or has another size")
        places[name] = Place(kind, tuple(shape), begin)
        end = begin + stop - start
        if end > size:
            raise ValueError(f"'{name}' reaches beyond the end of the file")
    if end != size:
        raise ValueError("the file does not end with the last array")
    return metadata, places


def write_header(lengths: Mapping[str, tuple[npt.DTypeLike, int]], metadata: str) -> bytes:
    """How a file of arrays of one dimension begins, in the order in which they follow.

    As the library writes it, which takes whole arrays only: arrays of larger entries first.
    """
    content: dict[str, Any] = {"__metadata__": {"modtok": metadata}}
    end = 0
    for name, (kind, length) in lengths.items():
        begin, end = end, end + length * np.dtype(kind).itemsize
        code = next(code for code, each in _TYPES.items() if np.dtype(each) == kind)
        content[name] = {"dtype": code, "shape": [length], "data_offsets": [begin, end]}
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(HEAD, "little") + text


@dataclass(frozen=True)
class ArraysFile:
    """Arrays by name, read-only; `where` names the file in errors, `remedy` what to do."""

    where: str
    remedy: str
    content: bytes | mmap.mmap
    tensors: Mapping[str, Array]

    @classmethod
    def open(cls, path: Path, *, largest: int, remedy: str) -> ArraysFile:
        """Map a file of at most `largest` bytes."""
        content = map_file(path, largest=largest, remedy=remedy)
        try:
            length = header_length(content[:HEAD], len(content))
            _, places = parse_header(content[HEAD : HEAD + length], len(content))
        except INVALID as error:
            raise ModtokError(f"not safetensors: {error}", where=path, remedy=remedy) from error
        # A view of read-only memory, so it is read-only itself.
        tensors: dict[str, Array] = {
            name: np.ndarray(place.shape, place.kind, content, place.start)
            for name, place in places.items()
        }
        return cls(str(path), remedy, content, tensors)

    @cached_property
    def sha256(self) -> str:
        """Of the whole file, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()

    def take(self, name: str, kind: npt.DTypeLike, shape: tuple[int | None, ...]) -> Array:
        """An array of this type and shape, where None is any number."""
        array = self.tensors.get(name)
        if (
            array is None
            or array.dtype != kind
            or array.ndim != len(shape)
            or any(size not in (None, has) for has, size in zip(array.shape, shape, strict=True))
        ):
            what = "missing" if array is None else f"{array.dtype} {array.shape}"
            expected = f"{np.dtype(kind)} {shape}".replace("None", "…")
            raise self.broken(name, f"{what}, expected {expected}")
        return array

    def broken(self, name: str, what: str) -> ModtokError:
        """The error of an invalid array."""
        return ModtokError(f"field '{name}': {what}", where=self.where, remedy=self.remedy)
