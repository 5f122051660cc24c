"""The double array finds exactly the pieces that a text begins with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.base.arrays import UInt64Array
from modtok_cli.core.segment import build_trie, trie_of

few_letters = st.binary(min_size=1, max_size=6).map(lambda b: bytes(x % 3 for x in b))
any_bytes = st.binary(min_size=1, max_size=5)


def prefixes(units: UInt64Array, text: bytes) -> list[tuple[int, int]]:
    """(length, id) of every piece that `text` begins with, shortest first."""
    pieces = []
    node = int(units[0])
    for length, byte in enumerate(text, 1):
        base = node >> 36
        if not base:
            break
        node = int(units[base ^ byte])
        if node & 0x1FF != byte:
            break
        value = (node >> 9) & 0x7FFFFFF
        if value:
            pieces.append((length, value - 1))
    return pieces


@settings(max_examples=200, deadline=None)
@given(st.lists(few_letters | any_bytes, unique=True, max_size=60), st.lists(any_bytes))
def test_finds_what_startswith_finds(pieces: list[bytes], texts: list[bytes]) -> None:
    trie = trie_of(pieces)
    for text in [*texts, *pieces, *(piece + b"\x00\x01\x02" for piece in pieces)]:
        expected = sorted(
            (len(piece), i) for i, piece in enumerate(pieces) if text.startswith(piece)
        )
        assert prefixes(trie, text) == expected


def test_many_children_everywhere() -> None:
    """All 256 bytes at two levels: the root's block and full blocks below."""
    pieces = [bytes([a]) for a in range(256)] + [
        bytes([a, b]) for a in range(256) for b in (0, 255)
    ]
    trie = trie_of(pieces)
    for i, piece in enumerate(pieces):
        assert prefixes(trie, piece)[-1] == (len(piece), i)
    assert len(trie) < 4 * len(pieces)


def test_any_order_of_pieces() -> None:
    pieces = [b"the", b"there", b"a", b"an", b"\xff\x00"]
    shuffled = [3, 1, 4, 0, 2]
    data = np.frombuffer(b"".join(pieces[i] for i in shuffled), dtype=np.uint8)
    offsets = np.cumsum([0] + [len(pieces[i]) for i in shuffled]).astype(np.int64)
    again = build_trie(data, offsets, np.array(shuffled))
    assert np.array_equal(again, trie_of(pieces))


@pytest.mark.parametrize("pieces", [[b"a", b""], [b"ab", b"c", b"ab"]])
def test_invalid_pieces_are_refused(pieces: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"empty|twice"):
        trie_of(pieces)


def test_a_long_piece_and_no_piece() -> None:
    long = bytes(range(256)) * 40
    assert prefixes(trie_of([long, long[:100]]), long + b"x") == [(100, 1), (len(long), 0)]
    assert prefixes(trie_of([]), b"abc") == []
