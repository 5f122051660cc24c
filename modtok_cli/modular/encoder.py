"""Encode texts and words by a set of merges: the kernels with their tables and caches.

An `Encoder` may be used by any number of threads. They share a cache of words; each call takes
scratch of its own and returns it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise, starmap
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from modtok_cli.learn.merge_kernel import pair_table
from modtok_cli.learn.symbol_kernel import Symbols, merge_words
from modtok_cli.modular.encode_kernel import Work, advance, close_gaps, new_work
from modtok_cli.modular.word_cache import WordCache
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pack_kernel import packed
from modtok_cli.text.pretokenizer import PreTokenizer, Splitter
from modtok_cli.text.word_key_kernel import PADDING

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]

# Texts are passed to the kernel in portions of about this many bytes: enough portions for all
# threads, and little memory for the ids of a portion (at most four bytes per byte of text).
PORTION = 1 << 18

MOST_IDS = 1 << 28
"""Room for ids that is asked of the system at once; more is joined at the end."""

OVER = 2
"""Ids that the kernel may write behind the last one."""

T = TypeVar("T")


class _Scratch:
    """What a thread encodes with: the state of the kernel, and room for ids."""

    def __init__(self) -> None:
        self.work = new_work()
        self._ids = np.empty(0, dtype=np.int32)

    def ids(self, size: int) -> Ids:
        """An array of at least `size` ids. It is kept, but for the ids of very long texts."""
        if len(self._ids) >= size:
            return self._ids
        ids = np.empty(size, dtype=np.int32)
        if size <= 8 * PORTION:
            self._ids = ids
        return ids


class _Joined:
    """Ids one after the other; `end` of them are in the array that is filled now."""

    def __init__(self, room: int) -> None:
        # Memory is touched only as ids come.
        self._ids = np.empty(room, dtype=np.int32)
        self._full: list[Ids] = []
        self.end = 0

    def room(self, size: int) -> Ids:
        """Where the next ids belong, at least `size` of them."""
        if self.end + size > len(self._ids):
            self._full.append(self._ids[: self.end])
            self._ids = np.empty(max(len(self._ids), size), dtype=np.int32)
            self.end = 0
        return self._ids[self.end :]

    def ids(self) -> Ids:
        """All of them; nothing can be added afterwards."""
        if self._full:
            return np.concatenate([*self._full, self._ids[: self.end]])
        self._ids.resize(self.end, refcheck=False)  # nothing is copied
        return self._ids


class Encoder:
    """BPE by the given merges, with the `tokenizers` library's semantics.

    Shapes: merges (M, 3) int32 in rank order.
    """

    _rewrite: Callable[[bytes], bytes] | None = None

    def __init__(self, pretokenizer: PreTokenizer, symbols: Symbols, merges: Ids) -> None:
        self._pretokenizer = pretokenizer
        self._rewrite = pretokenizer.rewrite
        self._symbols = symbols
        self._pairs = pair_table(np.ascontiguousarray(merges, dtype=np.int32))
        self._cache = WordCache()
        self._scratch: list[_Scratch] = []

    @property
    def _splitter(self) -> Splitter:
        """How text is split into what is segmented and cached."""
        return self._pretokenizer.splitter

    def flat(self, data: Bytes, offsets: Ints) -> tuple[Ids, Ints]:
        """Ids of texts `data[offsets[i]:offsets[i + 1]]` in one buffer of UTF-8, as they are.

        `data` goes on for `PADDING` bytes after the last text. Returns ids (N,) int32 and their
        offsets (D + 1,) int64.
        """
        id_offsets = np.empty(len(offsets), dtype=np.int64)
        with self._borrowed() as scratch:
            ids = scratch.ids(int(offsets[-1] - offsets[0]) + OVER)
            self._write(scratch.work, data, offsets, ids, id_offsets)
            return ids[: id_offsets[-1]].copy(), id_offsets

    @contextmanager
    def _borrowed(self) -> Iterator[_Scratch]:
        try:
            # list.pop is atomic: two threads never get the same scratch.
            scratch = self._scratch.pop()
        except IndexError:
            scratch = _Scratch()
        yield scratch
        self._scratch.append(scratch)  # but after an exception

    def _write(self, work: Work, data: Bytes, offsets: Ints, ids: Ids, id_offsets: Ints) -> None:
        """What `flat` gives, into ids (at least bytes of the texts + OVER,) and id_offsets."""
        work.state[:] = 0
        entry, table = self._splitter
        cache = self._cache
        while new := advance(data, offsets, entry, table, cache.table, work, ids, id_offsets):
            starts, stops = work.starts[:new], work.stops[:new]
            new_ids, new_offsets = self.words_flat(data, starts, stops)
            close_gaps(work, new_ids, new_offsets, ids, id_offsets)
            cache.add(data, starts, stops, work.hashes[:new], new_ids, new_offsets)

    def spans(self, data: Bytes, starts: Ints, stops: Ints) -> tuple[Ids, Ints]:
        """Ids of texts data[starts[i]:stops[i]], as `texts` gives them, in this thread.

        Without a Python object for each, unless the pre-tokenizer changes documents. Shapes and
        results as of `flat`.
        """
        if self._rewrite is None:
            return self.flat(*packed(data, starts, stops))
        places = zip(starts.tolist(), stops.tolist(), strict=True)
        texts = [data[start:stop].tobytes() for start, stop in places]
        return self._flat_texts(texts, offsets_of(texts))

    def forget_words(self) -> None:
        """Free the cache of words, which grows with use to some 20 MB."""
        self._cache.clear()
        self._scratch.clear()

    def text(self, text: bytes) -> Ids:
        """Ids of one text in UTF-8."""
        return self._flat_texts([text], offsets_of([text]))[0]

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Ids]:
        """Ids of each text in UTF-8, on `threads` threads (default: one a core)."""
        parts = self._portions(texts, threads).mapped(self._flat_texts)
        return [ids[a:b] for ids, ends in parts for a, b in pairwise(ends.tolist())]

    def joined(self, texts: Sequence[bytes], threads: int | None = None) -> tuple[Ids, Ints]:
        """Ids of all texts one after the other, and their offsets; arguments as of `texts`."""
        portions = self._portions(texts, threads)
        # A text has as many tokens as bytes at most.
        whole = _Joined(min(int(portions.offsets[-1]), MOST_IDS) + OVER)
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        if portions.workers > 1:
            parts = portions.mapped(self._flat_texts)
            for (first, stop), (ids, ends) in zip(portions.places, parts, strict=True):
                whole.room(len(ids))[: len(ids)] = ids
                whole.end += len(ids)
                np.add(ends, offsets[first], out=offsets[first : stop + 1])
            return whole.ids(), offsets
        with self._borrowed() as scratch:  # where the ids belong at once
            for first, stop in portions.places:
                data, starts = self._buffer(*portions.part(first, stop))
                ends, before = offsets[first : stop + 1], offsets[first]
                room = whole.room(int(starts[-1] - starts[0]) + OVER)
                self._write(scratch.work, data, starts, room, ends)
                whole.end += int(ends[-1])
                ends += before
        return whole.ids(), offsets

    def _portions(self, texts: Sequence[bytes], threads: int | None) -> _Portions:
        portions = _Portions(texts, threads)
        self._cache.expect(int(portions.offsets[-1]))
        return portions

    def _flat_texts(self, texts: Sequence[bytes], offsets: Ints) -> tuple[Ids, Ints]:
        return self.flat(*self._buffer(texts, offsets))

    def _buffer(self, texts: Sequence[bytes], offsets: Ints) -> tuple[Bytes, Ints]:
        """Texts, of sizes np.diff(offsets), as `flat` takes them."""
        if self._rewrite:
            texts = [self._rewrite(text) for text in texts]
            offsets = offsets_of(texts)
        return np.frombuffer(b"".join([*texts, bytes(PADDING)]), dtype=np.uint8), offsets

    def words(self, counts: WordCounts) -> tuple[Ids, Ints]:
        """Ids of each unique word: ids (N,) int32 and their offsets (W + 1,) int64."""
        return self.words_flat(counts.data, counts.offsets[:-1], counts.offsets[1:])

    def words_flat(self, data: Bytes, starts: Ints, stops: Ints) -> tuple[Ids, Ints]:
        """Ids of each byte string data[starts[i]:stops[i]], taken as one word."""
        return merge_words(data, starts, stops, *self._symbols, self._pairs)


def offsets_of(texts: Sequence[bytes]) -> Ints:
    """Where texts begin that are joined, and where the last one ends: (D + 1,) int64."""
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)), out=offsets[1:])
    return offsets


class _Portions:
    """Texts in portions of about `PORTION` bytes, texts[first:stop] for each of `places`."""

    def __init__(self, texts: Sequence[bytes], threads: int | None) -> None:
        self._texts = texts
        self.offsets = offsets_of(texts)
        self.places: list[tuple[int, int]] = []
        first = 0
        while first < len(texts):
            stop = int(np.searchsorted(self.offsets, self.offsets[first] + PORTION))
            stop = min(max(stop, first + 1), len(texts))
            self.places.append((first, stop))
            first = stop
        self.workers = max(1, min(len(self.places), threads or os.cpu_count() or 1))

    def part(self, first: int, stop: int) -> tuple[Sequence[bytes], Ints]:
        """Texts, and their offsets from 0 on."""
        return self._texts[first:stop], self.offsets[first : stop + 1] - self.offsets[first]

    def mapped(self, encode: Callable[[Sequence[bytes], Ints], T]) -> Iterator[T]:
        """`encode` of each portion, in order, on `workers` threads."""
        parts = (self.part(*place) for place in self.places)
        if self.workers == 1:
            yield from starmap(encode, parts)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            yield from pool.map(lambda part: encode(*part), parts)
