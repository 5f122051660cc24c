"""Encode texts and words by a set of merges: the kernels with their tables and caches.

An `Encoder` may be used by any number of threads. They share a cache of words; each call takes
scratch of its own and returns it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
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

T = TypeVar("T")


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
        self._works: list[Work] = []

    @property
    def _splitter(self) -> Splitter:
        """How text is split into what is segmented and cached."""
        return self._pretokenizer.splitter

    def flat(self, data: Bytes, offsets: Ints) -> tuple[Ids, Ints]:
        """Ids of texts `data[offsets[i]:offsets[i + 1]]` in one buffer of UTF-8, as they are.

        `data` goes on for `PADDING` bytes after the last text. Returns ids (N,) int32 and their
        offsets (D + 1,) int64.
        """
        try:
            # list.pop is atomic: two threads never get the same scratch.
            work = self._works.pop()
        except IndexError:
            work = new_work()
        work.state[:] = 0
        ids = np.empty(int(offsets[-1] - offsets[0]) + 2, dtype=np.int32)
        id_offsets = np.empty(len(offsets), dtype=np.int64)
        entry, table = self._splitter
        cache = self._cache
        while new := advance(data, offsets, entry, table, cache.table, work, ids, id_offsets):
            starts, stops = work.starts[:new], work.stops[:new]
            new_ids, new_offsets = self.words_flat(data, starts, stops)
            close_gaps(work, new_ids, new_offsets, ids, id_offsets)
            cache.add(data, starts, stops, new_ids, new_offsets)
        self._works.append(work)
        return ids[: id_offsets[-1]].copy(), id_offsets

    def spans(self, data: Bytes, starts: Ints, stops: Ints) -> tuple[Ids, Ints]:
        """Ids of texts data[starts[i]:stops[i]], as `texts` gives them, in this thread.

        Without a Python object for each, unless the pre-tokenizer changes documents. Shapes and
        results as of `flat`.
        """
        if self._rewrite is None:
            return self.flat(*packed(data, starts, stops))
        places = zip(starts.tolist(), stops.tolist(), strict=True)
        found = self._portion([data[start:stop].tobytes() for start, stop in places])
        offsets = np.zeros(len(found) + 1, dtype=np.int64)
        np.cumsum([len(ids) for ids in found], out=offsets[1:])
        return np.concatenate(found), offsets

    def forget_words(self) -> None:
        """Free the cache of words, which grows with use to some 20 MB."""
        self._cache.clear()
        self._works.clear()

    def text(self, text: bytes) -> Ids:
        """Ids of one text in UTF-8."""
        return self._portion([text])[0]

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Ids]:
        """Ids of each text in UTF-8, on `threads` threads (default: one a core)."""
        parts = _in_portions(self._portion, texts, threads)
        return [ids for part in parts for ids in part]

    def joined(self, texts: Sequence[bytes], threads: int | None = None) -> tuple[Ids, Ints]:
        """Ids of all texts one after the other, and their offsets; arguments as of `texts`."""
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        # Memory is touched only as ids come; a text has as many tokens as bytes at most.
        room = min(sum(map(len, texts)), MOST_IDS)
        whole: list[Ids] = []
        ids = np.empty(room, dtype=np.int32)
        done = end = 0
        for part, ends in _in_portions(self._joined, texts, threads):
            if end + len(part) > len(ids):
                whole.append(ids[:end])
                ids = np.empty(max(room, len(part)), dtype=np.int32)
                end = 0
            ids[end : end + len(part)] = part
            end += len(part)
            last = done + len(ends) - 1
            offsets[done + 1 : last + 1] = offsets[done] + ends[1:]
            done = last
        if whole:
            return np.concatenate([*whole, ids[:end]]), offsets
        ids.resize(end, refcheck=False)  # nothing is copied
        return ids, offsets

    def _joined(self, texts: Sequence[bytes]) -> tuple[Ids, Ints]:
        if self._rewrite:
            texts = [self._rewrite(text) for text in texts]
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        data = np.frombuffer(b"".join([*texts, bytes(PADDING)]), dtype=np.uint8)
        return self.flat(data, offsets)

    def _portion(self, texts: Sequence[bytes]) -> list[Ids]:
        ids, ends = self._joined(texts)
        cuts = ends.tolist()
        return [ids[start:stop] for start, stop in pairwise(cuts)]

    def words(self, counts: WordCounts) -> tuple[Ids, Ints]:
        """Ids of each unique word: ids (N,) int32 and their offsets (W + 1,) int64."""
        return self.words_flat(counts.data, counts.offsets[:-1], counts.offsets[1:])

    def words_flat(self, data: Bytes, starts: Ints, stops: Ints) -> tuple[Ids, Ints]:
        """Ids of each byte string data[starts[i]:stops[i]], taken as one word."""
        return merge_words(data, starts, stops, *self._symbols, self._pairs)


def _in_portions(
    encode: Callable[[Sequence[bytes]], T], texts: Sequence[bytes], threads: int | None
) -> Iterator[T]:
    """`encode` of each portion of the texts, in order, on `threads` threads."""
    portions = _portions(texts)
    workers = min(len(portions), threads or os.cpu_count() or 1)
    if workers <= 1:
        yield from map(encode, portions)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(encode, portions)


def _portions(texts: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Runs of texts of about `PORTION` bytes each."""
    portions: list[Sequence[bytes]] = []
    first = size = 0
    for i, text in enumerate(texts):
        size += len(text)
        if size >= PORTION:
            portions.append(texts[first : i + 1])
            first, size = i + 1, 0
    if first < len(texts):
        portions.append(texts[first:])
    return portions
