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
from modtok_cli.base.reading import read_bounded
from modtok_cli.reports.charts import MOST_TOGETHER, Chart, Curves, Panels
from modtok_cli.reports.tables import Row, Table, language_table, parse_columns, table_of

Points = list[tuple[float, float]]
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


def run_charts(run: TrainingRun) -> list[Curves]:
    """Over steps: bits per byte of every text and accuracy of every task by language, and seconds
    by phase.
    """
    bits: dict[str, dict[str, Points]] = {}
    tasks: dict[str, dict[str, Points]] = {}

    def add(charts: dict[str, dict[str, Points]], name: str, row: Row, of: str, value: Any) -> None:
        point = (float(row["step"]), float(value))
        charts.setdefault(name, {}).setdefault(of, []).append(point)

    for row in run.evaluations:
        for text, figures in _texts(row).items():
            for language, values in figures.items():
                if values["bits_per_byte"] is not None:
                    add(bits, f"Bits per byte of {text}", row, language, values["bits_per_byte"])
    for row in run.tasks:
        for language, scores in row["tasks"].items():
            for task, values in scores.items():
                add(tasks, f"Accuracy of {task}", row, language, values["value"])
    return [
        *(Curves(title, "step", "bits per byte", series) for title, series in bits.items()),
        *(Curves(title, "step", "%", series) for title, series in tasks.items()),
        *_time_charts(run),
    ]


def _time_charts(run: TrainingRun) -> Iterator[Curves]:
    """Seconds of a step by phase, means over groups of steps."""
    timed = [row for row in run.steps if "phases" in row.get("time", {})]
    series: dict[str, Points] = {}
    size = -(-len(timed) // _GROUPS) or 1
    for group in (timed[first : first + size] for first in range(0, len(timed), size)):
        for phase in group[0]["time"]["phases"]:
            mean = fmean(float(row["time"]["phases"][phase]) for row in group)
            series.setdefault(phase, []).append((float(group[-1]["step"]), mean))
    if series:
        yield Curves("Seconds of a step by phase", "step", "seconds", series)


def comparison(runs: Sequence[TrainingRun]) -> Sequence[Chart]:
    """The charts of a run, or of several with a panel for each language.

    Of many runs only the best and the worst have a color, by the mean of the last values.
    """
    if len(runs) == 1:
        return run_charts(runs[0])
    panels: dict[str, dict[str, dict[str, Sequence[tuple[float, float]]]]] = {}
    axes: dict[str, str] = {}
    for run in runs:
        for chart in run_charts(run):
            axes[chart.title] = chart.y_axis
            for language, curve in chart.series.items():
                panels.setdefault(chart.title, {}).setdefault(language, {})[run.name] = curve
    charts = []
    for title, languages in panels.items():
        last: dict[str, list[float]] = {}
        for curves in languages.values():
            for name, curve in curves.items():
                last.setdefault(name, []).append(curve[-1][1])
        order = sorted(last, key=lambda name: fmean(last[name]))
        ends = [order[0], order[-1]] if len(order) > MOST_TOGETHER else order
        charts.append(Panels(title, "step", axes[title], languages, dict.fromkeys(languages, ends)))
    return charts


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
            {"run": run.name, "sampling": own["sampling"], "model": own["model"],
             "step": last["step"], "steps": own["steps"], "bytes": sum(trained),
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


def _texts(row: Row) -> dict[str, Any]:
    """Figures by language of every text of an evaluation."""
    return {"held-out text": row["held_out"], **row.get("valid", {})}
