"""Encode texts and words by a set of merges: the kernels with their tables and caches.

An `Encoder` may be used by any number of threads: each call takes a word cache of its own and
returns it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from modtok_cli.modular.encode_kernel import Work, advance, finish_block, new_words, new_work
from modtok_cli.modular.merge_kernel import pair_table
from modtok_cli.modular.symbol_kernel import Symbols, merge_words
from modtok_cli.modular.word_cache import Table, keep, new_table, with_room
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
        self._caches: list[tuple[Table, Work]] = []

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
            # list.pop is atomic: two threads never get the same cache.
            cache, work = self._caches.pop()
        except IndexError:
            cache, work = new_table(), new_work()
        work.state[:] = 0
        ids = np.empty(int(offsets[-1] - offsets[0]) + 2, dtype=np.int32)
        id_offsets = np.empty(len(offsets), dtype=np.int64)
        entry, table = self._splitter
        while advance(data, offsets, entry, table, cache, work, ids, id_offsets):
            words, word_offsets = new_words(data, work)
            new, new_offsets = self.words_flat(words, word_offsets)
            finish_block(work, offsets, cache, new, new_offsets, ids, id_offsets)
            cache = with_room(cache, word_offsets)
            keep(words, word_offsets, new, new_offsets, cache)
        self._caches.append((cache, work))
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
        """Free the caches of words, which grow with use to some 20 MB each."""
        self._caches.clear()

    def text(self, text: bytes) -> Ids:
        """Ids of one text in UTF-8."""
        return self._portion([text])[0]

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Ids]:
        """Ids of each text in UTF-8, on `threads` threads (default: one a core)."""
        portions = _portions(texts)
        workers = min(len(portions), threads or os.cpu_count() or 1)
        if workers <= 1:
            parts = [self._portion(portion) for portion in portions]
        else:
            with ThreadPoolExecutor(workers) as pool:
                parts = list(pool.map(self._portion, portions))
        return [ids for part in parts for ids in part]

    def _portion(self, texts: Sequence[bytes]) -> list[Ids]:
        if self._rewrite:
            texts = [self._rewrite(text) for text in texts]
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        data = np.frombuffer(b"".join([*texts, bytes(PADDING)]), dtype=np.uint8)
        ids, ends = self.flat(data, offsets)
        cuts = ends.tolist()
        return [ids[cuts[i] : cuts[i + 1]] for i in range(len(texts))]

    def words(self, counts: WordCounts) -> tuple[Ids, Ints]:
        """Ids of each unique word: ids (N,) int32 and their offsets (W + 1,) int64."""
        return self.words_flat(counts.data, counts.offsets)

    def words_flat(self, data: Bytes, offsets: Ints) -> tuple[Ids, Ints]:
        """Ids of each byte string `data[offsets[i]:offsets[i + 1]]`, taken as one word."""
        return merge_words(data, offsets, *self._symbols, self._pairs)


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
