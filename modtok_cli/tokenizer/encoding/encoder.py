"""Encode texts and words: the core's encoder on texts as Python has them.

An `Encoder` may be used by any number of threads; they share a cache of words.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, starmap
from typing import TypeVar

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array, UInt8Array, offsets_of
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.core.binding import PADDING, EncoderWork, Splitter
from modtok_cli.core.segment import OVER, NativeEncoder, SegmenterHandle
from modtok_cli.core.text import packed, split
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import PreTokenizer

# Texts are passed to the core in portions of about this many bytes: enough portions for all
# threads, and little memory for the ids of a portion (at most four bytes per byte of text).
PORTION = 1 << 18

MOST_IDS = 1 << 28
"""Room for ids that is asked of the system at once; more is joined at the end."""

SHARED_IDS = 1 << 20
"""Room of an array that portions share: of huge pages, which are fast to come by."""

OWN_TRIE = 1 << 17
"""Bytes of new words after which a subset has a trie of its own. One of 24,000 tokens is built in
as much time as these were searched, and searches are then about twice as fast."""

_ODD = np.uint64(0xD6E8FEB86659FD93)

T = TypeVar("T")


class Encoder:
    """Texts to ids by a segmenter.

    Args:
        pretokenizer: changes documents, and splits them, unless `splitter` does.
        segmenter: splits words into tokens.
        splitter: splits documents into what is segmented and cached.
        alone: gives a segmenter with the same ids that is faster, but takes time to make.
    """

    _rewrite: Callable[[bytes], bytes] | None = None
    can_drop = True
    """Whether `dropped` gives tokens."""

    def __init__(
        self,
        pretokenizer: PreTokenizer,
        segmenter: SegmenterHandle,
        *,
        splitter: Splitter | None = None,
        alone: Callable[[], SegmenterHandle] | None = None,
    ) -> None:
        self._rewrite = pretokenizer.rewrite
        self._segmenter = segmenter
        self._splitter = splitter or pretokenizer.splitter
        self._native = NativeEncoder(self._splitter, segmenter)
        self._alone = alone
        self._searched = 0
        self._scratch: list[Int32Array] = []

    def flat(self, data: UInt8Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Ids of texts `data[offsets[i]:offsets[i + 1]]` in one buffer of UTF-8, as they are.

        `data` goes on for `PADDING` bytes after the last text. Returns ids (N,) int32 and their
        offsets (D + 1,) int64.
        """
        id_offsets = np.empty(len(offsets), dtype=np.int64)
        with self._borrowed(int(offsets[-1] - offsets[0]) + OVER) as ids:
            self._write(data, offsets, ids, id_offsets)
            return ids[: id_offsets[-1]].copy(), id_offsets

    @contextmanager
    def _borrowed(self, size: int) -> Iterator[Int32Array]:
        """Room for ids, which is kept, except for very long texts."""
        try:
            ids = self._scratch.pop()  # atomic: two threads never get the same
        except IndexError:
            ids = np.empty(0, dtype=np.int32)
        if len(ids) < size:
            ids = np.empty(size, dtype=np.int32)
        yield ids
        if len(ids) <= 8 * PORTION:
            self._scratch.append(ids)

    def _write(
        self, data: UInt8Array, offsets: Int64Array, ids: Int32Array, id_offsets: Int64Array
    ) -> None:
        """Write `flat`'s result to ids (at least bytes of the texts + OVER,) and id_offsets."""
        self._native.encode(data, offsets, ids, id_offsets)
        if self._alone is not None:
            self._go_alone(self._searched + self.spent.bytes)

    def _go_alone(self, searched: int) -> None:
        if self._alone is not None and searched > OWN_TRIE:
            self._segmenter, self._alone = self._alone(), None
            self._native.change(self._segmenter)

    @property
    def spent(self) -> EncoderWork:
        """The work of the core for texts so far."""
        return self._native.spent

    def spans(
        self, data: UInt8Array, starts: Int64Array, stops: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of texts data[starts[i]:stops[i]], as `texts` gives them, in this thread.

        Without a Python object for each, unless the pre-tokenizer changes documents. Shapes and
        results as of `flat`.
        """
        if self._rewrite is None:
            return self.flat(*packed(data, starts, stops))
        places = zip(starts.tolist(), stops.tolist(), strict=True)
        texts = [data[start:stop].tobytes() for start, stop in places]
        return self._flat_texts(texts, _offsets(texts))

    def forget_words(self) -> None:
        """Free the cache of words, which grows with use to some 20 MB."""
        self._native.forget()
        self._scratch.clear()

    def text(self, text: bytes) -> Int32Array:
        """Ids of one text in UTF-8."""
        return self._flat_texts([text], _offsets([text]))[0]

    def texts(self, texts: Sequence[bytes], threads: int | None = None) -> list[Int32Array]:
        """Ids of each text in UTF-8, on `threads` threads (default: one a core)."""
        parts = self._mapped(self._portions(texts, threads))
        return [ids[a:b] for ids, ends in parts for a, b in pairwise(ends.tolist())]

    def dropped(
        self, texts: Sequence[bytes], keys: Sequence[int], dropout: float
    ) -> list[Int32Array]:
        """Ids of each text where merges and pieces are left out, see `SegmenterHandle.segment`.

        A key (64 bits) and the place in the text decide what is left out.
        """
        data, offsets = self._buffer(texts, _offsets(texts))
        ends = [
            split(data[first : stop + PADDING], self._splitter) + first
            for first, stop in pairwise(offsets.tolist())
        ]
        counts = list(map(len, ends))
        stops = np.concatenate(ends)
        starts = np.concatenate([offsets[:1], stops])[: len(stops)]
        places = (starts - np.repeat(offsets[:-1], counts)).astype(np.uint64)
        mixed = (np.repeat(np.array(keys, dtype=np.uint64), counts) + places) * _ODD
        ids, id_offsets = self._segmenter.segment(
            data, starts, stops, mixed ^ (mixed >> np.uint64(32)), dropout
        )
        return np.split(ids, id_offsets[np.cumsum(counts)[:-1]])

    def joined(
        self, texts: Sequence[bytes], threads: int | None = None
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of all texts one after the other, and their offsets; arguments as of `texts`."""
        portions = self._portions(texts, threads)
        # A text has as many tokens as bytes at most.
        whole = _Joined(min(int(portions.offsets[-1]), MOST_IDS) + OVER)
        offsets = np.zeros(len(texts) + 1, dtype=np.int64)
        if portions.workers > 1:
            for (first, stop), (ids, ends) in zip(
                portions.places, self._mapped(portions), strict=True
            ):
                whole.room(len(ids))[: len(ids)] = ids
                whole.end += len(ids)
                np.add(ends, offsets[first], out=offsets[first : stop + 1])
            return whole.ids(), offsets
        for first, stop in portions.places:  # where the ids belong at once
            ends = self._append(whole, *portions.part(first, stop))[1]
            np.add(ends, offsets[first], out=offsets[first : stop + 1])
        return whole.ids(), offsets

    def _append(
        self, joined: _Joined, texts: Sequence[bytes], offsets: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        data, starts = self._buffer(texts, offsets)
        ends = np.empty(len(starts), dtype=np.int64)
        room = joined.room(int(starts[-1] - starts[0]) + OVER)
        self._write(data, starts, room, ends)
        joined.end += int(ends[-1])
        return room[: ends[-1]], ends

    def _mapped(self, portions: _Portions) -> Iterator[tuple[Int32Array, Int64Array]]:
        """Ids and offsets of each portion; several portions share an array."""
        if len(portions.places) == 1:
            return portions.mapped(self._flat_texts)
        arrays: list[_Joined] = []

        def encode(texts: Sequence[bytes], offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
            try:
                joined = arrays.pop()  # atomic: two threads never get the same
            except IndexError:
                joined = _Joined(SHARED_IDS)
            result = self._append(joined, texts, offsets)
            if joined.end <= SHARED_IDS - PORTION:
                arrays.append(joined)
            return result

        return portions.mapped(encode)

    def _portions(self, texts: Sequence[bytes], threads: int | None) -> _Portions:
        portions = _Portions(texts, threads)
        self._native.expect(int(portions.offsets[-1]))
        return portions

    def _flat_texts(
        self, texts: Sequence[bytes], offsets: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        return self.flat(*self._buffer(texts, offsets))

    def _buffer(self, texts: Sequence[bytes], offsets: Int64Array) -> tuple[UInt8Array, Int64Array]:
        """Texts, of sizes np.diff(offsets), as `flat` takes them."""
        if self._rewrite:
            texts = [self._rewrite(text) for text in texts]
            offsets = _offsets(texts)
        return np.frombuffer(b"".join([*texts, bytes(PADDING)]), dtype=np.uint8), offsets

    def words(self, counts: WordCounts) -> tuple[Int32Array, Int64Array]:
        """Ids of each unique word: ids (N,) int32 and their offsets (W + 1,) int64."""
        return self.words_flat(counts.data, counts.offsets[:-1], counts.offsets[1:])

    def words_flat(
        self, data: UInt8Array, starts: Int64Array, stops: Int64Array
    ) -> tuple[Int32Array, Int64Array]:
        """Ids of each byte string data[starts[i]:stops[i]], taken as one word."""
        if self._alone is not None:
            self._searched += int((stops - starts).sum())
            self._go_alone(self._searched)
        return self._segmenter.segment(data, starts, stops)


class _Joined:
    """Ids one after the other; `end` of them are in the array that is filled now."""

    def __init__(self, room: int) -> None:
        # Memory is touched only as ids come.
        self._ids = np.empty(room, dtype=np.int32)
        self._full: list[Int32Array] = []
        self.end = 0

    def room(self, size: int) -> Int32Array:
        """Where the next ids belong, at least `size` of them."""
        if self.end + size > len(self._ids):
            self._full.append(self._ids[: self.end])
            self._ids = np.empty(max(len(self._ids), size), dtype=np.int32)
            self.end = 0
        return self._ids[self.end :]

    def ids(self) -> Int32Array:
        """All of them; nothing can be added afterwards."""
        if self._full:
            return np.concatenate([*self._full, self._ids[: self.end]])
        self._ids.resize(self.end, refcheck=False)  # nothing is copied
        return self._ids


def _offsets(texts: Sequence[bytes]) -> Int64Array:
    return offsets_of(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))


class _Portions:
    """Texts in portions of about `PORTION` bytes, texts[first:stop] for each of `places`."""

    def __init__(self, texts: Sequence[bytes], threads: int | None) -> None:
        self._texts = texts
        self.offsets = _offsets(texts)
        self.places: list[tuple[int, int]] = []
        first = 0
        while first < len(texts):
            stop = int(np.searchsorted(self.offsets, self.offsets[first] + PORTION))
            stop = min(max(stop, first + 1), len(texts))
            self.places.append((first, stop))
            first = stop
        self.workers = max(1, min(len(self.places), threads or os.cpu_count() or 1))

    def part(self, first: int, stop: int) -> tuple[Sequence[bytes], Int64Array]:
        """Texts, and their offsets from 0 on."""
        return self._texts[first:stop], self.offsets[first : stop + 1] - self.offsets[first]

    def mapped(self, encode: Callable[[Sequence[bytes], Int64Array], T]) -> Iterator[T]:
        """`encode` of each portion, in order, on `workers` threads."""
        parts = (self.part(*place) for place in self.places)
        if self.workers == 1:
            yield from starmap(encode, parts)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self.workers) as pool:
            yield from pool.map(lambda part: encode(*part), parts)


def utf8(text: str) -> bytes:
    """UTF-8 of a text."""
    if not isinstance(text, str):
        raise UsageError(f"expected a string, got {type(text).__name__}", where="text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ModtokError(
            f"the text is not valid Unicode: lone surrogate at character {error.start}"
        ) from error


def strings(texts: Sequence[str]) -> list[bytes]:
    """UTF-8 of several texts."""
    return [utf8(text) for text in _several(texts)]


def in_utf8(texts: Sequence[str | bytes]) -> Sequence[bytes]:
    """Several texts, strings or UTF-8, as UTF-8; `texts` itself where all are bytes."""
    if set(map(type, _several(texts))) <= {bytes}:
        return texts  # type: ignore[return-value]
    return [text if isinstance(text, bytes) else utf8(text) for text in texts]


def _several(texts: Sequence[T]) -> Sequence[T]:
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise UsageError(
            f"expected several texts, got {type(texts).__name__}",
            where="texts",
            remedy="encode takes one",
        )
    return texts
