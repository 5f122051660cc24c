"""`modtok bpe-seq`: text of several languages in, a modular directory out."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.construct.append_checks import refuse_disagreement
from modtok_cli.construct.cancellable import CancellableProgress, HiddenProgress
from modtok_cli.construct.corpora import corpus_of, count_in_background, file_stamps
from modtok_cli.construct.existing_output import finished
from modtok_cli.construct.journal import INTERVAL_SECONDS, Journal, Saved, clear_finished
from modtok_cli.construct.references import reference_json, reference_of
from modtok_cli.construct.report import DEFAULT_K, DEFAULT_SPECIALS, BuildReport, warn_of_small
from modtok_cli.construct.specials import check_specials
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.learn.prune import count_tokens
from modtok_cli.learn.sequential import SequentialLearner
from modtok_cli.learn.state import GlobalMerges, check_budget
from modtok_cli.modular.directory import read_references
from modtok_cli.modular.tokenizer import Corpus, ModularTokenizer
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.languages import normalize
from modtok_cli.text.workspace import language_files

Ints = npt.NDArray[np.int64]

SEGMENTATIONS = ("merges", FEWEST_TOKENS)
ORDERS = ("alphabetical", "given", "size")
DEFAULTS = {"order": "alphabetical", "passes": 1, "unit_counts": "all"}


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
    append: Sequence[str] | None = None,
    references: bool = True,
    specials: Sequence[str] = (),
    errors: str = "strict",
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
    journal_seconds: float = INTERVAL_SECONDS,
) -> BuildReport:
    """Learn a modular tokenizer by sequential BPE (Algorithm 2 of the paper).

    Args:
        languages: which of those in `data`; None for all.
        output: the modular directory to write.
        k: tokens per language, special tokens and the 256 bytes included; default 24000.
        order: "alphabetical" (default), "given" (as in `languages`), "size" (most bytes first).
        passes: 2 to segment again with the adopted merges only; see `SequentialLearner`.
        unit_counts: "all" (the paper; default) or "word" (the authors' release).
        segmentation: "merges" (BPE; default), or "fewest-tokens": the same vocabulary, words
            segmented into the fewest tokens.
        append: languages to add, in this order, to the tokenizer in `output`; its own
            settings hold, and others are refused. Every older id and merge stays as it is.
        references: learn each language's monolingual tokenizer too.
        specials: special tokens, first in every vocabulary; by default end of text and padding.
        errors: what to do with invalid UTF-8: "strict", "replace", "skip".
        threads: how many to count and learn references on; default one a core.
        force: replace an output that is there.
        journal_seconds: how often to keep the state of a long build beside the output.

    Returns:
        A row per language: tokens, how many adopted, new ones, size of T after it.

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    base: ModularTokenizer | None = None
    started: dict[str, Any] = dict(DEFAULTS)
    told = {"order": order, "passes": passes, "unit_counts": unit_counts}
    if append:
        base = ModularTokenizer.load(output)
        started = _settings_of(base)
        refuse_disagreement(
            output,
            {
                "-k": (k, base.k),
                "--segmentation": (segmentation, base.segmentation),
                "--special": (tuple(specials) or None, base.vocabulary.specials),
                **{f"--{n.replace('_', '-')}": (told[n], started[n]) for n in told},
            },
        )
        k, specials, segmentation = base.k, base.vocabulary.specials, base.segmentation
        if languages:
            raise UsageError("--langs and --append exclude each other", remedy="give one of them")
        files = language_files(data, append)
        there = sorted(set(files) & set(base.languages))
        if there:
            clear_finished(output)
            raise UsageError(f"{output} has {', '.join(there)} already", where="--append")
    else:
        k, segmentation = DEFAULT_K if k is None else k, segmentation or "merges"
        specials = tuple(specials) or DEFAULT_SPECIALS
        started |= {name: value for name, value in told.items() if value is not None}
        check_budget(k, specials)
        check_specials(specials)
        if segmentation not in SEGMENTATIONS:
            raise UsageError(
                f"'{segmentation}' is not one of {', '.join(SEGMENTATIONS)}",
                where="--segmentation",
            )
        if started["order"] not in ORDERS:
            raise UsageError(f"'{order}' is not one of {', '.join(ORDERS)}", where="--order")
        files = language_files(data, languages)
    order, passes, unit_counts = (started[name] for name in DEFAULTS)
    names = sorted(files)
    if append or order == "given":
        # `files` has each language under its short code, whatever it was called by.
        names = list(dict.fromkeys(map(normalize, append or languages or names)))
    if not append:
        ordered = order != "size"  # which only the text tells
        done = finished(
            output, "bpe-seq", segmentation, names, k, started, specials, force, progress, ordered
        )
        if done is not None:
            return done

    journal = Journal(
        output,
        {
            "k": k,
            "settings": started,
            "segmentation": segmentation,
            "specials": specials,
            "languages": names,
            "append": base.signature if base else None,
            "references": references,
            "errors": errors,
            "files": file_stamps(files),
        },
        journal_seconds,
        force,
    )
    saved = journal.read()
    stoppable = CancellableProgress(progress)
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)
    try:
        build = _Build(
            k, specials, passes, unit_counts, segmentation, base, saved, references, stoppable, pool
        )
        if saved is not None:
            progress.note(f"going on after {', '.join(saved.learned.languages)}")
        todo = [name for name in names if name not in build.corpora]
        counted = count_in_background(pool, files, todo, errors, stoppable)
        if order == "size" and not append:
            todo.sort(key=lambda name: (-counted[name].result().size.bytes, name))
        with stoppable.task("languages", total=len(todo), unit="languages") as task:
            for name in todo:
                build.add(name, counted.pop(name).result())
                task.advance(1)
                if journal.due() and name != todo[-1]:
                    journal.write(build.learner.result(), build.notes(), build.references())
        tokenizer = ModularTokenizer.from_learned(
            build.learner.result(),
            algorithm="bpe-seq",
            k=k,
            settings=started,
            corpora=build.corpora,
            token_counts=build.token_counts() if segmentation == FEWEST_TOKENS else None,
        )
        kept = read_references(output) if append else {}
        # T's files are made while the last references are still being learned.
        tokenizer.save(output, lambda: {**kept, **build.references()})
    except BaseException:
        stoppable.stop()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()
    journal.remove()
    warn_of_small(build.lines, k, progress)
    return BuildReport(output, tokenizer.signature, build.lines)


class _Build:
    """The running state: the learner, the references under way, and a row per language."""

    def __init__(
        self,
        k: int,
        specials: Sequence[str],
        passes: int,
        unit_counts: str,
        segmentation: str,
        base: ModularTokenizer | None,
        saved: Saved | None,
        references: bool,
        progress: CancellableProgress,
        pool: ThreadPoolExecutor,
    ) -> None:
        start = saved.learned if saved else base.learned() if base else None
        self.learner = SequentialLearner(
            k, specials, passes=passes, unit_counts=unit_counts, start=start
        )
        self.corpora: dict[str, Corpus] = dict(base.corpora) if base else {}
        self.lines: list[dict[str, Any]] = []
        self._references: dict[str, bytes] = {}
        self._making: dict[str, Future[bytes]] = {}
        self._with_references = references
        self._fewest = segmentation == FEWEST_TOKENS
        self._token_counts: list[Ints | Future[Ints]] = (
            list(base.token_counts or ()) if base else []
        )
        self._progress = progress
        self._pool = pool
        if saved is not None:
            self.lines = saved.notes["lines"]
            for language, corpus in saved.notes["corpora"].items():
                self.corpora[language] = Corpus(**corpus)
            self._references = dict(saved.references)
            self._token_counts = [
                np.array(token_counts, dtype=np.int64)
                for token_counts in saved.notes["token_counts"]
            ]

    def add(self, language: str, counts: WordCounts) -> None:
        """Learn one language; its reference starts in another thread."""
        first = not self.learner.languages
        if self._with_references and not first:
            self._making[language] = self._pool.submit(
                reference_json,
                language,
                counts,
                self.learner.k,
                self.learner.merges.specials,
                progress=HiddenProgress(self._progress),
            )
        began = time.perf_counter()
        report = self.learner.add(language, counts, progress=self._progress)
        if self._with_references and first:
            # The first language is learned alone: its reference is what T is by then.
            self._making[language] = self._pool.submit(
                reference_of, language, counts, self.learner.k, self.learner.merges
            )
        if self._fewest:
            member = np.flatnonzero(self.learner.token_membership[:, -1])
            self._token_counts.append(
                self._pool.submit(_token_counts, counts, self.learner.merges, member)
            )
        self.corpora[language] = corpus_of(counts)
        self.lines.append(
            {
                "language": language,
                "tokens": report.tokens,
                "adopted": report.adopted,
                "new_tokens": report.new_tokens,
                "total": report.total,
                "seconds": round(time.perf_counter() - began, 3),
            }
        )

    def notes(self) -> dict[str, Any]:
        """What the journal keeps beside the learned arrays."""
        corpora = {language: asdict(corpus) for language, corpus in self.corpora.items()}
        token_counts = [row.tolist() for row in self.token_counts()]
        return {"lines": self.lines, "corpora": corpora, "token_counts": token_counts}

    def token_counts(self) -> list[Ints]:
        """Token counts of each language; waits for those in progress."""
        self._token_counts = [
            row.result() if isinstance(row, Future) else row for row in self._token_counts
        ]
        return [row for row in self._token_counts if not isinstance(row, Future)]

    def references(self) -> dict[str, bytes]:
        """References of all languages so far, waiting for those under way."""
        for language, future in list(self._making.items()):
            self._references[language] = future.result()
            del self._making[language]
        return dict(self._references)


def _token_counts(counts: WordCounts, merges: GlobalMerges, member: Ints) -> Ints:
    """How often a segmentation into fewest tokens uses each of the tokens `member` (n,); (n,)."""
    tokens = Vocabulary(merges.specials, merges.token_data, merges.token_offsets).take(member)
    return count_tokens(counts, tokens.tokens(), len(merges.specials))


def _settings_of(base: ModularTokenizer) -> dict[str, Any]:
    if base.algorithm != "bpe-seq":
        raise UsageError(
            f"a tokenizer made by {base.algorithm} cannot be extended by bpe-seq",
            where="--append",
            remedy="choose a directory that bpe-seq wrote",
        )
    return {**DEFAULTS, **base.settings}
