"""Training runs of a workspace, read from the files of their directories.

`runs/<name>/config.json` and `metrics.jsonl` are a workspace format (docs/pretraining.md), so that
the packages that train are not needed to read them.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from modtok_cli.base.progress import Progress
from modtok_cli.base.read_file import read_bounded
from modtok_cli.reports.charts import Chart, Curves, Point
from modtok_cli.reports.tables import (
    Row,
    Table,
    display_name,
    language_table,
    parse_columns,
    table_of,
)

# Points of a curve over all steps.
_GROUPS = 100
# Exceptions that invalid or missing values in rows lead to.
INVALID = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


@dataclass(frozen=True)
class TrainingRun:
    """A run: name, contents of `config.json`, training steps and evaluations in order.

    `evaluations` are of text, `tasks` of multiple-choice tasks.
    """

    name: str
    config: Row
    steps: Sequence[Row]
    evaluations: Sequence[Row]
    tasks: Sequence[Row] = ()

    @property
    def command(self) -> str:
        """Command that starts such a run; empty if an older modtok ran it.

        Quoted again: a shell must not expand what somebody wrote into the file.
        """
        return shlex.join(shlex.split(str(self.config.get("command", ""))))

    @property
    def signature(self) -> str:
        """Tokenizer and versions of the run."""
        versions = "|".join(f"{name}:{v}" for name, v in self.config["versions"].items())
        return f"pretrain|tok:{self.config['tokenizer']['signature']}|{versions}"


def collect_runs(runs: Path, progress: Progress) -> list[TrainingRun]:
    """All runs below `runs` with an evaluation, by name; warns about damaged ones."""
    complete = []
    for config in sorted(runs.glob("*/config.json"), key=lambda path: _natural(path.parent.name)):
        place = config.parent
        if place.is_symlink():  # runs/latest
            continue
        try:
            run = _read(place)
        except (OSError, *INVALID) as error:
            progress.warn(f"{place}: not in the format that pretrain writes ({error!r}); skipped")
            continue
        if run.evaluations:
            complete.append(run)
    return complete


def _natural(name: str) -> list[tuple[str, int]]:
    """A key that sorts run10 after run9."""
    return [(text, int(part or 0)) for text, part in re.findall(r"(\D*)(\d*)", name)]


def _read(place: Path) -> TrainingRun:
    config = orjson.loads(read_bounded(place / "config.json"))
    lines = read_bounded(place / "metrics.jsonl").split(b"\n")
    # The last line of a run that is being written, or was killed, may be incomplete.
    rows = [orjson.loads(line) for line in lines[:-1]]
    evaluations = [row for row in rows if "held_out" in row]
    steps, tasks = ([row for row in rows if field in row] for field in ("loss", "tasks"))
    run = TrainingRun(place.name, config, steps, evaluations, tasks)
    if evaluations:  # checks all fields
        _ = run.command, run.signature, comparison([run]), runs_tables([run])
    return run


def _values(run: TrainingRun) -> Iterator[tuple[str, str, str, float, float]]:
    """(title, axis, language, step, value) of every text, of every task, and of the phases."""
    for row in run.evaluations:
        for text, figures in _texts(row).items():
            title, axis = f"Bits per byte of {text}", "bits per byte"
            for language, bits in _bits(figures).items():
                yield title, axis, display_name(language), row["step"], bits
    for row in run.tasks:
        for language, scores in row["tasks"].items():
            for task, values in scores.items():
                value = float(values["value"])
                yield f"Accuracy of {task}", "%", display_name(language), row["step"], value
    timed = [row for row in run.steps if "phases" in row.get("time", {})]
    size = -(-len(timed) // _GROUPS) or 1
    for group in (timed[first : first + size] for first in range(0, len(timed), size)):
        for phase in group[0]["time"]["phases"]:
            mean = fmean(float(row["time"]["phases"][phase]) for row in group)
            yield "Seconds of a step by phase", "seconds", phase, group[-1]["step"], mean


def comparison(runs: Sequence[TrainingRun]) -> Sequence[Chart]:
    """The charts of a run, or of several with a panel for each language."""
    charts: dict[tuple[str, str], dict[str, dict[str, list[Point]]]] = {}
    for run in runs:
        for title, axis, name, step, value in _values(run):
            panel, series = ("", name) if len(runs) == 1 else (name, run.name)
            curves = charts.setdefault((title, axis), {}).setdefault(panel, {})
            curves.setdefault(series, []).append((float(step), value))
    return [Curves(title, "step", axis, panels) for (title, axis), panels in charts.items()]


def _texts(row: Row) -> dict[str, Any]:
    """Figures by language of every text of an evaluation."""
    return {"held-out text": row["held_out"], **row.get("valid", {})}


def _bits(figures: Row) -> dict[str, float]:
    return {
        language: float(values["bits_per_byte"])
        for language, values in figures.items()
        if values["bits_per_byte"] is not None
    }


_SETTINGS = parse_columns(
    "run, sampling, model, step=steps:int, steps=of:int, bytes=training bytes:int, "
    "bits=bits per byte:ratio"
)


def runs_tables(runs: Sequence[TrainingRun]) -> list[Table]:
    """Settings and means of runs, then bits per byte of every text by language."""
    settings, texts = [], dict[str, list[Row]]()
    for run in runs:
        last, own = run.evaluations[-1], run.config["config"]
        trained = [int(each["bytes"]) for row in run.steps for each in row["languages"].values()]
        bits = _bits(last["held_out"]).values()
        settings.append(
            {"run": run.name, "sampling": own["data"]["sampling"],
             "model": own["architecture"]["model"],
             "step": last["step"], "steps": own["schedule"]["steps"], "bytes": sum(trained),
             "bits": fmean(bits) if bits else None}
        )  # fmt: skip
        for text, figures in _texts(last).items():
            texts.setdefault(text, []).extend(
                {"tokenizer": run.name, "language": language, "bits": value}
                for language, value in _bits(figures).items()
            )
    return [
        table_of("Training runs", settings, _SETTINGS, left=3),
        *(language_table(rows, "bits", f"Bits per byte of {text}") for text, rows in texts.items()),
    ]
