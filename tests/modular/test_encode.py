from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from helpers.plain_ids import plain_ids
from helpers.toy_tokenizers import (
    ALPHABET,
    LANGUAGES,
    NASTY,
    slow_encode,
    slow_word,
    slow_words,
    toy,
)
from modtok_cli.base.errors import ModtokError
from modtok_cli.learn.merge_kernel import LAST, pair_table
from modtok_cli.learn.queue_kernel import SHORT
from modtok_cli.learn.symbol_kernel import Symbols, merge_words
from modtok_cli.modular import encoder as encoder_module
from modtok_cli.modular import word_cache
from modtok_cli.modular.word_cache import LONGEST_CACHED
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizers.unigram import PRETOKENIZER as UNIGRAM
from modtok_cli.text.word_key_kernel import PADDING, slot_hash

TOYS = [toy(seed) for seed in range(4)]

# Much of what the toys merge, beside anything at all.
texts = st.text(
    st.one_of(
        st.sampled_from(sorted(set(ALPHABET.decode()))), st.characters(exclude_categories=["Cs"])
    ),
    max_size=60,
)
subsets = st.sets(st.sampled_from(LANGUAGES), min_size=1)
toys = st.integers(0, len(TOYS) - 1)


@given(toys, st.data())
@settings(deadline=None)
def test_words_are_segmented_as_defined(number: int, data: st.DataObject) -> None:
    subset = TOYS[number].full()
    letters = st.sampled_from(sorted(set(ALPHABET)))
    words = data.draw(st.lists(st.lists(letters, max_size=3 * SHORT), max_size=6))
    offsets = np.cumsum([0, *map(len, words)]).astype(np.int64)
    flat = np.array([byte for word in words for byte in word], dtype=np.uint8)
    ids, ends = subset.encoder.words_flat(flat, offsets[:-1], offsets[1:])
    byte_ids = subset.vocabulary.byte_ids
    for i, word in enumerate(words):
        expected = slow_word([int(byte_ids[byte]) for byte in word], subset.merges.tolist())
        assert ids[ends[i] : ends[i + 1]].tolist() == expected


def test_pair_table_finds_exactly_its_pairs() -> None:
    merges = np.array([[1, 2, 9], [2, 1, 8], [1, 2, 7], [0, 0, 6]], dtype=np.int32)
    table = pair_table(merges).reshape(-1, 2, 4)
    none = np.uint64(2**64 - 1)
    rows = zip(table[:, 0].ravel().tolist(), table[:, 1].ravel().tolist(), strict=True)
    last = int(LAST)
    found = {key: (last - (value >> 36), value % 2**30) for key, value in rows if key != none}
    assert found == {(1 << 32) | 2: (0, 9), (2 << 32) | 1: (1, 8), 0: (3, 6)}
    assert pair_table(merges).ctypes.data % 64 == 0


def test_pair_table_grows() -> None:
    generator = np.random.default_rng(0)
    merges = np.column_stack([np.arange(500), generator.integers(0, 9, (500, 2))]).astype(np.int32)
    known, first = None, 0
    for size in (0, 3, 16, 17, 300, 500):
        known = pair_table(merges[:size], known, first)
        first = size
        fresh = pair_table(merges[:size])
        assert known.tolist() == fresh.tolist()


def test_pair_table_with_full_buckets() -> None:
    generator = np.random.default_rng(1)
    pairs = np.unique(generator.integers(0, 500, (20_000, 2)), axis=0)[:16_384]
    merges = np.column_stack([pairs, 1000 + np.arange(len(pairs))]).astype(np.int32)
    table = pair_table(merges).reshape(-1, 8)
    assert (table[:, 3] != np.uint64(2**64 - 1)).any()  # some bucket is full
    symbols = np.concatenate([pairs, pairs[:, ::-1]]).astype(np.int32).ravel()
    offsets = np.arange(0, len(symbols) + 1, 2)
    known = {tuple(row[:2]): [row[2]] for row in merges.tolist()}
    byte_ids = np.arange(256, dtype=np.int32)
    for group in range(0, 500, 250):  # bytes that stand for symbols
        own = ((symbols.reshape(-1, 2) // 250) == group // 250).all(axis=1)
        words = symbols.reshape(-1, 2)[own]
        ids, ends = merge_words(
            (words - group).astype(np.uint8).ravel(),
            offsets[: len(words)],
            offsets[1 : len(words) + 1],
            *Symbols(byte_ids + np.int32(group)),
            table.ravel(),
        )
        found = [ids[a:b].tolist() for a, b in pairwise(ends.tolist())]
        assert found == [known.get(tuple(word), word) for word in words.tolist()]


@given(toys, subsets, texts)
@settings(deadline=None)
def test_encoding_equals_the_definition(number: int, languages: set[str], text: str) -> None:
    subset = TOYS[number].subset(languages)
    ids = subset.encode(text)
    assert ids.dtype == np.int32
    assert ids.tolist() == slow_encode(subset, text)
    assert plain_ids(subset, [text]) == [ids.tolist()]
    assert subset.decode(ids) == text
    assert TOYS[number].vocabulary.decode_bytes(subset.global_ids[ids]) == text.encode()


@pytest.mark.parametrize("text", NASTY)
def test_nasty_texts_roundtrip(text: str) -> None:
    for tokenizer in TOYS:
        for languages in [LANGUAGES, *((language,) for language in LANGUAGES)]:
            subset = tokenizer.subset(languages)
            assert subset.encode(text).tolist() == slow_encode(subset, text)
            assert subset.decode(subset.encode(text)) == text


@given(toys, st.lists(texts, max_size=8), st.sampled_from([8, 128]))
@settings(deadline=None, max_examples=100)
def test_full_cache_keeps_results(number: int, batch: list[str], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_cache, "FIRST_SLOTS", 8)
        patch.setattr(word_cache, "MOST_SLOTS", most)
        subset = TOYS[number].full()
        for text in batch * 2:
            assert subset.encode(text).tolist() == slow_encode(subset, text)


@given(toys, st.lists(texts, min_size=1, max_size=8), st.sampled_from([8, 1 << 12]))
@settings(deadline=None, max_examples=20)
def test_threads_share_a_cache(number: int, batch: list[str], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_cache, "FIRST_SLOTS", 8)
        patch.setattr(word_cache, "MOST_SLOTS", most)
        patch.setattr(encoder_module, "PORTION", 16)
        subset = TOYS[number].full()
        many = [text + str(i % 7) for i in range(40) for text in batch]
        ids = subset.encode_batch(many, 4)
        assert [part.tolist() for part in ids] == [slow_encode(subset, text) for text in many]


@njit
def hash_of(data: Any, start: int, stop: int, masks: Any) -> Any:
    """The hash of a word, as `encode_kernel.advance` computes it."""
    first, second = word_cache.word_key(data, start, stop, masks)
    return slot_hash(first, second, stop - start)


@njit
def slot_of(data: Any, start: int, stop: int, slots: Any, words: Any, masks: Any) -> Any:
    """The slot of a word, and its `META`."""
    first, second = word_cache.word_key(data, start, stop, masks)
    shift = np.uint64(64 - word_cache.slot_bits(slots))
    at = (hash_of(data, start, stop, masks) >> shift) * np.uint64(word_cache.WIDTH)
    return word_cache.find_word(data, start, stop - start, first, second, at, slots, words, masks)


@pytest.mark.parametrize(("first", "most"), [(1024, 1024), (8, 1024)])
def test_cache_keeps_its_words(first: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_cache, "FIRST_SLOTS", first)
    monkeypatch.setattr(word_cache, "MOST_SLOTS", most)
    full = TOYS[1].full()
    cache = word_cache.WordCache()
    assert cache.is_empty
    words = [b"%d" % number * size for number in range(40) for size in (1, 7, 20)]
    for word in words:
        ids = full.encode(word.decode())
        data = np.frombuffer(word + bytes(PADDING), dtype=np.uint8)
        places = np.array([0]), np.array([len(word)])
        hashes = np.array([hash_of(data, 0, len(word), word_cache.MASKS)], dtype=np.uint64)
        cache.add(data, *places, hashes, ids, np.array([0, len(ids)]))
    assert not cache.is_empty
    assert not copy.deepcopy(full.encoder)._cache.table.fill.any()
    table = cache.table
    assert len(table.slots) == most * word_cache.WIDTH
    words = words[first * 5 // 8 :] if first < most else words  # what the small table had is gone
    assert table.fill[0] == len(set(words))
    ends = np.cumsum([len(word) for word in words], dtype=np.int32)
    data = np.frombuffer(b"".join(words) + bytes(PADDING), dtype=np.uint8)
    for word, end in zip(words, ends.tolist(), strict=True):
        span = (data, end - len(word), end, table.slots, table.words, table.masks)
        at, meta = (int(number) for number in slot_of(*span))
        assert meta == table.slots[at + word_cache.META]
        pair = int(table.slots[at + word_cache.PAIR])
        tokens = meta >> 16 & 0xFFFF
        ids = [meta >> 32, pair & 0xFFFFFFFF, pair >> 32][:tokens]
        if tokens > word_cache.INLINE:
            ids = table.ids[pair : pair + tokens].tolist()
        assert ids == full.encode(word.decode()).tolist()


def test_a_batch_is_not_one_text() -> None:
    with pytest.raises(TypeError, match="several texts"):
        TOYS[0].full().encode_batch("abc")
    with pytest.raises(TypeError, match="several texts"):
        TOYS[0].full().encode_utf8(b"abc")
    with pytest.raises(TypeError, match="several texts"):
        TOYS[0].full().encode_flat(b"abc")


@given(st.lists(texts, max_size=12))
@settings(deadline=None, max_examples=30)
def test_batches_equal_single_texts_on_any_number_of_threads(batch: list[str]) -> None:
    subset = TOYS[0].subset(["fr", "en"])
    single = [subset.encode(text).tolist() for text in batch]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_module, "PORTION", 16)
        for threads in (1, 2, 5, None):
            ids = subset.encode_batch(batch, threads)
            assert [part.tolist() for part in ids] == single
        utf8 = subset.encode_utf8([text.encode() for text in batch], 2)
        assert [part.tolist() for part in utf8] == single
        for threads, most in ((1, 1 << 20), (3, 1 << 20), (1, 40), (3, 40)):
            patch.setattr(encoder_module, "MOST_IDS", most)
            flat, offsets = subset.encode_flat([text.encode() for text in batch], threads)
            assert flat.dtype == np.int32
            assert offsets.dtype == np.int64
            assert [flat[a:b].tolist() for a, b in pairwise(offsets.tolist())] == single


@pytest.mark.parametrize("character", ["a", " ", "é", "😀", "\n", "1", "!"])
def test_100000_equal_characters(character: str) -> None:
    text = character * 100_000
    for tokenizer in TOYS[:2]:
        full = tokenizer.full()
        assert full.decode(full.encode(text)) == text


def test_long_words_use_the_same_merges() -> None:
    full = TOYS[1].full()
    word = ALPHABET.decode().replace(" ", "").replace("1", "").replace("😀", "").replace("▁", "")
    text = word * 30
    assert len(slow_words(text)) == 1
    assert len(text.encode()) > LONGEST_CACHED
    assert full.encode(text).tolist() == slow_encode(full, text)


def test_token_lengths_and_occurrences() -> None:
    text = " abc abc aab12 eed bcd abc किए"
    pairs = [(word, slow_words(text).count(word)) for word in set(slow_words(text))]
    counts = WordCounts.from_pairs(pairs)
    subset = TOYS[2].subset(["fi", "el"])
    lengths = subset.token_lengths(counts)
    assert lengths.dtype == np.int64
    expected = [len(slow_encode(subset, word.decode())) for word in counts.words()]
    assert lengths.tolist() == expected
    assert int(lengths @ counts.counts) == len(subset.encode(text))
    occurrences = subset.token_occurrences(counts)
    assert occurrences.tolist() == np.bincount(subset.encode(text), minlength=subset.size).tolist()


def test_counts_of_another_pre_tokenizer_are_refused() -> None:
    counts = WordCounts.from_pairs([(b"a", 1)], pretokenizer=UNIGRAM)
    functions: list[Callable[[WordCounts], object]] = [
        TOYS[0].full().token_lengths,
        TOYS[0].full().token_occurrences,
    ]
    for function in functions:
        with pytest.raises(ModtokError, match="pre-tokenizer 'unigram'"):
            function(counts)


def test_special_tokens_are_text_by_default() -> None:
    full = TOYS[0].full()
    text = "a<s>b</s><s>"
    assert full.encode(text).tolist() == slow_encode(full, text)
    assert 0 not in full.encode(text)
    a, b = full.encode("a").tolist(), full.encode("b").tolist()
    ids = full.encode(text, specials=True)
    assert ids.dtype == np.int32
    assert ids.tolist() == [*a, 0, *b, 1, 0]
    assert full.decode(ids) == text
    plain = toy(0, specials=()).full()
    assert plain.encode(text, specials=True).tolist() == slow_encode(plain, text)


def test_lone_surrogate_is_an_error() -> None:
    full = TOYS[0].full()
    for function in (full.encode, lambda text: full.encode_batch([text])):
        with pytest.raises(ModtokError, match="lone surrogate at character 1"):
            function("a\ud800")


def test_broken_utf8_decodes_to_replacement_characters() -> None:
    full = TOYS[0].full()
    ids = [full.vocabulary.find(bytes([byte])) for byte in "é".encode()]
    assert full.decode(ids[:1]) == "\ufffd"
    assert full.decode_bytes(ids[:1]) == "é".encode()[:1]
    assert full.decode(ids) == "é"
