"""Sequential BPE: Algorithm 2 of the paper, one language after the other.

Each language segments its words with the tokenizer T of the earlier languages. Until it has
k tokens it then takes the more frequent of two candidates: a token of T that it does not have
(adopted with its ancestors) or a new merge (appended to T).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.learn.merges import LearnedMerges
from modtok_cli.learn.state import (
    GlobalMerges,
    Grown,
    Marks,
    as_learned,
    check_budget,
    empty_merges,
    grow,
)
from modtok_cli.text.counts import WordCounts

UNIT_COUNTS = ("all", "word")


@dataclass(frozen=True)
class LanguageReport:
    """Result of one language: tokens in V_i, tokens adopted from T, tokens new in T."""

    language: str
    tokens: int
    adopted: int
    new_tokens: int
    new_merges: int
    total: int


def _widened(marks: Marks, rows: int) -> Marks:
    """`marks` with rows for the new tokens of T, which no earlier language has."""
    wide = np.zeros((rows, marks.shape[1]), dtype=np.bool_)
    wide[: len(marks)] = marks
    return wide


class SequentialLearner:
    """Adds languages to a modular BPE tokenizer, in the order of the calls to `add`.

    Args:
        k: budget per language; special tokens and the 256 bytes count towards it.
        specials: special tokens; they have the first ids.
        unit_counts: "all" counts every occurrence of a token, as in the paper; "word" only
            occurrences as a whole word, as in the authors' release.
        passes: with 2, a language segments its words again with only its adopted merges, and
            learns its new merges from that.
        start: an existing tokenizer to extend; all its ids and merges stay unchanged.
    """

    def __init__(
        self,
        k: int,
        specials: Sequence[str] = (),
        *,
        unit_counts: str = "all",
        passes: int = 1,
        start: LearnedMerges | None = None,
    ) -> None:
        check_budget(k, specials)
        if unit_counts not in UNIT_COUNTS:
            raise UsageError(f"'{unit_counts}' is not one of all, word", where="--unit-counts")
        if passes < 1:
            raise UsageError(f"{passes} is not 1 or more", where="--passes")
        self.k = k
        self.whole_words_only = unit_counts == "word"
        self.passes = passes
        self.reports: list[LanguageReport] = []
        if start is None:
            self.merges = empty_merges(specials)
            self.languages: list[str] = []
            self.token_membership: Marks = np.zeros((self.merges.tokens, 0), dtype=np.bool_)
            self.merge_membership: Marks = np.zeros((0, 0), dtype=np.bool_)
        else:
            if tuple(specials) != start.specials:
                raise UsageError("the special tokens differ from those of the tokenizer to extend")
            self.merges = GlobalMerges(
                start.specials, start.token_data, start.token_offsets, start.merges
            )
            self.languages = list(start.languages)
            self.token_membership = start.token_membership
            self.merge_membership = start.merge_membership

    def add(
        self, language: str, counts: WordCounts, *, progress: Progress = SILENT
    ) -> LanguageReport:
        """Learn one more language from its word counts.

        Raises:
            UsageError: the tokenizer already has the language.
        """
        if language in self.languages:
            raise UsageError(f"the tokenizer already has language '{language}'")
        before = self.merges
        grown = self._pass(before, counts, None, language, progress)
        for _ in range(1, self.passes):
            grown = self._pass(before, counts, grown, language, progress)
        self._record(language, grown)
        report = LanguageReport(
            language=language,
            tokens=grown.size,
            adopted=int(grown.member[before.base : before.tokens].sum()),
            new_tokens=grown.merges.tokens - before.tokens,
            new_merges=len(grown.merges.merges) - len(before.merges),
            total=grown.merges.tokens,
        )
        self.reports.append(report)
        return report

    def _pass(
        self,
        before: GlobalMerges,
        counts: WordCounts,
        previous: Grown | None,
        language: str,
        progress: Progress,
    ) -> Grown:
        """One run of the loop; `previous` is the pass whose adopted merges are kept."""
        member = merge_member = None
        active = np.ones(len(before.merges), dtype=np.uint8)
        if previous is not None:
            merge_member = previous.merge_member[: len(before.merges)].copy()
            active = merge_member.view(np.uint8).copy()
            # Only results of the kept merges: a token may be the result of a dropped merge.
            member = np.zeros(before.tokens, dtype=np.bool_)
            member[: before.base] = True
            member[before.merges[merge_member, 2]] = True
        symbols, word_offsets = segment(before, counts, active)
        return grow(
            before,
            symbols,
            word_offsets,
            counts,
            self.k,
            member=member,
            merge_member=merge_member,
            whole_words_only=self.whole_words_only,
            label=language,
            progress=progress,
        )

    def _record(self, language: str, grown: Grown) -> None:
        self.merges = grown.merges
        self.languages.append(language)
        self.token_membership = np.column_stack(
            [_widened(self.token_membership, len(grown.member)), grown.member]
        )
        self.merge_membership = np.column_stack(
            [_widened(self.merge_membership, len(grown.merge_member)), grown.merge_member]
        )

    def result(self) -> LearnedMerges:
        """The tokenizer after the last language that was added."""
        return as_learned(self.merges, self.languages, self.token_membership, self.merge_membership)


def segment(
    merges: GlobalMerges, counts: WordCounts, active: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The unique words as token ids by T's active merges: (N,) int32, (W + 1,) int64."""
    from modtok_cli.learn.word_kernel import build_pair_table, encode_words

    if not len(merges.merges):
        return merges.byte_ids()[counts.data], counts.offsets
    keys, ranks = build_pair_table(merges.merges)
    symbols, offsets = encode_words(
        counts.data, counts.offsets, merges.byte_ids(), merges.merges, keys, ranks, active
    )
    return symbols, offsets
