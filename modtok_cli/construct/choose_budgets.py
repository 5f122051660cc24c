"""Budgets by language that parallel text chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.base.signature import digest
from modtok_cli.construct.cancellable import HiddenProgress, results_of
from modtok_cli.construct.learner_settings import LearnerSettings
from modtok_cli.construct.work import Work
from modtok_cli.learn.fair_budgets import equal_budgets, token_curve
from modtok_cli.learn.merges import LARGEST_BUDGET
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import language_files

MOST = 4
"""A language may get so many times k: BPE is learned this far to know what more tokens bring."""


@dataclass(frozen=True)
class ParallelText:
    """The same lines in all languages, by which budgets are chosen; and how far to go (0 to 1)."""

    counts: Mapping[str, WordCounts]
    share: float

    @classmethod
    def read(
        cls,
        place: Path,
        languages: Sequence[str],
        share: float,
        pretokenizer: PreTokenizer,
        reading: Reading,
        progress: Progress,
    ) -> ParallelText:
        """Count the words of a directory with a file for each language.

        Raises:
            ModtokError: a language is missing, or the numbers of lines differ.
        """
        files = language_files(place, languages, reading, known=languages, progress=progress)
        counts = {
            name: count_corpus(files[name], pretokenizer=pretokenizer, reading=reading.of(name))
            for name in languages
        }
        first = languages[0]
        for name, table in counts.items():
            lines, expected = table.size.documents, counts[first].size.documents
            if lines != expected:
                raise ModtokError(
                    f"not line-aligned: {lines} lines in {name}, {expected} in {first}",
                    where=place,
                    remedy="--fair needs the same lines in all languages",
                )
        return cls(counts, share)

    @property
    def record(self) -> dict[str, Any]:
        """What the manifest says of it."""
        names = sorted(self.counts)
        texts = digest(*(f"{name}:{self.counts[name].fingerprint()}".encode() for name in names))
        return {"texts": texts, "share": self.share}

    def budgets(self, learner: LearnerSettings, work: Work) -> dict[str, int]:
        """Budgets of the sum of equal ones, by plain BPE of each language.

        Fewest tokens and Unigram need other numbers of tokens, in about the same ratio in all
        languages.
        """
        most, specials = min(MOST * learner.k, LARGEST_BUDGET), learner.specials
        work.words.start(list(self.counts))

        def curve(language: str) -> Int64Array:
            with work.words.seen(language, most) as counts:
                merges = learn_plain(
                    counts,
                    most,
                    specials,
                    max_unspaced=learner.max_unspaced,
                    label=f"{language}: tokens by budget",
                    progress=HiddenProgress(work.progress),
                ).merges
                return token_curve(merges, self.counts[language])

        curves = results_of({name: work.submit(curve, name) for name in self.counts})
        base, total = len(specials) + 256, learner.k * len(curves)
        budgets = equal_budgets(curves, base, total, self.share)
        low, high = (each(budgets, key=budgets.__getitem__) for each in (min, max))
        work.progress.note(
            f"budgets from {budgets[low]:,} ({low}) to {budgets[high]:,} ({high}) tokens"
        )
        full = equal_budgets(curves, base, total)
        if held := [name for name, k in full.items() if k >= base + len(curves[name]) - 1]:
            work.progress.warn(
                f"{', '.join(held)}: budget held at {MOST} times k, or at the tokens that the text "
                "gives; a larger -k or more text is fairer"
            )
        return budgets
