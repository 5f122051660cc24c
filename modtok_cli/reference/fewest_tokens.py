"""Fewest tokens: every way to cut a word, and the best of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def ways(word: bytes, tokens: Mapping[bytes, int]) -> Iterator[list[bytes]]:
    """All ways to write a word with the tokens."""
    if not word:
        yield []
    for stop in range(1, len(word) + 1):
        if word[:stop] in tokens:
            for rest in ways(word[stop:], tokens):
                yield [word[:stop], *rest]


def least(word: bytes, likelihood: Mapping[bytes, int]) -> list[bytes]:
    """Fewest tokens, then likeliest, then the longest last token, the longest before it, …"""
    return min(
        ways(word, likelihood),
        key=lambda way: (
            len(way),
            -sum(likelihood[token] for token in way),
            *(-len(token) for token in reversed(way)),
        ),
    )
