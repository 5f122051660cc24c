"""Types of NumPy arrays by element (shapes are in docstrings), and byte strings in one array."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import UsageError

BoolArray: TypeAlias = npt.NDArray[np.bool_]
UInt8Array: TypeAlias = npt.NDArray[np.uint8]
Int32Array: TypeAlias = npt.NDArray[np.int32]
Int64Array: TypeAlias = npt.NDArray[np.int64]
UInt64Array: TypeAlias = npt.NDArray[np.uint64]
Float64Array: TypeAlias = npt.NDArray[np.float64]


def token_ids(ids: npt.ArrayLike) -> Int64Array:
    """Ids of any kind of sequence, (N,) int64.

    Raises:
        UsageError: they are not whole numbers.
    """
    try:
        array = np.asarray(ids)
    except (TypeError, ValueError, RuntimeError):  # lists of several lengths, tensors of a GPU
        array = np.array([None])
    if array.size and array.dtype.kind not in "iu":
        raise UsageError(f"expected token ids, got {ids!r:.80}", where="ids")
    return array.reshape(-1).astype(np.int64)


def offsets_of(sizes: Iterable[int] | npt.NDArray[np.integer]) -> Int64Array:
    """Where entries of these sizes begin in one array, and where the last ends; (N + 1,) int64."""
    if not isinstance(sizes, np.ndarray):
        sizes = np.array(list(sizes), dtype=np.int64)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def flatten(entries: Sequence[bytes]) -> tuple[UInt8Array, Int64Array]:
    """Byte strings in one array (B,) uint8, and their offsets (N + 1,) int64."""
    return np.frombuffer(b"".join(entries), dtype=np.uint8), offsets_of(map(len, entries))


def unflatten(data: UInt8Array, offsets: Int64Array) -> list[bytes]:
    """The byte strings data[offsets[i]:offsets[i + 1]]."""
    content = data.tobytes()
    return [content[start:stop] for start, stop in pairwise(offsets.tolist())]
