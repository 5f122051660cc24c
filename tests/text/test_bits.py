"""Machine operations against their plain twins."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import njit

from helpers.examples import examples
from modtok_cli.text import bits, bits_plain

# Bytes at which a comparison or the table of UTF-8 turns.
EDGES = [0x00, 0x1F, 0x20, 0x22, 0x5C, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1]
EDGES += [0x08, 0x09, 0x0D, 0x0E, 0x27, 0x2F, 0x30, 0x39, 0x3A, 0x40, 0x41, 0x5A, 0x5B, 0x60]
EDGES += [0x61, 0x7A, 0x7B]
EDGES += [0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
BLOCKS = st.lists(st.sampled_from(EDGES) | st.integers(0, 255), min_size=48, max_size=48)
PLACES = st.integers(3, 16)


@njit
def load64(data: Any, at: int) -> Any:
    return bits.load64(data, at)


@njit
def trailing_zeros(value: Any) -> Any:
    return bits.trailing_zeros(value)


@njit
def leading_zeros(value: Any) -> Any:
    return bits.leading_zeros(value)


@njit
def highest8(data: Any, at: Any) -> Any:
    return bits.highest8(data, at)


@njit
def choose(condition: Any, one: Any, other: Any) -> Any:
    return bits.choose(condition, one, other)


@njit
def exchanged(data: Any, at: Any, value: Any) -> Any:
    before = bits.load_acquire(data, at)
    bits.store_release(data, at, value)
    return before


@njit
def value_of(data: Any, at: Any, key: Any) -> Any:
    return bits.value_of(data, at, key)


@njit
def copy_until(data: Any, at: int, out: Any, to: int) -> Any:
    return bits.copy_until(data, at, out, to)


@njit
def utf8_faults(data: Any, at: int) -> Any:
    return bits.utf8_faults(data, at)


@njit
def text_masks(data: Any, at: int) -> Any:
    return bits.text_masks(data, at)


@njit
def prefetch(data: Any, at: int) -> Any:
    bits.prefetch(data, at)
    return data[at]


@settings(deadline=None, max_examples=examples(100))
@given(block=BLOCKS, at=PLACES)
def test_blocks(block: list[int], at: int) -> None:
    data = np.array(block, np.uint8)
    wide = np.concatenate([data, data])
    assert text_masks(wide, at) == bits_plain.text_masks(wide, at)
    assert load64(data, at) == bits_plain.load64(data, at)
    assert prefetch(data, at) == data[at]
    assert utf8_faults(data, at) == bits_plain.utf8_faults(data, at)
    ours, theirs = np.zeros(48, np.uint8), np.zeros(48, np.uint8)
    assert copy_until(data, at, ours, 5) == bits_plain.copy_until(data, at, theirs, 5)
    assert (ours == theirs).all()
    assert (ours[5 : 5 + bits.LANES] == data[at : at + bits.LANES]).all()
    assert not ours[:5].any()
    assert not ours[5 + bits.LANES :].any()


@settings(deadline=None)
@given(value=st.integers(1, 2**64 - 1))
@example(value=1)
@example(value=2**63)
def test_trailing_zeros(value: int) -> None:
    zeros = trailing_zeros(np.uint64(value))
    assert zeros == bits_plain.trailing_zeros(np.uint64(value))
    assert value % 2**zeros == 0
    assert value >> zeros & 1


@settings(deadline=None)
@given(value=st.integers(1, 2**64 - 1))
@example(value=1)
@example(value=2**63)
def test_leading_zeros(value: int) -> None:
    zeros = int(leading_zeros(np.uint64(value)))
    assert zeros == bits_plain.leading_zeros(np.uint64(value))
    assert value >> (63 - zeros) == 1


# Few values, so that keys are found; and those at which signs matter.
NUMBERS = st.sampled_from([0, 1, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**64 - 1])


@settings(deadline=None)
@given(
    numbers=st.lists(NUMBERS, min_size=12, max_size=12),
    keys=st.permutations(range(5)),
    at=st.integers(0, 4),
    key=st.integers(0, 4),
)
def test_vectors_of_numbers(numbers: list[int], keys: list[int], at: int, key: int) -> None:
    data = np.array(numbers, np.uint64)
    below = data & np.uint64(2**63 - 1)
    assert highest8(below, np.uint64(at)) == below[at : at + 8].max()
    assert bits_plain.highest8(below, np.uint64(at)) == below[at : at + 8].max()
    for condition in (False, True):
        expected = bits_plain.choose(condition, data[0], data[1])
        assert choose(condition, data[0], data[1]) == expected == data[int(not condition)]
    ours, theirs = data.copy(), data.copy()
    assert exchanged(ours, np.uint64(at), np.uint64(key)) == data[at]
    assert bits_plain.load_acquire(theirs, np.uint64(at)) == data[at]
    bits_plain.store_release(theirs, np.uint64(at), np.uint64(key))
    assert ours.tolist() == theirs.tolist()
    assert ours[at] == key
    data[at : at + 4] = keys[:4]
    expected = numbers[at + 4 + keys.index(key)] if key in keys[:4] else 0
    assert value_of(data, np.uint64(at), np.uint64(key)) == expected
    assert bits_plain.value_of(data, np.uint64(at), np.uint64(key)) == expected


@settings(deadline=None, max_examples=examples(150))
@given(
    text=st.text(min_size=1, max_size=40), spoil=st.none() | st.tuples(*[st.integers(0, 255)] * 2)
)
def test_utf8_faults_agree_with_python(text: str, spoil: tuple[int, int] | None) -> None:
    """The plain twin against Python's decoder: all blocks together have a fault, or none has."""
    raw = bytearray(text.encode())
    if spoil:
        raw[spoil[0] % len(raw)] = spoil[1]
    room = -len(raw) % bits.LANES + bits.LANES  # a last block of ASCII shows what was still due
    data = np.frombuffer(b"abc" + bytes(raw) + b" " * room, np.uint8)
    blocks = range(3, 3 + len(raw) + room, bits.LANES)
    found = any(bits_plain.utf8_faults(data, at) for at in blocks)
    try:
        raw.decode()
    except UnicodeDecodeError:
        assert found
    else:
        assert not found
