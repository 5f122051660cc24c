"""The runs of a grid, and the systems that they are seeds of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import options_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest
from modtok_cli.evaluate.grid.cells import Place
from modtok_cli.evaluate.grid.spec import Runs
from modtok_cli.evaluate.models import languages_of
from modtok_cli.evaluate.results import source_digest
from modtok_cli.inference.hf.source import HfSource
from modtok_cli.inference.load import Source, open_source
from modtok_cli.inference.slice.directory import NAME, SliceSource
from modtok_cli.inference.slice.run import RunSource
from modtok_cli.training.rundir import is_run
from modtok_cli.training.settings import ModelSettings


@dataclass(frozen=True)
class OpenRun:
    """A checkpoint or slice.

    Attributes:
        weights: digest of what it computes: weights, tokenizer, step.
        shared: what the seeds of one system share; `name` is that of the system.
        labels: fields of its rows: run, step, sampling, p, seed.
    """

    place: Place
    source: Source
    weights: str
    shared: Mapping[str, Any]
    name: str
    labels: Mapping[str, Any]

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages it knows."""
        return languages_of(self.source)


def open_runs(
    wanted: Sequence[Runs], dtype: str | None, progress: Progress = SILENT
) -> tuple[list[OpenRun], list[tuple[str, str]]]:
    """All checkpoints, with names of systems; and (run, reason) of those that do not open."""
    runs: dict[Place, OpenRun] = {}
    failed: list[tuple[str, str]] = []
    for each in wanted:
        for path in _paths(each):
            try:
                for step in each.steps or (None,):
                    run = _open(path, step, each, dtype, progress)
                    runs.setdefault(run.place, run)
            except ModtokError as error:
                failed.append((str(path), str(error)))
    return _named(list(runs.values())), failed


def _paths(wanted: Runs) -> list[Path]:
    """The directories of a path or pattern, without links to others of them."""
    if not set("*?[") & set(wanted.path):
        path = Path(wanted.path)
        if not path.exists():
            raise UsageError("does not exist", where=wanted.path, remedy="name a run in [[runs]]")
        return [path.resolve() if path.is_symlink() else path]
    pattern = Path(wanted.path)
    paths = sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    fitting = [path for path in paths if is_run(path) or (path / NAME).is_file()]
    own = {path.resolve() for path in fitting if not path.is_symlink()}
    fitting = [path for path in fitting if not path.is_symlink() or path.resolve() not in own]
    if not fitting:
        raise UsageError(
            "matches no run", where=wanted.path, remedy="name runs of modtok pretrain in [[runs]]"
        )
    return fitting


def _open(
    path: Path, step: int | None, wanted: Runs, dtype: str | None, progress: Progress
) -> OpenRun:
    source = open_source(path, tokenizer=wanted.tokenizer, step=step, progress=progress)
    labels: dict[str, Any] = {"run": path.name}
    if isinstance(source, RunSource):
        run, settings = source, source.settings
        labels |= {"run": run.name, "step": run.step}
        labels |= {name: settings.get(name) for name in ("sampling", "p", "seed")}
        names = set(options_of(ModelSettings)) - {"seed"}
        shared = {name: value for name, value in settings.items() if name in names}
        shared |= {"step": run.step, "tokenizer": run.tokenizer.signature}
        place = Place(path, run.step, wanted.tokenizer, dtype)
        weights = run.fingerprint
    elif isinstance(source, HfSource):
        shared = {"run": path.name, "step": None}
        place, weights = Place(path, None, None, dtype), source.signature
    else:
        assert isinstance(source, SliceSource)
        facts = source.facts
        shared = {"run": path.name, "step": facts.step}
        place, weights = Place(path, None, None, dtype), facts.weights
        labels |= {"step": facts.step}
    if wanted.name is not None:  # runs of one name differ as the user wants
        shared = {"name": wanted.name, "step": shared["step"]}
    depends = [source_digest(source), source.signature, weights, dtype]
    return OpenRun(
        place,
        source,
        digest(orjson.dumps(depends)),
        shared,
        wanted.name or str(labels.get("sampling") or labels["run"]),
        labels,
    )


def _named(runs: Sequence[OpenRun]) -> list[OpenRun]:
    """The runs with names of their systems, equal for seeds of one and different for others.

    A name is the sampling regime, with the settings in which the systems of that regime differ.
    """
    named = []
    for run in runs:
        rivals = [other.shared for other in runs if other.name == run.name]
        keys = dict.fromkeys(key for shared in rivals for key in shared if key != "sampling")
        differing = [
            key for key in keys if any(other.get(key) != run.shared.get(key) for other in rivals)
        ]
        parts = [run.name, *(f"{key}={_short(run.shared.get(key))}" for key in differing)]
        named.append(replace(run, name=" ".join(parts)))
    return named


def _short(value: Any) -> str:
    """A setting as text.

    >>> _short(0.5), _short(["en", "fr"]), _short(None)
    ('0.5', 'en,fr', 'none')
    """
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)
