"""Count the words of any amount of text, in memory bounded by its unique words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from modtok_cli.base.arrays import Int64Array, UInt8Array, flatten
from modtok_cli.core.counts import Counter
from modtok_cli.core.library import PADDING, Splitter
from modtok_cli.core.text import split
from modtok_cli.text.counts import CorpusSize, WordCounts, size_of
from modtok_cli.text.pretokenizer import BPE, NONE, PreTokenizer


class WordCounter:
    """A table of words that grows as text is added; `result()` gives it sorted.

    One per thread: adding releases the interpreter lock while it counts.

    With `spill`, a table that would grow beyond `most` bytes is given to it, sorted, and counting
    goes on with an empty one: the tables add up. Documents are in the last one, `result()`. Not for
    pre-tokenizers that change the text, whose sizes are not those of the words.

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
        self._spill = None if pretokenizer.rewrite else spill
        self.documents = 0
        self._grown = CorpusSize()
        self._counter = Counter()

    def add_documents(self, documents: Sequence[bytes], weights: Int64Array | None = None) -> None:
        """Count the words of each document (UTF-8); no word reaches from one into the next.

        Document d counts weights[d] times, once if there are no weights; weights (D,) int64.
        """
        self.add_spans(*_joined(documents), weights)

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
            self._spill(self._listed(0))
            self._counter.clear()

    def _rewritten(
        self, data: UInt8Array, starts: Int64Array, stops: Int64Array, weights: Int64Array
    ) -> tuple[UInt8Array, Int64Array, Int64Array]:
        """The documents as the pre-tokenizer changes them, in the same form."""
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
        return _joined(changed)

    @property
    def held(self) -> int:
        """Bytes of the table."""
        return self._counter.sizes[2]

    def result(self) -> WordCounts:
        """The counts so far, words in ascending byte order; without what was spilled."""
        return self._listed(self.documents)

    def _listed(self, documents: int) -> WordCounts:
        data, offsets, counts = self._counter.table()
        changed = size_of(data, offsets, counts, documents)
        # The size is that of the text, the words are those of the changed one.
        size = CorpusSize(
            changed.documents,
            changed.characters - self._grown.characters,
            changed.bytes - self._grown.bytes,
        )
        return WordCounts(data, offsets, counts, self.pretokenizer, size)


def _joined(documents: Sequence[bytes]) -> tuple[UInt8Array, Int64Array, Int64Array]:
    """Documents in one buffer with padding, their starts and stops."""
    data, offsets = flatten([*documents, bytes(PADDING)])
    return data, offsets[:-2], offsets[1:-1]


def count_documents(
    batches: Iterable[Sequence[bytes]], pretokenizer: PreTokenizer = BPE
) -> WordCounts:
    """Word counts of documents (UTF-8 bytes) that come in batches of about half a megabyte."""
    counter = WordCounter(pretokenizer)
    for batch in batches:
        counter.add_documents(batch)
    return counter.result()


def split_words(text: bytes, pretokenizer: PreTokenizer = BPE) -> list[bytes]:
    """The words of `text` (UTF-8) in order; joined they are `text` again.

    >>> split_words(b"two  words!")
    [b'two', b'  ', b'words', b'!']
    """
    data = np.frombuffer(text + bytes(PADDING), dtype=np.uint8)
    cuts = split(data, pretokenizer.splitter).tolist()
    return [text[start:stop] for start, stop in zip([0, *cuts], cuts, strict=False)]


def _points(text: bytes) -> int:
    """Number of code points of UTF-8."""
    return len(text.decode("utf-8", "replace"))
