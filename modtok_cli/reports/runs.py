"""Training runs of a workspace, read from the files of their directories.

`runs/<name>/config.json` and `metrics.jsonl` are a workspace format (docs/pretraining.md), so that
the packages that train are not needed to read them.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from modtok_cli.base.progress import Progress
from modtok_cli.base.reading import read_bounded
from modtok_cli.reports.charts import Chart, Curves
from modtok_cli.reports.present import display_name
from modtok_cli.reports.tables import Row, Table, cell

Points = list[tuple[float, float]]
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
    for config in sorted(runs.glob("*/config.json")):
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


def _read(place: Path) -> TrainingRun:
    config = orjson.loads(read_bounded(place / "config.json"))
    lines = read_bounded(place / "metrics.jsonl").split(b"\n")
    # The last line of a run that is being written, or was killed, may be incomplete.
    rows = [orjson.loads(line) for line in lines[:-1]]
    evaluations = [row for row in rows if "held_out" in row]
    steps, tasks = ([row for row in rows if field in row] for field in ("loss", "tasks"))
    run = TrainingRun(place.name, config, steps, evaluations, tasks)
    if evaluations:  # checks all fields
        _ = run.command, run.signature, run_charts(run), run_table(run), run_finding(run)
    return run


def run_charts(run: TrainingRun) -> list[Chart]:
    """Bits per byte of every text, and accuracy of every task, over steps by language."""
    bits: dict[str, dict[str, Points]] = {}
    tasks: dict[str, dict[str, Points]] = {}

    def add(charts: dict[str, dict[str, Points]], name: str, row: Row, of: str, value: Any) -> None:
        point = (float(row["step"]), float(value))
        charts.setdefault(name, {}).setdefault(of, []).append(point)

    for row in run.evaluations:
        for text, figures in _texts(row).items():
            for language, values in figures.items():
                add(bits, f"Bits per byte of {text}", row, language, values["bits_per_byte"])
    for row in run.tasks:
        for language, scores in row["tasks"].items():
            for task, values in scores.items():
                add(tasks, f"Accuracy of {task}", row, language, values["value"])
    return [
        *(Curves(title, "step", "bits per byte", series) for title, series in bits.items()),
        *(Curves(title, "step", "%", series) for title, series in tasks.items()),
    ]


def run_finding(run: TrainingRun) -> str:
    """A sentence with the first and the last mean of the held-out text, and the worst language."""
    first, last = (
        {language: float(values["bits_per_byte"]) for language, values in row["held_out"].items()}
        for row in (run.evaluations[0], run.evaluations[-1])
    )
    before, after = (fmean(figures.values()) for figures in (first, last))
    worst = max(last, key=last.__getitem__)
    move = f"from {before:.3f} to {after:.3f}" if len(run.evaluations) > 1 else f"{after:.3f}"
    many = f"{len(last)} language{'s' * (len(last) != 1)}"
    return (
        f"Run {run.name}: mean bits per byte of held-out text {move} over {many}; the worst is "
        f"{display_name(worst)} with {last[worst]:.3f}."
    )


def _texts(row: Row) -> dict[str, Any]:
    """Figures by language of every text of an evaluation."""
    return {"held-out text": row["held_out"], **row.get("valid", {})}


def run_table(run: TrainingRun) -> Table:
    """First and last evaluation by text and language, and the amount of training text."""
    first, last = _texts(run.evaluations[0]), _texts(run.evaluations[-1])
    several = len(last) > 1
    trained: dict[str, int] = {}
    for row in run.steps:
        for language, figures in row["languages"].items():
            trained[language] = trained.get(language, 0) + int(figures["bytes"])
    body = [
        [
            *([text] if several else []),
            language,
            cell(first.get(text, {}).get(language, {}).get("bits_per_byte"), "ratio"),
            cell(values["bits_per_byte"], "ratio"),
            cell(trained.get(language, 0), "int"),
        ]
        for text, figures in last.items()
        for language, values in figures.items()
    ]
    steps = [f"step {row['step']}" for row in (run.evaluations[0], run.evaluations[-1])]
    headings = [*(["text"] if several else []), "language", *steps, "training bytes"]
    title = "Bits per byte" if several else "Bits per byte of held-out text"
    return Table(title, headings, body)
