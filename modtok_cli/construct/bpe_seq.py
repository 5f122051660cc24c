"""`modtok bpe-seq`: a modular tokenizer by sequential BPE."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.construct.cancellable import HiddenProgress
from modtok_cli.construct.existing_output import check_modular
from modtok_cli.construct.journal import Kept
from modtok_cli.construct.learner import BpeSettings, Learner
from modtok_cli.construct.merges_state import merges_from_arrays, merges_to_arrays
from modtok_cli.construct.pipeline import construct
from modtok_cli.construct.references import reference_json, reference_of
from modtok_cli.construct.request import BuildReport, Request
from modtok_cli.construct.work import Work
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.learn.prune import count_tokens
from modtok_cli.learn.sequential import SequentialLearner
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.labels import matching
from modtok_cli.text.reading import Reading

SEGMENTATIONS = ("merges", FEWEST_TOKENS)
ORDERS = ("alphabetical", "given", "size")

# Languages counted before the first is learned: enough that learning never waits for text.
_AHEAD = 2


@dataclass(frozen=True)
class SequentialSettings(BpeSettings):
    """Settings of sequential BPE; see `bpe_seq`."""

    order: str = "alphabetical"
    passes: int = 1
    unit_counts: str = "all"
    segmentation: str = field(default="merges", metadata={"unrecorded": True})

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("--segmentation", self.segmentation, SEGMENTATIONS),
            ("--order", self.order, ORDERS),
        ):
            if value not in choices:
                raise UsageError(f"'{value}' is not one of {', '.join(choices)}", where=name)


class SequentialBpe(Learner[SequentialSettings]):
    """Languages one after the other, each with the tokens and merges of those before it."""

    algorithm = "bpe-seq"
    settings_type = SequentialSettings

    def __init__(self, k: int, specials: Sequence[str], settings: SequentialSettings) -> None:
        super().__init__(k, specials, settings)
        self._rows: list[dict[str, Any]] = []
        self._token_counts: list[Int64Array | Future[Int64Array]] = []
        self._is_extension = False

    @property
    def segmentation(self) -> str:
        """Of the tokenizer; the merges are learned in either case."""
        return self.settings.segmentation

    def check(self) -> None:
        """Also what `SequentialLearner` checks."""
        super().check()
        self._begin(None)

    def _begin(self, learned: Any) -> None:
        self._learner = SequentialLearner(
            self.k,
            self.specials,
            unit_counts=self.settings.unit_counts,
            passes=self.settings.passes,
            start=learned,
        )

    def workers(self, threads: int) -> int:
        """The calling thread learns, and shares the rest."""
        return max(1, super().workers(threads) - 1)

    def order(self, languages: Sequence[str], requested: Sequence[str] | None) -> list[str]:
        """Alphabetical, or as requested; the order by size is known after counting."""
        if self._is_extension or self.settings.order == "given":
            # `languages` are labels in use, `requested` may be other codes of theirs.
            found = (matching(name, languages) for name in requested or sorted(languages))
            return list(dict.fromkeys(name for those in found for name in those))
        return sorted(languages)

    def check_output(self, request: Request, languages: Sequence[str]) -> BuildReport | None:
        """The order of the languages matters, and by size it is not known yet."""
        return check_modular(request, self, languages, ordered=self.settings.order != "size")

    def start(self, base: ModularTokenizer) -> None:
        """Keep all ids and merges of `base`."""
        self._is_extension = True
        self._begin(base.learned())
        self._token_counts = list(base.token_counts)

    def state(self) -> Kept:
        """All merges, rows and token counts so far."""
        learned = self._learner.result()
        notes = {
            "languages": learned.languages,
            "rows": self._rows,
            "token_counts": [row.tolist() for row in self._finished_token_counts()],
        }
        return Kept(merges_to_arrays(learned), notes)

    def restore(self, kept: Kept) -> list[str]:
        """Continue after the last language of the journal."""
        notes = kept.notes
        learned = merges_from_arrays(kept.arrays, notes["languages"], self.specials)
        rows = [dict(row) for row in notes["rows"]]
        token_counts = [np.array(row, dtype=np.int64) for row in notes["token_counts"]]
        done = [str(row["language"]) for row in rows]
        self._begin(learned)
        self._rows, self._token_counts = rows, list(token_counts)
        return done

    def learn(self, work: Work) -> None:
        """One language after the other; counting and references run in the background."""
        languages = work.languages
        by_size = self.settings.order == "size" and not self._is_extension
        work.start_counting(None if by_size else _AHEAD)
        if by_size:
            languages.sort(key=lambda name: (-work.counts(name).size.bytes, name))
        with work.progress.task("languages", total=len(languages), unit="languages") as task:
            for language in languages:
                self._add(language, work.take_counts(language), work)
                task.advance(1)
                if language != languages[-1]:
                    work.keep()

    def _add(self, language: str, counts: WordCounts, work: Work) -> None:
        is_first = not self._learner.languages
        if not is_first:
            work.reference(
                language,
                reference_json,
                language,
                counts,
                self.k,
                self.specials,
                progress=HiddenProgress(work.progress),
            )
        began = time.perf_counter()
        report = self._learner.add(language, counts, progress=work.progress)
        if is_first:
            # The first language is learned without others: T is its own reference.
            work.reference(language, reference_of, language, counts, self.k, self._learner.merges)
        if self.segmentation == FEWEST_TOKENS:
            member = np.flatnonzero(self._learner.token_members[-1])
            self._token_counts.append(
                work.submit(_token_counts, counts, self._learner.merges, member)
            )
        self._rows.append(
            {
                "language": language,
                "tokens": report.tokens,
                "adopted": report.adopted,
                "new_tokens": report.new_tokens,
                "total": report.total,
                "seconds": round(time.perf_counter() - began, 3),
            }
        )

    def _finished_token_counts(self) -> list[Int64Array]:
        """Token counts of each language; waits for those in progress."""
        found = [row.result() if isinstance(row, Future) else row for row in self._token_counts]
        self._token_counts = list(found)
        return found

    def result(self, work: Work) -> ModularTokenizer:
        """T after the last language."""
        is_fewest = self.segmentation == FEWEST_TOKENS
        return ModularTokenizer.from_learned(
            self._learner.result(),
            algorithm=self.algorithm,
            k=self.k,
            pretokenizer=self.pretokenizer,
            settings=self.recorded(),
            corpora=work.corpora,
            token_counts=self._finished_token_counts() if is_fewest else None,
        )

    def rows(self, output: ModularTokenizer) -> list[dict[str, Any]]:
        """Tokens, adopted and new tokens, size of T after the language, seconds."""
        return self._rows


def _token_counts(counts: WordCounts, merges: GlobalMerges, member: Int64Array) -> Int64Array:
    """How often a segmentation into fewest tokens uses each of the tokens `member` (n,); (n,)."""
    tokens = Vocabulary(merges.specials, merges.token_data, merges.token_offsets).take(member)
    return count_tokens(counts, tokens.tokens(), len(merges.specials))


def bpe_seq(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("tokenizer"),
    k: int | None = None,
    order: str | None = None,
    passes: int | None = None,
    unit_counts: str | None = None,
    segmentation: str | None = None,
    pretokenizer: str | None = None,
    append: Sequence[str] | None = None,
    tokenizer: Path | None = None,
    references: bool = True,
    specials: Sequence[str] = (),
    default_specials: bool = True,
    reading: Reading = Reading(),
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
    journal_seconds: float | None = None,
) -> BuildReport:
    """Learn a modular tokenizer by sequential BPE (Algorithm 2 of the paper).

    Args:
        languages: languages of `data` to learn; None for all.
        data: directory with the text of each language.
        output: modular directory to write.
        k: tokens per language, special tokens and the 256 bytes included; default 24000.
        order: "alphabetical" (default), "given" (as in `languages`), "size" (most bytes first).
        passes: 2 to segment again with the adopted merges only; see `SequentialLearner`.
        unit_counts: "all" (the paper; default) or "word" (the authors' release).
        segmentation: "merges" (BPE; default), or "fewest-tokens": the same vocabulary, words
            segmented into the fewest tokens.
        pretokenizer: name of the pre-tokenizer; default "bpe".
        append: languages to add, in this order, to `tokenizer`; its settings apply, and others
            are refused. All of its ids and merges stay the same, which is checked.
        tokenizer: tokenizer to extend. None: `output` in place; the old version is kept beside
            it as `NAME.SIGNATURE`.
        references: learn the monolingual tokenizer of each language too.
        specials: special tokens, after the default ones (end of text and padding).
        default_specials: include the default special tokens.
        reading: which field has the text, and handling of invalid UTF-8.
        threads: threads for counting and references; default one per core.
        force: replace an existing output.
        journal_seconds: least time between two writes of the journal.

    Returns:
        A row per language: tokens, adopted tokens, new tokens, size of T after it.

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    request = Request(
        output=output,
        languages=languages,
        data=data,
        k=k,
        specials=specials,
        default_specials=default_specials,
        append=append,
        tokenizer=tokenizer,
        references=references,
        reading=reading,
        threads=threads,
        force=force,
        progress=progress,
        journal_seconds=journal_seconds,
    )
    settings = {
        "order": order,
        "passes": passes,
        "unit_counts": unit_counts,
        "segmentation": segmentation,
        "pretokenizer": pretokenizer,
    }
    return construct(SequentialBpe, request, settings)
