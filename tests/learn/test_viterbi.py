"""The search of the core against its definition, for every subset and both kinds of cost."""

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.core.segment import SegmenterHandle, trie_of
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
