"""Checks of a large vocabulary take little memory beside it."""

import tracemalloc

import numpy as np

from modtok_cli.base.arrays import flatten
from modtok_cli.learn.merges import byte_order
from modtok_cli.modular.validate import check_merges, check_vocabulary
from modtok_cli.modular.vocabulary import Vocabulary


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
