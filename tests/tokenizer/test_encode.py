"""Encoding gives what its definition does; its cost in words, calls and bytes, never in seconds."""

from __future__ import annotations

import copy
import tracemalloc
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

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
from modtok_cli.base.arrays import flatten
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.core.segment import Pairs, SegmenterHandle, Symbols
from modtok_cli.learn.merges import byte_order
from modtok_cli.reference.encoding import dropout, merge, mixed, pairs_of
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import UNIGRAM
from modtok_cli.tokenizer.encoding import encoder as encoder_module
from modtok_cli.tokenizer.encoding.encoder import PORTION, Encoder
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.validate import check_merges, check_vocabulary
from modtok_cli.tokenizer.vocabulary import Vocabulary

# Of the core: longer spans are merged by a heap, longer words are not cached.
SHORT = 48

TOYS = [toy(seed) for seed in range(4)]

texts = st.sampled_from(NASTY) | st.text(
    st.one_of(
        st.sampled_from(sorted(set(ALPHABET.decode()))), st.characters(exclude_categories=["Cs"])
    ),
    max_size=60,
)
subsets = st.sets(st.sampled_from(LANGUAGES), min_size=1)
toys = st.integers(0, len(TOYS) - 1)
keys_of_words = st.integers(0, 2**64 - 1)


@given(toys, st.data(), st.sampled_from([0, 0.3, 1]))
@settings(deadline=None)
def test_words_are_segmented_as_defined(number: int, data: st.DataObject, share: float) -> None:
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
    keys = np.array(
        data.draw(st.lists(keys_of_words, min_size=len(words), max_size=len(words))), np.uint64
    )
    segmenter, pairs = subset.encoder._segmenter, pairs_of(subset.merges.tolist())
    ids, ends = segmenter.segment(flat, offsets[:-1], offsets[1:], keys, share)
    for i, word in enumerate(words):
        symbols, left_out = (
            [int(byte_ids[byte]) for byte in word],
            dropout(mixed(int(keys[i]), 0), share),
        )
        assert ids[ends[i] : ends[i + 1]].tolist() == merge(symbols, pairs, left_out)


def test_merges_that_are_left_out_have_another_chance() -> None:
    """Words of two pairs, "abcd" by ab and cd: four outcomes, chi-square at 1 in 10,000."""
    merges = np.array([[97, 98, 256], [99, 100, 257]], dtype=np.int32)
    handle = SegmenterHandle.by_merges(Pairs(merges), Symbols(np.arange(256, dtype=np.int32)))
    encoder, text = Encoder(TOYS[0].pretokenizer, handle), b"abcd " * 4000
    (whole,) = encoder.dropped([text], [5], 0)
    assert whole.tolist() == encoder.text(text).tolist()
    (none,) = encoder.dropped([text], [5], 1)
    assert bytes(none.tolist()) == text
    ids, again = (encoder.dropped([text], [key], 0.3)[0] for key in (5, 6))
    assert ids.tolist() != again.tolist()
    # Whatever is before it in a batch.
    assert encoder.dropped([b"abcd", text], [6, 5], 0.3)[1].tolist() == ids.tolist()
    words = np.split(ids, np.flatnonzero(ids == 32))[:-1]
    seen = Counter((256 in word, 257 in word) for word in words)
    # ab at once, and cd then: 0.7 · 0.7; cd first: 0.3 · 0.7, and ab then: · 0.7.
    shares = {(True, True): 0.637, (True, False): 0.21, (False, True): 0.063, (False, False): 0.09}
    assert sum((seen[k] - 4000 * p) ** 2 / (4000 * p) for k, p in shares.items()) < 21.1


def pairs_to_ids(pairs: np.ndarray, table: Pairs) -> list[list[int]]:
    """What pairs of symbols (n, 2) below 2^16 merge to."""
    results, last = table.last_merges(
        pairs.astype(np.int32).ravel(), np.arange(0, 2 * len(pairs) + 1, 2)
    )
    assert ((results < 0) == (last < 0)).all()
    return [[a, b] if c < 0 else [c] for (a, b), c in zip(pairs.tolist(), results, strict=True)]


def test_the_lower_rank_of_a_pair_that_occurs_twice_counts() -> None:
    merges = np.array([[1, 2, 9], [2, 1, 8], [1, 2, 7], [0, 0, 6]], dtype=np.int32)
    pairs = np.array([[1, 2], [2, 1], [0, 0], [1, 1]])
    assert pairs_to_ids(pairs, Pairs(merges)) == [[9], [8], [6], [1, 1]]


def test_tables_of_merges_grow_and_fill() -> None:
    generator = np.random.default_rng(1)
    pairs = np.unique(generator.integers(0, 500, (5000, 2)), axis=0)[:4096]
    generator.shuffle(pairs)
    merges = np.column_stack([pairs, 1000 + np.arange(len(pairs))]).astype(np.int32)
    table = Pairs(merges[:0])
    for size in (3, 16, 17, 300, 4096):
        table.extend(merges[:size])
        known = {tuple(row[:2]): [row[2]] for row in merges[:size].tolist()}
        asked = np.concatenate([pairs, pairs[:, ::-1]])
        expected = [known.get(tuple(pair), pair) for pair in asked.tolist()]
        assert pairs_to_ids(asked, table) == expected
    ids, _ = SegmenterHandle.by_merges(table, Symbols(np.arange(256, dtype=np.int32))).segment(
        np.array([1, 2], dtype=np.uint8), np.array([0]), np.array([2])
    )
    assert ids.tolist() == known.get((1, 2), [1, 2])


@given(toys, subsets, st.lists(texts, max_size=8), st.sampled_from([8, 1 << 12]), st.booleans())
@settings(deadline=None, max_examples=40)
def test_encoding_equals_the_definition(
    number: int, languages: set[str], batch: list[str], words: int, full: bool
) -> None:
    """Text by text and in batches, with a cache of few or many words that threads share."""
    tokenizer, subset = TOYS[number], TOYS[number].subset(languages)
    for text in batch:
        ids = subset.encode(text)
        assert ids.dtype == np.int32
        assert ids.tolist() == slow_encode(subset, text)
        assert subset.decode(ids) == text
        assert tokenizer.vocabulary.decode_bytes(subset.global_ids[ids]) == text.encode()
    many = [text + str(i % 7) for i in range(6) for text in batch]
    expected = [slow_encode(subset, text) for text in many]
    utf8 = [text.encode() for text in many]
    subset.encoder._native.set_cache_sizes(8, words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_module, "PORTION", 16)
        patch.setattr(encoder_module, "MOST_IDS", 40 if full else 1 << 20)
        for threads in (1, 3):
            subset.encoder.forget_words()
            for ids in (subset.encode_batch(many, threads), subset.encode_utf8(utf8, threads)):
                assert [part.tolist() for part in ids] == expected
            flat, offsets = subset.encode_flat(utf8, threads)
            assert (flat.dtype, offsets.dtype) == (np.int32, np.int64)
            assert [flat[a:b].tolist() for a, b in pairwise(offsets.tolist())] == expected


@pytest.mark.parametrize(("first", "most"), [(1024, 1024), (8, 1024)])
def test_the_cache_keeps_words_and_a_copy_has_none(first: int, most: int) -> None:
    full = toy(1).full()
    full.encoder._native.set_cache_sizes(first, most)
    words = sorted({str(number) * size for number in range(40) for size in (1, 7, 20)})
    for word in words:
        full.encode(word)
    spent = full.encoder.spent
    assert spent.slots == most
    assert spent.words == len(words)
    # What the small table had is gone: it is encoded once more.
    for word in words * 2:
        full.encode(word)
    assert full.encoder.spent.words <= len(words) + (5 if first < most else 0)
    assert copy.deepcopy(full).encoder.spent.words == 0


def test_a_batch_is_not_one_text() -> None:
    full = TOYS[0].full()
    calls: list[Callable[[Any], object]] = [full.encode_batch, full.encode_utf8, full.encode_flat]
    for call in calls:
        for wrong in ("abc", b"abc", None):
            with pytest.raises(UsageError, match=r"^texts: expected several texts, got "):
                call(wrong)
        with pytest.raises(UsageError, match=r"^text: expected a string, got int"):
            call(["abc", 3])


def test_strings_are_encoded_flat_too() -> None:
    full = TOYS[0].full()
    ids, offsets = full.encode_flat(["abc é", "", b"de f"])
    expected = full.encode_batch(["abc é", "", "de f"])
    assert ids.tolist() == np.concatenate(expected).tolist()
    assert np.diff(offsets).tolist() == list(map(len, expected))
    for call in (full.encode_flat, full.encode_batch, lambda texts: full.encode(texts[1])):
        with pytest.raises(ModtokError, match="lone surrogate at character 1"):
            call(["a", "a\ud800"])


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


def test_broken_utf8_decodes_to_replacement_characters() -> None:
    full = TOYS[0].full()
    ids = [full.vocabulary.find(bytes([byte])) for byte in "é".encode()]
    assert full.decode(ids[:1]) == "\ufffd"
    assert full.decode_bytes(ids[:1]) == "é".encode()[:1]
    assert full.decode(ids) == "é"


ENOUGH = 2048  # new words for which the core segments
LETTERS = "abcdefghij"
NAMES = ["".join(LETTERS[int(digit)] for digit in str(number)) for number in range(10_000, 18_000)]
TEXTS = [" ".join(NAMES[(600 * i + j) % len(NAMES)] for j in range(600)) for i in range(250)]
UTF8 = [f" {text}".encode() for text in TEXTS]


@pytest.fixture
def tokenizer() -> Subtokenizer:
    return toy(0).full()


def test_only_new_words_are_segmented(tokenizer: Subtokenizer) -> None:
    size = sum(map(len, UTF8))
    portions = -(-size // PORTION)
    assert portions >= 3
    first, _ = tokenizer.encode_flat(UTF8, 1)
    # Twice only if two words of a window share a place among those that wait.
    spent = tokenizer.encoder.spent
    assert len(NAMES) <= spent.words <= 1.05 * len(NAMES)
    assert spent.calls <= portions + spent.words // ENOUGH
    again, _ = tokenizer.encode_flat(UTF8, 1)
    assert tokenizer.encoder.spent.calls == spent.calls
    assert (again == first).all()


def test_threads_segment_a_word_once(tokenizer: Subtokenizer) -> None:
    tokenizer.encode_flat(UTF8, 1)
    before = tokenizer.encoder.spent.words
    with ThreadPoolExecutor(3) as pool:
        for part in pool.map(lambda texts: tokenizer.encode_flat(texts, 1), [UTF8] * 3):
            assert len(part[1]) == len(UTF8) + 1
    tokenizer.encode_flat(UTF8, 4)
    assert tokenizer.encoder.spent.words == before


def test_no_object_for_each_text(tokenizer: Subtokenizer) -> None:
    texts = [b"w1x w2x"] * 50_000
    tokenizer.encode_flat(texts, 1)
    tracemalloc.start()
    ids, offsets = tokenizer.encode_flat(texts, 1)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(np.unique(np.diff(offsets))) == 1
    result = ids.nbytes + offsets.nbytes
    assert kept < result + 20_000
    # Room for as many ids as bytes, lists of the portions' texts, and the scratch of one portion.
    assert peak < 4 * sum(map(len, texts)) + offsets.nbytes + 50 * len(texts) + 9 * PORTION


def test_a_vocabulary_is_checked_in_parts() -> None:
    """1,000 words that grow by a byte each: 64,000 tokens of 2 to 65 bytes, 2 MB."""
    tokens, merges = [bytes([byte]) for byte in byte_order()], []
    place = {token: index for index, token in enumerate(tokens)}
    for word in range(1000):
        last = place[bytes([word % 256])]
        for byte in (word // 256, *range(100, 163)):
            merges.append((last, place[bytes([byte])], len(tokens)))
            tokens.append(tokens[last] + bytes([byte]))
            last = len(tokens) - 1
    vocabulary = Vocabulary((), *flatten(tokens))
    table = np.array(merges, dtype=np.int32)
    tracemalloc.start()
    try:
        check_vocabulary(vocabulary, "t")
        check_merges(vocabulary, table, "t")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 15 * len(vocabulary.data)
