"""`modtok unigram-merge`: monolingual Unigram models, united and re-estimated by EM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.construct.cancellable import results_of
from modtok_cli.construct.pipeline import construct
from modtok_cli.construct.request import BuildReport, Request
from modtok_cli.construct.unigram import UnigramLearner
from modtok_cli.construct.unigram_models import (
    find_model,
    model_json,
    parse_weights,
    read_language_model,
)
from modtok_cli.construct.unigram_state import em_mark
from modtok_cli.construct.work import Work
from modtok_cli.learn.em import (
    FLOOR_COUNT,
    ITERATIONS,
    TOLERANCE,
    Estimate,
    Expectation,
    Halfway,
    Step,
    Way,
    maximize,
    mean_start,
    rescored,
    uniform_start,
)
from modtok_cli.learn.pieces import LearnedPieces, unite
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.reading import Reading

INITS = ("uniform", "mean")
MODELS = Path("unigram")


@dataclass(frozen=True)
class UnigramMergeSettings:
    """Settings of merged Unigram; see `unigram_merge`."""

    init: str = "uniform"
    weights: str | None = None
    tolerance: float = TOLERANCE
    iterations: int = ITERATIONS
    models: Path | None = field(default=None, metadata={"unrecorded": True})

    def __post_init__(self) -> None:
        if self.init not in INITS:
            raise UsageError(f"'{self.init}' is not one of {', '.join(INITS)}", where="--init")
        if not 0 <= self.iterations < 1 << 31:
            raise UsageError(
                f"{self.iterations} is not between 0 and 2^31 - 1", where="--iterations"
            )
        if not 0 <= self.tolerance < float("inf"):
            raise UsageError(f"{self.tolerance} is not a number of 0 or more", where="--tolerance")
        if self.iterations == 0 and self.init == "uniform":
            raise UsageError(
                "without EM, a uniform start gives all pieces the same score",
                where="--iterations",
                remedy="add --init mean to keep the mean of the models",
            )


class UnitedUnigram(UnigramLearner[UnigramMergeSettings]):
    """Monolingual models in the thread pool, then EM over the text of all languages."""

    algorithm = "unigram-merge"
    settings_type = UnigramMergeSettings

    def check_output(self, request: Request, languages: Sequence[str]) -> BuildReport | None:
        """Also check the weights, now that the languages are known."""
        parse_weights(self.settings.weights, languages)
        return super().check_output(request, languages)

    def learn(self, work: Work) -> None:
        """Read or learn every model, unite them, estimate the probabilities."""
        settings = self.settings
        paths = _model_paths(settings.models, work.languages)
        work.start_counting()
        self._models = self._all_models(paths, work)
        tables = results_of(work.all_counts())
        factors = parse_weights(settings.weights, work.languages)
        if not factors:
            mean = sum(table.size.bytes for table in tables.values()) / len(tables)
            factors = {name: mean / table.size.bytes for name, table in tables.items()}
        self._united = unite(self._models)
        self._estimate = self._em(tables, factors, work) if settings.iterations else None
        for language, table in tables.items():
            work.reference(language, model_json, language, self._models[language], table, self.k)

    def _all_models(self, paths: Mapping[str, Path], work: Work) -> dict[str, LearnedPieces]:
        """Every language's model: read if a usable one exists, else learned.

        Models of the directory that the user named are used as they are; those of `unigram/`
        only if they were learned from this text with this k and these special tokens.
        """
        read: dict[str, LearnedPieces] = {}
        for language, path in paths.items():
            if self.settings.models is not None:
                read[language], _ = read_language_model(path, language, self.specials)
            elif path.suffix == ".json":
                model, ours = read_language_model(path, language, self.specials)
                provenance = ours.provenance if ours is not None else {}
                fingerprint = work.counts(language).fingerprint()
                if provenance.get("k") == self.k and provenance.get("corpus") == fingerprint:
                    read[language] = model
                    work.progress.note(f"{language}: using the model {path}")
        missing = [language for language in work.languages if language not in read]
        learned = results_of(self.start_models(missing, work))
        return {language: read.get(language) or learned[language] for language in work.languages}

    def _em(
        self, tables: Mapping[str, WordCounts], factors: Mapping[str, float], work: Work
    ) -> Estimate:
        mark = em_mark(self._united, tables, factors, self.recorded())
        start = self._state.em(mark)
        if start is not None:
            work.progress.note(f"EM resumes after iteration {start.steps[-1].iteration}")

        def keep(state: Halfway) -> None:
            self._state.set_em(mark, state)
            work.keep()

        estimate = estimate_scores(
            self._united,
            tables,
            factors,
            init=self.settings.init,
            tolerance=self.settings.tolerance,
            iterations=self.settings.iterations,
            threads=work.request.threads,
            progress=work.progress,
            resume=start,
            keep=keep,
        )
        if not estimate.converged:
            work.progress.warn(
                f"EM did not converge within {self.settings.iterations} iterations: the relative "
                f"change of the log-likelihood is still {estimate.steps[-1].change or 0:.1e}"
            )
        return estimate

    def result(self, work: Work) -> ModularTokenizer:
        """The united pieces with the estimated scores."""
        estimate = self._estimate
        return ModularTokenizer.from_pieces(
            rescored(self._united, estimate) if estimate else self._united,
            algorithm=self.algorithm,
            k=self.k,
            settings={**self.recorded(), "em": _outcome(estimate)},
            corpora=work.corpora,
        )

    def rows(self, output: ModularTokenizer) -> list[dict[str, Any]]:
        """Tokens, tokens of no other language, tokens at the floor, size of T."""
        members = output.token_membership
        first = len(output.vocabulary.specials) + 256
        floor = np.zeros(output.size, dtype=np.bool_)
        if self._estimate is not None:
            floor[first:] = self._estimate.expected[first:] < FLOOR_COUNT
        alone = members.sum(axis=1) == 1
        return [
            {
                "language": language,
                "tokens": int(members[:, column].sum()),
                "own": int((members[:, column] & alone).sum()),
                "at_the_floor": int((members[:, column] & floor).sum()),
                "total": output.size,
            }
            for column, language in enumerate(output.languages)
        ]


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
    resume: Halfway | None = None,
    keep: Callable[[Halfway], None] = lambda state: None,
) -> Estimate:
    """Run EM over the words of all languages, with a note per iteration.

    `resume` and `keep` are those of `learn.em.maximize`.
    """
    if all(factors[language] == 1.0 for language in tables):
        # Languages share words; a shared word is then processed once.
        expectation = Expectation(united, [merge_counts(list(tables.values()))], None, threads)
    else:
        expectation = Expectation(
            united, list(tables.values()), [factors[language] for language in tables], threads
        )
    start = uniform_start(united) if init == "uniform" else mean_start(united)
    with progress.task("EM", total=100, unit="%") as task:
        way = Way(tolerance, iterations)

        def report(step: Step) -> None:
            progress.note(step.line())
            task.describe(f"EM, iteration {step.iteration}")
            task.advance(way.percent(step))

        return maximize(
            expectation,
            start,
            first=united.first,
            tolerance=tolerance,
            iterations=iterations,
            report=report,
            resume=resume,
            keep=keep,
        )


def _model_paths(directory: Path | None, languages: Sequence[str]) -> dict[str, Path]:
    """Language → model file: of all languages if a directory is named, else those that exist.

    Raises:
        UsageError: the named directory does not exist, or lacks a language.
    """
    place = directory or MODELS
    found = {language: find_model(place, language) for language in languages}
    if directory is not None:
        if not directory.is_dir():
            raise UsageError(
                "is not a directory",
                where=str(directory),
                remedy="give a directory that modtok unigram wrote, or omit --models",
            )
        missing = [language for language, path in found.items() if path is None]
        if missing:
            raise UsageError(
                f"no model for {', '.join(missing)}",
                where=str(directory),
                remedy=f"learn it: modtok unigram --langs {','.join(missing)}",
            )
    return {language: path for language, path in found.items() if path is not None}


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


def unigram_merge(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("tokenizer"),
    k: int | None = None,
    models: Path | None = None,
    init: str = "uniform",
    weights: str | None = None,
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
    references: bool = True,
    specials: Sequence[str] = (),
    default_specials: bool = True,
    reading: Reading = Reading(),
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
    journal_seconds: float | None = None,
) -> BuildReport:
    """Build a modular tokenizer from monolingual Unigram models (Algorithm 1 of the paper).

    The vocabulary is the union of the languages' pieces; their probabilities are estimated
    again over the text of all languages.

    Args:
        languages: languages of `data` to learn; None for all.
        data: directory with the text of each language.
        output: modular directory to write.
        k: tokens per language, special tokens and the 256 bytes included; default 24000.
        models: directory with `<lang>.json` or `<lang>.model` for every language. None: use
            those of `unigram/` that were learned from this text with these settings, and
            learn the others.
        init: "uniform" (the paper) or "mean" of the monolingual probabilities.
        weights: factors for the languages' counts, "fr=2,en=0.5", or "equal".
        tolerance, iterations: EM ends when the relative change of the log-likelihood is less
            than `tolerance`, or after so many iterations. 0 iterations with `init` "mean":
            no EM, the mean of the models stays.
        references: keep the monolingual models, for `nsl` to measure against.
        specials: special tokens, after `<unk>` and the default ones (end of text and padding).
        default_specials: include the default special tokens.
        reading: which field has the text, and handling of invalid UTF-8.
        threads: threads to use; default one per core.
        force: replace an existing output.
        journal_seconds: least time between two writes of the state of EM. Models are written
            when they are learned.

    Returns:
        A row per language: tokens, tokens of no other language, tokens at the floor.

    Raises:
        ModtokError, UsageError: the text, the models, the settings or the output are not usable.
    """
    request = Request(
        output=output,
        languages=languages,
        data=data,
        k=k,
        specials=specials,
        default_specials=default_specials,
        references=references,
        reading=reading,
        threads=threads,
        force=force,
        progress=progress,
        journal_seconds=journal_seconds,
    )
    settings = {
        "init": init,
        "weights": weights,
        "tolerance": tolerance,
        "iterations": iterations,
        "models": models,
    }
    return construct(UnitedUnigram, request, settings)
