"""The text of a run: its files, unpacked and divided into stages, and the texts of `--valid`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.text.languages import the_one
from modtok_cli.text.parallel import cores
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.manifest import languages_of
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.training.config import Config, Period
from modtok_cli.training.data.conversation import ChatFormat
from modtok_cli.training.data.sampling import Mixture, text_name
from modtok_cli.training.data.sources import Sources
from modtok_cli.training.data.text_store import TextStore, text_stores
from modtok_cli.training.distributed.ranks import raise_together, ranks_here
from modtok_cli.training.reads import check_answers, limited, reading_of, reads_of, samples_of
from modtok_cli.training.run import Run, Stage

TEXTS = ".text"
"""Directory of unpacked text, below that of all runs."""


def text_files(config: Config, progress: Progress = SILENT) -> dict[str, list[Path]]:
    """The files of text of a run by language, which has the name that it has in the tokenizer.

    The tokenizer need not be there yet: text can be prepared without it.

    Raises:
        UsageError: the tokenizer lacks some of the languages.
    """
    known = languages_of(config.data.tokenizer) if is_modular(config.data.tokenizer) else ()
    files = language_files(
        config.data.data, config.data.langs, config.data.reading, known, progress
    )
    strangers = [language for language in files if known and language not in known]
    if strangers:
        names = ", ".join(f"'{language}'" for language in strangers)
        both = [language for language in files if language in known]
        raise UsageError(
            f"the tokenizer has no language {names}, which {config.data.data} has",
            where=config.data.tokenizer,
            remedy=(f"choose others with --langs {','.join(both)}, or " if both else "")
            + f"add it with modtok bpe-seq --append {','.join(strangers)}",
        )
    return files


def texts_by_stage(config: Config, progress: Progress = SILENT) -> list[dict[str, list[Path]]]:
    """The `text_files` of each stage; raises as that."""
    found: dict[Any, dict[str, list[Path]]] = {}
    for period in config.periods:
        place = (period.config.data.data, period.config.data.langs)
        if place not in found:
            with period.locating():
                found[place] = text_files(period.config, progress)
    return [found[period.config.data.data, period.config.data.langs] for period in config.periods]


def sources_of(config: Config, stage: Config, languages: Collection[str]) -> Sources:
    """The rule that tells the sources of a stage's text apart, in languages that have weights of
    sources in some stage of this text.
    """
    labels = {
        text.partition("/")[0]
        for period in config.periods
        if period.config.sampling.sources and period.config.data.data == stage.data.data
        for text in period.config.sampling.sources
    }
    named = {the_one(label, list(languages)) or label for label in labels}
    return Sources(named, stage.data.data, config.data.source_field)


def by_source(
    config: Config, mixture: Mixture, stores: Mapping[str, TextStore], progress: Progress
) -> tuple[Mixture, dict[str, TextStore]]:
    """The mixture with the `sources` of a stage, and its texts by name; notes those left out."""
    texts = dict(stores)
    if config.sampling.sources:
        known = {language: store.sources for language, store in stores.items()}
        mixture = mixture.with_sources(config.sampling.sources, known)
    for language, weights in mixture.sources.items():
        store = texts.pop(language)
        texts |= {text_name(language, name): replace(store, source=name) for name in weights}
        if rest := sorted(store.sources.keys() - weights.keys()):
            progress.note(f"{language}: text of {', '.join(rest)} is not read, see data.sources")
    return mixture, texts


def check_validation(
    config: Config, languages: Sequence[str], progress: Progress
) -> dict[str, dict[str, list[Path]]]:
    """Files of --valid by name and language; notes languages that the tokenizer lacks."""
    texts: dict[str, dict[str, list[Path]]] = {}
    trained = {period.config.data.data for period in config.periods}
    for name, path in (config.evaluation.valid or {}).items():
        files = language_files(path, None, config.data.reading, languages, progress)
        if any(map(path.samefile, trained)):
            raise UsageError(
                f"{path} is the text of the run",
                where="--valid",
                remedy="use other text, or leave out",
            )
        known = {language: paths for language, paths in files.items() if language in languages}
        if not known:
            raise UsageError(
                f"{path} has no language of the tokenizer, but {', '.join(files)}", where="--valid"
            )
        unknown = sorted(set(files) - set(known))
        if unknown:
            progress.note(
                f"--valid {name}: the tokenizer has no {', '.join(unknown)}; not evaluated"
            )
        texts[name] = known
    return texts


def unpacked(
    config: Config,
    files: Sequence[Mapping[str, Sequence[Path]]],
    chat: ChatFormat | None,
    progress: Progress,
    threads: int | None = None,
) -> list[dict[str, TextStore]]:
    """The text of each stage, from its files by language; stages with the same files share it."""
    stores: list[dict[str, TextStore]] = []
    for number, (period, own) in enumerate(zip(config.periods, files, strict=True)):
        if own in files[:number]:
            stores.append(stores[files.index(own)])
            continue
        with period.locating():
            stores.append(
                text_stores(
                    own,
                    config.runs / TEXTS,
                    reading=reading_of(config, chat),
                    sources=sources_of(config, period.config, own),
                    threads=threads,
                    progress=progress,
                )
            )
            if chat is not None:
                check_answers(period.config, stores[-1], progress)
    return stores


def open_texts(run: Run) -> None:
    """Open the text of each stage, which becomes `stages`, and the texts of --valid."""
    config, subtokenizers, progress = run.config, run.subtokenizers, run.progress
    files = texts_by_stage(config, progress)
    valid = check_validation(config, subtokenizers.tokenizer.languages, progress)
    cache, reading = config.runs / TEXTS, reading_of(config, run.chat)
    error: ModtokError | None = None
    stores: list[dict[str, TextStore]] = []
    try:
        # The ranks share the files, and wait for each other outside of collectives.
        threads = max(1, cores() // ranks_here(run.ranks))
        stores = unpacked(config, files, run.chat, progress, threads)
        run.valid = {
            name: text_stores(by_language, cache, reading=reading, least=1, progress=progress)
            for name, by_language in valid.items()
        }
    except ModtokError as caught:
        error = caught
    raise_together(run.ranks, error)
    run.held_out = {name: store for one in reversed(stores) for name, store in one.items()}
    tokens = 0
    for period, own in zip(config.periods, stores, strict=True):
        with period.locating():
            run.stages.append(_stage(run, period, own, tokens))
        tokens += len(period.steps) * period.config.step_tokens


def _stage(run: Run, period: Period, stores: Mapping[str, TextStore], tokens: int) -> Stage:
    """A stage with its mixture; `stores` by language."""
    config, sampling = period.config, period.config.sampling
    sizes = {language: store.text_bytes for language, store in stores.items()}
    mixture = Mixture.of(sizes, sampling.mix, sampling.mix_rest)
    sampling.regime.check(mixture.languages)
    if sampling.dropout:
        run.subtokenizers.check_dropout()
    mixture, by_name = by_source(config, mixture, stores, run.progress)
    if sampling.max_epochs is not None:
        what = mixture, run.subtokenizers, samples_of(by_name)
        mixture = limited(config, mixture, reads_of(config, len(period.steps), *what))
    return Stage(run, period, by_name, mixture, tokens)
