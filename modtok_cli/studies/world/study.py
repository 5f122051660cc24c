"""`modtok study world`: every regime in several worlds, under every inference mode.

OUTPUT/seed-N/world/      text, questions and parallel sentences
OUTPUT/seed-N/plain/      text of the same world without quotations, which tokenizers learn from
OUTPUT/seed-N/tokenizer/
OUTPUT/seed-N/runs/       a run for each regime
OUTPUT/seed-N/scores/     a grid, see `evaluate.grid`

What is complete is not repeated, so that an interrupted study goes on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, get_args

import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Budget, Output
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.evaluate.grid.spec import Grid, Mcq, Mt, Runs
from modtok_cli.modular.manifest import read_manifest
from modtok_cli.studies.sampling import regimes_of, seeds_of
from modtok_cli.studies.world.claims import Figures, check_claims, interval
from modtok_cli.studies.world.corpus import OPTIONS, WorldSettings, read_settings, write_world
from modtok_cli.studies.world.train import train_runs
from modtok_cli.training.data.sampling import Regime
from modtok_cli.training.settings import OPTIONS as RUN_OPTIONS
from modtok_cli.training.settings import RunSettings

REGIMES = ("joint", "none", "full", "sub:1", "sub:2")
FACTS = ("facts-all", "facts-own", "facts-other")
MODES_OF_FACTS = ("lang", "full")
MODES_OF_TRANSLATION = ("lang", "full", "src|tgt", "tgt")
FIGURES = (*FACTS, "BLEU", "in language")


RECIPE: Mapping[str, Any] = {
    "model": "tiny",
    "layers": 2,
    "hidden_size": 160,
    "ffn": 432,
    "heads": 5,
    "kv_heads": 5,
    "seq_length": 128,
    "batch_size": 16,
    "micro_batch": 16,
    "steps": 1200,
    "warmup": 40,
    "lr": 5e-3,
    "mix": {"qaa": 0.3},
    "eval_bytes": 16384,
}
"""Options of the runs that the settings leave open."""
SHAPE = ("layers", "hidden_size", "ffn", "heads", "kv_heads")


@dataclass(frozen=True)
class WorldStudySettings:
    """A study.

    Attributes:
        seeds: a world, a tokenizer and a run of every regime for each.
        regimes: sampling regimes; joint is the paper's baseline.
        k: tokens of each language, see `bpe_seq`.
        limit: sentences to translate for each pair and mode.
        max_tokens: most tokens of a translation.
        world: of the first seed; the others differ in `seed` only.
        training: settings of the runs where they are not those of `RECIPE`; text, tokenizer,
            names and seeds are the study's.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    regimes: tuple[str, ...] = REGIMES
    k: int = 1500
    limit: int = 50
    max_tokens: int = 96
    world: WorldSettings = field(
        default_factory=lambda: WorldSettings(documents=15_000, quotes=0.7, sentences=100)
    )
    training: RunSettings = field(default_factory=RunSettings)

    def __post_init__(self) -> None:
        for name in ("seeds", "regimes"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise UsageError("is empty or has a repeated entry", where=f"--{name}")
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
    seeds: Annotated[
        str | Sequence[int],
        Option(
            "Seeds: each has its world, tokenizer and runs.",
            kind=str,
            metavar="N,...",
            parse=seeds_of,
        ),
    ] = "0,1,2,3,4",
    k: Annotated[int, get_args(Budget)[1]] = 1500,
    documents: Annotated[int, OPTIONS["documents"]] = 15_000,
    private: Annotated[float, OPTIONS["private"]] = 0.5,
    quotes: Annotated[float, OPTIONS["quotes"]] = 0.7,
    steps: Annotated[int, RUN_OPTIONS["steps"]] = 1200,
    p: Annotated[float, RUN_OPTIONS["p"]] = 0.5,
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
    without quotations, and trains a model under each sampling regime. Each model answers
    questions and translates all pairs of languages under each inference mode. The tables have
    means over languages and seeds, and the claims with 95% intervals over seeds. An interrupted
    study resumes.

    Returns:
        "scores": a row for each regime and mode, with the mean over languages or pairs and seeds of
        every figure (facts, BLEU, share in the language), and its interval (`…_low`, `…_high`);
        "claims": a row for each claim of the paper, with the difference that it is about, its
        interval, and whether it `holds`. `output` has both as JSON lines.

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
        k=k,
        limit=limit,
        world=WorldSettings(documents=documents, private=private, quotes=quotes, sentences=100),
        training=RunSettings(steps=steps, p=p),
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

    training = with_recipe(settings.training)
    places = {seed: output / f"seed-{seed}" for seed in settings.seeds}
    runs: list[RunSettings] = []
    for seed, place in places.items():
        _prepare(place, seed, settings, progress)
        runs += [
            replace(
                training,
                sampling=regime,
                langs=settings.world.languages,
                data=place / "world" / "data",
                tokenizer=place / "tokenizer",
                runs=place / "runs",
                name=name_of(regime),
                seed=seed,
            )
            for regime in settings.regimes
        ]
    train_runs(runs, workers=workers, progress=progress)
    seeds = []
    for seed, place in places.items():
        progress.note(f"seed {seed}: evaluating")
        grid = _grid(place, settings)
        result = run_grid(grid, place / "scores", workers=workers, progress=progress)
        result.require_complete()
        seeds.append(figures(result.rows))
    tables = {"scores": score_rows(seeds, settings.regimes), "claims": check_claims(seeds)}
    for name, table in tables.items():
        lines = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in table)
        write_bytes(output / f"{name}.jsonl", lines)
    return tables


def with_recipe(training: RunSettings) -> RunSettings:
    """The settings with `RECIPE` where they leave something open."""
    left = {name: value for name, value in RECIPE.items() if getattr(training, name) is None}
    if "model" not in left:  # a model that was chosen has its own shape
        left = {name: value for name, value in left.items() if name not in SHAPE}
    return replace(training, attention="document", mix_rest="uniform", **left)


def name_of(regime: str) -> str:
    """Name of a regime's run."""
    return regime.replace(":", "-")


def _prepare(place: Path, seed: int, settings: WorldStudySettings, progress: Progress) -> None:
    world = replace(settings.world, seed=seed)
    # Sentences of other languages are rare in the text that real tokenizers learn from.
    for name, each in (("world", world), ("plain", replace(world, quotes=0.0))):
        if not (place / name).exists():
            write_world(place / name, each, progress)
        elif read_settings(place / name) != each:
            raise _other(place / name)
    tokenizer = place / "tokenizer"
    if not tokenizer.exists():
        data = place / "plain" / "data"
        bpe_seq(world.languages, data=data, output=tokenizer, k=settings.k, progress=progress)
    elif read_manifest(tokenizer).k != settings.k:
        raise _other(tokenizer)


def _other(place: Path) -> UsageError:
    return UsageError("was made with other settings", where=place, remedy="choose another --output")


def _grid(place: Path, settings: WorldStudySettings) -> Grid:
    tasks = place / "world" / "tasks"
    return Grid(
        runs=tuple(
            Runs(path=str(place / "runs" / name_of(regime)), name=regime)
            for regime in settings.regimes
        ),
        mcq=(Mcq(data=tasks, tasks=FACTS, infer=MODES_OF_FACTS, batch_size=128),),
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
    )


def figures(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], float]:
    """(regime, mode, figure) → mean over languages or pairs, of one seed's rows."""
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        figure = row["metric"] if row["task"] == "mt" else row["task"]
        if figure in FIGURES and row["metric"] in ("acc", "BLEU", "in language"):
            values.setdefault((row["system"], row["infer"], figure), []).append(row["value"])
    return {key: fmean(each) for key, each in values.items()}


def score_rows(seeds: Sequence[Figures], regimes: Sequence[str]) -> list[dict[str, Any]]:
    """Means over seeds and their intervals, a row for each regime and mode."""
    rows = []
    for regime in regimes:
        for mode in MODES_OF_TRANSLATION:
            row: dict[str, Any] = {"regime": regime, "infer": mode, "seeds": len(seeds)}
            for figure in FIGURES:
                values = [seed[key] for seed in seeds if (key := (regime, mode, figure)) in seed]
                if values:
                    mean, low, high = interval(values)
                    row[figure] = mean
                    if len(values) > 1:
                        row |= {f"{figure}_low": low, f"{figure}_high": high}
            rows.append(row)
    return rows
