"""Sequential BPE: Algorithm 2 of the paper, one language after the other.

Each language segments its words with the tokenizer T of the earlier languages. Until it has
k tokens it then takes the more frequent of two candidates: a token of T that it does not have
(adopted with its ancestors) or a new merge (appended to T).
"""

from collections.abc import Sequence

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.core.segment import Pairs, SegmenterHandle, Symbols
from modtok_cli.learn.merges import (
    MAX_UNSPACED,
    GlobalMerges,
    Grown,
    LearnedMerges,
    check_budget,
    empty_merges,
    grow,
)
from modtok_cli.text.counts import WordCounts


class SequentialLearner:
    """Adds languages to a modular BPE tokenizer, in the order of the calls to `add`.

    Args:
        k: budget per language; special tokens and the 256 bytes count towards it.
        specials: special tokens; they have the first ids.
        passes: with 2, a language segments its words again with only its adopted merges, and
            learns its new merges from that.
        max_unspaced: characters of scripts without spaces in a new token, at most (`grow`).
        start: an existing tokenizer to extend; all its ids and merges stay unchanged.
    """

    def __init__(
        self,
        k: int,
        specials: Sequence[str] = (),
        *,
        passes: int = 1,
        max_unspaced: int = MAX_UNSPACED,
        start: LearnedMerges | None = None,
    ) -> None:
        check_budget(k, specials)
        if passes < 1:
            raise UsageError(f"{passes} is not 1 or more", where="--passes")
        self.k = k
        self.passes = passes
        self.max_unspaced = max_unspaced
        # Ids of the tokens, and ranks of the merges, of each language.
        self.token_members: list[Int64Array] = []
        self.merge_members: list[Int64Array] = []
        self._pairs: Pairs | None = None  # the merges of T
        if start is None:
            self.merges = empty_merges(specials)
            self.languages: list[str] = []
        else:
            if tuple(specials) != start.specials:
                raise UsageError("the tokenizer to extend has other special tokens")
            self.merges = GlobalMerges(
                start.specials, start.token_data, start.token_offsets, start.merges
            )
            self.languages = list(start.languages)
            columns = range(len(start.languages))
            self.token_members = [start.token_membership.ids(i) for i in columns]
            self.merge_members = [start.merge_membership.ids(i) for i in columns]

    def add(
        self,
        language: str,
        counts: WordCounts,
        k: int | None = None,
        *,
        progress: Progress = SILENT,
    ) -> None:
        """Learn one more language from its word counts; `k`: another budget for it."""
        if language in self.languages:
            raise UsageError(f"the tokenizer already has language '{language}'")
        before, k = self.merges, k or self.k
        grown = self._pass(before, counts, None, k, language, progress)
        for _ in range(1, self.passes):
            grown = self._pass(before, counts, grown, k, language, progress)
        self._record(language, grown)

    def _pass(
        self,
        before: GlobalMerges,
        counts: WordCounts,
        previous: Grown | None,
        k: int,
        language: str,
        progress: Progress,
    ) -> Grown:
        """One run of the loop; `previous` is the pass whose adopted merges are kept."""
        member = merge_member = None
        if previous is None:
            if self._pairs is None:
                self._pairs = Pairs(before.merges)
            self._pairs.extend(before.merges)
            pairs = self._pairs
        else:
            merge_member = previous.merge_member[: len(before.merges)].copy()
            pairs = Pairs(before.merges[merge_member])
            # Only results of the kept merges: a token may be the result of a dropped merge.
            member = np.zeros(before.tokens, dtype=np.bool_)
            member[: before.base] = True
            member[before.merges[merge_member, 2]] = True
        symbols, word_offsets = segment(before, counts, pairs)
        return grow(
            before,
            symbols,
            word_offsets,
            counts,
            k,
            member=member,
            merge_member=merge_member,
            max_unspaced=self.max_unspaced,
            label=language,
            progress=progress,
        )

    def _record(self, language: str, grown: Grown) -> None:
        self.merges = grown.merges
        self.languages.append(language)
        self.token_members.append(np.flatnonzero(grown.member))
        self.merge_members.append(np.flatnonzero(grown.merge_member))

    def result(self) -> LearnedMerges:
        """The tokenizer after the last language that was added."""
        tokens, merges, languages = self.merges.tokens, self.merges.merges, len(self.languages)
        return self.merges.with_members(
            self.languages,
            Membership.of_columns(tokens, self.token_members, languages),
            Membership.of_columns(len(merges), self.merge_members, languages),
        )


def segment(
    merges: GlobalMerges, counts: WordCounts, pairs: Pairs | None = None
) -> tuple[Int32Array, Int64Array]:
    """The unique words as token ids by T: (N,) int32 and their offsets (W + 1,) int64.

    `pairs`: the merges of T to use; by default all.
    """
    if not len(merges.merges):
        return merges.byte_ids()[counts.data], counts.offsets
    segmenter = SegmenterHandle.by_merges(pairs or Pairs(merges.merges), Symbols(merges.byte_ids()))
    return segmenter.segment(counts.data, counts.offsets[:-1], counts.offsets[1:])


def learn_plain(
    counts: WordCounts,
    k: int,
    specials: Sequence[str] = (),
    *,
    max_unspaced: int = MAX_UNSPACED,
    label: str = "BPE",
    progress: Progress = SILENT,
) -> Grown:
    """Learn plain BPE of at most `k` tokens, special tokens and bytes included.

    Each step merges the most frequent adjacent pair; ties go to the smaller left id, then the
    smaller right id. The result has fewer than k tokens if no word has two symbols left.

    >>> table = WordCounts.from_pairs([(b"aab", 5), (b"ab", 3)], "bpe")
    >>> learn_plain(table, 258).merges.strings()[256:]
    [b'ab', b'aab']
    """
    check_budget(k, specials)
    start: GlobalMerges = empty_merges(specials)
    symbols = start.byte_ids()[counts.data]
    return grow(
        start,
        symbols,
        counts.offsets,
        counts,
        k,
        max_unspaced=max_unspaced,
        label=label,
        progress=progress,
    )
