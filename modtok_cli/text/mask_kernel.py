"""Words of a pattern by arithmetic on bits: 64 bytes of text at a time.

Bit i of a number says something about byte i of 64: it is a letter, it is white space. Whether a
word begins at a byte follows from the classes of that byte and of those about it, so a few shifts
give all the words of 64 bytes at once. Code points beyond ASCII are looked up one by one, and
GPT-2's contractions are corrected afterwards.
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
_LETTER, _NUMBER, _SPACE, _MARK = 1, 2, 3, 4
_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_LAST, _LAST_BUT_ONE = np.uint64(63), np.uint64(62)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit()
def _class_and_size(data: Bytes, at: int, stop: int, table: Bytes) -> tuple[int, int]:
    """Class and size in bytes of the code point beyond ASCII at data[at]."""
    # Two and three bytes, nearly all code points, have their own branches for speed.
    lead = np.uint32(data[at])
    if 0xC2 <= lead < 0xE0 and at + 1 < stop:
        point = ((lead & 0x1F) << 6) | (np.uint32(data[at + 1]) & 0x3F)
        return int(table[point]), 2
    if 0xE0 <= lead < 0xF0 and at + 2 < stop:
        point = (
            ((lead & 0x0F) << 12)
            | ((np.uint32(data[at + 1]) & 0x3F) << 6)
            | (np.uint32(data[at + 2]) & 0x3F)
        )
        return int(table[point]), 3
    found = class_at(data, at, stop, table)
    return found >> 3, found & 7


@njit()
def bpe_words(data: Bytes, start: int, stop: int, table: Bytes, ends: Positions) -> int:
    """Ends of the words of the pattern `bpe` in data[start:stop], and their number.

    Arguments as of `gpt2_words`; any bytes. A word begins where the class changes, except after a
    single space (0x20 with no white space before it), which belongs to what follows.
    """
    length = stop - start
    words = 0
    last_letters = last_numbers = last_spaces = last_others = last_blanks = _ZERO
    ahead = next_letters = next_numbers = next_spaces = _ZERO
    for base in range(0, length, WIDTH):
        left = length - base
        inside = _ALL if left >= WIDTH else (_ONE << np.uint64(left)) - _ONE
        letters, numbers, spaces, blanks, _, beyond = text_masks(data, start + base)
        beyond &= inside
        if beyond | ahead:
            letters = (letters & ~ahead) | next_letters
            numbers = (numbers & ~ahead) | next_numbers
            spaces = (spaces & ~ahead) | next_spaces
            beyond &= ~ahead
            ahead = next_letters = next_numbers = next_spaces = _ZERO
            while beyond:
                bit = trailing_zeros(beyond)
                kind, size = _class_and_size(data, start + base + bit, stop, table)
                own = ((_ONE << np.uint64(size)) - _ONE) << np.uint64(bit)
                over = _ZERO
                if bit + size > WIDTH:
                    over = (_ONE << np.uint64(bit + size - WIDTH)) - _ONE
                    ahead = over
                beyond &= ~own
                if kind == _MARK:  # it joins a run of symbols, else it counts as a letter
                    known = letters | numbers | spaces
                    symbol = last_others >> _LAST
                    if bit:
                        symbol = (~known >> np.uint64(bit - 1)) & _ONE
                    kind = _LETTER if symbol == _ZERO else 0
                letters &= ~own
                numbers &= ~own
                spaces &= ~own
                if kind == _LETTER:
                    letters |= own
                    next_letters = over
                elif kind == _NUMBER:
                    numbers |= own
                    next_numbers = over
                elif kind == _SPACE:
                    spaces |= own
                    next_spaces = over
        others = ~(letters | numbers | spaces)
        same = letters & ((letters << _ONE) | (last_letters >> _LAST))
        same |= numbers & ((numbers << _ONE) | (last_numbers >> _LAST))
        same |= spaces & ((spaces << _ONE) | (last_spaces >> _LAST))
        same |= others & ((others << _ONE) | (last_others >> _LAST))
        blanks_1 = (blanks << _ONE) | (last_blanks >> _LAST)
        spaces_2 = (spaces << _TWO) | (last_spaces >> _LAST_BUT_ONE)
        begins = ~same & (~blanks_1 | spaces_2) & inside
        if base == 0:
            begins &= ~_ONE  # the first word's own beginning is no end
        while begins:
            ends[words] = base + trailing_zeros(begins)
            words += 1
            begins &= begins - _ONE
        last_letters, last_numbers, last_spaces, last_others = letters, numbers, spaces, others
        last_blanks = blanks
    ends[words] = length
    return words + 1


@njit()
def unigram_words(data: Bytes, start: int, stop: int, ends: Positions) -> int:
    """Ends of the words of the pattern `unigram` in data[start:stop], and their number.

    Arguments as of `gpt2_words`; any bytes.
    """
    length = stop - start
    words = 0
    last_numbers = last_white = last_blanks = _ZERO
    for base in range(0, length, WIDTH):
        left = length - base
        inside = _ALL if left >= WIDTH else (_ONE << np.uint64(left)) - _ONE
        _, numbers, spaces, blanks, _, _ = text_masks(data, start + base)
        white = spaces & ~blanks
        begins = numbers | (numbers << _ONE) | (last_numbers >> _LAST)
        begins |= white ^ ((white << _ONE) | (last_white >> _LAST))
        # A space begins a word unless it follows one; it belongs to the word after it.
        begins |= blanks & ~((blanks << _ONE) | (last_blanks >> _LAST))
        begins &= inside
        if base == 0:
            begins &= ~_ONE  # the first word's own beginning is no end
        while begins:
            ends[words] = base + trailing_zeros(begins)
            words += 1
            begins &= begins - _ONE
        last_numbers, last_white, last_blanks = numbers, white, blanks
    ends[words] = length
    return words + 1


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
                kind, size = _class_and_size(data, at, stop, table)
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
