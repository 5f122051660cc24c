"""The search of the core against all segmentations, for every subset and both kinds of cost."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.core.segment import SegmenterHandle, trie_of
from modtok_cli.reference.encoding import dropout, search
from modtok_cli.reference.unigram import best

letters = st.text("ab é▁", min_size=1, max_size=8).map(str.encode)
BYTE_IDS = np.arange(1000, 1256, dtype=np.int32)


def viterbi_words(
    data, starts, stops, units, scores, active, byte_ids, unknown, each, fallback, *dropped
):
    segmenter = SegmenterHandle.by_search(
        units, scores, active, each=each, byte_ids=byte_ids, unknown=unknown, fallback=fallback
    )
    return segmenter.segment(data, starts, stops, *dropped)


def flat(words: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    offsets = np.cumsum([0] + [len(word) for word in words]).astype(np.int64)
    return np.frombuffer(b"".join(words), dtype=np.uint8), offsets[:-1], offsets[1:]


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
    what = (
        *flat(words),
        trie_of(pieces),
        np.array(scores, dtype=np.float64),
        np.array(active, dtype=np.uint8),
        BYTE_IDS,
        unknown,
        each,
        True,
    )
    ids, ends = viterbi_words(*what)
    keys = [data.draw(st.integers(0, 2**64 - 1)) for _ in words]
    share = data.draw(st.sampled_from([0, 0.4, 1]))
    some, some_ends = viterbi_words(*what, np.array(keys, np.uint64), share)
    subset = {piece: i for i, piece in enumerate(pieces) if active[i]}
    for word, start, stop in zip(words, ends, ends[1:], strict=False):
        expected = best(word, subset, scores, BYTE_IDS.tolist(), unknown, each, True)
        assert ids[start:stop].tolist() == expected
        scored = {piece: (i, scores[i]) for piece, i in subset.items()}
        spelled = {"byte_ids": BYTE_IDS.tolist(), "unknown": unknown, "fallback": True}
        assert search(word, scored, each=each, **spelled) == expected
        left_out = dropout(keys.pop(0), share)
        expected = search(word, scored, each=each, **spelled, is_left_out=left_out)
        assert some[some_ends[0] : some_ends[1]].tolist() == expected
        some_ends = some_ends[1:]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.binary(min_size=2, max_size=4).map(lambda b: bytes(x % 2 for x in b)), unique=True),
    st.lists(st.binary(min_size=1, max_size=9).map(lambda b: bytes(x % 2 for x in b))),
    st.data(),
)
def test_fewest_tokens_over_bytes(
    longer: list[bytes], words: list[bytes], data: st.DataObject
) -> None:
    """Every byte a piece, no fallback: what least-token segmentation asks for."""
    pieces = [bytes([0]), bytes([1]), *longer]
    scores = [data.draw(st.integers(-4, -1)) * 1.0 for _ in pieces]
    ids, ends = viterbi_words(
        *flat(words),
        trie_of(pieces),
        np.array(scores),
        np.ones(len(pieces), dtype=np.uint8),
        BYTE_IDS,
        0.0,
        1,
        False,
    )
    index = {piece: i for i, piece in enumerate(pieces)}
    for word, start, stop in zip(words, ends, ends[1:], strict=False):
        found = ids[start:stop].tolist()
        assert b"".join(pieces[i] for i in found) == word
        assert found == best(word, index, scores, BYTE_IDS.tolist(), 0.0, 1, False)


def test_the_longer_last_piece_wins_a_tie() -> None:
    pieces = [b"a", b"ab", b"b", b"bc", b"c"]
    scores = np.array([-1.0, -1.0, -1.0, -1.0, -1.0])
    words = [b"abc"]  # ab|c and a|bc cost the same
    ids, _ = viterbi_words(
        *flat(words), trie_of(pieces), scores, np.ones(5, dtype=np.uint8), BYTE_IDS, -9.0, 0, True
    )
    assert ids.tolist() == [0, 3]


def test_a_word_of_a_million_equal_letters() -> None:
    ids, ends = viterbi_words(
        *flat([b"a" * 1_000_001]),
        trie_of([b"a", b"aa"]),
        np.array([-2.0, -3.0]),
        np.ones(2, dtype=np.uint8),
        BYTE_IDS,
        -13.0,
        0,
        True,
    )
    assert ends[1] == 500_001
    assert (ids == 0).sum() == 1


def test_a_word_that_cannot_be_spelled() -> None:
    ids, _ = viterbi_words(
        *flat([b"xay"]),
        trie_of([b"a"]),
        np.array([-1.0]),
        np.ones(1, dtype=np.uint8),
        BYTE_IDS,
        0.0,
        1,
        False,
    )
    assert ids.tolist() == [-1, -1, -1]
