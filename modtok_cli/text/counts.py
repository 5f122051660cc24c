"""Word counts: the input of all learning and nearly all measuring.

No pre-token crosses a word boundary, so a corpus is a table (word → count). The table is
kept as flat arrays, words in ascending byte order, so that equal corpora give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int64Array, UInt8Array, flatten, unflatten
from modtok_cli.base.errors import UsageError
from modtok_cli.base.signature import digest
from modtok_cli.core.binding import PADDING, Splitter
from modtok_cli.core.text import Counter, joined, split
from modtok_cli.core.text import merge_counts as merge_two
from modtok_cli.text.pretokenizer import BPE, NONE, PreTokenizer


@dataclass(frozen=True)
class CorpusSize:
    """The size of text that was read: documents, characters (code points) and bytes (UTF-8)."""

    documents: int = 0
    characters: int = 0
    bytes: int = 0

    def __add__(self, other: CorpusSize) -> CorpusSize:
        return CorpusSize(
            self.documents + other.documents,
            self.characters + other.characters,
            self.bytes + other.bytes,
        )


@dataclass(frozen=True)
class WordCounts:
    """Unique words of a text and how often each occurs.

    Word i is `data[offsets[i]:offsets[i + 1]]` (UTF-8, a pre-token with its leading space)
    and occurs `counts[i]` times. Words ascend in byte order, each once, every count > 0.

    Shapes: data (B,) uint8; offsets (W + 1,) int64; counts (W,) int64.
    `pretokenizer` split the text into the words.
    """

    data: UInt8Array
    offsets: Int64Array
    counts: Int64Array
    pretokenizer: PreTokenizer
    size: CorpusSize = field(default_factory=CorpusSize)

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def from_pairs(
        cls,
        pairs: Iterable[tuple[bytes, int]],
        pretokenizer: PreTokenizer = BPE,
        size: CorpusSize | None = None,
    ) -> WordCounts:
        """Return a table of (word, count) pairs in any order; counts of a repeated word add up.

        Words are not split further. Without `size`, characters and bytes are counted in the words,
        which cover the text they came from; documents are then 0, unknown.

        Raises:
            ValueError: an empty word, or a count below 1.

        >>> table = WordCounts.from_pairs([(b" b", 2), (b"a", 1), (b" b", 3)])
        >>> list(table.pairs()), table.size.bytes
        ([(b' b', 5), (b'a', 1)], 11)
        """
        total: dict[bytes, int] = {}
        for word, count in pairs:
            if not word or count < 1:
                raise ValueError(f"a word needs bytes and a count of at least 1: {word!r}, {count}")
            total[word] = total.get(word, 0) + count
        words = sorted(total)
        data, offsets = flatten(words)
        counts = np.array([total[word] for word in words], dtype=np.int64)
        size = size or size_of(data, offsets, counts)
        return cls(data.copy(), offsets, counts, pretokenizer, size)

    def words(self) -> list[bytes]:
        """Return the words, ascending."""
        return unflatten(self.data, self.offsets)

    def pairs(self) -> Iterator[tuple[bytes, int]]:
        """Return (word, count), words ascending."""
        return zip(self.words(), self.counts.tolist(), strict=True)

    def where(self, mask: BoolArray) -> WordCounts:
        """Return the words of `mask` (W,) bool, with the size of the whole text."""
        lengths = np.diff(self.offsets)
        offsets = np.zeros(int(mask.sum()) + 1, dtype=np.int64)
        np.cumsum(lengths[mask], out=offsets[1:])
        data = self.data[np.repeat(mask, lengths)]
        return replace(self, data=data, offsets=offsets, counts=self.counts[mask])

    def part(self, start: int, stop: int) -> WordCounts:
        """Return a copy of words start … stop - 1, without a size."""
        first, end = int(self.offsets[start]), int(self.offsets[stop])
        return WordCounts(
            self.data[first:end].copy(),
            self.offsets[start : stop + 1] - first,
            self.counts[start:stop].copy(),
            self.pretokenizer,
        )

    @property
    def occurrences(self) -> int:
        """Number of words of the text, repeated ones included."""
        return int(self.counts.sum())

    def fingerprint(self) -> str:
        """Hash of pre-tokenizer, words and counts: equal for equal text, however it was read.

        The number of documents is not in it: splitting a text
        into documents between words changes neither the words nor what is learned from them.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        arrays = (
            self.data,
            self.offsets.astype("<i8", copy=False),
            self.counts.astype("<i8", copy=False),
        )
        parts = (np.ascontiguousarray(array).view(np.uint8).data for array in arrays)
        return digest(self.pretokenizer.name.encode(), *parts)


def size_of(
    data: UInt8Array, offsets: Int64Array, counts: Int64Array, documents: int = 0
) -> CorpusSize:
    """Return the size of the text that the words cover: lengths of words times their counts."""
    lengths = np.diff(offsets)
    # A code point is one byte that is not a continuation byte (10xxxxxx).
    # int32 adds up three times as fast.
    small: np.dtype[Any] = np.dtype(np.int32 if len(data) < 1 << 31 else np.int64)
    starts: Int64Array = np.zeros(len(data) + 1, dtype=small)
    np.cumsum((data & 0xC0) != 0x80, dtype=small, out=starts[1:])
    characters = (starts[offsets[1:]] - starts[offsets[:-1]]).astype(np.int64)
    return CorpusSize(documents, int(characters @ counts), int(lengths @ counts))


def concatenate(parts: Sequence[WordCounts], size: CorpusSize) -> WordCounts:
    """Return one table of at least one part whose words ascend from each to the next."""
    ends = np.cumsum([0, *(len(part.data) for part in parts)])
    starts = [part.offsets[:-1] + end for part, end in zip(parts, ends, strict=False)]
    return WordCounts(
        np.concatenate([part.data for part in parts]),
        np.concatenate([*starts, ends[-1:]]),
        np.concatenate([part.counts for part in parts]),
        parts[0].pretokenizer,
        size,
    )


def common_pretokenizer(names: Iterable[str]) -> str:
    """Return the pre-tokenizer of all tables, given that of each.

    Raises:
        UsageError: there are several.
    """
    first, *more = sorted(set(names))
    if more:
        raise UsageError(
            f"count tables of different pre-tokenizers ({', '.join([first, *more])}) do not add up",
            remedy="count the text again with one of them",
        )
    return first


def merge_counts(tables: Sequence[WordCounts]) -> WordCounts:
    """Return the table of all the texts together: count(a + b) = count(a) + count(b), exactly.

    Any order of `tables` gives the same bytes. No table gives the empty one of `bpe`.
    """
    if not tables:
        return WordCounts.from_pairs([])
    common_pretokenizer(table.pretokenizer.name for table in tables)
    # Smallest first and in pairs: every word is copied about log2(number of tables) times.
    queue = sorted(tables, key=len)
    while len(queue) > 1:
        joined = []
        for a, b in zip(queue[::2], queue[1::2], strict=False):
            merged = merge_two((a.data, a.offsets, a.counts), (b.data, b.offsets, b.counts))
            joined.append(WordCounts(*merged, a.pretokenizer, a.size + b.size))
        queue = joined + (queue[-1:] if len(queue) % 2 else [])
    return queue[0]


class WordCounter:
    """A table of words that grows as text is added; `result()` gives it sorted.

    One per thread: adding releases the interpreter lock while it counts.

    With `spill`, a table that would grow beyond `most` bytes is given to it, sorted, and counting
    goes on with an empty one: the tables add up. Documents are in the last one, `result()`, as is
    what a pre-tokenizer that changes the text adds to its size.

    >>> counter = WordCounter()
    >>> counter.add_documents([b"a b", b"a"])
    >>> list(counter.result().pairs())
    [(b' b', 1), (b'a', 2)]
    """

    def __init__(
        self,
        pretokenizer: PreTokenizer = BPE,
        most: int = 0,
        spill: Callable[[WordCounts], None] | None = None,
    ) -> None:
        self.pretokenizer = pretokenizer
        self._most = most
        self._spill = spill
        self.documents = 0
        self._grown = CorpusSize()
        self._counter = Counter()

    def add_documents(self, documents: Sequence[bytes], weights: Int64Array | None = None) -> None:
        """Count the words of each document (UTF-8); no word reaches from one into the next.

        Document d counts weights[d] times, once if there are no weights; weights (D,) int64.
        """
        self.add_spans(*joined(documents), weights)

    def add_spans(
        self,
        data: UInt8Array,
        starts: Int64Array,
        stops: Int64Array,
        weights: Int64Array | None = None,
    ) -> None:
        """Count the documents data[starts[d]:stops[d]], each weights[d] (default 1) times.

        data (B,) uint8 has at least `PADDING` more bytes after the last document;
        starts, stops, weights (D,) int64.
        """
        if weights is None:
            weights = np.ones(len(starts), dtype=np.int64)
        pretokenizer = self.pretokenizer
        if pretokenizer.is_whole is not None:
            bounds = zip(starts.tolist(), stops.tolist(), strict=True)
            whole = np.array(
                [pretokenizer.is_whole(data[start:stop].tobytes()) for start, stop in bounds],
                dtype=np.bool_,
            )
            self._count(data, starts[whole], stops[whole], weights[whole], NONE.splitter)
            starts, stops, weights = starts[~whole], stops[~whole], weights[~whole]
            self.documents += int(whole.sum())
        if pretokenizer.rewrite is not None:
            data, starts, stops = self._rewritten(data, starts, stops, weights)
        self._count(data, starts, stops, weights, pretokenizer.splitter)
        self.documents += len(starts)

    def _count(
        self,
        data: UInt8Array,
        starts: Int64Array,
        stops: Int64Array,
        weights: Int64Array,
        splitter: Splitter,
    ) -> None:
        most = self._most if self._spill else 0
        while not self._counter.add(splitter, data, starts, stops, weights, most):
            assert self._spill is not None
            self._spill(self._listed(0, CorpusSize()))
            self._counter.clear()

    def _rewritten(
        self, data: UInt8Array, starts: Int64Array, stops: Int64Array, weights: Int64Array
    ) -> tuple[UInt8Array, Int64Array, Int64Array]:
        """Return the documents as the pre-tokenizer changes them, in the same form."""
        rewrite = self.pretokenizer.rewrite
        assert rewrite is not None
        changed = []
        for start, stop, weight in zip(
            starts.tolist(), stops.tolist(), weights.tolist(), strict=True
        ):
            old = data[start:stop].tobytes()
            new = rewrite(old)
            changed.append(new)
            if new is not old:
                more = weight * (len(new) - len(old))
                self._grown += CorpusSize(0, weight * (_points(new) - _points(old)), more)
        return joined(changed)

    @property
    def held(self) -> int:
        """Bytes of the table."""
        return self._counter.sizes[2]

    def result(self) -> WordCounts:
        """Return the counts so far, words in ascending byte order; without what was spilled."""
        return self._listed(self.documents, self._grown)

    def _listed(self, documents: int, grown: CorpusSize) -> WordCounts:
        data, offsets, counts = self._counter.table()
        changed = size_of(data, offsets, counts, documents)
        # The words are of the changed text, the size of the original.
        size = CorpusSize(
            changed.documents,
            changed.characters - grown.characters,
            changed.bytes - grown.bytes,
        )
        return WordCounts(data, offsets, counts, self.pretokenizer, size)


def count_documents(
    batches: Iterable[Sequence[bytes]], pretokenizer: PreTokenizer = BPE
) -> WordCounts:
    """Count the words of documents (UTF-8) in batches of about half a megabyte."""
    counter = WordCounter(pretokenizer)
    for batch in batches:
        counter.add_documents(batch)
    return counter.result()


def split_words(text: bytes, pretokenizer: PreTokenizer = BPE) -> list[bytes]:
    """Return the words of `text` (UTF-8) in order; joined they are `text` again.

    >>> split_words(b"two  words!")
    [b'two', b'  ', b'words', b'!']
    """
    data = np.frombuffer(text + bytes(PADDING), dtype=np.uint8)
    cuts = split(data, pretokenizer.splitter).tolist()
    return [text[start:stop] for start, stop in zip([0, *cuts], cuts, strict=False)]


def _points(text: bytes) -> int:
    """Return the number of code points of UTF-8."""
    return len(text.decode("utf-8", "replace"))
