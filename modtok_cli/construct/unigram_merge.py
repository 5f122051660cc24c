"""`modtok unigram-merge`: monolingual Unigram models, united and re-estimated by EM."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Unpack

import numpy as np

from modtok_cli.base import parameters
from modtok_cli.base.errors import UsageError, missing
from modtok_cli.base.option import Option
from modtok_cli.base.public import public
from modtok_cli.construct.bpe_merge import members_of, united_rows
from modtok_cli.construct.cancellable import results_of
from modtok_cli.construct.grow import grow_published, is_published
from modtok_cli.construct.learner import LearnedTokenizer
from modtok_cli.construct.parameters import (
    BudgetByLanguage,
    BuildOptions,
    ExtendedTokenizer,
    FairShare,
    FairTexts,
    JournalSeconds,
    LearnReferences,
)
from modtok_cli.construct.pipeline import construct
from modtok_cli.construct.request import BuildReport, Destination, LearnerOptions, TrainingText
from modtok_cli.construct.states import em_mark
from modtok_cli.construct.unigram import UnigramLearner
from modtok_cli.construct.unigram_models import (
    find_model,
    model_json,
    parse_weights,
    read_language_model,
)
from modtok_cli.construct.work import Work
from modtok_cli.learn.em import (
    FLOOR_COUNT,
    ITERATIONS,
    TOLERANCE,
    EmStep,
    Estimate,
    Expectation,
    Way,
    maximize,
    rescored,
)
from modtok_cli.learn.pieces import LearnedPieces, unite
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.parameters import ModularOutput

MODELS = Path("unigram")


def weights_text(weights: str | Mapping[str, float]) -> str:
    """Return weights as text: `fr=2,en=0.5`.

    Raises:
        ValueError: neither text nor a mapping.
    """
    if isinstance(weights, Mapping):
        return ",".join(f"{name}={value}" for name, value in weights.items())
    if not isinstance(weights, str):
        raise ValueError(f"expected text or a mapping, got {weights!r}")
    return weights


class UnitedUnigram(UnigramLearner):
    """Monolingual models in the thread pool, then EM over the text of all languages."""

    algorithm = "unigram-merge"

    def check_output(
        self, destination: Destination, languages: Sequence[str]
    ) -> LearnedTokenizer | None:
        """Check the weights too, now that the languages are known."""
        parse_weights(self.settings.weights, languages)
        return super().check_output(destination, languages)

    def learn(self, work: Work) -> None:
        """Read or learn every model, unite them, estimate the probabilities."""
        settings = self.settings
        paths = _model_paths(settings.models, work.languages)
        work.words.start(work.languages)
        self._models = self._all_models(paths, work)
        tables = results_of(work.words.all())
        factors = parse_weights(settings.weights, work.languages)
        if not factors:
            mean = sum(table.size.bytes for table in tables.values()) / len(tables)
            factors = {name: mean / table.size.bytes for name, table in tables.items()}
        self._united = unite(self._models)
        self._estimate = self._em(tables, factors, work) if settings.iterations else None
        for language, table in tables.items():
            work.references.make(
                language,
                model_json,
                language,
                self._models[language],
                table,
                self.k_of(language),
            )

    def _all_models(self, paths: Mapping[str, Path], work: Work) -> dict[str, LearnedPieces]:
        """Return every language's model: read if a usable one exists, else learned.

        Models of the directory that the user named are used as they are; models of `unigram/`
        only if they were learned from this text with this k and these special tokens.
        """
        read: dict[str, LearnedPieces] = {}
        for language, path in paths.items():
            if self.settings.models is not None:
                read[language], _ = read_language_model(path, language, self.specials)
            elif path.suffix == ".json":
                model, ours = read_language_model(path, language, self.specials)
                provenance = ours.provenance if ours is not None else {}
                fingerprint = work.words.of(language).fingerprint()
                if (
                    provenance.get("k") == self.k_of(language)
                    and provenance.get("corpus") == fingerprint
                ):
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

        def keep(state: Estimate) -> None:
            self._state.set_em(mark, state)
            work.keep()

        settings, progress, threads = self.settings, work.progress, work.text.threads
        if all(factors[language] == 1.0 for language in tables):
            # Languages share words; a shared word is then processed once.
            words, weights = [merge_counts(list(tables.values()))], None
        else:
            words, weights = list(tables.values()), [factors[language] for language in tables]
        with progress.task("EM", total=100, unit="%") as task:
            way = Way(TOLERANCE, settings.iterations)

            def report(step: EmStep) -> None:
                progress.note(step.line())
                task.describe(f"EM, iteration {step.iteration}")
                task.advance(way.percent(step))

            estimate = maximize(
                Expectation(self._united, words, weights, threads),
                iterations=settings.iterations,
                report=report,
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
        """Return the united pieces with the estimated scores."""
        estimate = self._estimate
        learned = rescored(self._united, estimate) if estimate else self._united
        made = self.made(learned, work)
        return replace(made, settings={**made.settings, "em": _outcome(estimate, made)})

    def rows(self, output: ModularTokenizer) -> list[dict[str, Any]]:
        """Return tokens, tokens of one language, tokens at the floor, size of T."""
        outcome = output.settings["em"]
        none = dict.fromkeys(output.languages, 0)
        return united_rows(output, "at_the_floor", outcome["at_the_floor"] if outcome else none)


def _model_paths(directory: Path | None, languages: Sequence[str]) -> dict[str, Path]:
    """Return the model file of each language: of all if a directory is named, else those there are.

    Raises:
        UsageError: the named directory does not exist, or lacks a language.
    """
    place = directory or MODELS
    paths = {language: find_model(place, language) for language in languages}
    if directory is not None:
        if not directory.is_dir():
            remedy = "give a directory that modtok unigram wrote, or omit --models"
            raise missing(directory, remedy)
        absent = [language for language, path in paths.items() if path is None]
        if absent:
            raise UsageError(
                f"no model for {', '.join(absent)}",
                where=directory,
                remedy=f"learn it: modtok unigram --langs {','.join(absent)}",
            )
    return {language: path for language, path in paths.items() if path is not None}


def _outcome(estimate: Estimate | None, made: ModularTokenizer) -> dict[str, Any] | None:
    if estimate is None:
        return None
    first = len(made.vocabulary.specials) + 256
    floor = np.zeros(made.size, dtype=np.bool_)
    floor[first:] = estimate.expected[first:] < FLOOR_COUNT
    last = estimate.steps[-1]
    return {
        "iterations": last.iteration,
        "log_likelihood": last.log_likelihood,
        "converged": estimate.converged,
        "floor": estimate.floor,
        "at_the_floor": members_of(made, floor),
    }


@public
def unigram_merge(
    languages: parameters.Langs = None,
    *,
    k: BudgetByLanguage = None,
    fair: FairTexts = None,
    fair_share: FairShare = None,
    models: Annotated[
        parameters.FilePath | None,
        Option(
            "Directory of models, LANG.json or LANG.model. By default, matching models in unigram/ "
            "are used and missing ones are learned.",
            metavar="DIR",
        ),
    ] = None,
    weights: Annotated[
        str | Mapping[str, float] | None,
        Option(
            "Weight of each language, such as fr=2,en=0.5; equal: equal total weight.",
            kind=str,
            metavar="LANG=X,...",
            parse=weights_text,
        ),
    ] = None,
    iterations: Annotated[
        int,
        Option(
            "Maximum number of EM iterations; with 0, scores are the mean of the models'.",
            metavar="N",
            low=0,
            high=2**31 - 1,
        ),
    ] = ITERATIONS,
    append: Annotated[
        parameters.Languages | None,
        parameters.languages_option(
            "Languages to add. Ids and scores of the tokenizer, a published one, stay unchanged.",
            "--append",
            "appended",
        ),
    ] = None,
    tokenizer: ExtendedTokenizer = None,
    references: LearnReferences = None,
    output: ModularOutput = None,
    journal_seconds: JournalSeconds = None,
    **how: Unpack[BuildOptions],
) -> BuildReport:
    """Merge monolingual Unigram models into a modular tokenizer.

    Each language keeps its N pieces; shared pieces are stored once. Expectation-maximization
    over the text of all languages reestimates their probabilities. A compact tokenizer can be
    extracted for any subset of the languages. Without `languages`, all languages of the data are
    used. This is Algorithm 1 of the paper.

    A published Unigram tokenizer (XLM-R, T5) grows: with `append`, `tokenizer` is its
    tokenizer.json, the directory of a model, or the output of adopt, and `k` the number of new
    pieces of each appended language, whose scores EM finds while those of the old pieces stay.

    Returns:
        A report, as `bpe_seq`; rows have tokens, tokens of one language, tokens at the floor
        of EM, size of T.

    Examples:
        >>> report = modtok.unigram_merge("en,fi", weights={"fi": 2.0}, output="pieces", k=600)
        >>> modtok.load("pieces").segmentation
        'unigram'

    Raises:
        ModtokError, UsageError: the text, the models, the settings or the output are not usable.
    """
    options = LearnerOptions(
        unigram_merge,
        how,
        k,
        fair=fair,
        fair_share=fair_share,
        models=parameters.optional_path(models),
        weights=weights,
        iterations=iterations,
    )
    destination = Destination(
        output or "tokenizer",
        how.get("force"),
        append=append,
        tokenizer=tokenizer,
        references=references,
        journal_seconds=journal_seconds,
    )
    text = TrainingText(languages, how)
    if append is not None:
        if tokenizer is None or not is_published(destination.source):
            raise UsageError(
                "grows published tokenizers only",
                where="--append",
                remedy="give one with -t, or learn all languages again",
            )
        options.values["iterations"] = None if iterations == ITERATIONS else iterations
        return grow_published("unigram-merge", options, text, destination)
    return construct(UnitedUnigram, options, text, destination)
