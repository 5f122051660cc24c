"""The cells of a grid: every run, task, language or pair, and mode that fit together.

Its runs, and the systems that they are seeds of.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import orjson

from modtok_cli import __version__
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import options_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest
from modtok_cli.evaluate import mcq
from modtok_cli.evaluate.bits import BitsSettings
from modtok_cli.evaluate.documents import Documents
from modtok_cli.evaluate.generation import (
    GenerationSettings,
    TranslationSettings,
    parse_pairs,
)
from modtok_cli.evaluate.grid.cells import Cell, Place
from modtok_cli.evaluate.grid.spec import Bpb, Grid, Mcq, Mt, Runs, Sets, Sum, Tasks
from modtok_cli.evaluate.models import languages_of, vocabulary_of
from modtok_cli.evaluate.parallel import find_parallel
from modtok_cli.evaluate.questions import Folder
from modtok_cli.evaluate.results import BPB, MT, SUM, source_digest
from modtok_cli.inference.hf.source import HfSource
from modtok_cli.inference.load import Source, open_source
from modtok_cli.inference.slice.directory import NAME, SliceSource
from modtok_cli.inference.slice.run import RunSource
from modtok_cli.text.languages import label_of_path, normalize, the_one
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import files_in
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


_FORMAT = 1
_OWN = Path("tasks")
_SETTINGS: dict[type[Tasks], type[Any]] = {
    Mcq: mcq.McqSettings, Mt: TranslationSettings, Sum: GenerationSettings, Bpb: BitsSettings
}  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """A cell of a run, and the size of the random set of its mode, 0 if it is none."""

    run: OpenRun
    cell: Cell
    drawn: int = 0


@dataclass(frozen=True)
class Skipped:
    """What does not apply, and why. `language` and `infer` are None for all."""

    run: str
    task: str
    language: str | None
    infer: str | None
    why: str

    def __str__(self) -> str:
        words = filter(None, (self.run, self.task, self.language, self.infer))
        return f"{' '.join(words)}: {self.why}"


@dataclass(frozen=True)
class Plan:
    """All cells in the order of the grid, and what was left out."""

    cells: Sequence[Planned]
    skipped: Sequence[Skipped]


@dataclass(frozen=True)
class _Item:
    """One task and language: what cells of all modes share."""

    task: str
    language: str | None
    own: tuple[str, ...]  # languages of the task
    depends: Mapping[str, Any]
    data: Path | None
    include: Path | None = None
    reading: Reading = Reading()


def plan_grid(grid: Grid, progress: Progress = SILENT) -> Plan:
    """The cells of a grid."""
    runs, failed = open_runs(grid.runs, grid.dtype, progress)
    cells: list[Planned] = []
    skipped = [Skipped(run, "", None, None, why) for run, why in failed]
    for run in runs:
        for task in (*grid.mcq, *grid.mt, *grid.sum, *grid.bpb):
            for item in _items(task, grid, run, skipped, progress):
                for mode, size in _modes(task, grid, run, item):
                    try:
                        cells.append(_planned(task, run, item, mode, size))
                    except UsageError as error:
                        name = run.place.path.name
                        skipped.append(
                            Skipped(name, item.task, item.language, mode, str(error.what))
                        )
    return Plan(cells, skipped)


def _planned(task: Tasks, run: OpenRun, item: _Item, mode: str | None, size: int) -> Planned:
    settings = _settings(task, item, mode)
    vocabulary = ""
    if item.own:
        infer = vocabulary_of(run.source, mode, item.own)
        run.source.vocabularies(infer.inputs, infer.outputs)  # a slice has its own only
        vocabulary = str(infer)
    depends = {
        "format": _FORMAT,
        "modtok": __version__,
        "weights": run.weights,
        "task": item.task,
        "language": item.language,
        "infer": f"{mode}:{vocabulary}",
        # These change results by rounding only.
        "settings": {k: v for k, v in asdict(settings).items() if k not in ("batch_size", "infer")},
        **item.depends,
    }
    cell = Cell(
        _kind(task),
        run.place,
        item.task,
        item.language,
        settings,
        vocabulary,
        depends,
        item.data,
        item.include,
        item.reading,
    )
    return Planned(run, cell, size)


def _kind(task: Tasks) -> str:
    return type(task).__name__.lower()


def _settings(task: Tasks, item: _Item, mode: str | None) -> Any:
    kind = _SETTINGS[type(task)]
    values = {each.name: getattr(task, each.name, None) for each in fields(kind)}
    own = {"allow_code": False, "tasks": (item.task,)} if isinstance(task, Mcq) else {}
    return kind(**{**values, "infer": mode, **own})


def _modes(task: Tasks, grid: Grid, run: OpenRun, item: _Item) -> Iterator[tuple[str | None, int]]:
    """Modes of a cell, with the size of drawn sets."""
    chosen = task.infer if task.infer is not None else grid.infer
    if chosen is None and task.sets is None:
        yield None, 0
    for mode in chosen or ():
        yield mode, 0
    if task.sets is not None:
        yield from drawn_sets(task.sets, run.languages, item.own)


def drawn_sets(
    sets: Sets, languages: Sequence[str], own: Sequence[str]
) -> Iterator[tuple[str, int]]:
    """Random sets of `languages` that contain `own`, as modes, with their sizes.

    The same for every run with these languages. Sets that do not exist are left out, and so are
    repeated ones.

    >>> list(drawn_sets(Sets(sizes=(2, 9), draws=9), ["en", "fi", "fr"], ["fr"]))
    [('fi,fr', 2), ('en,fr', 2)]
    """
    others = sorted(set(languages) - set(own))
    for size in sets.sizes:
        more = size - len(set(own))
        if more < 0 or more > len(others) or not set(own) <= set(languages):
            continue
        modes: dict[str, None] = {}
        for draw in range(sets.draws):
            random = Random(f"{sets.seed}/{size}/{draw}/{','.join(own)}")
            chosen = {*own, *random.sample(others, more)}
            modes[",".join(name for name in languages if name in chosen)] = None
        yield from ((mode, size) for mode in modes)


def _items(
    task: Tasks, grid: Grid, run: OpenRun, skipped: list[Skipped], progress: Progress
) -> Iterator[_Item]:
    """Tasks and languages of a run; what has no data is added to `skipped`."""
    name = run.place.path.name
    if isinstance(task, Bpb):
        yield from _texts(task, run.languages)
        return
    assert isinstance(task, Mcq | Mt | Sum)
    wanted = task.languages or grid.languages or run.languages
    languages = [the_one(name, run.languages) or normalize(name) for name in wanted]
    if isinstance(task, Mcq):
        yield from _questions(task, languages, name, skipped)
    elif isinstance(task, Mt):
        try:
            pairs = parse_pairs(",".join(task.pairs) if task.pairs else None, languages)
        except UsageError as error:
            skipped.append(Skipped(name, MT, None, None, error.what))
            return
        parallel = find_parallel(task.data, progress)
        for pair in pairs:
            missing = sorted(name for name in set(pair) if not parallel.has(name))
            if missing:
                why = f"no text in {','.join(missing)} in {parallel.path}"
                skipped.append(Skipped(name, MT, "-".join(pair), None, why))
            else:
                data = _data(parallel.files_of(pair))
                yield _Item(MT, "-".join(pair), pair, data, task.data)
    else:
        documents = Documents(task.data)
        for language in languages:
            if documents.has(language):
                data = _data(documents.files_of(language))
                yield _Item(SUM, language, (language,), data, task.data)
            else:
                why = f"no documents in {documents.path}"
                skipped.append(Skipped(name, SUM, language, None, why))


def _questions(
    task: Mcq, languages: Sequence[str], run: str, skipped: list[Skipped]
) -> Iterator[_Item]:
    data = task.data
    if data is None and (_OWN / "mcq").is_dir():
        data = _OWN
    own, external = mcq.tasks_of(task.tasks, data)
    folder = None if data is None else Folder(data)
    if folder is not None and not own and not external:
        raise ModtokError("no questions", where=folder.path, remedy=mcq.LAYOUT)
    for suite in own:
        for language in languages:
            here = folder is not None and folder.has(suite.task, language)
            there = folder is None and suite.source(language) is not None
            if here or there:
                files = [] if folder is None else folder.files(suite.task, language)
                of_suite = [suite.prompt, suite.shots, suite.normalization]
                depends = {**_data(files), "suite": of_suite, "hub": folder is None}
                yield _Item(suite.task, language, (language,), depends, data)
            elif task.tasks is not None or folder is not None:
                why = "no questions" + ("" if folder is None else f" in {folder.path / suite.task}")
                skipped.append(Skipped(run, suite.task, language, None, why))
    for name in external:
        files = [] if task.include is None else sorted(task.include.rglob("*.y*ml"))
        for language in languages:
            depends = {**_data(files), "external": True}
            yield _Item(name, language, (language,), depends, data, task.include)


def _texts(task: Bpb, languages: Sequence[str]) -> Iterator[_Item]:
    reading = Reading(task.errors, task.field, task.lang_field)  # type: ignore[arg-type]
    for source in task.texts:
        for path in map(Path, files_in(source)):
            label = task.language or label_of_path(path)
            language = label and (the_one(label, languages) or normalize(label))
            own = (language,) if language else ()
            depends = {**_data([path]), "reading": reading.as_json()}
            yield _Item(BPB, language, own, depends, path, reading=reading)


def _data(files: Sequence[Path]) -> dict[str, Any]:
    """Digests of files, which name what they hold."""
    return {"data": [[path.name, _digest(path, *_state(path))] for path in files]}


def _state(path: Path) -> tuple[int, int]:
    try:
        state = path.stat()
    except OSError as error:
        raise ModtokError(f"cannot be read: {error.strerror}", where=path) from error
    return state.st_size, state.st_mtime_ns


@cache
def _digest(path: Path, size: int, changed: int) -> str:
    """SHA-256 of a file, computed again when it has changed."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:24]


def in_order_of_models(cells: Sequence[Cell]) -> list[Cell]:
    """The cells, those of a model one after another, and of these those of a vocabulary."""
    places = list(dict.fromkeys(cell.place for cell in cells))
    return sorted(cells, key=lambda cell: (places.index(cell.place), cell.vocabulary))
