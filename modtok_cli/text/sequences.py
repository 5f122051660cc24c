"""Frequent sequences of words within phrases: the candidates for superwords.

A phrase is a word of the pre-tokenizer `phrases`; it has the words of `bpe`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import Float64Array, Int64Array, UInt8Array
from modtok_cli.core.binding import PADDING
from modtok_cli.core.text import hash_spans, split
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.text.text_format import Document

SOURCES = ("source", "url")
"""Fields with the source of a document."""

LONGEST = 4
"""Words of the longest sequences."""
CHARACTERS = 32
"""Characters of the longest sequences: in scripts without spaces a word is a clause."""
LEAST = 4
"""Occurrences of the rarest sequences."""
GROUPS = 64
"""Groups of documents, at most."""
IGNORED = 2
"""Groups of documents that are left out of what a sequence counts: the worst for it."""

# A word of its own between any two phrases: no phrase with several words has a digit.
_SEPARATOR = b"1"


def frequent_sequences(
    groups: Sequence[WordCounts], most: int, *, longest: int = LONGEST, least: int = LEAST
) -> list[bytes]:
    """Find the sequences of 2 to `longest` words that save most tokens if each word is a token.

    A sequence saves its occurrences × (its words - 1). At most `most` sequences, the one that
    saves the most first, of equal ones the first in byte order; each occurs `least` times or more
    and has at most `CHARACTERS` characters.

    Boilerplate of one source (or of two, a program and its help) is of no use in other text. So a
    sequence counts as if the group of documents that is worst for it did not
    exist, and the worst of the others: of n occurrences, of which r are elsewhere and e would be if
    it were as frequent in all groups, n · (r + 1) / (e + 1). It counts the least of this for none,
    one and both groups.

    Only sequences whose parts are frequent are counted (Agrawal and Srikant 1994), by sorting:
    time and memory are linear in the bytes of the phrases.

    Args:
        groups: the phrases of each group of documents.

    >>> from modtok_cli.text.counts import count_documents
    >>> from modtok_cli.text.pretokenizer import PHRASES
    >>> texts = [b"one of the two, of the three", b"4 of the 5 of the"]
    >>> frequent_sequences([count_documents([[text]], PHRASES) for text in texts], 2, least=2)
    [b' of the']
    """
    groups = [group for group in groups if len(group)]
    if not groups or most <= 0:
        return []
    data, starts, stops = _words([word for group in groups for word in group.words()])
    separates = data[stops - 1] == _SEPARATOR[0]
    sizes = np.concatenate([np.diff(group.offsets) for group in groups])
    begins_of_phrases = np.cumsum(sizes + 1) - (sizes + 1)
    phrase = np.searchsorted(begins_of_phrases, starts, side="right") - 1
    weights = np.concatenate([group.counts for group in groups])[phrase]
    group = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[phrase]
    read = np.array([np.diff(each.offsets) @ each.counts for each in groups])
    shares = read / read.sum()
    hashes = hash_spans(data, starts, stops)
    unique, ids = np.unique(hashes, return_inverse=True)
    # The sequence of `words` words that begins at word i is number `sequence[i]`, if frequent.
    sequence = np.where(separates, -1, ids).astype(np.int64)
    savings: list[Float64Array] = []
    spans: list[tuple[Int64Array, Int64Array]] = []
    for size in range(2, longest + 1):
        at = np.flatnonzero((sequence[:-1] >= 0) & (sequence[1:] >= 0))
        at = at[at + size <= len(ids)]
        at = at[~separates[at + size - 1]]
        codes = sequence[at] * len(unique) + ids[at + size - 1]
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        counts = _sums(which, weights[at], len(first))
        frequent = counts >= least
        number = np.where(frequent, np.cumsum(frequent) - 1, -1)
        sequence = np.full(len(ids), -1, dtype=np.int64)
        sequence[at] = number[which]
        if not frequent.any():
            break
        begins = at[first[frequent]]
        at = at[frequent[which]]
        scores = _scores(sequence[at], group[at], weights[at], shares)
        savings.append(scores * (size - 1))
        spans.append((starts[begins], stops[begins + size - 1]))
    if not savings:
        return []
    saved = np.concatenate(savings)
    begins, ends = (np.concatenate(one) for one in zip(*spans, strict=True))
    before = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
    short = np.flatnonzero(before[ends] - before[begins] <= CHARACTERS)
    text = data.tobytes()
    # Sequences that tie with the last one are sorted too.
    enough = np.sort(saved[short])[-most] if len(short) > most else 0
    chosen = [(-saved[i], text[begins[i] : ends[i]]) for i in short[saved[short] >= enough]]
    return [sequence for _, sequence in sorted(chosen)[:most]]


def _sums(which: Int64Array, weights: Int64Array, number: int) -> Int64Array:
    sums = np.zeros(number, dtype=np.int64)
    np.add.at(sums, which, weights)
    return sums


def _scores(
    sequence: Int64Array, group: Int64Array, weights: Int64Array, shares: Float64Array
) -> Float64Array:
    """Return the count of each sequence, as `frequent_sequences` says; (S,).

    Occurrence i is of sequence[i], 0 to S - 1, weights[i] times in group[i]. shares (G,): of the
    bytes of all groups.
    """
    pairs, which = np.unique(sequence * len(shares) + group, return_inverse=True)
    within = _sums(which, weights, len(pairs))
    number, where = np.divmod(pairs, len(shares))
    first = np.flatnonzero(np.diff(number, prepend=-1))
    scores: Float64Array = np.add.reduceat(within, first).astype(np.float64)
    total = rest = scores[number]
    share, ignored = np.ones(len(pairs)), np.zeros(len(pairs), dtype=bool)
    for _ in range(IGNORED):
        without = rest - within, np.maximum(share - shares[where], 0)
        each = total * (without[0] + 1) / (total * without[1] + 1)
        each[ignored] = np.inf
        lowest = np.minimum.reduceat(each, first)
        scores = np.minimum(scores, lowest)
        at = np.flatnonzero(each == lowest[number])
        worst = at[np.searchsorted(number[at], number)]
        rest, share = (one[worst] for one in without)
        ignored[worst] = True
    return scores


def _words(phrases: Sequence[bytes]) -> tuple[UInt8Array, Int64Array, Int64Array]:
    """Return the words of all phrases: bytes with padding, starts and stops.

    Between two phrases, and after the last one, is a word that ends with the separator: phrases
    that are numbers are one word with those around them.
    """
    text = _SEPARATOR.join([*phrases, b""])
    data = np.frombuffer(text + bytes(PADDING), dtype=np.uint8)
    ends = split(data, BPE.splitter)
    return data, np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]]), ends


class Sample:
    """Documents of a stream, evenly spread over it, whatever its length.

    Every document is kept until they have more than `limit` bytes together; then every second one
    of all documents so far and to come, and so on. One document is always kept.

    >>> sample = Sample(limit=5)
    >>> sample.add([Document(text, None, 1) for text in (b"ab", b"cd", b"ef", b"gh")])
    >>> [document.text for document in sample.documents]
    [b'ab', b'ef']
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._stride = 1
        self._seen = 0
        self._size = 0
        self.documents: list[Document] = []

    def add(self, documents: Iterable[Document]) -> None:
        """Go on to the next documents, and keep what belongs to the sample."""
        for document in documents:
            if self._seen % self._stride == 0:
                self.documents.append(document)
                self._size += len(document.text)
            self._seen += 1
            while self._size > self._limit and len(self.documents) > 1:
                self._stride *= 2
                self.documents = self.documents[::2]
                self._size = sum(len(document.text) for document in self.documents)

    def groups(self) -> list[list[bytes]]:
        """Return the documents by source in at most `GROUPS` groups; each without a source is one.

        Documents of a source with over three quarters of the text too: the rest cannot judge it.
        """
        sizes: Counter[str] = Counter()
        for document in self.documents:
            sizes[document.source or ""] += len(document.text)
        sources = sorted(name for name in sizes if name and 4 * sizes[name] <= 3 * sizes.total())
        place: dict[str | None, int] = {name: number for number, name in enumerate(sources)}
        groups: list[list[bytes]] = [[] for _ in range(GROUPS)]
        for number, document in enumerate(self.documents):
            groups[place.get(document.source, number) % GROUPS].append(document.text)
        return [group for group in groups if group]


def sample_documents(
    files: Sequence[Path | str], limit: int, *, reading: Reading = Reading()
) -> list[list[bytes]]:
    """Draw up to `limit` bytes of documents evenly from all text files, in groups.

    Warns of nothing: the files are read to count their words as well.
    """
    sample = Sample(limit)
    for file in files:
        sample.add(read_documents(file, replace(reading, source_fields=SOURCES), may_be_empty=True))
    return sample.groups()
