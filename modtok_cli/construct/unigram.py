"""`modtok unigram`: ordinary Unigram tokenizers, one per language or one for all."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest
from modtok_cli.construct.cancellable import CancellableProgress, results_of
from modtok_cli.construct.corpora import corpus_of, count_in_background
from modtok_cli.construct.existing_output import check_files
from modtok_cli.construct.report import DEFAULT_SPECIALS, BuildReport, warn_of_small
from modtok_cli.construct.unigram_journal import UnigramJournal
from modtok_cli.construct.unigram_models import model_json, tokenizer_of
from modtok_cli.learn.pieces import UNKNOWN, LearnedPieces
from modtok_cli.learn.unigram import check_unigram_budget, learn_unigram
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.pretokens import UNIGRAM
from modtok_cli.text.workspace import language_files


def unigram_specials(given: Sequence[str]) -> tuple[str, ...]:
    """Special tokens of a Unigram vocabulary: the unknown piece, then those asked for."""
    return (UNKNOWN, *(tuple(given) or DEFAULT_SPECIALS))


def workers(threads: int | None) -> int:
    """How many languages to learn at a time; the trainer has threads of its own."""
    cores = threads or os.cpu_count() or 1
    return max(min(cores, 2), cores // 4)


def unigram(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path | None = None,
    k: int = 24000,
    joint: bool = False,
    specials: Sequence[str] = (),
    errors: str = "strict",
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> BuildReport:
    """Learn Unigram tokenizers of `k` tokens by the SentencePiece trainer.

    What is learned of several languages is kept beside the output until all are.

    Without `joint`, `output` (default `unigram/`) holds a `<lang>.json` and a `<lang>.model`
    per language. With it, `output` (default `unigram-joint/`) is a tokenizer directory with
    one vocabulary over the text of all languages together: the shared baseline.

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    specials = unigram_specials(specials)
    check_unigram_budget(k, specials)
    files = language_files(data, languages)
    output = output or Path("unigram-joint" if joint else "unigram")
    check_files(output, joint, (".json", ".model"), force)
    journal = UnigramJournal(output, "unigram", k, specials, force=force)
    stoppable = CancellableProgress(progress)
    pool = ThreadPoolExecutor(workers(threads))
    try:
        counted = count_in_background(pool, files, list(files), errors, stoppable, UNIGRAM)
        if joint:
            report = _joint(results_of(counted), output, k, specials, stoppable)
        else:
            made = learn_in_background(pool, counted, k, specials, journal, stoppable)
            report = _separate(made, counted, output, k)
    except BaseException:
        stoppable.stop()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()
    journal.remove()
    warn_of_small(report.lines, k, progress)
    return report


def learn_in_background(
    pool: ThreadPoolExecutor,
    counted: Mapping[str, Future[WordCounts]],
    k: int,
    specials: Sequence[str],
    journal: UnigramJournal,
    progress: Progress,
) -> dict[str, Future[LearnedPieces]]:
    """Start learning every language's model; the pool's threads take them in turn.

    What the journal has is not learned again, and what is learned it gets.
    """

    def learn(language: str) -> LearnedPieces:
        counts = counted[language].result()
        model = journal.model(language, counts)
        if model is not None:
            progress.note(f"{language}: learned before the interruption")
            return model
        model = learn_unigram(language, counts, k, specials, progress=progress)
        journal.add(language, counts, model)
        return model

    return {language: pool.submit(learn, language) for language in counted}


def _joint(
    tables: Mapping[str, WordCounts],
    output: Path,
    k: int,
    specials: Sequence[str],
    progress: Progress,
) -> BuildReport:
    languages = tuple(sorted(tables))
    everything = merge_counts([tables[language] for language in languages])
    model = learn_unigram(",".join(languages), everything, k, specials, progress=progress)
    every = np.ones((model.size, len(languages)), dtype=np.bool_)
    tokenizer = ModularTokenizer.from_pieces(
        replace(model, languages=languages, token_membership=every),
        algorithm="unigram",
        k=k,
        settings={"joint": True},
        corpora={language: corpus_of(tables[language]) for language in languages},
    )
    tokenizer.save(output)
    lines: list[dict[str, Any]] = [{"language": ",".join(languages), "tokens": tokenizer.size}]
    return BuildReport(output, tokenizer.signature, lines)


def _separate(
    made: Mapping[str, Future[LearnedPieces]],
    counted: Mapping[str, Future[WordCounts]],
    output: Path,
    k: int,
) -> BuildReport:
    models = results_of(made)
    with atomic_directory(output) as beside:
        contents = []
        for language, model in models.items():
            contents.append(model_json(language, model, counted[language].result(), k))
            (beside / f"{language}.json").write_bytes(contents[-1])
            (beside / f"{language}.model").write_bytes(tokenizer_of(model, language).to_model())
    lines = [{"language": language, "tokens": model.size} for language, model in models.items()]
    return BuildReport(output, digest(*contents), lines)
