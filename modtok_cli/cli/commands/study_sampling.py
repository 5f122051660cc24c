"""`modtok study sampling`: one small model under each sampling regime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.commands.eval_grid import is_local, summary_of, tables_of
from modtok_cli.cli.commands.eval_mcq import stay_local
from modtok_cli.cli.commands.pretrain import require_training
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.options import Force, Json
from modtok_cli.cli.output import Column, emit_rows, emit_tables, wants_json
from modtok_cli.cli.session import Session
from modtok_cli.cli.training_options import training_settings, with_training_options

if TYPE_CHECKING:
    from modtok_cli.evaluate.grid.spec import Grid
    from modtok_cli.training.settings import RunSettings

Number = TypeVar("Number", int, float)
COLUMNS = (
    Column("sampling", "sampling"),
    Column("p", "p", "ratio"),
    Column("seed", "seed", "int"),
    Column("inference", "inference"),
    Column("language", "lang"),
    Column("bits_per_byte", "bits/byte", "ratio"),
    Column("in_language", "in language", "ratio"),
    Column("texts", "texts", "int"),
    Column("vocabulary", "vocabulary", "int"),
)
OPTIONS = (
    *("langs", "model", "steps", "batch_size", "seq_length", "lr", "p", "mix", "mix_rest"),
    *("update", "seed", "data", "tokenizer", "runs", "errors", "field", "lang_field"),
)
Regimes = Annotated[
    str,
    typer.Option("--regimes", metavar="REGIME,...", help="Sampling regimes to train with."),
]
Texts = Annotated[
    int,
    typer.Option(
        "--samples", metavar="N", min=1, help="Texts to continue per language and vocabulary."
    ),
]
Probabilities = Annotated[
    str | None,
    typer.Option(
        "--p-values",
        metavar="P,...",
        help="Probabilities p; each trains one run of full and of sub:N.",
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="N,...", help="Seeds; each trains one run of every regime."),
]
Tasks = Annotated[
    Path | None,
    typer.Option(
        "--grid",
        metavar="FILE",
        help="Tasks of a grid (see modtok eval grid), without runs, to evaluate the runs on.",
    ),
]


@command(
    "study sampling",
    resumes=True,
    examples="""
    # five small models on data/ and tokenizer/, some minutes each on a CPU
    modtok study sampling
    # two regimes, longer
    modtok study sampling --regimes none,sub:2 --steps 2000
    # three seeds and two probabilities, and tasks
    modtok study sampling --seeds 0,1,2 --p-values 0.2,0.5 --grid tasks.toml
    """,
)
@with_training_options(OPTIONS)
def study_sampling(
    session: Session,
    regimes: Regimes = "joint,none,full,sub:1,sub:2",
    p_values: Probabilities = None,
    seeds: Seeds = None,
    grid: Tasks = None,
    samples: Texts = 32,
    force: Force = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Compare models trained under each sampling regime.

    Each model predicts held-out text, and continues it, over three vocabularies: its language
    (lang), all of T (full), and with English (en+lang). The rows show bits per byte, and the
    share of generated text that is in the language. Runs are runs/study-REGIME. An
    interrupted study resumes.

    --grid FILE evaluates all runs on the tasks of a file: modtok eval grid prints its tables by
    seeds and p, from grids/NAME.
    """
    require_training()
    chosen = [part.strip() for part in regimes.split(",")]
    if not all(chosen) or len(set(chosen)) < len(chosen):
        raise UsageError(f"--regimes {regimes!r} has an empty or repeated entry")
    probabilities = _numbers(p_values, "--p-values", float)
    if probabilities and not all(0 <= p <= 1 for p in probabilities):
        raise UsageError("expected probabilities from 0 to 1", where="--p-values")
    several = _numbers(seeds, "--seeds", int)
    for flag, value, name in (("--p-values", p_values, "p"), ("--seeds", seeds, "seed")):
        if value is not None and name in session.explicit:
            raise UsageError(f"{flag} conflicts with --{name}", remedy="use one of them")
    settings = training_settings(options, session)
    from modtok_cli.training.loop import finish
    from modtok_cli.training.study import study_sampling

    tasks = None
    if grid is not None:
        from modtok_cli.training.study import study_runs

        names = [str(run.name) for run in study_runs(settings, chosen, probabilities, several)]
        tasks = _tasks(grid, settings, names)
    try:
        rows = study_sampling(
            settings,
            chosen,
            probabilities=probabilities,
            seeds=several,
            samples=samples,
            force=force,
            progress=session.progress,
        )
    finally:
        finish()
    emit_rows(rows, COLUMNS, title="Sampling regimes at inference", json=json)
    if grid is not None and tasks is not None:
        _evaluate(session, tasks, Path("grids") / grid.stem, json)


def _numbers(text: str | None, flag: str, kind: type[Number]) -> list[Number] | None:
    """The numbers of a list, without repetition; None for None."""
    if text is None:
        return None
    try:
        found = [kind(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or len(set(found)) < len(found) or min(found) < 0:
        raise UsageError(f"{text!r} is not a list of different numbers", where=flag)
    return found


def _tasks(file: Path, settings: RunSettings, names: Sequence[str]) -> Grid:
    """The grid of all runs, checked before hours of training."""
    require_models("lm_eval", "sacrebleu", "scipy")
    from modtok_cli.evaluate.grid.spec import Runs, read_grid
    from modtok_cli.training.config import resolve

    place = resolve(settings, gpu=False).runs
    runs = [Runs(path=str(place / name), tokenizer=settings.tokenizer) for name in names]
    return read_grid(file, runs)


def _evaluate(session: Session, tasks: Grid, output: Path, json: bool) -> None:
    """Evaluate the runs; a terminal shows the means, JSON has the rows of the study only."""
    if all(is_local(task) for task in tasks.mcq):
        stay_local()
    from modtok_cli.evaluate.grid.grid import evaluate_grid
    from modtok_cli.evaluate.grid.means import summarize

    result = evaluate_grid(tasks, output, progress=session.progress)
    for line in summary_of(result.skipped):
        session.say(line)
    summary = summarize(result, output, session.progress)
    if not wants_json(json):
        tables = tables_of(["averages", "p", "combinations"], summary.means, [])
        emit_tables([], tables, json=False)
    session.say(f"means and tests of the tasks are in {output}; modtok report {output}")
    result.require_complete()
