"""A small modular tokenizer of each segmentation that is learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from helpers.toy_tokenizers import LANGUAGES, toy
from modtok_cli.base.membership import Membership
from modtok_cli.learn.pieces import make_pieces
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


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


def of_pieces(
    found: Mapping[str, tuple[float, str]],
    languages: Sequence[str],
    specials: Sequence[str] = ("<unk>",),
) -> ModularTokenizer:
    """Of Unigram pieces, each with its score and the names of its languages."""
    members = np.array([[name in own for name in languages] for _, own in found.values()], bool)
    learned = make_pieces(
        languages,
        specials,
        [piece.encode() for piece in found],
        [score for score, _ in found.values()],
        Membership.of(members.reshape(len(found), len(languages))),
        byte_scores=np.full(256, -9.0),
    )
    return ModularTokenizer.from_learned(learned, algorithm="unigram-merge", k=300)


def unigram() -> ModularTokenizer:
    pieces = {"a": (-2.0, "en fi fr el"), "ab": (-2.5, "en fr"), " é": (-3.0, "fi el")}
    return of_pieces(pieces, LANGUAGES)


MADE = {"merges": lambda: toy(5), "unigram": unigram, "fewest-tokens": fewest_tokens}
