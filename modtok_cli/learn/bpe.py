"""Plain BPE on word counts: the monolingual reference, and the joint baseline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.learn.merges import LearnedMerges
from modtok_cli.learn.state import GlobalMerges, Grown, as_learned, check_budget, empty_merges, grow
from modtok_cli.text.counts import WordCounts


def learn_plain(
    counts: WordCounts,
    k: int,
    specials: Sequence[str] = (),
    *,
    label: str = "BPE",
    progress: Progress = SILENT,
) -> Grown:
    """Merge the most frequent pair until the vocabulary has k tokens; ties: smaller ids."""
    check_budget(k, specials)
    start: GlobalMerges = empty_merges(specials)
    symbols = start.byte_ids()[counts.data]
    return grow(start, symbols, counts.offsets, counts, k, label=label, progress=progress)


def learn_bpe(
    counts: WordCounts,
    k: int,
    specials: Sequence[str] = (),
    *,
    languages: Sequence[str] = ("und",),
    progress: Progress = SILENT,
) -> LearnedMerges:
    """Learn one BPE vocabulary of at most `k` tokens, special tokens and bytes included.

    Each step merges the most frequent adjacent pair; ties go to the smaller left id, then the
    smaller right id. The result has fewer than k tokens if no word has two symbols left.
    Every token belongs to all of `languages`.

    >>> table = WordCounts.from_pairs([(b"aab", 5), (b"ab", 3)], "bpe")
    >>> [learn_bpe(table, 258).token(i) for i in (256, 257)]
    [b'ab', b'aab']
    """
    grown = learn_plain(counts, k, specials, progress=progress)
    columns = len(languages)
    return as_learned(
        grown.merges,
        languages,
        np.ones((grown.merges.tokens, columns), dtype=np.bool_),
        np.ones((len(grown.merges.merges), columns), dtype=np.bool_),
    )
