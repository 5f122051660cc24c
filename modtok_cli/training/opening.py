"""Create the directory of a new run, or open the directory of a run to resume.

A run's directory is enough to resume it: config.json holds every option, `tokenizer/` is a
copy of the tokenizer, and the text is found relative to the directory, at its old place, or
where `--data` says.
"""

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, remove_directory, writing
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.remote import is_remote, path_of
from modtok_cli.text.languages import the_one
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.containment import containment
from modtok_cli.tokenizer.manifest import languages_of
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.training import checkpoint
from modtok_cli.training.config import Config, run_name
from modtok_cli.training.data.sampling import Mixture, Regime, text_name
from modtok_cli.training.data.sources import Sources
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.evaluations import fitted
from modtok_cli.training.initial import origin_of
from modtok_cli.training.resolve import resolve, resumed
from modtok_cli.training.rundir import CONFIG, LATEST, RunDirectory, point_latest
from modtok_cli.training.settings import OPTIONS, RunSettings, plain
from modtok_cli.training.stored_config import config_from_json

TOKENIZER = "tokenizer"
TEXTS = ".text"
# Kinds of text whose places config.json stores.
_DATA, _VALID, _STAGE, _TASKS = "data", "valid", "stage", "tasks"


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


def choose_run(
    settings: RunSettings, *, resume: bool, gpu: bool
) -> tuple[RunDirectory, Config, list[str]]:
    """The run's directory, its configuration, and what a resumed run changes, in sentences."""
    if not resume:
        config = resolve(settings, gpu=gpu, source=origin_of(settings))
        files = texts_by_stage(config)
        if settings.sampling.sampling is None:
            config = config.changed(sampling=str(Regime.usual(len(files[0]))))
        config = fitted(config, settings, len(set().union(*files)))
        _check_stages(config, files)
        directory = RunDirectory(config.runs / run_name(config))
        _check_path(directory.path)
        return directory, config, []
    directory, then = stored_run(settings)
    then, own = _find_texts(directory, then, settings), directory.path / TOKENIZER
    then = then.changed(
        tokenizer=own if own.is_dir() else settings.data.tokenizer or then.data.tokenizer
    )
    others: Any = {"data": None, "tokenizer": None}
    step = checkpoint.last_step(directory.checkpoints) or 0
    config, notes = resumed(then, settings.changed(**others), str(directory.path), step)
    return directory, config, notes


def _check_stages(config: Config, files: Sequence[Mapping[str, object]]) -> None:
    """Check the languages of each stage, before text is unpacked."""
    for period, own in zip(config.periods, files, strict=True):
        with period.locating():
            mixture = Mixture.of(
                dict.fromkeys(own, 1), period.config.sampling.mix, period.config.sampling.mix_rest
            )
            period.config.sampling.regime.check(mixture.languages)


def stored_run(settings: RunSettings) -> tuple[RunDirectory, Config]:
    """The run that `--resume` continues: `name`, else `latest`."""
    runs = settings.runs or OPTIONS["runs"].default
    path = runs / (settings.name or LATEST)
    if settings.name is None and path.is_symlink():  # the target, which may be a link too
        path = path.parent / path.readlink()
    directory = RunDirectory(path)
    config = config_from_json(directory.read_config()["config"], str(directory.path / CONFIG))
    return directory, config


def places_of(path: Path, run: Path) -> dict[str, str]:
    """Where a directory is, absolute and relative to the run, as config.json stores it."""
    if is_remote(path):
        return {"absolute": str(path_of(path)), "relative": str(path_of(path))}
    # Without "..", which would lead through the run's directory after a move.
    absolute = Path(os.path.normpath(path.absolute()))
    if path.exists() and not (absolute.exists() and absolute.samefile(path)):
        absolute = path.resolve()  # ".." behind a symbolic link
    relative = os.path.relpath(absolute, run.absolute())
    return {"absolute": plain(absolute), "relative": plain(Path(relative))}


def places_of_texts(config: Config, run: Path) -> dict[str, dict[str, str]]:
    """Where the directories of text, of `--valid`, of the tasks and of stages' text are."""
    paths = {_DATA: config.data.data}
    paths |= {f"{_VALID}/{name}": path for name, path in (config.evaluation.valid or {}).items()}
    paths |= {
        f"{_STAGE}/{period.number}": period.config.data.data
        for period in config.periods[1:]
        if "data" in period.stage.options
    }
    if config.evaluation.eval_tasks:
        paths[_TASKS] = config.evaluation.eval_tasks_data
    return {name: places_of(path, run) for name, path in paths.items()}


def _find_texts(directory: RunDirectory, then: Config, settings: RunSettings) -> Config:
    """The configuration with the directories of text and the tasks where they are now."""
    moved: dict[str, Path] = {}
    for name, places in directory.read_config()["places"].items():
        kind, _, text = name.partition("/")
        what, replaced = f"the validation text {text!r} does", settings.evaluation.valid is not None
        remedy = f"give its directory with --valid {text}=DIR, or use --valid none"
        if kind == _DATA:
            what, replaced = "the text of the run does", settings.data.data is not None
            remedy = "give its directory with --data"
        if kind == _TASKS:
            what = "the tasks do"
            replaced = not {"eval_tasks", "eval_tasks_data"}.isdisjoint(settings.given())
            remedy = "set evaluation.eval_tasks_data to their directory, or use --eval-tasks none"
        if kind == _STAGE:
            what, replaced = f"the text of stage {text} does", bool(settings.stages)
            remedy = "give all stages with --config, this one with its data"
        try:
            moved[name] = _find(directory, places, what, remedy)
        except ModtokError:
            if not replaced:
                raise
            moved[name] = path_of(places["absolute"])
    valid = then.evaluation.valid and {
        name: moved.get(f"{_VALID}/{name}", path) for name, path in then.evaluation.valid.items()
    }
    stages = tuple(
        replace(stage, options={**stage.options, "data": moved[f"{_STAGE}/{number}"]})
        if f"{_STAGE}/{number}" in moved
        else stage
        for number, stage in enumerate(then.stages, 2)
    )
    data = settings.data.data or moved.get(_DATA, then.data.data)
    tasks = moved.get(_TASKS, then.evaluation.eval_tasks_data)
    return then.changed(data=data, valid=valid, eval_tasks_data=tasks, stages=stages)


def _find(directory: RunDirectory, places: Mapping[str, str], what: str, remedy: str) -> Path:
    """Return the path relative to the run if it exists, else the stored one."""
    there = path_of(places["absolute"])
    if is_remote(there) and there.exists():
        return there
    for path in (directory.path / places["relative"], there):
        if path.exists():
            # As a person types it: not "runs/x/../../data". ".." may lead behind a link.
            short = Path(os.path.normpath(path))
            return short if short.exists() and short.samefile(path) else path
    raise ModtokError(
        f"{what} not exist in {places['absolute']}", where=directory.path, remedy=remedy
    )


def _check_path(path: Path) -> None:
    """Refuse paths that are not UTF-8: safetensors writes files there but cannot read them."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "the path is not UTF-8, and safetensors cannot open files below it",
            where=path,
            remedy="choose another directory with --runs",
        ) from error


def check_tokenizer(directory: RunDirectory, own: ModularTokenizer, path: Path | None) -> str:
    """Check the tokenizer of a resumed run; returns a note for the user, or "".

    `own` is the run's copy. A tokenizer `path` of the command line must contain it; the run
    continues with its copy.
    """
    signature = directory.read_config()["tokenizer"]["signature"]
    remedy = "restore the run's tokenizer/, or start another run with --name"
    if own.signature != signature:
        raise ModtokError(
            f"was trained with tokenizer {signature}, found {own.signature}",
            where=directory.path,
            remedy=remedy,
        )
    if path is None:
        return ""
    larger = ModularTokenizer.load(path)
    proof = containment(larger, own)
    if not proof.holds:
        raise ModtokError(
            f"was trained with tokenizer {signature}, which {path} does not contain ({proof})",
            where=directory.path,
            remedy="leave out -t, or start another run with --name",
        )
    if larger.signature == signature:
        return ""
    return f"{path} contains the run's tokenizer ({proof}); the run continues with its own copy"


def check_text(directory: RunDirectory, texts: Sequence[Mapping[str, Any]], begun: int) -> None:
    """Check that a resumed run finds the text that it was started with.

    `texts`: "mixture" and "text" of each stage, of which `begun` have begun.
    """
    then = directory.read_config()
    stages = [{name: then[name] for name in ("mixture", "text")}, *then["stages"]]
    if stages[:begun] != list(texts)[:begun]:
        raise ModtokError(
            "the text has changed since the run was started",
            where=directory.path,
            remedy="restore the text, or start another run with --name",
        )


def create(
    directory: RunDirectory, content: Mapping[str, Any], tokenizer: Path, *, force: bool
) -> None:
    """Create a run's directory with config.json (`content`) and a copy of the tokenizer."""
    path = directory.path
    if _has_content(path):
        if not force:
            saved = checkpoint.last_step(directory.checkpoints) is not None
            what = "has checkpoints" if saved else "exists"
            raise UsageError(
                what,
                where=path,
                remedy="use --resume to continue, --force to overwrite, or another --name",
            )
        if not (path / CONFIG).is_file():
            raise UsageError("is not a run", where=path, remedy="choose another --name")
        if tokenizer.resolve().is_relative_to(path.resolve()):
            raise UsageError(
                "is part of the run that --force overwrites",
                where=tokenizer,
                remedy="copy it elsewhere, or choose another --name",
            )
        directory.lock()
        remove_directory(path)
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    directory.lock()  # before anything is written: another run may have begun with this name
    if _has_content(path):
        raise UsageError("exists", where=path, remedy="choose another --name")
    with atomic_directory(path / TOKENIZER) as beside:
        shutil.copytree(tokenizer, beside, dirs_exist_ok=True)
    directory.write_config(content)
    directory.metrics.write_bytes(b"")
    point_latest(path)


def _has_content(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return path.exists()
    names = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
    return bool(names - {TOKENIZER})
