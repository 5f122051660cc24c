"""Words of GPT-2's pattern by arithmetic on bits: 64 bytes of text at a time.

Bit i of a number says something about byte i of 64: it is a letter, it is white space. Whether a
word begins at a byte follows from the classes of that byte, the two before it and the one after
it, so a few shifts give all the words of 64 bytes at once. Code points beyond ASCII are looked up
one by one, and contractions are corrected afterwards.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.base.jit import njit
from modtok_cli.text.bits import text_masks, trailing_zeros
from modtok_cli.text.code_point_kernel import class_at
from modtok_cli.text.pattern_kernel import contraction

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int32]

WIDTH = 64
_LETTER, _NUMBER, _SPACE = 1, 2, 3
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_LAST, _LAST_BUT_ONE = np.uint64(63), np.uint64(62)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit()
def gpt2_words(
    data: Bytes, start: int, stop: int, table: Bytes, ends: Positions, digits: bool
) -> int:
    """Ends of the words of data[start:stop] relative to `start`, and their number.

    `digits`: each number is a word of its own, as in SmolLM's pattern. The last word, and whether
    an apostrophe in the last three bytes begins one, depend on `stop` being the end of the text.

    Shapes: data (B,) uint8, UTF-8, with `PADDING` more bytes; ends (≥ stop - start,) int32.
    """
    length = stop - start
    words = 0
    # Of the 64 bytes before: whose last two bits matter. Of code points that reach into the next
    # 64: `ahead` bits are known, and what they are.
    last_letters = last_numbers = last_spaces = last_others = last_blanks = _ZERO
    last_quotes = last_inner = last_forced = _ZERO
    ahead = next_letters = next_numbers = next_spaces = next_inner = _ZERO
    added = removed = _ZERO  # beginnings in the next 64, by contractions
    base = 0
    while base <= length:
        left = length - base
        inside = _ALL if left >= WIDTH else (_ONE << np.uint64(left)) - _ONE
        letters, numbers, spaces, blanks, quotes, beyond = text_masks(data, start + base)
        letters &= inside
        numbers &= inside
        spaces &= inside
        blanks &= inside
        quotes &= inside
        beyond &= inside
        inner, forced = next_inner, _ZERO
        if beyond | ahead:
            letters |= next_letters
            numbers |= next_numbers
            spaces |= next_spaces
            beyond &= ~ahead
            ahead = next_letters = next_numbers = next_spaces = next_inner = _ZERO
            while beyond:
                bit = trailing_zeros(beyond)
                at = start + base + bit
                lead = np.uint32(data[at])
                if 0xC2 <= lead < 0xE0 and at + 1 < stop:
                    point = ((lead & 0x1F) << 6) | (np.uint32(data[at + 1]) & 0x3F)
                    kind, size = int(table[point]), 2
                elif 0xE0 <= lead < 0xF0 and at + 2 < stop:
                    point = (
                        ((lead & 0x0F) << 12)
                        | ((np.uint32(data[at + 1]) & 0x3F) << 6)
                        | (np.uint32(data[at + 2]) & 0x3F)
                    )
                    kind, size = int(table[point]), 3
                else:
                    found = class_at(data, at, stop, table)
                    kind, size = found >> 3, found & 7
                own = ((_ONE << np.uint64(size)) - _ONE) << np.uint64(bit)
                over = _ZERO
                if bit + size > WIDTH:
                    over = (_ONE << np.uint64(bit + size - WIDTH)) - _ONE
                    ahead = over
                beyond &= ~own
                if kind == _LETTER:
                    letters |= own
                    next_letters |= over
                elif kind == _NUMBER:
                    numbers |= own
                    next_numbers |= over
                    inner |= own & (own << _ONE)
                    next_inner |= over
                elif kind == _SPACE:
                    spaces |= own
                    next_spaces |= over
                    inner |= own & (own << _ONE)
                    next_inner |= over
                    if at + size < stop:  # the last of a run of white space begins a word
                        after = class_at(data, at + size, stop, table) >> 3
                        if after != _SPACE and not (digits and after == _NUMBER):
                            forced |= own & ~(own << _ONE)
        else:
            next_inner = _ZERO
        spaces |= ~inside  # white space at the end of the text is one word
        others = ~(letters | numbers | spaces)
        # All of the following is about the byte before bit i (1) and the one before that (2).
        letters_1 = (letters << _ONE) | (last_letters >> _LAST)
        numbers_1 = (numbers << _ONE) | (last_numbers >> _LAST)
        spaces_1 = (spaces << _ONE) | (last_spaces >> _LAST)
        others_1 = (others << _ONE) | (last_others >> _LAST)
        inner_1 = (inner << _ONE) | (last_inner >> _LAST)
        letters_2 = (letters << _TWO) | (last_letters >> _LAST_BUT_ONE)
        spaces_2 = (spaces << _TWO) | (last_spaces >> _LAST_BUT_ONE)
        others_2 = (others << _TWO) | (last_others >> _LAST_BUT_ONE)
        blanks_2 = (blanks << _TWO) | (last_blanks >> _LAST_BUT_ONE)
        continued = (letters_1 & letters_2) | (others_1 & others_2)
        if digits:
            # No space goes with a number.
            begins = (letters_1 | others_1) & ~continued & ~blanks_2
            begins |= numbers_1 & ~inner_1
            begins |= spaces_1 & ~inner_1 & (~spaces_2 | ~(spaces | numbers))
        else:
            numbers_2 = (numbers << _TWO) | (last_numbers >> _LAST_BUT_ONE)
            continued |= numbers_1 & numbers_2
            begins = ~spaces_1 & ~continued & ~blanks_2
            begins |= spaces_1 & ~inner_1 & (~spaces_2 | ~spaces)
        begins |= (forced << _ONE) | (last_forced >> _LAST)
        if base == 0:
            begins = (begins & ~_ONE) | _TWO
        begins = (begins & ~removed) | added
        added = removed = _ZERO
        found_quotes = begins & ((quotes << _ONE) | (last_quotes >> _LAST))
        while found_quotes:
            bit = trailing_zeros(found_quotes)
            found_quotes &= found_quotes - _ONE
            size = contraction(data, start + base + bit - 1, stop, False)
            if size:
                if bit + 1 < WIDTH:
                    begins &= ~(_ONE << np.uint64(bit + 1))
                else:
                    removed |= _ONE
                if bit + size < WIDTH:
                    begins |= _ONE << np.uint64(bit + size)
                else:
                    added |= _ONE << np.uint64(bit + size - WIDTH)
        if base == 0:
            begins &= ~_TWO  # the first word's own beginning is no end
        begins &= (inside << _ONE) | _ONE
        while begins:
            ends[words] = base - 1 + trailing_zeros(begins)
            words += 1
            begins &= begins - _ONE
        last_letters, last_numbers, last_spaces, last_others = letters, numbers, spaces, others
        last_blanks, last_quotes, last_inner, last_forced = blanks, quotes, inner, forced
        base += WIDTH
    ends[words] = length
    return words + 1
