"""Superwords: the sequences of words that save the most tokens, and chunks of a phrase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence


def frequent_sequences(
    groups: Sequence[Mapping[tuple[bytes, ...], int]],
    most: int,
    *,
    longest: int = 4,
    least: int = 4,
    characters: int = 32,
) -> list[bytes]:
    """The sequences of 2 to `longest` words that save the most tokens if each word is a token.

    groups: of each group of documents, words of a phrase → how often it occurs. A sequence saves
    its occurrences × (its words - 1). Each occurs `least` times or more and has at most
    `characters` characters; of equal ones the first in byte order comes first. Occurrences are
    estimated without the group without which they are fewest, and without another one.

    >>> one = {(b"one", b" of", b" the"): 4, (b" of", b" the"): 1}
    >>> frequent_sequences([one, one], 2)
    [b'one of the', b' of the']
    """
    counts = [_sequences(phrases, longest) for phrases in groups]
    sizes = [
        sum(len(b"".join(words)) * count for words, count in phrases.items()) for phrases in groups
    ]
    shares = [size / max(1, sum(sizes)) for size in sizes]
    saved = []
    for sequence in set().union(*counts):
        total = sum(count[sequence] for count in counts)
        score, rest, left = float(total), total, 1.0
        groups_with = {group for group, count in enumerate(counts) if count[sequence]}
        for _ in range(min(2, len(groups_with))):
            fewest, worst = min(
                (total * (rest - counts[g][sequence] + 1) / (total * (left - shares[g]) + 1), g)
                for g in groups_with
            )
            score = min(score, fewest)
            rest, left = rest - counts[worst][sequence], left - shares[worst]
            groups_with.remove(worst)
        text = b"".join(sequence)
        if total >= least and sum(byte & 0xC0 != 0x80 for byte in text) <= characters:
            saved.append((-score * (len(sequence) - 1), text))
    return [sequence for _, sequence in sorted(saved)[:most]]


def _sequences(
    phrases: Mapping[tuple[bytes, ...], int], longest: int
) -> Counter[tuple[bytes, ...]]:
    """How often each sequence of 2 to `longest` words occurs."""
    counts: Counter[tuple[bytes, ...]] = Counter()
    for words, count in phrases.items():
        for size in range(2, longest + 1):
            for start in range(len(words) - size + 1):
                counts[words[start : start + size]] += count
    return counts


def chunks(words: Sequence[bytes], tokens: Collection[bytes]) -> list[bytes]:
    """The parts of a phrase that are segmented independently: no token matches across their ends.

    A path over the tokens passes every position that no token crosses, so its parts on both sides
    do not depend on each other.

    >>> chunks([b"one", b" of", b" the", b" two"], {b" of the", b"one", b" two"})
    [b'one', b' of the', b' two']
    """
    phrase = b"".join(words)
    found: list[bytes] = []
    begin = end = 0
    for word in words:
        end += len(word)
        crossed = any(
            phrase[start : start + len(token)] == token
            for token in tokens
            for start in range(max(0, end - len(token) + 1), end)
        )
        if not crossed:
            found.append(phrase[begin:end])
            begin = end
    return [*found, phrase[begin:]] if begin < len(phrase) else found
