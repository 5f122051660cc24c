"""A small modular tokenizer of each segmentation that is learned."""

from __future__ import annotations

import numpy as np

from helpers.toy_tokenizers import LANGUAGES, toy
from modtok_cli.base.membership import Membership
from modtok_cli.learn.pieces import make_pieces
from modtok_cli.modular.tokenizer import ModularTokenizer


def fewest_tokens() -> ModularTokenizer:
    """The toy with a count for each token of each language."""
    base = toy(5)
    counts = [
        np.arange(size, dtype=np.int64) * (3 + column) % 17
        for column, size in enumerate(base.token_membership.sizes())
    ]
    return ModularTokenizer.from_learned(
        base.learned(), algorithm="bpe-merge", k=300, token_counts=counts
    )


def unigram() -> ModularTokenizer:
    members = np.array([[True, True, True, True], [True, False, True, False], [False, True] * 2])
    learned = make_pieces(
        list(LANGUAGES),
        ("<unk>",),
        [b"a", b"ab", " é".encode()],
        [-2.0, -2.5, -3.0],
        Membership.of(members),
    )
    return ModularTokenizer.from_learned(learned, algorithm="unigram-merge", k=300)


MADE = {"merges": lambda: toy(5), "unigram": unigram, "fewest-tokens": fewest_tokens}
