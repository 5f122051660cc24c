"""Kernels over sorted word tables: merge two, and find the first word out of order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.base.jit import njit

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


@njit()
def compare(a: Bytes, a_start: int, a_stop: int, b: Bytes, b_start: int, b_stop: int) -> int:
    """Negative, zero or positive as bytes a[a_start:a_stop] sort before, with or after b's."""
    shared = min(a_stop - a_start, b_stop - b_start)
    for i in range(shared):
        if a[a_start + i] != b[b_start + i]:
            return -1 if a[a_start + i] < b[b_start + i] else 1
    return (a_stop - a_start) - (b_stop - b_start)


@njit(cache=True, nogil=True)
def first_disorder(data: Bytes, offsets: Ints) -> int:
    """Index of the first word that does not sort after the one before it; -1 if none."""
    for word in range(1, len(offsets) - 1):
        start = offsets[word]
        if compare(data, offsets[word - 1], start, data, start, offsets[word + 1]) >= 0:
            return word
    return -1


@njit(cache=True, nogil=True)
def merge_two(
    a_data: Bytes, a_offsets: Ints, a_counts: Ints, b_data: Bytes, b_offsets: Ints, b_counts: Ints
) -> tuple[Bytes, Ints, Ints]:
    """Union of two sorted tables; counts of words that are in both are added."""
    a_words, b_words = len(a_counts), len(b_counts)
    data = np.empty(len(a_data) + len(b_data), dtype=np.uint8)
    offsets = np.empty(a_words + b_words + 1, dtype=np.int64)
    counts = np.empty(a_words + b_words, dtype=np.int64)
    offsets[0] = 0
    a = b = words = filled = 0
    while a < a_words or b < b_words:
        if a == a_words:
            order = 1
        elif b == b_words:
            order = -1
        else:
            order = compare(
                a_data, a_offsets[a], a_offsets[a + 1], b_data, b_offsets[b], b_offsets[b + 1]
            )
        count = 0
        if order <= 0:
            source, start, stop = a_data, a_offsets[a], a_offsets[a + 1]
            count += a_counts[a]
            a += 1
        else:
            source, start, stop = b_data, b_offsets[b], b_offsets[b + 1]
        if order >= 0:
            count += b_counts[b]
            b += 1
        for i in range(start, stop):
            data[filled] = source[i]
            filled += 1
        counts[words] = count
        words += 1
        offsets[words] = filled
    return data[:filled].copy(), offsets[: words + 1].copy(), counts[:words].copy()
