"""Frequent sequences of words within phrases: the candidates for superwords.

A phrase is a word of the pre-tokenizer `phrases`; its words are those of `bpe`.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import Int64Array, UInt8Array
from modtok_cli.core.binding import PADDING
from modtok_cli.core.text import hash_spans, split
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.text_format import Spans

LONGEST = 4
"""Words of the longest sequences."""
LEAST = 4
"""Occurrences of the rarest sequences."""

# A word of its own between any two phrases: no phrase with several words has a digit.
_SEPARATOR = b"1"


def frequent_sequences(
    phrases: WordCounts, most: int, *, longest: int = LONGEST, least: int = LEAST
) -> list[bytes]:
    """The sequences of 2 to `longest` words that save the most tokens if each word is a token.

    A sequence saves its occurrences × (its words - 1). At most `most` sequences, the one that
    saves the most first, of equal ones the first in byte order; each occurs `least` times or more.

    Only sequences whose parts are frequent are counted (Agrawal and Srikant 1994), by sorting:
    time and memory are linear in the bytes of the phrases.

    >>> from modtok_cli.text.counts import count_documents
    >>> from modtok_cli.text.pretokenizer import PHRASES
    >>> phrases = count_documents([[b"one of the two, of the three, 4 of the"]], PHRASES)
    >>> frequent_sequences(phrases, 2, least=2)
    [b' of the']
    """
    if not len(phrases) or most <= 0:
        return []
    data, starts, stops = _words(phrases)
    separates = data[stops - 1] == _SEPARATOR[0]
    begins_of_phrases = phrases.offsets[:-1] + np.arange(len(phrases))
    weights = phrases.counts[np.searchsorted(begins_of_phrases, starts, side="right") - 1]
    hashes = hash_spans(data, starts, stops)
    unique, ids = np.unique(hashes, return_inverse=True)
    # The sequence of `words` words that begins at word i is number `sequence[i]`, if frequent.
    sequence = np.where(separates, -1, ids).astype(np.int64)
    savings: list[Int64Array] = []
    spans: list[tuple[Int64Array, Int64Array]] = []
    for words in range(2, longest + 1):
        at = np.flatnonzero((sequence[:-1] >= 0) & (sequence[1:] >= 0))
        at = at[at + words <= len(ids)]
        at = at[~separates[at + words - 1]]
        codes = sequence[at] * len(unique) + ids[at + words - 1]
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        counts = np.zeros(len(first), dtype=np.int64)
        np.add.at(counts, which, weights[at])
        frequent = counts >= least
        number = np.where(frequent, np.cumsum(frequent) - 1, -1)
        sequence = np.full(len(ids), -1, dtype=np.int64)
        sequence[at] = number[which]
        begins = at[first[frequent]]
        savings.append(counts[frequent] * (words - 1))
        spans.append((starts[begins], stops[begins + words - 1]))
        if not frequent.any():
            break
    saved = np.concatenate(savings)
    begins, ends = (np.concatenate(one) for one in zip(*spans, strict=True))
    text = data.tobytes()
    # Those that tie with the last one are sorted too.
    enough = np.sort(saved)[-most] if len(saved) > most else 0
    chosen = [(-int(saved[i]), text[begins[i] : ends[i]]) for i in np.flatnonzero(saved >= enough)]
    return [sequence for _, sequence in sorted(chosen)[:most]]


def _words(phrases: WordCounts) -> tuple[UInt8Array, Int64Array, Int64Array]:
    """The words of all phrases: bytes with padding, starts and stops.

    Between two phrases, and after the last one, is a word that ends with the separator: phrases
    that are numbers are one word with those around them.
    """
    text = _SEPARATOR.join([*phrases.words(), b""])
    data = np.frombuffer(text + bytes(PADDING), dtype=np.uint8)
    ends = split(data, BPE.splitter)
    return data, np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]]), ends


class Sample:
    """Documents of a stream, evenly spread over it, whatever its length.

    Every document is kept until they have more than `limit` bytes together; then every second one
    of all documents so far and to come, and so on. One document is always kept.

    >>> sample = Sample(limit=5)
    >>> sample.add(join([b"ab", b"cd", b"ef", b"gh"]))
    >>> sample.documents
    [b'ab', b'ef']
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stride = 1
        self._seen = 0
        self._size = 0
        self._kept: list[bytes] = []

    def add(self, spans: Spans) -> None:
        """Go on to the next documents, and keep those that belong to the sample."""
        for start, stop in zip(spans.starts.tolist(), spans.stops.tolist(), strict=True):
            if self._seen % self._stride == 0:
                self._kept.append(spans.data[start:stop].tobytes())
                self._size += stop - start
            self._seen += 1
            while self._size > self._limit and len(self._kept) > 1:
                self._stride *= 2
                self._kept = self._kept[::2]
                self._size = sum(map(len, self._kept))

    @property
    def documents(self) -> list[bytes]:
        """The documents of the sample, in order."""
        return list(self._kept)


def sample_documents(
    files: Sequence[Path | str], limit: int, *, reading: Reading = Reading()
) -> list[bytes]:
    """Up to `limit` bytes of documents of text files, evenly spread over all of them.

    Warns of nothing: the files are read to count their words as well.
    """
    sample = Sample(limit)
    for file in files:
        for spans in read_spans(file, reading, may_be_empty=True):
            sample.add(spans)
    return sample.documents
