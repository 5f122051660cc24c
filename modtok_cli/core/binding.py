"""The native library: loaded by ctypes, which releases the interpreter's lock in every call.

Arrays travel as addresses. The functions of this package check their types and sizes; calls take
blocks of text or many words, never single ones.

The environment variable MODTOK_CORE names another library, such as one with sanitizers
(`make sanitize`).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

VERSION = 616825896
"""Of `src/modtok.h`, see `backend.version`; a library of another header is refused."""
PADDING = 64
"""Bytes that must follow the text in a buffer: the core reads up to 64 bytes at a time."""
BLOCK = 1 << 15
"""Bytes of text that are split at a time."""

OK, NO_MEMORY, INVALID, FULL = 0, -1, -2, -3

_SIZE, _ADDRESS, _INT, _DOUBLE = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int, ctypes.c_double
_BOOL = ctypes.c_bool


class Splitter(ctypes.Structure):
    """`mt_splitter`: functions that split text, and what they look up."""

    _fields_ = (
        ("word_end", _ADDRESS),
        ("split_block", _ADDRESS),
        ("lookahead", _SIZE),
        ("filter", _ADDRESS),
        ("shift", _SIZE),
    )
    kept: object  # what `filter` refers to


class EncoderWork(ctypes.Structure):
    """`mt_encoder_work`: what an encoder did; slots of its cache."""

    _fields_ = (("bytes", _SIZE), ("words", _SIZE), ("calls", _SIZE), ("slots", _SIZE))
    bytes: int
    words: int
    calls: int
    slots: int


class LearnerContents(ctypes.Structure):
    """`mt_learner_contents`: addresses and sizes of what a learner holds."""

    _fields_ = (
        *((name, _ADDRESS) for name in (
            "token_data", "token_offsets", "merges", "member", "merge_member", "frequency", "slots",
        )),
        *((name, _SIZE) for name in ("tokens", "merge_total", "slot_count", "adopted")),
        ("work", _SIZE * 5),
    )  # fmt: skip


WORD_END = ctypes.CFUNCTYPE(_SIZE, _ADDRESS, _ADDRESS, _SIZE, _SIZE)

_S, _A = _SIZE, _ADDRESS
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "mt_version": (_INT, ()),
    "mt_start": (None, ()),
    "mt_processor": (_INT, ()),
    "mt_compiled_for": (_INT, ()),
    "mt_pretokenizers": (ctypes.POINTER(_A), ()),
    "mt_chunk_splitter": (Splitter, (_A, _S)),
    "mt_classes": (_A, (_BOOL,)),
    "mt_split": (_S, (_A, _A, _S, _A)),
    "mt_is_utf8": (_BOOL, (_A, _S)),
    "mt_read_json_lines": (None, (_A, _S, ctypes.c_char_p, _S, ctypes.c_char_p, _S, *[_A] * 6)),
    "mt_hash_spans": (None, (_A, _S, _A, _A, _A)),
    "mt_copy_spans": (None, (_A, _S, _A, _A, _A)),
    "mt_counter_new": (_A, ()),
    "mt_counter_free": (None, (_A,)),
    "mt_counter_add": (_INT, (_A, _A, _A, _S, _A, _A, _A, _S)),
    "mt_counter_sizes": (None, (_A, _A, _A, _A)),
    "mt_counter_list": (_INT, (_A, _A, _A, _A)),
    "mt_counter_clear": (None, (_A,)),
    "mt_merge_counts": (_S, (_A, _A, _A, _S, _A, _A, _A, _S, _A, _A, _A)),
    "mt_first_disorder": (_S, (_A, _A, _S)),
    "mt_trie_new": (_A, (_A, _A, _S, _A, _A)),
    "mt_trie_free": (None, (_A,)),
    "mt_trie_units": (_A, (_A, _A)),
    "mt_pairs_new": (_A, (_A, _S)),
    "mt_pairs_extend": (_INT, (_A, _A, _S, _S)),
    "mt_pairs_free": (None, (_A,)),
    "mt_last_merges": (_INT, (_A, _A, _A, _S, _A, _A)),
    "mt_likelihoods": (None, (_A, _S, _A)),
    "mt_segment": (_INT, (_A, _A, _S, _A, _A, _A, _A)),
    "mt_encoder_new": (_A, (_A, _A)),
    "mt_encoder_free": (None, (_A,)),
    "mt_encoder_change": (None, (_A, _A)),
    "mt_encode": (_INT, (_A, _A, _A, _S, _A, _A)),
    "mt_encoder_expect": (_INT, (_A, _S)),
    "mt_encoder_forget": (None, (_A,)),
    "mt_encoder_spent": (EncoderWork, (_A,)),
    "mt_encoder_cache_sizes": (None, (_A, _S, _S)),
    "mt_learner_new": (_A, (_A, _A, _S, _S, _A, _S, _A, _A, _A, _S)),
    "mt_learner_free": (None, (_A,)),
    "mt_learn": (_INT, (_A, _A, _A, _A, _S, _S, _S, _S, _A)),
    "mt_learner_view": (LearnerContents, (_A,)),
    "mt_expect": (_INT, (_A, _A, _A, _S, _S, _A, _A, _A, _DOUBLE, _A)),
    "mt_removal_losses": (_INT, (_A, _A, _A, _S, _A, _A, _S, _A, _A, _A, _A, _A)),
    "mt_update_rows": (None, (_A,)),
    "mt_copy_rows": (None, (_A, _S, _A, _S, _A, _BOOL, _S)),
    "mt_touch_rows": (None, (_A, _S, _S, _S)),
}


_BACKEND = Path(__file__).with_name("backend.py")


def _open(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"{path}: the native core of modtok is not built ({error}); run: python {_BACKEND}"
        ) from None
    if library.mt_version() != VERSION:
        raise ImportError(f"{path} is of another version; run: python {_BACKEND}")
    for function, (result, arguments) in _SIGNATURES.items():
        declared = getattr(library, function)
        declared.restype, declared.argtypes = result, arguments
    return library


def _load() -> ctypes.CDLL:
    """The library for the best instruction set of this processor, or the one of MODTOK_CORE."""
    named = os.environ.get("MODTOK_CORE")
    library = _open(Path(named) if named else _BACKEND.with_name("libmodtok.so"))
    best = 0 if named else library.mt_processor()
    for level in range(best, 2, -1):
        path = _BACKEND.with_name(f"libmodtok.{level}.so")
        if path.exists():
            library = _open(path)
            break
    library.mt_start()
    return library


native: Any = _load()
"""The functions of `src/modtok.h`."""


def check(status: int) -> None:
    """Raise what a function of the library gave.

    Raises:
        MemoryError: there was none.
    """
    if status == NO_MEMORY:
        raise MemoryError
    assert status == OK, status


def address(array: npt.NDArray[Any] | None, dtype: Any, least: int = 0) -> int | None:
    """Address of an array's data, checked; None for None.

    Raises:
        TypeError: the array has another type, or is not contiguous.
        ValueError: it has fewer than `least` items.
    """
    if array is None:
        return None
    if array.dtype != dtype or not array.flags.c_contiguous:
        raise TypeError(f"expected a contiguous array of {np.dtype(dtype)}, not {array.dtype}")
    if array.size < least:
        raise ValueError(f"expected {least} items or more, not {array.size}")
    place: int = array.__array_interface__["data"][0]
    return place


class Handle:
    """An object of the library, freed with this one.

    Raises:
        MemoryError: it could not be made.
    """

    def __init__(self, place: int | None, free: Callable[[int], None]) -> None:
        self.place, self._free = place or 0, free
        if not place:
            raise MemoryError

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # weakref.finalize would have a list, which may fail at exit while threads make handles.
        # At the end of the process other threads may still use the object.
        if self.place and not is_finalizing():
            self._free(self.place)


def array_at(place: int, count: int, dtype: Any, owner: Handle | None = None) -> npt.NDArray[Any]:
    """The items at an address as an array, read-only; it keeps `owner` alive."""
    kind = np.dtype(dtype)
    if count == 0:
        return np.zeros(0, dtype=kind)
    memory = (ctypes.c_char * (count * kind.itemsize)).from_address(place)
    memory._owner = owner
    array = np.frombuffer(memory, dtype=kind)
    array.setflags(write=False)
    return array
