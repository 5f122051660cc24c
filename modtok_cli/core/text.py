"""Text to words: pre-tokenizers, splitting, UTF-8, JSON lines, spans."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from modtok_cli.base.arrays import Int64Array, UInt8Array, UInt64Array, flatten
from modtok_cli.core.binding import (
    FULL,
    PADDING,
    Handle,
    Splitter,
    address,
    array_at,
    check,
    native,
)

CODE_POINTS = 0x110000
OTHER, LETTER, NUMBER, SPACE, MARK = 0, 1, 2, 3, 4
r"""Classes of code points: `\p{L}` 1, `\p{N}` 2, `\s` 3, `\p{M}` 4, all else 0."""
UPPER, LOWER = 5, 6
r"""Letters by case: `[\p{Lu}\p{Lt}]` 5, `\p{Ll}` 6; others are `LETTER`."""


class NativePreTokenizer(ctypes.Structure):
    """`mt_pretokenizer`: strings in UTF-8; llama_cpp may be None."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("pattern", ctypes.c_char_p),
        ("llama_cpp", ctypes.c_char_p),
        ("json_form", ctypes.c_int64),
        ("splitter", Splitter),
    )
    name: bytes
    pattern: bytes
    llama_cpp: bytes | None
    json_form: int
    splitter: Splitter


def native_pretokenizers() -> list[NativePreTokenizer]:
    """Those of `src/pretokenizers`, by name."""
    places = native.mt_pretokenizers()
    listed: list[NativePreTokenizer] = []
    while place := places[len(listed)]:
        listed.append(NativePreTokenizer.from_address(place))
    return listed


@cache
def classes(cases: bool = False) -> UInt8Array:
    r"""Class of every code point, (0x110000,) uint8, read-only; `cases` with `UPPER` and `LOWER`.

    As the regular-expression engine of the `tokenizers` library has them, not Python's
    `unicodedata`: the two use different versions of Unicode, and the engine's `\s` has
    U+0085 but not U+001C to U+001F. Surrogates are `OTHER`.

    >>> [int(classes()[ord(c)]) for c in ("a", "7", "\n", "\u0301", "!")]
    [1, 2, 3, 4, 0]
    """
    return array_at(native.mt_classes(cases), CODE_POINTS, np.uint8)


def chunk_splitter(filter_: UInt8Array, shift: int) -> Splitter:
    """The splitter of a vocabulary with superwords (`src/chunks.c`); it keeps the filter."""
    splitter: Splitter = native.mt_chunk_splitter(
        address(filter_, np.uint8, max(1, (1 << (64 - shift)) // 8)), shift
    )
    splitter.kept = filter_
    return splitter


def split(data: UInt8Array, splitter: Splitter) -> Int64Array:
    """Ends of all words of one text, (n,) int64; `data` is the text with `PADDING` more bytes."""
    size = len(data) - PADDING
    ends = np.empty(size, dtype=np.int64)
    words = native.mt_split(
        ctypes.byref(splitter), address(data, np.uint8, PADDING), size, address(ends, np.int64)
    )
    check(min(words, 0))
    return ends[:words]


def is_utf8(text: bytes | UInt8Array) -> bool:
    """Whether `text` is UTF-8: 32 bytes at a time, about the same speed for every language."""
    data = np.frombuffer(text, dtype=np.uint8)
    return bool(native.mt_is_utf8(address(data, np.uint8), len(data)))


class JsonTexts(NamedTuple):
    """Texts of JSON lines: text d is out[starts[d]:stops[d]].

    Shapes: out (B,) uint8 with padding; starts, stops (D,) int64; doubts (n, 4) int64: the number
    of a text that was left free, its line from 0, and where that begins and ends.
    """

    out: UInt8Array
    starts: Int64Array
    stops: Int64Array
    doubts: Int64Array


def read_json_lines(block: bytes, field: str, language_field: str) -> JsonTexts:
    """The value of `field` of each line of a block that ends with a line; blank lines are skipped.

    A line is in doubt unless it is an object of valid JSON in UTF-8 with one text in `field` and,
    if any, a language that is a string or null.
    """
    lines = block.count(b"\n") + 1
    out = np.empty(len(block) + PADDING, dtype=np.uint8)
    starts, stops = np.zeros(lines, dtype=np.int64), np.zeros(lines, dtype=np.int64)
    doubts = np.empty((lines, 4), dtype=np.int64)
    totals = np.zeros(2, dtype=np.int64)
    data = np.frombuffer(block, dtype=np.uint8)
    name, language = field.encode(), language_field.encode()
    place = address(totals, np.int64)
    assert place is not None
    native.mt_read_json_lines(
        address(data, np.uint8), len(data), name, len(name), language, len(language),
        address(out, np.uint8), address(starts, np.int64), address(stops, np.int64),
        address(doubts, np.int64), place, place + 8,
    )  # fmt: skip
    texts, doubtful = totals.tolist()
    return JsonTexts(out, starts[:texts], stops[:texts], doubts[:doubtful])


def joined(texts: Sequence[bytes]) -> tuple[UInt8Array, Int64Array, Int64Array]:
    """Texts one after the other in a buffer with `PADDING`, their starts and stops."""
    data, offsets = flatten([*texts, bytes(PADDING)])
    return data, offsets[:-2], offsets[1:-1]


def hash_spans(data: UInt8Array, starts: Int64Array, stops: Int64Array) -> UInt64Array:
    """A 64-bit hash of each data[starts[i]:stops[i]]; `data` goes on for `PADDING` bytes."""
    _check_spans(data, starts, stops, PADDING)
    hashes = np.empty(len(starts), dtype=np.uint64)
    native.mt_hash_spans(
        address(data, np.uint8), len(starts), address(starts, np.int64),
        address(stops, np.int64), address(hashes, np.uint64),
    )  # fmt: skip
    return hashes


def packed(
    data: UInt8Array, starts: Int64Array, stops: Int64Array
) -> tuple[UInt8Array, Int64Array]:
    """The texts data[starts[i]:stops[i]] as one buffer and offsets; `data` itself if it will do.

    Shapes: data (B,) uint8; starts, stops (D,) int64. Returns a buffer (N,) uint8, with `PADDING`
    bytes after the last text unless it is `data`, and offsets (D + 1,) int64 of the texts.
    """
    _check_spans(data, starts, stops, 0)
    offsets = np.empty(len(starts) + 1, dtype=np.int64)
    if len(starts) and np.array_equal(starts[1:], stops[:-1]):
        offsets[0] = starts[0]
        offsets[1:] = stops
        return data, offsets
    offsets[0] = 0
    np.cumsum(stops - starts, out=offsets[1:])
    out = np.empty(int(offsets[-1]) + PADDING, dtype=np.uint8)
    native.mt_copy_spans(
        address(data, np.uint8), len(starts), address(starts, np.int64),
        address(offsets, np.int64), address(out, np.uint8),
    )  # fmt: skip
    out[offsets[-1] :] = 0
    return out, offsets


def _check_spans(data: UInt8Array, starts: Int64Array, stops: Int64Array, padding: int) -> None:
    """Whether the spans are inside the data, with so many bytes behind the last."""
    if len(starts) != len(stops) or (
        len(starts)
        and not (
            int(starts.min()) >= 0
            and bool((starts <= stops).all())
            and int(stops.max()) + padding <= len(data)
        )
    ):
        raise ValueError(f"expected spans of the data with {padding} bytes after the last one")


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
