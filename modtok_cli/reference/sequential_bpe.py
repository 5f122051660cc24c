"""Algorithm 2 of the paper, sequential BPE, in plain Python: slow, and everything is recounted.

Languages are learned one after the other. `SequentialBpe` is T, `Language` the loop for one
language: `step` is the body of the paper's `while`, and the other methods are its lines. A token is
its bytes, a merge the pair (left, right). The core must equal this file, merge for merge.

    python -m modtok_cli.reference.sequential_bpe

prints the steps of two languages with a sentence each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from modtok_cli.reference.encoding import merge, pairs_of

Merge = tuple[bytes, bytes]


def byte_order() -> list[int]:
    """The bytes in the order of their ids, which is GPT-2's: printable bytes, then the others."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return prints + [byte for byte in range(256) if byte not in prints]


def unspaced(token: bytes) -> int:
    """Characters of Thai, Lao, Tibetan, Myanmar, Khmer, kana and Han, by their first two bytes."""
    scripts = rb"\xe0[\xb8-\xbf]|\xe1[\x80\x81\x9e\x9f]|[\xe3-\xe9][\x80-\xbf]"
    return len(re.findall(scripts, token))


def segment(parts: Sequence[bytes], merges: Iterable[Merge]) -> list[bytes]:
    """BPE: the applicable merge of lowest rank, leftmost first, until none applies."""
    return merge(parts, pairs_of((a, b, a + b) for a, b in merges))


def bytes_of(word: bytes) -> list[bytes]:
    """A word as tokens of one byte."""
    return [bytes([byte]) for byte in word]


@dataclass
class SequentialBpe:
    """T and the vocabulary of each language.

    Attributes:
        k: tokens of a language; the 256 bytes and `specials` special tokens are among them.
        passes: with 2, the new merges of a language are learned again from words that are
            segmented by the adopted merges only.
        max_unspaced: the most characters of scripts without spaces in a new token; 0: no limit.
        tokens, merges: T in order of creation.
        vocabularies, merge_sets: V_i and M_i by language.
    """

    k: int
    specials: int = 0
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
        learned = Language(self, counts)
        learned.learn()
        for _ in range(1, self.passes):
            learned = Language(self, counts, adopted=learned.merges & set(self.merges))
            learned.learn()
        self.keep(language, learned)

    def keep(self, language: str, learned: Language) -> None:
        """Extend T by what a language has learned."""
        self.tokens, self.merges = learned.all_tokens, learned.all_merges
        self.vocabularies[language] = learned.vocabulary
        self.merge_sets[language] = learned.merges


class Language:
    """The loop for one language, over its words as T segments them.

    Args:
        before: T before this language; it stays as it is.
        counts: occurrences of each word.
        adopted: for a second pass, the merges of T that the first pass adopted. They segment the
            words, and V_i starts with their tokens.

    Attributes:
        all_tokens, all_merges: T, which grows.
        vocabulary, merges: V_i and M_i.
        words: each word's tokens.
        too_large: of a second pass, pairs without room for the tokens that they need, and the
            count at which there was none.
    """

    def __init__(
        self, before: SequentialBpe, counts: dict[bytes, int], adopted: set[Merge] | None = None
    ) -> None:
        self.before = before
        self.counts = counts
        self.all_tokens, self.all_merges = list(before.tokens), list(before.merges)
        self.ids = {token: i for i, token in enumerate(self.all_tokens)}
        self.merges: set[Merge] = adopted or set()
        self.vocabulary = set(self.all_tokens[:256]) | {a + b for a, b in self.merges}
        active = [m for m in self.all_merges if adopted is None or m in adopted]
        self.words = {word: segment(bytes_of(word), active) for word in counts}
        self.too_large: dict[Merge, int] = {}

    def learn(self) -> None:
        """Repeat the steps until V_i has k tokens, or no pair is left."""
        while self.step():
            pass

    def step(self) -> str | None:
        """Adopt a token of T or merge a pair; a line that says which, None at the end."""
        if self.room() <= 0:
            return None
        unit, unit_count = self.most_frequent_unit()
        pair, pair_count = self.most_frequent_pair()
        if unit is not None and unit_count >= pair_count:
            return self.adopt(self.ancestors(unit), unit_count)
        if pair is None:
            return None
        return self.merge(pair, pair_count)

    def room(self) -> int:
        """Tokens that V_i can still take."""
        return self.before.k - self.before.specials - len(self.vocabulary)

    def most_frequent_unit(self) -> tuple[bytes | None, int]:
        """u_m and f_u: of the tokens that V_i lacks; ties go to the smaller id."""
        count: Counter[bytes] = Counter()
        for word, parts in self.words.items():
            for part in parts:
                count[part] += self.counts[word]
        lacking = [u for u in count if u not in self.vocabulary]
        unit = min(lacking, key=lambda u: (-count[u], self.ids[u]), default=None)
        return unit, count[unit] if unit is not None else 0

    def most_frequent_pair(self) -> tuple[Merge | None, int]:
        """b_m and f_b; ties go to the smaller ids."""
        count: Counter[Merge] = Counter()
        for word, parts in self.words.items():
            for pair in pairwise(parts):
                count[pair] += self.counts[word]
        limit = self.before.max_unspaced
        allowed = [
            (a, b)
            for (a, b), c in count.items()
            if c > self.too_large.get((a, b), 0) and not (limit and unspaced(a + b) > limit)
        ]
        best = min(allowed, key=lambda m: (-count[m], self.ids[m[0]], self.ids[m[1]]), default=None)
        return best, count[best] if best is not None else 0

    def first_merge(self, token: bytes) -> Merge | None:
        """The first merge of T that makes a token; None for a byte."""
        return next((m for m in self.all_merges if m[0] + m[1] == token), None)

    def ancestors(self, token: bytes) -> set[bytes]:
        """A: the token and the tokens that it is made of, as far as V_i lacks them."""
        if token in self.vocabulary:
            return set()
        merge = self.first_merge(token)
        parts = () if merge is None else merge
        return {token}.union(*(self.ancestors(part) for part in parts))

    def adopt(self, tokens: set[bytes], count: int) -> str:
        """Take tokens of T with their merges, in T's order, while there is room."""
        taken = sorted(tokens, key=self.ids.__getitem__)[: self.room()]
        for token in taken:
            self.vocabulary.add(token)
            if (merge := self.first_merge(token)) is not None:
                self.merges.add(merge)
        return f"adopt {', '.join(map(_shown, taken))} ({count} times)"

    def merge(self, pair: Merge, count: int) -> str:
        """Append a merge to T and V_i, and apply it to the words."""
        token = pair[0] + pair[1]
        if pair in self.all_merges:  # after a second pass: T has it, M_i did not
            lacking = self.derivation(pair)
            tokens = {a + b for a, b in lacking} - self.vocabulary - {token}
            if self.room() < len(tokens) + (token not in self.vocabulary):
                self.too_large[pair] = count
                return f"no room for {_shown(token)}"
            self.merges.update(lacking)
            self.vocabulary |= tokens
        else:
            self.all_merges.append(pair)
        if token not in self.ids:
            self.ids[token] = len(self.all_tokens)
            self.all_tokens.append(token)
        self.merges.add(pair)
        self.vocabulary.add(token)
        self.words = {word: segment(parts, [pair]) for word, parts in self.words.items()}
        return f"merge {_shown(pair[0])} + {_shown(pair[1])} ({count} times)"

    def derivation(self, merge: Merge) -> list[Merge]:
        """Merges of T that M_i lacks, so that at the rank of `merge` its parts are made."""
        lacking: list[Merge] = []
        queue = [merge]
        while queue:
            rank = self.all_merges.index(queue[0])
            for part in queue.pop(0):
                ways = [m for m in self.all_merges[:rank] if m[0] + m[1] == part]
                if len(part) > 1 and not any(m in self.merges or m in lacking for m in ways):
                    lacking.append(ways[0])
                    queue.append(ways[0])
        return lacking


def _shown(token: bytes) -> str:
    return repr(token.decode("utf-8", "backslashreplace"))


def main() -> None:
    """Print the steps of two languages, and the segmentation of a word by each vocabulary."""
    sentences = {
        "en": "the then them other mother",
        "de": "der andere mutter then other anders",
    }
    both = SequentialBpe(k=264)
    for name, sentence in sentences.items():
        language = Language(both, Counter(sentence.encode().split()))
        print(f"{name}: {sentence}")
        while done := language.step():
            print(f"  {done}")
        both.keep(name, language)
    for name, merges in both.merge_sets.items():
        parts = segment(bytes_of(b"mother"), [m for m in both.merges if m in merges])
        print(f"mother in {name}: {' '.join(map(_shown, parts))}")


if __name__ == "__main__":
    main()
