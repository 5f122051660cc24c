"""What encoding and checks cost, counted in words, calls and bytes; never in seconds."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from helpers.toy_tokenizers import toy
from modtok_cli.base.arrays import flatten
from modtok_cli.learn.merges import byte_order
from modtok_cli.modular.encoding.encoder import PORTION
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.validate import check_merges, check_vocabulary
from modtok_cli.modular.vocabulary import Vocabulary

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
