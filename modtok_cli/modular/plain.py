"""Encode a little text without compiled kernels.

Loading numba and the kernels takes several times as long as encoding a line. Here only tokens that
occur in the text are looked at, which numpy finds, and words are split as the definitions say.
Tests compare all of it with the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from modtok_cli.modular.vocabulary import Ids, Vocabulary
from modtok_cli.text.plain_split import split
from modtok_cli.text.pretokenizer import PreTokenizer

MOST_BYTES = 1 << 12
"""Bytes of text that a tokenizer encodes in this way, before it loads the kernels."""
CALL = 256
"""Bytes that a call counts for: finding the tokens takes as long for a short text."""
LONGEST_WORD = 128

WordEncoder = Callable[[bytes], list[int]]


def encode(
    texts: Sequence[bytes],
    pretokenizer: PreTokenizer,
    encoder_of: Callable[[Sequence[bytes]], WordEncoder | None],
) -> list[Ids] | None:
    """Ids of each text in UTF-8; None for texts that need the kernels.

    `encoder_of`: gives what encodes the words of a list.
    """
    if pretokenizer.rewrite is not None or pretokenizer.is_whole is not None:
        return None
    words = [split(pretokenizer, text) for text in texts]
    unique = sorted(set(chain.from_iterable(words)))
    if any(len(word) > LONGEST_WORD for word in unique):
        return None
    encode_word = encoder_of(unique)
    if encode_word is None:
        return None
    known = {word: encode_word(word) for word in unique}
    return [
        np.array([index for word in each for index in known[word]], dtype=np.int32)
        for each in words
    ]


def occurring(vocabulary: Vocabulary, first: int, words: Sequence[bytes]) -> dict[bytes, int]:
    """Tokens from id `first` on that occur in one of the words: bytes → id."""
    lengths = vocabulary.lengths[first:]
    longest = min(int(lengths.max(initial=0)), max(map(len, words), default=0))
    parts = {
        word[start:stop]
        for word in words
        for start in range(len(word))
        for stop in range(start + 1, min(start + longest, len(word)) + 1)
    }
    # Nearly all other tokens begin or end with two bytes that are nowhere together.
    pairs = np.zeros((256, 256), dtype=np.bool_)
    for part in parts:
        if len(part) == 2:
            pairs[part[0], part[1]] = True
    data, starts = vocabulary.data, vocabulary.offsets[first:-1]
    rows = np.flatnonzero((lengths > 1) & (lengths <= longest))
    rows = rows[pairs[data[starts[rows]], data[starts[rows] + 1]]]
    ends = starts[rows] + lengths[rows]
    rows = rows[pairs[data[ends - 2], data[ends - 1]]]
    rows = np.concatenate([np.flatnonzero(lengths == 1), rows])
    flat = data.tobytes()
    found = {}
    for row, start, size in zip(
        rows.tolist(), starts[rows].tolist(), lengths[rows].tolist(), strict=True
    ):
        token = flat[start : start + size]
        if token in parts:
            found[token] = first + row
    return found


def merging(vocabulary: Vocabulary, merges: Ids, words: Sequence[bytes]) -> WordEncoder:
    """Encodes some of `words` by merges (M, 3) int32 in rank order."""
    tokens = occurring(vocabulary, len(vocabulary.specials), words)
    made = np.zeros(len(vocabulary), dtype=np.bool_)
    made[list(tokens.values())] = True
    ranks = np.flatnonzero(made[merges[:, 2]])
    pairs = {
        (left, right): (rank, result)
        for rank, (left, right, result) in zip(ranks.tolist(), merges[ranks].tolist(), strict=True)
    }
    byte_ids = vocabulary.byte_ids.tolist()
    return lambda word: merge([byte_ids[byte] for byte in word], pairs)


_NO_PAIR = (1 << 62, -1)


def merge(ids: list[int], pairs: Mapping[tuple[int, int], tuple[int, int]]) -> list[int]:
    """Symbols merged by `pairs`, (left, right) → (rank, result): the lowest rank first.

    >>> merge([1, 2, 1, 2], {(1, 2): (0, 3), (3, 3): (1, 4)})
    [4]
    """
    while len(ids) > 1:
        found = [pairs.get(pair, _NO_PAIR) for pair in pairwise(ids)]
        best = min(found)
        if best is _NO_PAIR:
            break
        at = found.index(best)
        ids[at : at + 2] = [best[1]]
    return ids


@dataclass(frozen=True)
class Search:
    """What `learn.viterbi_kernel.viterbi_words` searches with, over the tokens of a vocabulary.

    scores (n,) float64; tokens before `first` are never found; see there for the others.
    """

    vocabulary: Vocabulary
    first: int
    scores: npt.NDArray[np.float64]
    unknown: float
    each: int
    fallback: bool

    def over(self, words: Sequence[bytes]) -> WordEncoder:
        """Encodes some of `words`."""
        tokens = occurring(self.vocabulary, self.first, words)
        pieces = {
            token: (index, score)
            for (token, index), score in zip(
                tokens.items(), self.scores[list(tokens.values())].tolist(), strict=True
            )
        }
        longest = max(map(len, pieces), default=1)
        return lambda word: self._best(word, pieces, longest)

    def _best(
        self, word: bytes, pieces: Mapping[bytes, tuple[int, float]], longest: int
    ) -> list[int]:
        """Of the paths to each position the one with the fewest tokens, then the greatest sum."""
        size = len(word)
        # Tokens, sum, where the last piece begins, and its id: -1 for bytes.
        best: list[tuple[int, float, int, int] | None] = [(0, 0.0, -1, -1), *[None] * size]
        for start in range(size):
            here = best[start]
            if here is None:
                continue
            whole = start + _character_length(word[start])
            single = False
            edges = []
            for stop in range(start + 1, min(start + longest, size) + 1):
                piece = pieces.get(word[start:stop])
                if piece is not None:
                    single |= stop == whole
                    edges.append((stop, self.each, piece[1], piece[0]))
            if self.fallback and not single:
                stop = min(whole, size)
                edges.append((stop, self.each * (stop - start), self.unknown, -1))
            for stop, more, score, index in edges:
                number, total = here[0] + more, here[1] + score
                other = best[stop]
                if other is None or number < other[0] or (number == other[0] and total > other[1]):
                    best[stop] = (number, total, start, index)
        return self._path(word, best)

    def _path(self, word: bytes, best: Sequence[tuple[int, float, int, int] | None]) -> list[int]:
        ids: list[int] = []
        place = len(word)
        byte_ids = self.vocabulary.byte_ids
        while place > 0:
            here = best[place]
            if here is None:  # it cannot be spelled
                return [-1] * len(word)
            start, index = here[2], here[3]
            spelled = [int(byte_ids[byte]) for byte in word[start:place]] if index < 0 else [index]
            ids = [*spelled, *ids]
            place = start
        return ids


def _character_length(lead: int) -> int:
    """Bytes of the UTF-8 character that begins with byte `lead`."""
    return 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
