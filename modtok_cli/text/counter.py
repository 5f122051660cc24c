"""Count the words of any amount of text, in memory bounded by its unique words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from modtok_cli.text.count_kernel import (
    ARENA,
    DOCUMENT,
    NEED,
    POSITION,
    WORDS,
    copy_in_order,
    count_documents_into,
    list_words,
    move_slots,
    split_all,
)
from modtok_cli.text.counts import Bytes, CorpusSize, Ints, WordCounts, size_of
from modtok_cli.text.pretokenizer import PreTokenizer, Splitter
from modtok_cli.text.pretokenizers.bpe import PRETOKENIZER as BPE
from modtok_cli.text.pretokenizers.none import PRETOKENIZER as NONE
from modtok_cli.text.split_kernel import MOST_WORDS
from modtok_cli.text.word_key_kernel import MASKS, PADDING

_FIRST_SLOTS = 1 << 17
_FIRST_ARENA = 1 << 20


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
        self._splitter = pretokenizer.splitter
        self._slots = np.zeros(4 * _FIRST_SLOTS, dtype=np.uint64)
        self._arena = np.empty(_FIRST_ARENA, dtype=np.uint8)
        self._state = np.zeros(5, dtype=np.int64)
        self._ends = np.empty(MOST_WORDS, dtype=np.int32)
        self._places = np.empty(MOST_WORDS, dtype=np.uint64)

    def add_documents(self, documents: Sequence[bytes], weights: Ints | None = None) -> None:
        """Count the words of each document (UTF-8); no word reaches from one into the next.

        Document d counts weights[d] times, once if there are no weights; weights (D,) int64.
        """
        stops = np.cumsum([len(document) for document in documents], dtype=np.int64)
        starts = np.concatenate([np.zeros(1, dtype=np.int64), stops[:-1]])
        data = np.frombuffer(b"".join([*documents, bytes(PADDING)]), dtype=np.uint8)
        self.add_spans(data, starts[: len(stops)], stops, weights)

    def add_spans(
        self,
        data: Bytes,
        starts: Ints,
        stops: Ints,
        weights: Ints | None = None,
    ) -> None:
        """Count the documents data[starts[d]:stops[d]], each weights[d] (default 1) times.

        data (B,) uint8 has at least `PADDING` more bytes after the last document;
        starts, stops, weights (D,) int64.
        """
        if len(stops) and int(stops.max()) + PADDING > len(data):
            raise ValueError(f"expected {PADDING} bytes after the text in the buffer")
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
        self._count(data, starts, stops, weights, self._splitter)
        self.documents += len(starts)

    def _count(
        self, data: Bytes, starts: Ints, stops: Ints, weights: Ints, splitter: Splitter
    ) -> None:
        state = self._state
        state[DOCUMENT] = state[POSITION] = 0
        while True:
            count_documents_into(
                data,
                starts,
                stops,
                weights,
                *splitter,
                self._slots,
                self._arena,
                state,
                MASKS,
                self._ends,
                self._places,
            )
            if state[NEED] == 0:
                break
            self._grow(int(state[NEED]))

    def _rewritten(
        self, data: Bytes, starts: Ints, stops: Ints, weights: Ints
    ) -> tuple[Bytes, Ints, Ints]:
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
        ends = np.cumsum([len(document) for document in changed], dtype=np.int64)
        begins = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]])[: len(ends)]
        joined = np.frombuffer(b"".join([*changed, bytes(PADDING)]), dtype=np.uint8)
        return joined, begins, ends

    def _grow(self, need: int) -> None:
        """Make room for another block: a larger arena if that was full, else more slots."""
        larger = max(need, 2 * len(self._arena)) if need > len(self._arena) else 0
        more = larger - len(self._arena) if larger else self._slots.nbytes
        if self._spill and self._state[WORDS] and self.held + more > self._most:
            self._spill(self._listed(0))
            self._slots[:] = 0
            self._state[WORDS] = self._state[ARENA] = 0
        elif larger:
            arena = np.empty(larger, dtype=np.uint8)
            arena[: len(self._arena)] = self._arena
            self._arena = arena
        else:
            slots = np.zeros(2 * len(self._slots), dtype=np.uint64)
            move_slots(self._slots, slots)
            self._slots = slots

    @property
    def held(self) -> int:
        """Bytes of the table."""
        return int(self._slots.nbytes + self._arena.nbytes)

    def result(self) -> WordCounts:
        """The counts so far, words in ascending byte order; without what was spilled."""
        return self._listed(self.documents)

    def _listed(self, documents: int) -> WordCounts:
        words = int(self._state[WORDS])
        room = int(self._slots[2::4].sum())
        data = np.empty(room + PADDING, dtype=np.uint8)
        offsets = np.empty(words + 1, dtype=np.int64)
        counts = np.empty(words, dtype=np.int64)
        prefixes = np.empty(words, dtype=np.uint64)
        list_words(self._slots, self._arena, data, offsets, counts, prefixes)
        order = np.argsort(prefixes).astype(np.int64)
        sorted_data = np.empty(room, dtype=np.uint8)
        sorted_offsets, sorted_counts = np.empty_like(offsets), np.empty_like(counts)
        copy_in_order(
            data, offsets, counts, prefixes, order, sorted_data, sorted_offsets, sorted_counts
        )
        found = size_of(sorted_data, sorted_offsets, sorted_counts, documents)
        # The size is that of the text, the words are those of the changed one.
        size = CorpusSize(
            found.documents,
            found.characters - self._grown.characters,
            found.bytes - self._grown.bytes,
        )
        return WordCounts(sorted_data, sorted_offsets, sorted_counts, self.pretokenizer, size)


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
    ends = np.empty(len(text), dtype=np.int64)
    cuts = ends[: split_all(data, *pretokenizer.splitter, ends)].tolist()
    return [text[start:stop] for start, stop in zip([0, *cuts], cuts, strict=False)]


def _points(text: bytes) -> int:
    """Number of code points of UTF-8."""
    return len(text.decode("utf-8", "replace"))
