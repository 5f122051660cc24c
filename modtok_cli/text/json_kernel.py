"""JSON lines to documents, 32 bytes at a time: the value of "text" out of each, unescaped.

A strict reader: what it accepts is an object of valid JSON in UTF-8, as `orjson` sees it,
with one text and, if any, a language that is a string or null. Of every other line it only
gives the position; `readers` parses it by the slow path, which reports the error or accepts a
line that is merely unusual.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.text.bits import LANES, copy_until, trailing_zeros
from modtok_cli.text.utf8_kernel import utf8_from_third

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

ROOM = 64
"""Bytes that the output must have beyond the length of the input."""

_NO = -1  # in place of a position: this is not for us
_DEEPEST = 60  # nested levels, of which each has a bit in a 64-bit number
_LONGEST = 18  # digits of a number; no double is that large or small, regardless of its exponent

_QUOTE, _BACKSLASH, _NEWLINE, _COLON, _COMMA = 0x22, 0x5C, 0x0A, 0x3A, 0x2C
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = 0x7B, 0x7D, 0x5B, 0x5D

# The byte that a backslash and a byte stand for; 0 for none, and for `u`.
_UNESCAPED = np.zeros(256, dtype=np.uint8)
_UNESCAPED[np.frombuffer(b'"\\/bfnrt', dtype=np.uint8)] = np.frombuffer(
    b'"\\/\b\f\n\r\t', dtype=np.uint8
)
_HEX = np.full(256, 1 << 16, dtype=np.int32)  # too large unless it is a digit
_HEX[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16)
_HEX[np.frombuffer(b"ABCDEF", dtype=np.uint8)] = np.arange(10, 16)


@njit()
def _peek(data: Bytes, at: int) -> int:
    """The byte at `at`; beyond the end a line feed, which ends a line as well."""
    return int(data[at]) if at < len(data) else _NEWLINE


@njit()
def _skip_space(data: Bytes, at: int) -> int:
    while at < len(data) and (data[at] == 0x20 or data[at] == 0x09 or data[at] == 0x0D):
        at += 1
    return at


@njit()
def _code_unit(data: Bytes, at: int) -> int:
    """The number in a \\uXXXX at `at`, or more than 0xFFFF if there is none."""
    if at + 6 > len(data) or data[at] != _BACKSLASH or data[at + 1] != 0x75:
        return 1 << 16
    unit = 0
    for i in range(at + 2, at + 6):
        unit = unit * 16 + _HEX[data[i]]
    return unit


@njit()
def _read_string(data: Bytes, at: int, out: Bytes, to: int) -> tuple[int, int]:
    """Unescape the string whose opening quote is at `at - 1` to out[to:]; where both end.

    `out` has at least as much room from `to` as `data` from `at`, and 32 bytes more.
    """
    while at < len(data):
        # Not where one escape follows another, as in text that is all \uXXXX.
        if at + LANES <= len(data) and data[at] != _BACKSLASH:
            found = copy_until(data, at, out, to)
            if found == 0:
                at += LANES
                to += LANES
                continue
            plain = trailing_zeros(np.uint64(found))
            at += plain
            to += plain
        byte = data[at]
        if byte == _QUOTE:
            return at + 1, to
        if byte < 0x20:
            break
        if byte != _BACKSLASH:  # near the end, where there are no 32 bytes
            out[to] = byte
            at += 1
            to += 1
            continue
        unescaped = _UNESCAPED[_peek(data, at + 1)]
        if unescaped != 0:
            out[to] = unescaped
            at += 2
            to += 1
            continue
        point = _code_unit(data, at)
        at += 6
        if 0xD800 <= point < 0xDC00:
            low = _code_unit(data, at)
            at += 6
            if low < 0xDC00 or low >= 0xE000:
                break
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
        elif point >= 0xDC00 and (point < 0xE000 or point > 0xFFFF):
            break
        if point < 0x80:
            out[to] = point
            to += 1
        elif point < 0x800:
            out[to] = 0xC0 | (point >> 6)
            out[to + 1] = 0x80 | (point & 0x3F)
            to += 2
        elif point < 0x10000:
            out[to] = 0xE0 | (point >> 12)
            out[to + 1] = 0x80 | ((point >> 6) & 0x3F)
            out[to + 2] = 0x80 | (point & 0x3F)
            to += 3
        else:
            out[to] = 0xF0 | (point >> 18)
            out[to + 1] = 0x80 | ((point >> 12) & 0x3F)
            out[to + 2] = 0x80 | ((point >> 6) & 0x3F)
            out[to + 3] = 0x80 | (point & 0x3F)
            to += 4
    return _NO, to


@njit()
def _skip_digits(data: Bytes, at: int, most: int) -> int:
    """The end of one to `most` digits at `at`."""
    start = at
    while 0x30 <= _peek(data, at) <= 0x39:
        at += 1
    return at if 0 < at - start <= most else _NO


@njit()
def _skip_plain(data: Bytes, at: int) -> int:
    """The end of the number, true, false or null at `at`; a number too long is not for us."""
    byte = _peek(data, at)
    if byte == 0x74 or byte == 0x6E or byte == 0x66:  # t, n, f
        if at + 5 > len(data):
            return _NO
        a, b, c = data[at + 1], data[at + 2], data[at + 3]
        if byte == 0x74:
            return at + 4 if a == 0x72 and b == 0x75 and c == 0x65 else _NO
        if byte == 0x6E:
            return at + 4 if a == 0x75 and b == 0x6C and c == 0x6C else _NO
        e = data[at + 4]
        return at + 5 if a == 0x61 and b == 0x6C and c == 0x73 and e == 0x65 else _NO
    if byte == 0x2D:
        at += 1
    if _peek(data, at) == 0x30:
        at += 1
    else:
        at = _skip_digits(data, at, _LONGEST)
    if at >= 0 and _peek(data, at) == 0x2E:
        at = _skip_digits(data, at + 1, _LONGEST)
    if at >= 0 and (_peek(data, at) | 0x20) == 0x65:
        at += 1
        if _peek(data, at) == 0x2B or _peek(data, at) == 0x2D:
            at += 1
        at = _skip_digits(data, at, 2)
    return at


@njit()
def _read_key(data: Bytes, at: int, out: Bytes, to: int) -> tuple[int, int]:
    """The key at `at`, to out[to:]: where its value begins, and where it ends in `out`."""
    if _peek(data, at) != _QUOTE:
        return _NO, to
    at, end = _read_string(data, at + 1, out, to)
    if at < 0:
        return _NO, to
    at = _skip_space(data, at)
    if _peek(data, at) != _COLON:
        return _NO, to
    return _skip_space(data, at + 1), end


@njit()
def _skip_value(data: Bytes, at: int, out: Bytes, to: int) -> int:
    """The end of the value at `at`, of any type; out[to:] is overwritten."""
    depth = 0
    objects = 0  # bit d: what is open at depth d is an object, not an array
    key_due = False
    while True:
        if key_due:
            at, _ = _read_key(data, at, out, to)
            if at < 0:
                return _NO
            key_due = False
        byte = _peek(data, at)
        if byte == _QUOTE:
            at, _ = _read_string(data, at + 1, out, to)
        elif byte in (_OPEN_OBJECT, _OPEN_ARRAY):
            opens_object = byte == _OPEN_OBJECT
            at = _skip_space(data, at + 1)
            if _peek(data, at) == byte + 2:  # both closing signs are two after the opening one
                at += 1
            else:
                if depth == _DEEPEST:
                    return _NO
                depth += 1
                objects = objects & ~(1 << depth)
                if opens_object:
                    objects |= 1 << depth
                key_due = opens_object
                continue
        else:
            at = _skip_plain(data, at)
        if at < 0:
            return _NO
        # A value has ended, and with it perhaps what it was in.
        while depth > 0:
            at = _skip_space(data, at)
            byte = _peek(data, at)
            in_object = (objects >> depth) & 1 == 1
            if byte == _COMMA:
                at = _skip_space(data, at + 1)
                key_due = in_object
                break
            if byte != (_CLOSE_OBJECT if in_object else _CLOSE_ARRAY):
                return _NO
            depth -= 1
            at += 1
        if depth == 0:
            return at


@njit()
def _read_line(
    data: Bytes, at: int, field: Bytes, lang_field: Bytes, out: Bytes, to: int
) -> tuple[int, int, int]:
    """Where the line at `at` ends, and its text begins and ends in `out`; or (-1, …)."""
    begin, end = _NO, _NO
    at = _skip_space(data, at)
    if _peek(data, at) != _OPEN_OBJECT:
        return _NO, begin, end
    at += 1
    while True:
        key = to
        at, stop = _read_key(data, _skip_space(data, at), out, key)
        if at < 0:
            return _NO, begin, end
        is_text = _spells(out, key, stop, field)
        is_language = _spells(out, key, stop, lang_field)
        if is_text and begin >= 0:
            return _NO, begin, end
        if _peek(data, at) == _QUOTE:
            at, stop = _read_string(data, at + 1, out, key)
            if is_text:
                begin, end, to = key, stop, stop
            elif is_language and stop == key:
                return _NO, begin, end
        elif is_text or (is_language and _peek(data, at) != 0x6E):  # null, if anything
            return _NO, begin, end
        else:
            at = _skip_value(data, at, out, key)
        if at < 0:
            return _NO, begin, end
        at = _skip_space(data, at)
        byte = _peek(data, at)
        at += 1
        if byte == _CLOSE_OBJECT:
            break
        if byte != _COMMA:
            return _NO, begin, end
    at = _skip_space(data, at)
    if begin < 0 or _peek(data, at) != _NEWLINE:
        return _NO, begin, end
    return at, begin, end


@njit()
def _spells(out: Bytes, at: int, stop: int, name: Bytes) -> bool:
    if stop - at != len(name):
        return False
    for i in range(len(name)):  # noqa: SIM110 (numba has no all())
        if out[at + i] != name[i]:
            return False
    return True


_INTS = types.int64[::1]
_READ = types.Array(types.uint8, 1, "C", readonly=True)


@njit(
    types.UniTuple(types.int64, 2)(  # type: ignore[no-untyped-call]
        _READ,
        _READ,
        _READ,
        types.uint8[::1],
        _INTS,
        _INTS,
        types.int64[:, ::1],
    ),
    cache=True,
    nogil=True,
)
def read_json_lines(
    data: Bytes,
    field: Bytes,
    lang_field: Bytes,
    out: Bytes,
    starts: Ints,
    stops: Ints,
    doubts: Ints,
) -> tuple[int, int]:
    """Unescape the text of every line of `data` into `out`; the numbers of texts and doubts.

    Text d is out[starts[d]:stops[d]]. For a line in doubt d is kept free, and a row of
    `doubts` says (d, line from 0, its begin, its end). Blank lines are passed over.

    The text is in `field`; a line with a language in `lang_field` that is not a string or null is
    in doubt.

    Shapes: data (B,) uint8, lines cut at "\\n"; out (≥ B + ROOM,) uint8; starts, stops (≥ L,)
    int64 and doubts (≥ L, 4) int64 for L lines.
    """
    at, to, line, texts, doubtful = 0, 0, 0, 0, 0
    while at < len(data):
        end, begin, stop = _read_line(data, at, field, lang_field, out, to)
        # The UTF-8 test starts after three bytes, which are `{"` and hardly ever not ASCII.
        if end >= 0 and (
            (data[at] | data[at + 1] | data[at + 2]) >= 0x80 or not utf8_from_third(data, at, end)
        ):
            end = _NO
        if end >= 0:
            starts[texts] = begin
            stops[texts] = stop
            to = stop
            texts += 1
        else:
            end = _skip_space(data, at)
            if _peek(data, end) != _NEWLINE:
                while end < len(data) and data[end] != _NEWLINE:
                    end += 1
                doubts[doubtful, 0] = texts
                doubts[doubtful, 1] = line
                doubts[doubtful, 2] = at
                doubts[doubtful, 3] = end
                doubtful += 1
                texts += 1
        at = end + 1
        line += 1
    return texts, doubtful
