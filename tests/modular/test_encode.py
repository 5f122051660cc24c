from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from modtok_cli.learn.word_kernel import SHORT, build_pair_table, encode_words
from modtok_cli.modular import encoder as encoder_module
from modtok_cli.modular import word_cache
from modtok_cli.modular.word_cache import LONGEST_CACHED
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizers.unigram import PRETOKENIZER as UNIGRAM

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
    tokenizer = TOYS[number]
    merges = np.ascontiguousarray(tokenizer.merges)
    letters = st.sampled_from(sorted(set(ALPHABET)))
    words = data.draw(st.lists(st.lists(letters, max_size=3 * SHORT), max_size=6))
    active = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(merges), max_size=len(merges))),
        dtype=np.uint8,
    )
    offsets = np.cumsum([0, *map(len, words)]).astype(np.int64)
    flat = np.array([byte for word in words for byte in word], dtype=np.uint8)
    byte_ids = tokenizer.vocabulary.byte_ids
    ids, ends = encode_words(flat, offsets, byte_ids, merges, *build_pair_table(merges), active)
    # A merge that is not active stands in the slow list as one that never applies.
    rows = [row if on else [-1, -1, -1] for row, on in zip(merges.tolist(), active, strict=True)]
    for i, word in enumerate(words):
        expected = slow_word([int(byte_ids[byte]) for byte in word], rows)
        assert ids[ends[i] : ends[i + 1]].tolist() == expected


def test_pair_table_finds_exactly_its_pairs() -> None:
    merges = np.array([[1, 2, 9], [2, 1, 8], [1, 2, 7], [0, 0, 6]], dtype=np.int32)
    keys, ranks = build_pair_table(merges)
    found = {int(key): int(rank) for key, rank in zip(keys, ranks, strict=True) if rank >= 0}
    assert found == {(1 << 32) | 2: 0, (2 << 32) | 1: 1, 0: 3}


@given(toys, subsets, texts)
@settings(deadline=None)
def test_encoding_equals_the_definition(number: int, languages: set[str], text: str) -> None:
    subset = TOYS[number].subset(languages)
    ids = subset.encode(text)
    assert ids.dtype == np.int32
    assert ids.tolist() == slow_encode(subset, text)
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
        patch.setattr(encoder_module, "new_table", lambda: word_cache.new_table(8))
        patch.setattr(word_cache, "MOST_SLOTS", most)
        subset = TOYS[number].full()
        for text in batch * 2:
            assert subset.encode(text).tolist() == slow_encode(subset, text)


def test_cache_that_grows_keeps_its_words() -> None:
    full = TOYS[1].full()
    table = word_cache.new_table(8)
    words = [b"%d" % number * size for number in range(40) for size in (1, 7, 20)]
    for word in words:
        offsets = np.array([0, len(word)])
        ids = full.encode(word.decode())
        table = word_cache.with_room(table, offsets)
        data = np.frombuffer(word + bytes(16), dtype=np.uint8)
        word_cache.keep(data, offsets, ids, np.array([0, len(ids)]), table)
    assert table.fill[0] == len(set(words))
    ends = np.cumsum([len(word) for word in words], dtype=np.int32)
    data = np.frombuffer(b"".join(words) + bytes(16), dtype=np.uint8)
    places = np.empty(len(words), dtype=np.int64)
    word_cache.prefetch_words(data, 0, len(words), ends, table.slots, table.masks, places)
    for word, end, place in zip(words, ends, places, strict=True):
        span = (data, end - len(word), end, place, table.slots, table.words, table.masks)
        found = word_cache.find_word(*span)
        ids = np.empty(300, dtype=np.int32)
        stop = word_cache.copy_ids(table.slots, found, table.ids, ids, 0)
        assert ids[:stop].tolist() == full.encode(word.decode()).tolist()


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
