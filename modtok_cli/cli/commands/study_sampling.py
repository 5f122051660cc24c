"""`modtok study sampling`: one small model under each sampling regime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.commands.eval_grid import is_local, summary_of, tables_of
from modtok_cli.cli.commands.eval_mcq import stay_local
from modtok_cli.cli.commands.pretrain import require_training
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_rows, emit_tables, parse_columns, wants_json
from modtok_cli.studies.sampling import regimes_of, settings_of, study_sampling

if TYPE_CHECKING:
    from modtok_cli.evaluate.grid.spec import Grid
    from modtok_cli.training.settings import RunSettings

COLUMNS = parse_columns(
    "sampling, p:ratio, seed:int, inference, language=lang, bits_per_byte=bits/byte:ratio, "
    "in_language=in language:ratio, texts:int, vocabulary:int"
)
Tasks = Annotated[
    Path | None,
    Option(
        "Tasks of a grid (see modtok eval grid), without runs, to evaluate the runs on.",
        metavar="FILE",
    ),
]


@command(
    "study sampling",
    study_sampling,
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
def show(call: Call, grid: Tasks = None, json: Json = False) -> None:
    """--grid FILE evaluates all runs on the tasks of a file: modtok eval grid prints its tables by
    seeds and p, from grids/NAME.
    """
    require_training()
    for flag, several, name in (("--p-values", "p_values", "p"), ("--seeds", "seeds", "seed")):
        if several in call.values and name in call.explicit:
            raise UsageError(f"{flag} conflicts with --{name}", remedy="use one of them")
    tasks = None
    if grid is not None:
        from modtok_cli.training.study import study_runs

        settings = settings_of(call.values)
        regimes = regimes_of(call.value("regimes"))
        planned = study_runs(settings, regimes, call.value("p_values"), call.value("seeds"))
        tasks = _tasks(grid, settings, [str(run.name) for run in planned])
    emit_rows(call(), COLUMNS, title="Sampling regimes at inference", json=json)
    if grid is not None and tasks is not None:
        _evaluate(call, tasks, Path("grids") / grid.stem, json)


def _tasks(file: Path, settings: RunSettings, names: Sequence[str]) -> Grid:
    """The grid of all runs, checked before hours of training."""
    require_models("lm_eval", "sacrebleu", "scipy")
    from modtok_cli.evaluate.grid.spec import Runs, read_grid
    from modtok_cli.training.config import resolve

    place = resolve(settings, gpu=False).runs
    runs = [Runs(path=str(place / name), tokenizer=settings.tokenizer) for name in names]
    return read_grid(file, runs)


def _evaluate(call: Call, tasks: Grid, output: Path, json: bool) -> None:
    """Evaluate the runs; a terminal shows the means, JSON has the rows of the study only."""
    if all(is_local(task) for task in tasks.mcq):
        stay_local()
    from modtok_cli.evaluate.grid.grid import run_grid
    from modtok_cli.evaluate.grid.means import summarize

    result = run_grid(tasks, output, progress=call.progress)
    for line in summary_of(result.skipped):
        call.say(line)
    summary = summarize(result, output, call.progress)
    if not wants_json(json):
        tables = tables_of(["averages", "p", "combinations"], summary.means, [])
        emit_tables([], tables, json=False)
    call.say(f"means and tests of the tasks are in {output}; modtok report {output}")
    result.require_complete()
