r"""Parts of the patterns of published tokenizers, as functions on bytes.

`\s+(?!\S)|\s+`, contractions, digits in groups: the pre-tokenizers of GPT-2, Llama 3, Qwen and
their descendants differ in these parts only. All functions take `data` (B,) uint8 in UTF-8, the
position `at` of a code point and the end `stop` of the text.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.base.jit import njit
from modtok_cli.text.bits import load64, trailing_zeros
from modtok_cli.text.code_point_kernel import class_at, not_letters

Bytes = npt.NDArray[np.uint8]

# Classes of `code_points`, and sets of them: bit c is class c.
_LETTER, _NUMBER, _SPACE = 1, 2, 3
_LETTERS = 1 << 1
_NUMBERS = 1 << 2
_SYMBOLS = (1 << 0) | (1 << 4)
# Of `case_table`: letters without case and marks continue both parts of a word.
_UPPERS = (1 << 5) | (1 << 1) | (1 << 4)
_LOWERS = (1 << 6) | (1 << 1) | (1 << 4)
_CASED = (1 << 5) | (1 << 6) | (1 << 1)


@njit()
def run_end(data: Bytes, at: int, stop: int, table: Bytes, classes: int, most: int) -> int:
    """End of a run of at most `most` code points of the set `classes`, or of letters."""
    count = 0
    while at < stop and count < most:
        if classes == _LETTERS and at + 8 <= stop:
            # Eight bytes at a time: step over the ASCII letters among them. Runs of letters
            # have no limit.
            outside = not_letters(load64(data, at))
            if outside == 0:
                at += 8
                continue
            at += trailing_zeros(outside) >> 3
            if data[at] < 0x80:
                break
        found = class_at(data, at, stop, table)
        if (classes >> (found >> 3)) & 1 == 0:
            break
        at += found & 7
        count += 1
    return at


@njit()
def contraction(data: Bytes, at: int, stop: int, fold: bool) -> int:
    """Length of 's 't 'm 'd 're 've 'll at `at`, 0 if there is none; `fold` ignores case.

    The engine folds ſ (U+017F) to s.
    """
    if at + 1 >= stop or data[at] != 0x27:
        return 0
    first = data[at + 1]
    second = data[at + 2] if at + 2 < stop else np.uint8(0)
    if fold:
        if first == 0xC5 and second == 0xBF:
            return 3
        if first < 0x80:
            first |= 0x20
        if second < 0x80:
            second |= 0x20
    if first == 0x73 or first == 0x74 or first == 0x6D or first == 0x64:
        return 2
    if first == 0x6C:
        return 3 if second == 0x6C else 0
    if first == 0x72 or first == 0x76:
        return 3 if second == 0x65 else 0
    return 0


@njit()
def space_end(data: Bytes, at: int, stop: int, table: Bytes, inside: int) -> int:
    r"""End of `\s+(?!\S)|\s+`: a run of white space, without its last code point if text follows.

    `inside`: classes that do not count as text that follows, 0 for none.
    """
    last = at
    while at < stop:
        found = class_at(data, at, stop, table)
        if found >> 3 != _SPACE:
            return at if last == at or (inside >> (found >> 3)) & 1 else last
        last = at
        at += found & 7
    return at


@njit()
def line_end(data: Bytes, at: int, stop: int, table: Bytes) -> int:
    r"""End of `\s*[\r\n]+` at `at`; `at` if it does not match."""
    end = at
    while at < stop:
        found = class_at(data, at, stop, table)
        if found >> 3 != _SPACE:
            break
        at += found & 7
        if data[at - 1] == 0x0A or data[at - 1] == 0x0D:
            end = at
    return end


@njit()
def gpt2_end(data: Bytes, start: int, stop: int, table: Bytes, digits: bool) -> int:
    """End of a word of GPT-2's pattern; with `digits`, each number is a word without a space."""
    length = contraction(data, start, stop, False)
    if length:
        return start + length
    at = start
    found = class_at(data, at, stop, table)
    if data[start] == 0x20 and start + 1 < stop:
        after = class_at(data, start + 1, stop, table)
        if after >> 3 != _SPACE and not (digits and after >> 3 == _NUMBER):
            at = start + 1
            found = after
    kind = found >> 3
    if kind == _SPACE:
        # The run without its last code point; a single one is a word.
        end = space_end(data, at, stop, table, _NUMBERS if digits else 0)
        return end if end > at else at + (found & 7)
    if kind == _NUMBER:
        return at + (found & 7) if digits else run_end(data, at, stop, table, _NUMBERS, stop)
    return run_end(data, at, stop, table, _LETTERS if kind == _LETTER else _SYMBOLS, stop)


@njit()
def llama3_end(data: Bytes, start: int, stop: int, table: Bytes, digits: int) -> int:
    """End of a word of Llama 3's pattern, with at most `digits` digits in a word."""
    length = contraction(data, start, stop, True)
    if length:
        return start + length
    found = class_at(data, start, stop, table)
    kind = found >> 3
    byte = data[start]
    if kind == _LETTER:
        return run_end(data, start, stop, table, _LETTERS, stop)
    if kind == _NUMBER:
        return run_end(data, start, stop, table, _NUMBERS, digits)
    at = start + (found & 7)
    after = class_at(data, at, stop, table) >> 3 if at < stop else -1
    if byte != 0x0A and byte != 0x0D and after == _LETTER:
        return run_end(data, at, stop, table, _LETTERS, stop)
    return rest_end(data, start, stop, table, False)


@njit()
def rest_end(data: Bytes, start: int, stop: int, table: Bytes, slash: bool) -> int:
    r"""End of ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`; `slash`: of `[\r\n/]*`."""
    found = class_at(data, start, stop, table)
    at = start
    kind = found >> 3
    if data[start] == 0x20 and start + 1 < stop:
        after = class_at(data, start + 1, stop, table) >> 3
        if (_SYMBOLS >> after) & 1:
            at = start + 1
            kind = after
    if (_SYMBOLS >> kind) & 1:
        at = run_end(data, at, stop, table, _SYMBOLS, stop)
        while at < stop and (data[at] == 0x0A or data[at] == 0x0D or (slash and data[at] == 0x2F)):
            at += 1
        return at
    end = line_end(data, start, stop, table)
    if end > start:
        return end
    end = space_end(data, start, stop, table, 0)
    return end if end > start else start + (found & 7)


@njit()
def _cased_end(data: Bytes, at: int, stop: int, table: Bytes, rise: bool) -> int:
    """End of upper case, then lower case, at `at`; `at` if it does not match.

    Letters without case and marks are both. At least one code point is lower case; with `rise` at
    least one is upper case instead.
    """
    end = at
    lower = -1  # end of the last code point of the upper part that may be lower case
    while end < stop:
        found = class_at(data, end, stop, table)
        if (_UPPERS >> (found >> 3)) & 1 == 0:
            break
        end += found & 7
        if (_LOWERS >> (found >> 3)) & 1:
            lower = end
    after = run_end(data, end, stop, table, _LOWERS, stop)
    if rise:
        return after if end > at else at
    if after > end:
        return after
    # The upper part gives back what the lower part needs.
    return lower if lower >= 0 else at


@njit()
def o200k_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of a word of the pattern of GPT-4o; `table` is `code_points.case_table()`."""
    found = class_at(data, start, stop, table)
    kind = found >> 3
    byte = data[start]
    prefix = start
    if (_CASED >> kind) & 1 == 0 and kind != _NUMBER and byte != 0x0A and byte != 0x0D:
        prefix = start + (found & 7)
    if kind == _NUMBER:
        return run_end(data, start, stop, table, _NUMBERS, 3)
    for rise in (False, True):
        end = prefix
        if prefix > start:
            end = _cased_end(data, prefix, stop, table, rise)
        if end == prefix:
            end = _cased_end(data, start, stop, table, rise)
        if end > start:
            return end + contraction(data, end, stop, True)
    return rest_end(data, start, stop, table, True)
