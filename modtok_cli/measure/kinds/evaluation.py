"""Rows of `modtok eval mcq`, `modtok eval mt` and `modtok eval sum`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from statistics import fmean

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart, Dots, Mark
from modtok_cli.measure.tables import Table, grouped, languages_of, number, score
from modtok_cli.text.language_names import language_name

_CHECKPOINT = re.compile(r"\|checkpoint:([^|]*)")


def checkpoint_of(row: Row) -> str:
    """Checkpoint that a row was measured on, "" if the row does not say.

    >>> checkpoint_of({"signature": "mt|lang:en-fr|checkpoint:tiny@60/5097f645|modtok:0"})
    'tiny@60/5097f645'
    """
    if row.get("checkpoint"):
        return str(row["checkpoint"])
    found = _CHECKPOINT.search(str(row.get("signature", "")))
    return found[1] if found else ""


def system_names(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """(checkpoint, inference mode) -> name of the system in titles and legends.

    The name is the mode, with the run before it if the rows are of several checkpoints. Runs of
    one name and step are distinguished by their digests.
    """
    systems = list(dict.fromkeys((checkpoint_of(row), str(row["infer"])) for row in rows))
    checkpoints = {checkpoint for checkpoint, _ in systems}
    if len(checkpoints) < 2:
        return {system: f"--infer {system[1]}" for system in systems}
    short = {checkpoint: checkpoint.partition("/")[0] for checkpoint in checkpoints}
    if len(set(short.values())) < len(checkpoints):
        short = {checkpoint: checkpoint for checkpoint in checkpoints}
    return {(run, mode): f"{short[run] or 'run'} --infer {mode}" for run, mode in systems}


def _by_system(rows: Sequence[Row]) -> dict[str, list[Row]]:
    names = system_names(rows)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(names[checkpoint_of(row), str(row["infer"])], []).append(row)
    return groups


def _named(rows: Sequence[Row]) -> list[Row]:
    """The rows without those over random sets of languages of a grid: each set is a mode."""
    return [row for row in rows if not row.get("drawn")]


def evaluation_charts(rows: Sequence[Row]) -> list[Chart]:
    """Scores with intervals per language or pair, a chart for each task and metric."""
    rows = _named(rows)
    names = system_names(rows)
    charts: list[Chart] = []
    for (task, metric), group in grouped(rows, "task", "metric").items():
        series: dict[str, dict[str, Mark]] = {}
        for row in group:
            mark = Mark(row["value"], row.get("low"), row.get("high"))
            name = names[checkpoint_of(row), str(row["infer"])]
            series.setdefault(name, {})[row["language"]] = mark
        chance = {row["chance"] for row in group if row.get("chance") is not None}
        line = "; dashed: chance" if len(chance) == 1 else ""
        charts.append(
            Dots(
                f"{task}: {metric}",
                f"{metric}, 0 to 100{line}",
                languages_of(group),
                series,
                reference=min(chance) if len(chance) == 1 else None,
                note=_counted(group),
            )
        )
    return charts


def _counted(rows: Sequence[Row]) -> str:
    """How many examples the scores of a chart rest on.

    >>> row = {"n": 500, "low": 1.0}
    >>> _counted([row, {**row, "n": 1200}])
    'n = 500 to 1,200 examples; bars: 95% intervals'
    """
    counts = [row["n"] for row in rows]
    low, high = min(counts), max(counts)
    shown = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    bars = "; bars: 95% intervals" if any(row.get("low") is not None for row in rows) else ""
    return f"n = {shown} examples{bars}"


def evaluation_finding(rows: Sequence[Row]) -> str | None:
    """The best system on each task by its mean over languages, with its worst language."""
    parts = []
    for (task, metric), group in grouped(rows, "task", "metric").items():
        if task == "mean":
            continue
        systems = _by_system(group)
        means = {name: fmean(row["value"] for row in own) for name, own in systems.items()}
        best = max(means, key=means.__getitem__)
        worst = min(systems[best], key=lambda row: float(row["value"]))
        chance = worst.get("chance")
        against = "" if chance is None else f", chance {chance:.1f}"
        parts.append(
            f"{task} {metric} {means[best]:.1f} ({best}; lowest in "
            f"{language_name(worst['language'])}: {worst['value']:.1f}{against})"
        )
    return f"Evaluation: {', '.join(parts)}." if parts else None


def evaluation_tables(rows: Sequence[Row]) -> list[Table]:
    """Languages as rows, tasks and metrics as columns, a table for each run and mode."""
    rows = _named(rows)
    tables = []
    for name, group in _by_system(rows).items():
        columns = list(dict.fromkeys((row["task"], row["metric"]) for row in group))
        cells = {(row["language"], row["task"], row["metric"]): row for row in group}
        body = [
            [language, *(score_cell(cells.get((language, *column))) for column in columns)]
            for language in languages_of(group)
        ]
        for what, key, form in (("chance", "chance", score), ("n", "n", number)):
            found = [
                {
                    row[key]
                    for row in group
                    if column == (row["task"], row["metric"]) and row.get(key) is not None
                }
                for column in columns
            ]
            if any(found):
                same = [form(min(each)) if len(each) == 1 else "–" for each in found]
                body.append([what, *same])
        headings = ["language", *(f"{task} {metric}" for task, metric in columns)]
        tables.append(Table(f"Scores, {name} (95% interval)", headings, body))
    return tables


def score_cell(row: Mapping[str, object] | None) -> str:
    """A score with its 95% interval.

    >>> score_cell({"value": 0.0, "low": 0.0, "high": 11.35})
    '0.0 (0.0–11.4)'
    """
    if row is None:
        return "–"
    value, low, high = (row.get(name) for name in ("value", "low", "high"))
    text = score(value)  # type: ignore[arg-type]
    return text if low is None or high is None else f"{text} ({low:.1f}–{high:.1f})"


def evaluation_command(rows: Sequence[Row]) -> str:
    """`modtok eval mt|sum|mcq` lines, by the tasks and inference modes of the rows."""
    commands = []
    for name, flag in (("mt", "--pairs"), ("sum", "--langs"), ("mcq", "--langs")):
        named = (row["task"] if row["task"] in ("mt", "sum") else "mcq" for row in rows)
        mine = [row for row, task in zip(rows, named, strict=True) if task == name]
        tasks = dict.fromkeys(str(row["task"]) for row in mine if row["task"] != "mean")
        if not tasks:
            continue
        words = ["modtok", "eval", name, *(["--tasks", ",".join(tasks)] if name == "mcq" else [])]
        words += [flag, ",".join(dict.fromkeys(str(row["language"]) for row in mine))]
        for mode in dict.fromkeys(str(row["infer"]) for row in mine):
            # The vocabularies of a slice are fixed: "slice" in its rows is not a mode.
            commands.append([*words, *([] if mode == "slice" else ["--infer", mode])])
    return "\n".join(map(shlex.join, commands))


KIND = Kind(
    name="evaluation",
    title="Evaluation",
    about="Scores from 0 to 100; bars and parentheses are 95% intervals.",
    example="modtok eval mcq > results/mcq.jsonl",
    charts=evaluation_charts,
    tables=evaluation_tables,
    order=100,
    fields=("task", "language", "metric", "value", "infer", "n", "shots"),
    by_fields=True,
    command=evaluation_command,
    sentence=evaluation_finding,
)
