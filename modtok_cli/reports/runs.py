"""Training runs of a workspace, read from the files of their directories.

`runs/<name>/config.json` and `metrics.jsonl` are a workspace format (docs/pretraining.md), so that
the packages that train are not needed to read them.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from modtok_cli.base.progress import Progress
from modtok_cli.base.reading import read_bounded
from modtok_cli.reports import means
from modtok_cli.reports.charts import MOST_TOGETHER, Chart, Curves, Panels
from modtok_cli.reports.equal_loss import Course, equal_loss
from modtok_cli.reports.tables import MARKS, Row, Table, cell, marked

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
        _ = run.command, run.signature, comparison([run]), runs_tables([run]), runs_finding([run])
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


def runs_finding(runs: Sequence[TrainingRun]) -> str | None:
    """A sentence about a run, or about the best and the worst of several.

    Runs are compared by their means over the languages that all have; None if there is none.
    """
    last = {run.name: _bits(run.evaluations[-1]["held_out"]) for run in runs}
    common = set.intersection(*map(set, last.values()))
    if not common:
        return None
    mean = {name: fmean(values[each] for each in common) for name, values in last.items()}
    best, highest = (f(mean, key=mean.__getitem__) for f in (min, max))
    over = f"over {len(common)} language{'s' * (len(common) != 1)}."
    if len(runs) == 1:
        first = fmean(_bits(runs[0].evaluations[0]["held_out"]).values())
        move = f"{first:.3f} to {mean[best]:.3f}"
        return f"Run {best}: mean bits per byte of held-out text from {move} {over}"
    return (
        f"Training runs: {best} has the lowest mean bits per byte of held-out text, "
        f"{mean[best]:.3f} {over} {highest} has the highest, {mean[highest]:.3f}."
    )


def _bits(figures: Row) -> dict[str, float]:
    return {
        language: float(values["bits_per_byte"])
        for language, values in figures.items()
        if values["bits_per_byte"] is not None
    }


def runs_tables(runs: Sequence[TrainingRun]) -> list[Table]:
    """Runs side by side: settings and means, then bits per byte of every text by language."""
    last = [_texts(run.evaluations[-1]) for run in runs]
    texts = list(dict.fromkeys(text for figures in last for text in figures))
    held = [[*_bits(run.evaluations[-1]["held_out"]).values()] for run in runs]
    mean_bits = [fmean(values) if values else None for values in held]
    body = [
        [
            run.name,
            str(run.config["config"]["sampling"]),
            str(run.config["config"]["model"]),
            f"{run.evaluations[-1]['step']:,} of {run.config['config']['steps']:,}",
            cell(
                sum(int(each["bytes"]) for row in run.steps for each in row["languages"].values()),
                "int",
            ),
            mean,
        ]
        for run, mean in zip(runs, marked(mean_bits, "ratio"), strict=True)
    ]
    headings = ["run", "sampling", "model", "steps", "training bytes", "bits per byte"]
    note = MARKS.replace("row", "column") if len(runs) > 1 else ""
    tables = [Table("Training runs", headings, body, left=3, note=note)]
    for text in texts:
        bits = [_bits(figures.get(text, {})) for figures in last]
        languages = sorted({language for values in bits for language in values})
        rows = [
            [language, *marked([values.get(language) for values in bits], "ratio")]
            for language in languages
        ]
        names = [run.name for run in runs]
        caption = f"Bits per byte of {text}"
        tables.append(
            Table(caption, ["language", *names], rows, note=MARKS if len(runs) > 1 else "")
        )
    return [*tables, *equal_loss(list(map(course_of, runs))), *_over_seeds(runs, texts)]


def course_of(run: TrainingRun) -> Course:
    """How the loss of a run fell, over the languages of its last evaluation."""
    last = run.evaluations[-1]["held_out"]
    languages = _bits(last)
    stages = [run.config, *reversed(run.config.get("stages", []))]
    checksums = {name: crc for stage in stages[::-1] for name, crc in stage.get("text", {}).items()}
    spent: dict[int, tuple[float, float]] = {}
    flops = 0.0
    for row in run.steps:
        flops += row["time"]["model_flops_per_second"] * row["time"]["step_seconds"]
        spent[row["step"]] = float(row["tokens"]), flops
    points = [
        (*spent[row["step"]], fmean(bits[name] for name in languages))
        for row in run.evaluations
        if (bits := _bits(row["held_out"])).keys() >= languages.keys() and languages
    ]
    texts = {name: (checksums.get(name), last[name].get("bytes")) for name in languages}
    return Course(run.name, texts, str(run.config["tokenizer"]["signature"]), points)


def _over_seeds(runs: Sequence[TrainingRun], texts: Sequence[str]) -> Iterator[Table]:
    """Means, intervals and tests of every text, if some runs differ in the seed only."""
    of: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        own, last = run.config["config"], run.evaluations[-1]
        settings = {name: value for name, value in own.items() if name != "seed"}
        recipe = repr((settings, run.config["tokenizer"]["signature"], last["step"]))
        labels: dict[str, Any] = {name: own.get(name) for name in ("sampling", "p", "seed")}
        labels |= {"recipe": recipe, "run": run.name, "checkpoint": run.name, "infer": "training"}
        of.setdefault(recipe, []).append(labels | {"step": last["step"], "texts": _texts(last)})
    if all(len({label["seed"] for label in group}) < 2 for group in of.values()):
        return
    for text in texts:
        rows = [
            label | {"language": language, "text": text, "bits_per_byte": value}
            for group in of.values()
            for label in group
            for language, value in _bits(label["texts"].get(text, {})).items()
        ]
        for table in means.tables(rows):
            yield replace(table, caption=f"{table.caption}, {text}")


def _texts(row: Row) -> dict[str, Any]:
    """Figures by language of every text of an evaluation."""
    return {"held-out text": row["held_out"], **row.get("valid", {})}
