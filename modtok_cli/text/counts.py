"""Word counts: the input of all learning and nearly all measuring.

No pre-token crosses a word boundary, so a corpus is a table (word → count). The table is
kept as flat arrays, words in ascending byte order, so that equal corpora give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from modtok_cli.base.arrays import Int64Array, UInt8Array, flatten, unflatten
from modtok_cli.base.errors import UsageError
from modtok_cli.base.signature import digest
from modtok_cli.text.pretokenizer import BPE, PreTokenizer


@dataclass(frozen=True)
class CorpusSize:
    """What was read: documents, characters (code points) and bytes (UTF-8) of text."""

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
        """A table of (word, count) pairs in any order; counts of a repeated word add up.

        Words are not split further. Without `size`,
        characters and bytes are those of the words, which cover the text they came from;
        documents are then 0, unknown.

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
        """The words, ascending."""
        return unflatten(self.data, self.offsets)

    def pairs(self) -> Iterator[tuple[bytes, int]]:
        """(word, count), words ascending."""
        return zip(self.words(), self.counts.tolist(), strict=True)

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
    """Size of the text that the words cover: lengths of words times their counts."""
    lengths = np.diff(offsets)
    # A code point is one byte that is not a continuation byte (10xxxxxx).
    # int32 adds up three times as fast.
    small: np.dtype[Any] = np.dtype(np.int32 if len(data) < 1 << 31 else np.int64)
    starts: Int64Array = np.zeros(len(data) + 1, dtype=small)
    np.cumsum((data & 0xC0) != 0x80, dtype=small, out=starts[1:])
    characters = (starts[offsets[1:]] - starts[offsets[:-1]]).astype(np.int64)
    return CorpusSize(documents, int(characters @ counts), int(lengths @ counts))


def merge_counts(tables: Sequence[WordCounts]) -> WordCounts:
    """The table of all the texts together: count(a + b) = count(a) + count(b), exactly.

    Any order of `tables` gives the same bytes. No table gives the empty one of `bpe`.
    """
    if not tables:
        return WordCounts.from_pairs([])
    names = sorted({table.pretokenizer.name for table in tables})
    if len(names) > 1:
        raise UsageError(
            f"count tables of different pre-tokenizers ({', '.join(names)}) do not add up",
            remedy="count the text again with one of them",
        )
    from modtok_cli.core.counts import merge_counts as merge_two

    # Smallest first and in pairs: every word is copied about log2(number of tables) times.
    queue = sorted(tables, key=len)
    while len(queue) > 1:
        joined = []
        for a, b in zip(queue[::2], queue[1::2], strict=False):
            merged = merge_two((a.data, a.offsets, a.counts), (b.data, b.offsets, b.counts))
            joined.append(WordCounts(*merged, a.pretokenizer, a.size + b.size))
        queue = joined + (queue[-1:] if len(queue) % 2 else [])
    return queue[0]
