"""`modtok unigram-merge`: monolingual Unigram models, united and estimated anew by EM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.construct.cancellable import CancellableProgress, results_of
from modtok_cli.construct.corpora import corpus_of, count_in_background
from modtok_cli.construct.existing_output import finished
from modtok_cli.construct.report import BuildReport, warn_of_small
from modtok_cli.construct.unigram import learn_in_background, unigram_specials, workers
from modtok_cli.construct.unigram_journal import EM_SECONDS, UnigramJournal, em_mark
from modtok_cli.construct.unigram_models import (
    find_model,
    model_json,
    parse_weights,
    read_language_model,
)
from modtok_cli.learn.em import (
    FLOOR_COUNT,
    ITERATIONS,
    TOLERANCE,
    Estimate,
    Expectation,
    Halfway,
    Step,
    maximize,
    mean_start,
    rescored,
    uniform_start,
)
from modtok_cli.learn.pieces import LearnedPieces, unite
from modtok_cli.learn.unigram import check_unigram_budget
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.pretokens import UNIGRAM
from modtok_cli.text.workspace import language_files

INITS = ("uniform", "mean")
MODELS = Path("unigram")

ALGORITHM = "unigram-merge"


def unigram_merge(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("tokenizer"),
    k: int = 24000,
    models: Path | None = None,
    init: str = "uniform",
    weights: str | None = None,
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
    references: bool = True,
    specials: Sequence[str] = (),
    errors: str = "strict",
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
    journal_seconds: float = EM_SECONDS,
) -> BuildReport:
    """Make a modular tokenizer of monolingual Unigram models (Algorithm 1 of the paper).

    The vocabulary is the union of the languages' pieces; their probabilities are estimated
    anew over all the text together.

    Args:
        languages: which of those in `data`; None for all.
        k: tokens per language, special tokens and the 256 bytes included.
        models: directory of `<lang>.json` or `<lang>.model`, one for every language. None:
            take those of `unigram/` that were learned from this very text with these
            settings, and learn the others.
        init: "uniform" (the paper) or "mean" of the monolingual probabilities.
        weights: factors for the languages' counts, "fr=2,en=0.5", or "equal".
        tolerance, iterations: EM ends when the log-likelihood changes by less than
            `tolerance` of itself, or after so many iterations. 0 iterations, with
            `init` "mean": no EM, the mean of the models stays.
        references: keep the monolingual models, for `nsl` to measure against.
        force: replace an output that is there.
        journal_seconds: how often to keep the state of EM beside the output. Models are kept
            there as they are learned.

    Returns:
        A row per language: tokens, pieces of its own, pieces at the floor.

    Raises:
        ModtokError, UsageError: the text, the models, the settings or the output are not usable.
    """
    specials = unigram_specials(specials)
    check_unigram_budget(k, specials)
    if init not in INITS:
        raise UsageError(f"'{init}' is not one of {', '.join(INITS)}", where="--init")
    if iterations < 0 or not tolerance >= 0:
        raise UsageError("iterations and tolerance are 0 or more")
    if iterations == 0 and init == "uniform":
        raise UsageError(
            "without EM, a uniform start leaves all scores alike",
            where="--iterations",
            remedy="add --init mean to keep the mean of the models",
        )
    files = language_files(data, languages)
    factors = parse_weights(weights, list(files))
    settings = {"init": init, "weights": weights, "tolerance": tolerance, "iterations": iterations}
    done = finished(output, ALGORITHM, UNIGRAM, list(files), k, settings, specials, force, progress)
    if done is not None:
        return done
    journal = UnigramJournal(output, ALGORITHM, k, specials, interval=journal_seconds, force=force)
    stoppable = CancellableProgress(progress)
    pool = ThreadPoolExecutor(workers(threads))
    try:
        given = _given(models, list(files), specials)
        counted = count_in_background(pool, files, list(files), errors, stoppable, UNIGRAM)
        found = _models(pool, counted, given, models is not None, k, specials, journal, stoppable)
        tables = results_of(counted)
        if not factors:
            mean = sum(table.size.bytes for table in tables.values()) / len(tables)
            factors = {name: mean / table.size.bytes for name, table in tables.items()}
        united = unite(found)
        estimate = None
        if iterations:
            mark = em_mark(united, tables, factors, settings)
            begun = journal.halfway(mark)
            if begun is not None:
                progress.note(f"EM goes on after iteration {begun.steps[-1].iteration}")
            estimate = estimate_scores(
                united,
                tables,
                factors,
                init=init,
                tolerance=tolerance,
                iterations=iterations,
                threads=threads,
                progress=stoppable,
                begun=begun,
                keep=lambda state: journal.keep(mark, state),
            )
        tokenizer = ModularTokenizer.from_pieces(
            rescored(united, estimate) if estimate else united,
            algorithm=ALGORITHM,
            k=k,
            settings={**settings, "em": _outcome(estimate)},
            corpora={language: corpus_of(table) for language, table in tables.items()},
        )
        kept = {
            language: model_json(language, found[language], tables[language], k)
            for language in (tables if references else ())
        }
        tokenizer.save(output, kept)
    except BaseException:
        stoppable.stop()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()
    journal.remove()
    lines = _lines(tokenizer, estimate)
    warn_of_small(lines, k, progress)
    if estimate is not None and not estimate.converged:
        progress.warn(
            f"EM did not converge within {iterations} iterations: the log-likelihood still "
            f"changes by {estimate.steps[-1].change or 0:.1e} of itself"
        )
    return BuildReport(output, tokenizer.signature, lines)


def estimate_scores(
    united: LearnedPieces,
    tables: Mapping[str, WordCounts],
    factors: Mapping[str, float],
    *,
    init: str = "uniform",
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
    threads: int | None = None,
    progress: Progress = SILENT,
    begun: Halfway | None = None,
    keep: Callable[[Halfway], None] = lambda state: None,
) -> Estimate:
    """EM over the words of all languages, with a line of progress per iteration.

    `begun` and `keep` are those of `learn.em.maximize`.
    """
    if all(factors[language] == 1.0 for language in tables):
        # Many languages share words; a word that all have is then done once.
        expectation = Expectation(united, [merge_counts(list(tables.values()))], None, threads)
    else:
        expectation = Expectation(
            united, list(tables.values()), [factors[language] for language in tables], threads
        )
    start = uniform_start(united) if init == "uniform" else mean_start(united)
    with progress.task("EM", total=None, unit="iterations") as task:

        def report(step: Step) -> None:
            progress.note(step.line())
            task.advance(1)

        return maximize(
            expectation,
            start,
            first=united.first,
            tolerance=tolerance,
            iterations=iterations,
            report=report,
            begun=begun,
            keep=keep,
        )


def _given(
    directory: Path | None, languages: Sequence[str], specials: Sequence[str]
) -> dict[str, Path]:
    """Language → model file: of all languages if a directory is named, else what there is.

    Raises:
        UsageError: the named directory is none, or lacks a language.
    """
    place = directory or MODELS
    found = {language: find_model(place, language) for language in languages}
    if directory is not None:
        if not directory.is_dir():
            raise UsageError(
                "no such directory",
                where=str(directory),
                remedy="name one that modtok unigram wrote, or leave --models out",
            )
        missing = [language for language, path in found.items() if path is None]
        if missing:
            raise UsageError(
                f"no model for {', '.join(missing)}",
                where=str(directory),
                remedy=f"learn it: modtok unigram --langs {','.join(missing)}",
            )
    return {language: path for language, path in found.items() if path is not None}


def _models(
    pool: ThreadPoolExecutor,
    counted: Mapping[str, Future[WordCounts]],
    given: Mapping[str, Path],
    trusted: bool,
    k: int,
    specials: Sequence[str],
    journal: UnigramJournal,
    progress: Progress,
) -> dict[str, LearnedPieces]:
    """Every language's model: read where there is one that fits, else learned."""
    read: dict[str, LearnedPieces] = {}
    for language, path in given.items():
        if trusted:
            read[language], _ = read_language_model(path, language, specials)
        elif path.suffix == ".json":
            model, ours = read_language_model(path, language, specials)
            said = ours.provenance if ours is not None else {}
            if (
                said.get("k") == k
                and said.get("corpus") == counted[language].result().fingerprint()
            ):
                read[language] = model
                progress.note(f"{language}: model taken from {path}")
    todo = {language: future for language, future in counted.items() if language not in read}
    made = results_of(learn_in_background(pool, todo, k, specials, journal, progress))
    return {language: read.get(language) or made[language] for language in counted}


def _outcome(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    last = estimate.steps[-1]
    return {
        "iterations": last.iteration,
        "log_likelihood": last.log_likelihood,
        "converged": estimate.converged,
        "floor": estimate.floor,
    }


def _lines(tokenizer: ModularTokenizer, estimate: Estimate | None) -> list[dict[str, Any]]:
    """A row per language, and one for T."""
    members = tokenizer.token_membership
    first = len(tokenizer.vocabulary.specials) + 256
    floor = np.zeros(tokenizer.size, dtype=np.bool_)
    if estimate is not None:
        floor[first:] = estimate.expected[first:] < FLOOR_COUNT
    alone = members.sum(axis=1) == 1
    return [
        {
            "language": language,
            "tokens": int(members[:, column].sum()),
            "own": int((members[:, column] & alone).sum()),
            "at_the_floor": int((members[:, column] & floor).sum()),
            "total": tokenizer.size,
        }
        for column, language in enumerate(tokenizer.languages)
    ]
