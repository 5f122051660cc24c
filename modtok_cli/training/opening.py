"""Create the directory of a new run, or open the directory of a run to resume.

A run's directory is enough to resume it: config.json holds every option, `tokenizer/` is a
copy of the tokenizer, and the text is found relative to the directory, at its old place, or
where `--data` says.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, remove_directory, write_bytes, writing
from modtok_cli.base.remote import is_remote, path_of
from modtok_cli.tokenizer.containment import containment
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.training import checkpoint
from modtok_cli.training.command_line import command_line
from modtok_cli.training.config import Config, run_name
from modtok_cli.training.data.conversation import FILE
from modtok_cli.training.data.sampling import Mixture, Regime
from modtok_cli.training.distributed.ranks import raise_together, versions
from modtok_cli.training.evaluations import fitted
from modtok_cli.training.initial import origin_of
from modtok_cli.training.resolve import resolve, resumed
from modtok_cli.training.run import Run
from modtok_cli.training.run_texts import texts_by_stage
from modtok_cli.training.rundir import CONFIG, LATEST, RunDirectory, point_latest
from modtok_cli.training.settings import OPTIONS, RunSettings, plain
from modtok_cli.training.stored_config import config_as_json, config_from_json

TOKENIZER = "tokenizer"
# Kinds of text whose places config.json stores.
_DATA, _VALID, _STAGE, _TASKS = "data", "valid", "stage", "tasks"


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


def _places_of_texts(config: Config, run: Path) -> dict[str, dict[str, str]]:
    """Where the directories of text, of `--valid`, of the tasks and of stages' text are."""
    paths = {_DATA: config.data.data}
    paths |= {f"{_VALID}/{name}": path for name, path in (config.evaluation.valid or {}).items()}
    paths |= {
        f"{_STAGE}/{period.number}": period.config.data.data
        for period in config.periods[1:]
        if "data" in period.table.options
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


def open_directory(run: Run, *, resume: bool, force: bool) -> None:
    """Rank 0 locks the directory of a resumed run, or creates a new one."""
    directory, error = run.directory, None
    try:
        if run.ranks.first and resume:
            directory.lock()
            _check_text(run)
            point_latest(directory.path)
        elif run.ranks.first:
            _create(run, force=force)
    except ModtokError as caught:
        directory.close()
        error = caught
    raise_together(run.ranks, error)


def _check_text(run: Run) -> None:
    """Check that a resumed run finds the text of the stages that have begun."""
    then = run.directory.read_config()
    step = checkpoint.last_step(run.directory.checkpoints) or 0
    begun = max(1, sum(stage.steps.start <= step for stage in run.stages))
    stages = [{name: then[name] for name in ("mixture", "text")}, *then["stages"]]
    if stages[:begun] != [stage.text for stage in run.stages[:begun]]:
        raise ModtokError(
            "the text has changed since the run was started",
            where=run.directory.path,
            remedy="restore the text, or start another run with --name",
        )


def _create(run: Run, *, force: bool) -> None:
    """Create a run's directory with config.json and a copy of the tokenizer."""
    directory, path, tokenizer = run.directory, run.directory.path, run.tokenizer
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
    directory.write_config(_content(run))
    directory.metrics.write_bytes(b"")
    point_latest(path)
    if run.chat is not None:
        write_bytes(path / FILE, run.chat.to_json())


def _content(run: Run) -> dict[str, Any]:
    """config.json of a new run."""
    tokenizer, ranks = run.subtokenizers.tokenizer, run.ranks
    return {
        **_changeable(run),
        **run.stages[0].text,
        "tokenizer": {
            "path": TOKENIZER,
            "signature": tokenizer.signature,
            "size": tokenizer.size,
            "languages": tokenizer.languages,
        },
        "ranks": {
            "world": ranks.world,
            "shards": ranks.shards,
            "threads": torch.get_num_threads(),
        },
        "versions": versions(),
        **({"initial": run.initial.as_json(tokenizer)} if run.initial else {}),
    }


def _changeable(run: Run) -> dict[str, Any]:
    """The fields of config.json that a resumed run may change."""
    path, gpu = run.directory.path, run.ranks.device.type == "cuda"
    return {
        "command": command_line(run.config, path.name, gpu=gpu),
        "config": config_as_json(run.config),
        "stages": [stage.text for stage in run.stages[1:]],
        "places": _places_of_texts(run.config, path),
    }


def update_config(run: Run) -> None:
    """Store the options and stages that a resumed run changes; rank 0 calls it."""
    content = run.directory.read_config()
    changed = {**content, **_changeable(run)}
    if orjson.dumps(changed) != orjson.dumps(content):
        run.directory.write_config(changed)


def _has_content(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return path.exists()
    names = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
    return bool(names - {TOKENIZER})
