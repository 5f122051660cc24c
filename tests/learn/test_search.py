"""The trie, and the search of the core over it, against their definitions."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.base.arrays import UInt64Array
from modtok_cli.core.segment import SegmenterHandle, build_trie, trie_of
from modtok_cli.reference.encoding import dropout, search

letters = st.text("ab é▁", min_size=1, max_size=8).map(str.encode)
BYTE_IDS = np.arange(1000, 1256, dtype=np.int32)


def segmented(
    words: list[bytes],
    pieces: list[bytes],
    scores: list[float],
    *dropped: Any,
    active: list[bool] | None = None,
    **options: Any,
) -> list[list[int]]:
    """The ids of each word; `dropped`: keys and share, as in `SegmenterHandle.segment`."""
    segmenter = SegmenterHandle.by_search(
        trie_of(pieces),
        np.array(scores, dtype=np.float64),
        np.array(active or [True] * len(pieces), dtype=np.uint8),
        byte_ids=BYTE_IDS,
        **options,
    )
    offsets = np.cumsum([0, *map(len, words)]).astype(np.int64)
    data = np.frombuffer(b"".join(words), dtype=np.uint8)
    ids, ends = segmenter.segment(data, offsets[:-1], offsets[1:], *dropped)
    return [ids[a:b].tolist() for a, b in pairwise(ends.tolist())]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text("ab é▁", min_size=1, max_size=4).map(str.encode), unique=True, max_size=12),
    st.lists(letters, max_size=6),
    st.integers(0, 1),
    st.data(),
)
def test_best_of_all_segmentations(
    pieces: list[bytes], words: list[bytes], each: int, data: st.DataObject
) -> None:
    # Scores on a coarse grid, so that ties are common.
    scores = [data.draw(st.integers(-8, -1)) / 2 for _ in pieces]
    active = [data.draw(st.booleans()) for _ in pieces]
    unknown = min([s for s, a in zip(scores, active, strict=True) if a], default=0.0) - 2.0
    options: Any = {"each": each, "unknown": unknown, "fallback": True}
    scored = {piece: (i, scores[i]) for i, piece in enumerate(pieces) if active[i]}
    spelled = {**options, "byte_ids": BYTE_IDS.tolist()}
    assert segmented(words, pieces, scores, active=active, **options) == [
        search(word, scored, **spelled) for word in words
    ]
    keys = [data.draw(st.integers(0, 2**64 - 1)) for _ in words]
    share = data.draw(st.sampled_from([0, 0.4, 1]))
    some = segmented(
        words, pieces, scores, np.array(keys, np.uint64), share, active=active, **options
    )
    assert some == [
        search(word, scored, **spelled, is_left_out=dropout(key, share))
        for word, key in zip(words, keys, strict=True)
    ]


def test_a_word_of_a_million_equal_letters() -> None:
    options: Any = {"each": 0, "unknown": -13.0, "fallback": True}
    (ids,) = segmented([b"a" * 1_000_001], [b"a", b"aa"], [-2.0, -3.0], **options)
    assert (len(ids), ids.count(0)) == (500_001, 1)


def test_a_word_that_cannot_be_spelled() -> None:
    assert segmented([b"xay"], [b"a"], [-1.0], each=1) == [[-1, -1, -1]]


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
