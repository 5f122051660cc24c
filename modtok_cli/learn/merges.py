"""The result of BPE learning: tokens, merges, and the languages each belongs to."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array, UInt8Array, flatten, unflatten
from modtok_cli.base.errors import UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.base.memory import check_memory
from modtok_cli.base.progress import SILENT, Progress, Task
from modtok_cli.core.learn import LearnerHandle
from modtok_cli.text.counts import WordCounts


def byte_order() -> list[int]:
    """The 256 byte values in the order of GPT-2's byte alphabet.

    Printable bytes come first, then the rest, each ascending. The `tokenizers` library
    numbers its byte alphabet in this order and breaks ties between merges by these ids, so
    equal ids give equal merges.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + [byte for byte in range(256) if byte not in set(printable)]


def byte_ids(specials: int) -> Int32Array:
    """Id of each byte after `specials` special tokens; shape (256,) int32."""
    ids = np.empty(256, dtype=np.int32)
    ids[byte_order()] = np.arange(specials, specials + 256)
    return ids


@dataclass(frozen=True)
class LearnedMerges:
    """A BPE vocabulary with language membership.

    Ids: special tokens 0 … s-1, then the 256 bytes in `byte_order()`, then results of
    merges in order of creation. Merge m joins `merges[m, 0]` and `merges[m, 1]` to
    `merges[m, 2]`; m is its rank. A token can be the result of several merges.

    Shapes: token_data (B,) uint8; token_offsets (V + 1,) int64; merges (M, 3) int32;
    token_membership (V, L); merge_membership (M, L).
    """

    languages: tuple[str, ...]
    specials: tuple[str, ...]
    token_data: UInt8Array
    token_offsets: Int64Array
    merges: Int32Array
    token_membership: Membership
    merge_membership: Membership

    @property
    def size(self) -> int:
        """Number of tokens, special tokens and bytes included."""
        return len(self.token_offsets) - 1

    def token(self, index: int) -> bytes:
        """Bytes of token `index` (for a special token: its text)."""
        start, stop = self.token_offsets[index], self.token_offsets[index + 1]
        return self.token_data[start:stop].tobytes()


MAX_UNSPACED = 16
"""Characters of scripts without spaces in a learned token, at most, by default (docs/scale.md)."""

# As `begins_unspaced` of the core.
_UNSPACED = re.compile(rb"\xe0[\xb8-\xbf]|\xe1[\x80\x81\x9e\x9f]|[\xe3-\xe9][\x80-\xbf]")


def unspaced(token: bytes) -> int:
    """Characters of scripts without spaces, whole ones or cut after their second byte.

    These are Thai, Lao, Tibetan, Myanmar, Khmer, kana and Han.

    >>> unspaced(" の index".encode())
    1
    """
    return len(_UNSPACED.findall(token))


_PER_BYTE, _PER_WORD = 28, 48
"""Bytes of memory for each byte of the unique words: 1 for itself, 8 for its cell, 4 for the
symbol, 4 for the number of its pair at the start, 5 to 12 for positions. For each word: offsets and
count, and a cell at its end."""
_PER_TOKEN, _ROWS_PER_WORD = 4096, 200
"""Bytes of rows of pairs: of some 20 pairs for each token to learn, which are the frequent ones,
but of no more than the words have."""

LARGEST_BUDGET = 1 << 26
"""Tokens per language: ids have 32 bits, tries 27, and a union of languages must fit too."""

# Positions have 32 bits; a word takes one for each byte and one for its end.
_MOST_POSITIONS = (1 << 31) - 2


@dataclass
class GlobalMerges:
    """T's tokens and merges, without membership.

    Shapes: token_data (B,) uint8; token_offsets (V + 1,) int64; merges (M, 3) int32; slots (2^n,)
    int32, the index of the tokens' strings, or empty (`core.learn`).
    """

    specials: tuple[str, ...]
    token_data: UInt8Array
    token_offsets: Int64Array
    merges: Int32Array
    slots: Int32Array = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return len(self.token_offsets) - 1

    @property
    def base(self) -> int:
        """Number of special tokens and bytes, which are in every language."""
        return len(self.specials) + 256

    def strings(self) -> list[bytes]:
        """The bytes of each token."""
        return unflatten(self.token_data, self.token_offsets)

    def byte_ids(self) -> Int32Array:
        """Token id of each byte value, (256,) int32."""
        return byte_ids(len(self.specials))

    def with_members(
        self, languages: Sequence[str], tokens: Membership, merges: Membership
    ) -> LearnedMerges:
        """The result of learning, with its membership (V, L) and (M, L)."""
        arrays = (self.token_data, self.token_offsets, self.merges, tokens, merges)
        return LearnedMerges(tuple(languages), self.specials, *arrays)

    def cut(self, tokens: int, merges: int) -> GlobalMerges:
        """The first `tokens` tokens and `merges` merges."""
        offsets = self.token_offsets[: tokens + 1]
        return GlobalMerges(
            self.specials, self.token_data[: offsets[-1]], offsets, self.merges[:merges]
        )


def empty_merges(specials: Sequence[str]) -> GlobalMerges:
    """Special tokens and the 256 bytes, no merges."""
    if len(set(specials)) != len(specials) or not all(specials):
        raise UsageError("special tokens must be distinct and not empty", where="--special")
    pieces = [text.encode() for text in specials] + [bytes([byte]) for byte in byte_order()]
    return GlobalMerges(tuple(specials), *flatten(pieces), np.empty((0, 3), dtype=np.int32))


def check_budget(k: int, specials: Sequence[str]) -> None:
    """Check a budget against special tokens and bytes, and against the range of ids."""
    smallest = len(specials) + 256
    if k < smallest:
        raise UsageError(
            f"k = {k} is too small: {len(specials)} special tokens and 256 bytes count towards it",
            where="-k",
            remedy=f"give at least {smallest}",
        )
    check_id_range(k)


def check_id_range(k: int) -> None:
    """Refuse a budget of more tokens than ids have room for."""
    if k > LARGEST_BUDGET:
        raise UsageError(
            f"k = {k} is too large", where="-k", remedy=f"give at most {LARGEST_BUDGET}"
        )


class Spent(NamedTuple):
    """The work of learning a language, in steps of the core.

    scanned: pairs of the words, counted at the start or again; visited: positions read from lists
    of pairs; joined: those that were joined; rows: look-ups in the table of pairs for that;
    looked: entries of the heap that came to its top.
    """

    scanned: int
    visited: int
    joined: int
    rows: int
    looked: int


@dataclass
class Grown:
    """Result of one language: T, and the language's membership.

    `frequency` (V,) int64: how often each token occurs in the final segmentation of the
    language's text.
    """

    merges: GlobalMerges
    member: BoolArray
    merge_member: BoolArray
    frequency: Int64Array
    spent: Spent

    @property
    def size(self) -> int:
        """|V_i|."""
        return int(self.member.sum())


def least_count(counts: Int64Array, k: int) -> int:
    """A count that all merges of a vocabulary of `k` tokens reach.

    A word that occurs more often than the last pair that is merged is one token. So the last
    pair occurs at least as often as the k-th most frequent word. Too high a value costs time only.
    """
    if len(counts) <= k:
        return 1
    place = len(counts) - k
    return int(np.partition(counts, place)[place])


def learning_memory(words: int, size: int, k: int) -> int:
    """Bytes of memory that learning k tokens takes at most; `size`: bytes of the unique words."""
    rows = min(_PER_TOKEN * k, _ROWS_PER_WORD * words)
    return _PER_BYTE * size + _PER_WORD * words + rows


def can_learn(words: int, size: int, k: int, memory: int) -> bool:
    """Whether the core can learn k tokens from so many unique words in `memory` bytes."""
    return words + size <= _MOST_POSITIONS and learning_memory(words, size, k) <= memory


def grow(
    merges: GlobalMerges,
    symbols: Int32Array,
    word_offsets: Int64Array,
    counts: WordCounts,
    k: int,
    *,
    member: BoolArray | None = None,
    merge_member: BoolArray | None = None,
    max_unspaced: int = MAX_UNSPACED,
    label: str = "merging",
    progress: Progress = SILENT,
) -> Grown:
    """Run the compiled loop for one language, in a thread of its own.

    T, `merges`, is not changed. `symbols` (N,) int32 and `word_offsets` (W + 1,) int64 are the
    unique words of `counts` as ids of T; k is |V_i| to reach; `member` (V,) and `merge_member` (M,)
    is what is in V_i before the first step, by default the special tokens and the bytes. At most
    `max_unspaced` characters of a new token are of scripts without spaces (`unspaced`); 0: any
    number.

    The calling thread reports progress and handles Ctrl-C, which stops the loop.
    """
    positions = len(counts.data) + len(counts)
    if positions > _MOST_POSITIONS:
        raise UsageError(
            f"{positions:,} bytes of unique words; at most {_MOST_POSITIONS:,} are possible",
            remedy="leave out rare words with --min-count or --memory",
        )
    check_memory(
        learning_memory(len(counts), len(counts.data), k),
        f"learning {label}",
        "bound it with --memory, leave out rare words with --min-count, or use fewer --threads",
    )
    if member is None:
        member = np.zeros(merges.tokens, dtype=np.bool_)
        member[: merges.base] = True
    if merge_member is None:
        merge_member = np.zeros(len(merges.merges), dtype=np.bool_)
    learner = LearnerHandle(
        merges.token_data,
        merges.token_offsets,
        len(merges.specials),
        merges.merges,
        member.view(np.uint8),
        merge_member.view(np.uint8),
        merges.slots,
    )
    floor = least_count(counts.counts, k)
    signal = np.zeros(2, dtype=np.int64)
    _in_thread(
        lambda: learner.learn(
            symbols,
            word_offsets,
            counts.counts,
            k,
            floor=floor,
            most_unspaced=max_unspaced or _MOST_POSITIONS,
            signal=signal,
        ),
        signal,
        progress.task(label, total=k, unit="tokens"),
    )
    learned = learner.result()
    arrays = (learned.token_data, learned.token_offsets, learned.merges, learned.slots)
    return Grown(
        GlobalMerges(merges.specials, *arrays),
        learned.member.astype(np.bool_),
        learned.merge_member.astype(np.bool_),
        learned.frequency,
        Spent(*learned.work),
    )


def _in_thread(
    work: Callable[[], None], signal: Int64Array, task: AbstractContextManager[Task]
) -> None:
    """Run `work`, which sets signal[0] to what is done and stops at signal[1]."""
    failure: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    with task as bar:
        done = 0
        try:
            while thread.is_alive():
                thread.join(0.1)
                reached = int(signal[0])
                bar.advance(reached - done)
                done = reached
        except BaseException:
            signal[1] = 1
            thread.join()
            raise
    if failure:
        raise failure[0]
