"""Rows of `modtok eval mcq`, `mt`, `sum` and `bpb`, and of `modtok generate`."""

from collections.abc import Sequence
from typing import Any

from modtok_cli.reports.charts import Chart, dots
from modtok_cli.reports.kinds import RowKind
from modtok_cli.reports.tables import (
    Row,
    Table,
    by_text,
    display_name,
    grouped,
    languages_of,
    parse_columns,
    table_of,
    with_interval,
)


def _with_systems(rows: Sequence[Row]) -> list[Row]:
    """Rows whose "tokenizer", the series of charts, is the system.

    Its name is the inference mode, with the run before it if the rows are of several checkpoints.
    Runs of one name and step are told apart by their digests; rows that differ in the number of
    shots or of examples only, by these.
    """
    checkpoints = {str(row.get("checkpoint", "")) for row in rows}
    short = {each: each.partition("/")[0] for each in checkpoints}
    if len(set(short.values())) < len(checkpoints):
        short = {each: each.replace("/", " ") for each in checkpoints}
    named: list[Row] = []
    for row in rows:
        run = short[str(row.get("checkpoint", ""))] or "run"
        mode = f"--infer {row['infer']}"
        named.append({**row, "tokenizer": f"{run} {mode}" if len(checkpoints) > 1 else mode})
    place = ("tokenizer", "task", "metric", "language", "text")
    for field, sign in (("shots", "--shots {}"), ("n", "n={}"), ("documents", "documents={}")):
        values: dict[tuple[Any, ...], set[Any]] = {}
        for row in named:
            values.setdefault(tuple(map(row.get, place)), set()).add(row.get(field))
        named = [
            {**row, "tokenizer": f"{row['tokenizer']} {sign.format(row.get(field))}"}
            if len(values[tuple(map(row.get, place))]) > 1
            else row
            for row in named
        ]
    return named


def evaluation_charts(rows: Sequence[Row]) -> list[Chart]:
    """Scores per language or pair, a chart for each task and metric."""
    charts: list[Chart] = []
    for (task, metric), group in grouped(_with_systems(rows), "task", "metric").items():
        chance = {row["chance"] for row in group if row.get("chance") is not None}
        line = "; dashed: chance" if len(chance) == 1 else ""
        scale = ", 0 to 100" if group[0].get("scale", 100) == 100 else ""
        reference = min(chance) if len(chance) == 1 else None
        axis, note = f"{metric}{scale}{line}", _counted(group)
        chart = dots(group, "value", f"{task}: {metric}", axis, reference=reference, note=note)
        charts.append(chart)
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


def evaluation_tables(rows: Sequence[Row]) -> list[Table]:
    """Languages as rows, tasks and metrics as columns, a table for each run and mode."""
    tables = []
    for (name,), group in grouped(_with_systems(rows), "tokenizer").items():
        columns = grouped(group, "task", "metric")
        scores = {(row["language"], row["task"], row["metric"]): row for row in group}
        body = [
            [
                display_name(language),
                *(with_interval(scores.get((language, *column))) for column in columns),
            ]
            for language in sorted(languages_of(group), key=display_name)
        ]
        headings = ["language", *(f"{task} {metric}" for task, metric in columns)]
        tables.append(Table(f"Scores, {name} (95% interval)", headings, body))
    return tables


EVALUATION = RowKind(
    name="evaluation",
    title="Evaluation",
    about="Scores from 0 to 100; bars and parentheses are 95% intervals over examples. Tests of "
    "differences: modtok eval compare.",
    charts=evaluation_charts,
    tables=evaluation_tables,
    order=100,
    fields=("task", "language", "metric", "value", "infer", "n", "shots"),
    by_fields=True,
    key=("task", "language", "metric", "infer", "shots", "signature"),
)


def _bpb_charts(rows: Sequence[Row]) -> list[Chart]:
    """Bits per byte with intervals, a series for each run and mode."""
    axis = "bits per byte (lower is better)"
    return [
        dots(group, "bits_per_byte", f"Bits per byte{on}", axis)
        for on, group in by_text(_with_systems(rows))
    ]


_BITS = parse_columns(
    "text, language, tokenizer=model, bits_per_byte=bits per byte:ratio, low=95% from:ratio, "
    "high=to:ratio, bits_per_character=per character:ratio"
)


BPB = RowKind(
    name="bpb",
    title="Bits per byte",
    about="Bits that a model needs per byte of a text. Models compare on the same text; values of "
    "different languages do not compare. Bars are 95% bootstrap intervals over documents.",
    charts=_bpb_charts,
    tables=lambda rows: [table_of("Bits per byte", _with_systems(rows), _BITS, left=3)],
    order=95,
    fields=("text", "language", "infer", "bits_per_byte", "bits_per_character"),
    key=("text", "language", "infer", "checkpoint", "signature"),
    measure=("bits_per_byte", "bits per byte"),
    compares_languages=False,
    ranked=_with_systems,
)


_TEXTS = parse_columns(
    "languages=vocabulary, prompt, text=continuation, prompt_tokens=prompt tokens:int"
)


GENERATION = RowKind(
    name="generation",
    title="Generated text",
    about="Continuations by the model of this workspace.",
    charts=lambda rows: [],
    tables=lambda rows: [table_of("Generated text", rows, _TEXTS, left=3, prose=True)],
    order=110,
    fields=("prompt", "text", "languages", "prompt_tokens", "reason"),
    by_fields=True,
)

KINDS = (BPB, EVALUATION, GENERATION)
