"""Algorithm 2 of the paper, written from the paper: slow, obvious, everything recounted.

Words are tuples of byte strings; T's merges are (left, right) byte strings in order. The numbering
of the bytes, which decides ties, is that of GPT-2's alphabet.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise


def byte_order() -> list[int]:
    """The bytes in the order of their ids: those that print, then the others."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return prints + [byte for byte in range(256) if byte not in prints]


Merge = tuple[bytes, bytes]


def unspaced(token: bytes) -> int:
    """Characters of Thai, Lao, Tibetan, Myanmar, Khmer, kana and Han, by their first two bytes."""
    scripts = rb"\xe0[\xb8-\xbf]|\xe1[\x80\x81\x9e\x9f]|[\xe3-\xe9][\x80-\xbf]"
    return len(re.findall(scripts, token))


def apply_merge(word: tuple[bytes, ...], merge: Merge) -> tuple[bytes, ...]:
    """Replace `merge` from left to right."""
    out: list[bytes] = []
    i = 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == merge:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def segment(word: bytes, merges: list[Merge]) -> tuple[bytes, ...]:
    """BPE: the applicable merge of lowest rank, leftmost first, until none applies."""
    rank = {merge: r for r, merge in reversed(list(enumerate(merges)))}
    parts = [word[i : i + 1] for i in range(len(word))]
    while True:
        options = [(rank[(a, b)], i) for i, (a, b) in enumerate(pairwise(parts)) if (a, b) in rank]
        if not options:
            return tuple(parts)
        _, i = min(options)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@dataclass
class SequentialBpe:
    """T and the vocabulary of each language, which `add` learns one after the other.

    Attributes:
        k: budget of a language; `specials` special tokens and the 256 bytes count towards it.
        unit_counts: "all" counts every occurrence of a token, "word" only whole words.
        passes: with 2, words are segmented again by the adopted merges alone, and the new merges
            learned from that.
        max_unspaced: characters of scripts without spaces in a new token, at most; 0: any number.
        tokens, merges: T in order of creation.
        vocabularies, merge_sets: V_i and M_i by language.
    """

    k: int
    specials: int = 0
    unit_counts: str = "all"
    passes: int = 1
    max_unspaced: int = 16
    tokens: list[bytes] = field(default_factory=lambda: [bytes([b]) for b in byte_order()])
    merges: list[Merge] = field(default_factory=list)
    vocabularies: dict[str, set[bytes]] = field(default_factory=dict)
    merge_sets: dict[str, set[Merge]] = field(default_factory=dict)

    def add(self, language: str, counts: dict[bytes, int]) -> None:
        """Learn a language from the counts of its words.

        >>> both = SequentialBpe(k=257)
        >>> both.add("aa", {b"ab": 2})
        >>> both.add("bb", {b"cab": 3})
        >>> both.merges, sorted(both.vocabularies["bb"] - both.vocabularies["aa"])
        ([(b'a', b'b')], [])
        """
        tokens, merges = list(self.tokens), list(self.merges)
        member, used = self._loop(tokens, merges, counts, None, None)
        for _ in range(1, self.passes):
            kept_merges = {merge for merge in used if merge in self.merges}
            kept = {bytes([b]) for b in range(256)} | {a + b for a, b in kept_merges}
            tokens, merges = list(self.tokens), list(self.merges)
            member, used = self._loop(tokens, merges, counts, kept, kept_merges)
        self.tokens, self.merges = tokens, merges
        self.vocabularies[language] = member
        self.merge_sets[language] = used

    def _loop(
        self,
        tokens: list[bytes],
        merges: list[Merge],
        counts: dict[bytes, int],
        kept: set[bytes] | None,
        kept_merges: set[Merge] | None,
    ) -> tuple[set[bytes], set[Merge]]:
        """V_i and M_i; new tokens and merges are appended to T's."""
        number = {token: i for i, token in enumerate(tokens)}
        member = set(tokens[:256]) if kept is None else set(kept)
        used = set() if kept_merges is None else set(kept_merges)
        active = merges if kept_merges is None else [m for m in merges if m in kept_merges]
        words = {word: segment(word, active) for word in counts}

        def origin(token: bytes) -> Merge | None:
            return next((m for m in merges if m[0] + m[1] == token), None)

        def ancestors(token: bytes) -> set[bytes]:
            """`token` and all it is made of, as far as V_i lacks it."""
            if token in member:
                return set()
            found = {token}
            merge = origin(token)
            if merge is not None:
                found |= ancestors(merge[0]) | ancestors(merge[1])
            return found

        def take(family: set[bytes]) -> None:
            for token in sorted(family, key=number.__getitem__):
                if len(member) + self.specials >= self.k:
                    return
                member.add(token)
                merge = origin(token)
                if merge is not None:
                    used.add(merge)

        def to_derive(merge: Merge) -> list[Merge]:
            """Merges of T lacking for `merge`, at its rank, to find its parts derived."""
            needed: list[Merge] = []
            queue = [merge]
            while queue:
                rank = merges.index(queue[0])
                for part in queue.pop(0):
                    ways = [m for m in merges[:rank] if m[0] + m[1] == part]
                    if len(part) == 1 or any(m in used or m in needed for m in ways):
                        continue
                    needed.append(ways[0])
                    queue.append(ways[0])
            return needed

        shelved: dict[Merge, int] = {}
        while len(member) + self.specials < self.k:
            units: Counter[bytes] = Counter()
            pairs: Counter[Merge] = Counter()
            for word, parts in words.items():
                if self.unit_counts == "all":
                    for part in parts:
                        units[part] += counts[word]
                elif len(parts) == 1:
                    units[parts[0]] += counts[word]
                for pair in pairwise(parts):
                    pairs[pair] += counts[word]
            best_unit = min(
                ((-c, number[u], u) for u, c in units.items() if u not in member), default=None
            )
            best_pair = min(
                (
                    (-c, number[a], number[b], (a, b))
                    for (a, b), c in pairs.items()
                    if c > shelved.get((a, b), 0)
                    and not (self.max_unspaced and unspaced(a + b) > self.max_unspaced)
                ),
                default=None,
            )
            if best_unit is not None and (best_pair is None or -best_unit[0] >= -best_pair[0]):
                take(ancestors(best_unit[2]))
                continue
            if best_pair is None:
                break
            merge = best_pair[3]
            parts_lacking = ancestors(merge[0]) | ancestors(merge[1])
            if parts_lacking and len(member) + self.specials + len(parts_lacking) >= self.k:
                take(parts_lacking)
                continue
            take(parts_lacking)
            token = merge[0] + merge[1]
            if merge in merges:
                needed = to_derive(merge)
                more = {a + b for a, b in needed} | {token}
                if len(member | more) + self.specials > self.k:
                    shelved[merge] = -best_pair[0]
                    continue
                used.update(needed)
                member |= more
            if token not in number:
                number[token] = len(tokens)
                tokens.append(token)
            if merge not in merges:
                merges.append(merge)
            used.add(merge)
            member.add(token)
            words = {word: apply_merge(parts, merge) for word, parts in words.items()}
        return member, used
