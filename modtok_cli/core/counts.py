"""Counts of words: the counter, and tables of sorted words."""

from __future__ import annotations

import ctypes

import numpy as np

from modtok_cli.base.arrays import Int64Array, UInt8Array
from modtok_cli.core.binding import FULL, PADDING, Handle, Splitter, address, check, native

Table = tuple[UInt8Array, Int64Array, Int64Array]
"""Sorted words: bytes (B,) uint8, offsets (W + 1,) int64, counts (W,) int64."""


class Counter(Handle):
    """A table of words and their counts, for one thread."""

    def __init__(self) -> None:
        super().__init__(native.mt_counter_new(), native.mt_counter_free)

    def add(
        self,
        splitter: Splitter,
        data: UInt8Array,
        starts: Int64Array,
        stops: Int64Array,
        weights: Int64Array | None,
        most: int = 0,
    ) -> bool:
        """Count the words of documents data[starts[d]:stops[d]], each weights[d] (1) times.

        False if the table would take more than `most` bytes (0: no bound): list and clear it, then
        call again with the same arguments. `data` goes on for `PADDING` bytes.
        """
        if len(stops) and (int(stops.max()) + PADDING > len(data) or int(starts.min()) < 0):
            raise ValueError(f"expected {PADDING} bytes after the text in the buffer")
        status = native.mt_counter_add(
            self.place, ctypes.byref(splitter), address(data, np.uint8), len(starts),
            address(starts, np.int64), address(stops, np.int64, len(starts)),
            address(weights, np.int64, len(starts)), most,
        )  # fmt: skip
        if status == FULL:
            return False
        check(status)
        return True

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Words, their bytes, and bytes of memory."""
        sizes = np.zeros(3, dtype=np.int64)
        place = address(sizes, np.int64)
        assert place is not None
        native.mt_counter_sizes(self.place, place, place + 8, place + 16)
        words, size, held = sizes.tolist()
        return words, size, held

    def table(self) -> Table:
        """The words in ascending byte order."""
        words, size, _ = self.sizes
        data = np.empty(size, dtype=np.uint8)
        offsets, counts = np.zeros(words + 1, dtype=np.int64), np.empty(words, dtype=np.int64)
        check(
            native.mt_counter_list(
                self.place, address(data, np.uint8), address(offsets, np.int64),
                address(counts, np.int64),
            )
        )  # fmt: skip
        return data, offsets, counts

    def clear(self) -> None:
        """Forget all words; the memory stays."""
        native.mt_counter_clear(self.place)


def merge_counts(a: Table, b: Table) -> Table:
    """Union of two sorted tables; counts of words that are in both are added."""
    size, most = len(a[0]) + len(b[0]), len(a[2]) + len(b[2])
    data = np.empty(size, dtype=np.uint8)
    offsets, counts = np.empty(most + 1, dtype=np.int64), np.empty(most, dtype=np.int64)
    words = native.mt_merge_counts(
        *_places(a), len(a[2]), *_places(b), len(b[2]),
        address(data, np.uint8), address(offsets, np.int64), address(counts, np.int64),
    )  # fmt: skip
    return data[: offsets[words]].copy(), offsets[: words + 1].copy(), counts[:words].copy()


def first_disorder(data: UInt8Array, offsets: Int64Array) -> int:
    """Index of the first word that does not sort after the one before it; -1 if none."""
    words = len(offsets) - 1
    return int(native.mt_first_disorder(address(data, np.uint8), address(offsets, np.int64), words))


def _places(table: Table) -> tuple[int | None, int | None, int | None]:
    data, offsets, counts = table
    return address(data, np.uint8), address(offsets, np.int64), address(counts, np.int64)
