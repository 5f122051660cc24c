"""`modtok study world`: curves of every regime in several worlds, under every inference mode.

OUTPUT/seed-N/world/      text, questions and parallel sentences
OUTPUT/seed-N/plain/      text of the same world without quotations, which tokenizers learn from
OUTPUT/seed-N/held-out/   further such text, which bits per byte are of
OUTPUT/seed-N/tokenizer/
OUTPUT/seed-N/runs/       a run for each regime, p and number of steps: joint-300, sub-1-p-0.5-300
OUTPUT/seed-N/scores/     a grid, see `evaluate.grid`
OUTPUT/curves.jsonl       a row for each regime, p, seed, number of steps and mode
OUTPUT/claims.jsonl

A point of a curve is a run that ends with a decay of the learning rate. The run of the next point
continues the steps before that decay, so that each step is trained once. What is complete is not
repeated, so that an interrupted study goes on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, get_args

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_directory, write_lines
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Budget, Output
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.evaluate.grid.spec import Bpb, Grid, Mcq, Mt, Runs
from modtok_cli.modular.manifest import read_manifest
from modtok_cli.studies.sampling import probabilities_of, regimes_of, seeds_of
from modtok_cli.studies.world.claims import check_claims
from modtok_cli.studies.world.corpus import (
    OPTIONS,
    WorldSettings,
    read_settings,
    write_documents,
    write_world,
)
from modtok_cli.studies.world.curves import FACTS, FIGURES, System, systems_of
from modtok_cli.studies.world.train import point_of, train_point, train_runs
from modtok_cli.training.data.sampling import Regime
from modtok_cli.training.settings import RunSettings

REGIMES = ("joint", "none", "full", "sub:1", "sub:2")
POINTS = (150, 300, 600, 1200, 2400, 4800)
MODES = ("lang", "full")
MODES_OF_TRANSLATION = (*MODES, "src|tgt")
HELD_OUT = 100
"""Documents of each language that bits per byte are of."""

RECIPE: Mapping[str, Any] = {
    "model": "tiny",
    "layers": 2,
    "hidden_size": 128,
    "ffn": 352,
    "heads": 4,
    "kv_heads": 4,
    "seq_length": 256,
    "batch_size": 8,
    "micro_batch": 8,
    "warmup": 40,
    "lr": 5e-3,
    "eval_bytes": 16384,
}
"""Options of the runs that the settings leave open."""
SHAPE = ("layers", "hidden_size", "ffn", "heads", "kv_heads")
WORLD = WorldSettings(
    documents=15_000, quotes=0.7, lines=4, foreign=0.03, synonyms=6, sentences=100
)
"""The world of the study; docs/world.md has the reasons."""


def _points(value: str | Sequence[int]) -> list[int]:
    points = sorted(seeds_of(value))
    if points[0] < 2:
        raise ValueError("expected at least 2 steps")
    return points


@dataclass(frozen=True)
class WorldStudySettings:
    """A study.

    Attributes:
        seeds: a world, a tokenizer and runs of every regime for each.
        regimes: sampling regimes; joint is the paper's baseline.
        p_values: probabilities of the larger subtokenizer, a curve of every regime with p for each.
        points: numbers of steps, ascending.
        k: tokens of each language, see `bpe_seq`.
        limit: sentences to translate for each pair and mode.
        max_tokens: most tokens of a translation.
        world: of the first seed; the others differ in `seed` only.
        training: settings of the runs where they are not those of `RECIPE`; text, tokenizer,
            names and seeds are the study's.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    regimes: tuple[str, ...] = REGIMES
    p_values: tuple[float, ...] = (0.5, 0.9)
    points: tuple[int, ...] = POINTS
    k: int = 1500
    limit: int = 50
    max_tokens: int = 96
    world: WorldSettings = WORLD
    training: RunSettings = field(default_factory=RunSettings)

    def __post_init__(self) -> None:
        for name in ("seeds", "regimes", "p_values", "points"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise UsageError(
                    "is empty or has a repeated entry", where=f"--{name.replace('_', '-')}"
                )
        for regime in self.regimes:
            try:
                parsed = Regime.parse(regime)
            except ValueError as error:
                raise UsageError(str(error), where="--regimes") from error
            parsed.check(self.world.languages, "--regimes")


@public
def study_world(
    output: Output = None,
    *,
    regimes: Annotated[
        str | Sequence[str],
        Option("Sampling regimes to train with.", kind=str, metavar="REGIME,...", parse=regimes_of),
    ] = "joint,none,full,sub:1,sub:2",
    p_values: Annotated[
        str | Sequence[float],
        Option(
            "Probabilities p; each trains a curve of full and of sub:N.",
            kind=str,
            metavar="P,...",
            parse=probabilities_of,
        ),
    ] = "0.5,0.9",
    points: Annotated[
        str | Sequence[int],
        Option("Numbers of steps to evaluate after.", kind=str, metavar="N,...", parse=_points),
    ] = "150,300,600,1200,2400,4800",
    seeds: Annotated[
        str | Sequence[int],
        Option(
            "Seeds: each has its world, tokenizer and runs.",
            kind=str,
            metavar="N,...",
            parse=seeds_of,
        ),
    ] = "0,1,2,3,4",
    langs: Annotated[
        str | Sequence[str],
        Option("Languages of the worlds.", kind=str, metavar="LANG,...", parse=regimes_of),
    ] = "qaa,qab,qac,qad",
    k: Annotated[int, get_args(Budget)[1]] = 1500,
    documents: Annotated[int, OPTIONS["documents"]] = 15_000,
    private: Annotated[float, OPTIONS["private"]] = 0.5,
    quotes: Annotated[float, OPTIONS["quotes"]] = 0.7,
    foreign: Annotated[float, OPTIONS["foreign"]] = 0.03,
    synonyms: Annotated[int, OPTIONS["synonyms"]] = 6,
    limit: Annotated[
        int,
        Option("Sentences to translate for each pair and mode.", metavar="N", low=1, high=100),
    ] = 50,
    workers: Annotated[
        int, Option("Number of processes that train and evaluate.", metavar="N", low=1)
    ] = 1,
    progress: Progress = SILENT,
) -> dict[str, list[dict[str, Any]]]:
    """Test the claims of the paper on models of invented languages.

    For each seed, writes a world (see modtok corpus world), learns a tokenizer from its text
    without quotations, and trains a model under each sampling regime. After each of `points`, with
    a decay of the learning rate, the model answers questions, translates all pairs of languages
    and predicts text under each inference mode. Claims are tested with 95% intervals over seeds,
    and the delay of a regime is the factor of steps until it translates as joint training. An
    interrupted study resumes.

    Returns:
        "curves": a row for each regime, p, seed, number of steps and mode, with the mean over
        languages or pairs of every figure (facts, BLEU, share in the language, bits per byte);
        "claims": a row for each claim, with the difference that it is about, its interval, and
        whether it `holds`. `output` has both as JSON lines, curves.jsonl from the first point on.

    Raises:
        UsageError: `output` has a study with other settings; a setting is invalid.
        ModtokError: a run failed, or a file cannot be written.
    """
    from modtok_cli.training.loop import finish

    if output is None:
        raise UsageError("no output directory given", remedy="as in: modtok study world -o worlds")
    settings = WorldStudySettings(
        seeds=tuple(seeds_of(seeds)),
        regimes=tuple(regimes_of(regimes)),
        p_values=tuple(probabilities_of(p_values)),
        points=tuple(_points(points)),
        k=k,
        limit=limit,
        world=replace(
            WORLD,
            languages=tuple(regimes_of(langs)),
            documents=documents,
            private=private,
            quotes=quotes,
            foreign=foreign,
            synonyms=synonyms,
        ),
    )
    try:
        return run_study(Path(output), settings, workers=workers, progress=progress)
    finally:
        finish()


def run_study(
    output: Path, settings: WorldStudySettings, *, workers: int = 1, progress: Progress = SILENT
) -> dict[str, list[dict[str, Any]]]:
    """Make worlds, train every regime in each, evaluate all modes, and test the claims.

    Args:
        workers: processes that train and evaluate.
    """
    from modtok_cli.evaluate.grid.grid import run_grid

    places = {seed: output / f"seed-{seed}" for seed in settings.seeds}
    for seed, place in places.items():
        _prepare(place, seed, settings, progress)
    systems = systems_of(settings.regimes, settings.p_values)
    shorter: int | None = None
    curves: list[dict[str, Any]] = []
    claims: list[dict[str, Any]] = []
    for number, steps in enumerate(settings.points, 1):
        runs = [
            _run(system, steps, seed, place, settings)
            for seed, place in places.items()
            for system in systems
        ]
        train_runs(
            runs, workers=workers, progress=progress, train=partial(train_point, shorter=shorter)
        )
        shorter = steps
        for seed, place in places.items():
            progress.note(f"seed {seed}: evaluating after {steps:,} steps")
            grid = _grid(place, systems, settings, settings.points[:number])
            result = run_grid(grid, place / "scores", workers=workers, progress=progress)
            result.require_complete()
            curves += [row for row in curve_rows(result.rows) if row["step"] == steps]
            write_lines(output / "curves.jsonl", curves)
        claims = check_claims(curves, systems, len(settings.world.languages))
        write_lines(output / "claims.jsonl", claims)
    return {"curves": curves, "claims": claims}


def name_of(system: System, steps: int) -> str:
    """Name of a run.

    >>> name_of(System("sub:1", 0.5), 300)
    'sub-1-p-0.5-300'
    """
    p = "" if system.p is None else f"-p-{system.p:g}"
    return f"{system.regime.replace(':', '-')}{p}-{steps}"


def with_recipe(training: RunSettings) -> RunSettings:
    """The settings with `RECIPE` where they leave something open."""
    left = {name: value for name, value in RECIPE.items() if getattr(training, name) is None}
    if "model" not in left:  # a model that was chosen has its own shape
        left = {name: value for name, value in left.items() if name not in SHAPE}
    return replace(training, attention="document", mix_rest="uniform", **left)


def _run(
    system: System, steps: int, seed: int, place: Path, settings: WorldStudySettings
) -> RunSettings:
    """The run of a point."""
    run = replace(
        with_recipe(settings.training),
        sampling=system.regime,
        langs=settings.world.languages,
        data=place / "world" / "data",
        tokenizer=place / "tokenizer",
        runs=place / "runs",
        name=name_of(system, steps),
        seed=seed,
    )
    if system.p is not None:
        run = replace(run, p=system.p)
    return point_of(run, steps)


def _prepare(place: Path, seed: int, settings: WorldStudySettings, progress: Progress) -> None:
    world = replace(settings.world, seed=seed)
    # Sentences of other languages are rare in the text that real tokenizers learn from.
    for name, each in (("world", world), ("plain", replace(world, quotes=0.0))):
        if not (place / name).exists():
            write_world(place / name, each, progress)
        elif read_settings(place / name) != each:
            raise _other(place / name)
    if not (place / "held-out").exists():
        with atomic_directory(place / "held-out") as beside:
            few = replace(world, quotes=0.0, documents=HELD_OUT)
            for code in world.languages:
                write_documents(beside / f"{code}.jsonl", code, few, "held out")
    tokenizer = place / "tokenizer"
    if not tokenizer.exists():
        data = place / "plain" / "data"
        bpe_seq(world.languages, data=data, output=tokenizer, k=settings.k, progress=progress)
    elif read_manifest(tokenizer).k != settings.k:
        raise _other(tokenizer)


def _other(place: Path) -> UsageError:
    return UsageError("was made with other settings", where=place, remedy="choose another --output")


def _grid(
    place: Path, systems: Sequence[System], settings: WorldStudySettings, steps: Sequence[int]
) -> Grid:
    tasks = place / "world" / "tasks"
    runs = [
        Runs(path=str(place / "runs" / name_of(system, each)), name=f"{system} {each}")
        for each in steps
        for system in systems
    ]
    return Grid(
        runs=tuple(runs),
        mcq=(Mcq(data=tasks, tasks=FACTS, infer=MODES, batch_size=128),),
        mt=(
            Mt(
                data=tasks,
                pairs=("all",),
                infer=MODES_OF_TRANSLATION,
                shots=2,
                limit=settings.limit,
                max_tokens=settings.max_tokens,
                batch_size=64,
            ),
        ),
        bpb=(Bpb(texts=(place / "held-out",), infer=MODES, batch_size=32),),
    )


def curve_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Means over languages or pairs of the rows of a grid, by system, seed, step and mode."""
    found: dict[tuple[Any, ...], dict[str, list[float]]] = {}
    for row in rows:
        regime = str(row["sampling"])
        p = row["p"] if Regime.parse(regime).has_p else None
        if "bits_per_byte" in row:
            figure, value, infer = "bits per byte", row["bits_per_byte"], row["infer"]
        else:
            figure = row["metric"] if row["task"] == "mt" else row["task"]
            value, infer = row["value"], row["infer"]
            if row["metric"] not in ("acc", "BLEU", "in language"):
                continue
        key = (regime, p, row["seed"], row["step"], infer)
        found.setdefault(key, {}).setdefault(figure, []).append(value)
    names = ("regime", "p", "seed", "step", "infer")
    return [
        {
            **dict(zip(names, key, strict=True)),
            **{figure: fmean(values[figure]) for figure in FIGURES if figure in values},
        }
        for key, values in found.items()
    ]
