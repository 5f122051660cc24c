"""Rows of `modtok eval mcq`, `mt`, `sum` and `bpb`, and of `modtok generate`."""

from collections.abc import Sequence

from modtok_cli.reports.charts import Chart, Dots, Mark
from modtok_cli.reports.kinds import Kind
from modtok_cli.reports.tables import (
    Row,
    Table,
    grouped,
    languages_of,
    marks_of,
    parse_columns,
    short_names,
    table_of,
    with_interval,
)


def _systems(rows: Sequence[Row]) -> list[str]:
    """Name of the system of each row in titles and legends.

    The name is the inference mode, with the run before it if the rows are of several checkpoints.
    Runs of one name and step are distinguished by their digests.
    """
    places = [(str(row.get("checkpoint", "")), str(row["infer"])) for row in rows]
    checkpoints = {checkpoint for checkpoint, _ in places}
    if len(checkpoints) < 2:
        return [f"--infer {mode}" for _, mode in places]
    short = {checkpoint: checkpoint.partition("/")[0] for checkpoint in checkpoints}
    if len(set(short.values())) < len(checkpoints):
        short = {checkpoint: checkpoint for checkpoint in checkpoints}
    return [f"{short[run] or 'run'} --infer {mode}" for run, mode in places]


def _with_systems(rows: Sequence[Row]) -> list[Row]:
    return [{**row, "system": name} for row, name in zip(rows, _systems(rows), strict=True)]


def _intervals(rows: Sequence[Row], key: str) -> dict[str, dict[str, Mark]]:
    """system -> language -> value of a field with its interval."""
    return marks_of(
        (row["system"], row["language"], Mark(row[key], row.get("low"), row.get("high")))
        for row in rows
    )


def evaluation_charts(rows: Sequence[Row]) -> list[Chart]:
    """Scores per language or pair, a chart for each task and metric."""
    charts: list[Chart] = []
    for (task, metric), group in grouped(_with_systems(rows), "task", "metric").items():
        chance = {row["chance"] for row in group if row.get("chance") is not None}
        line = "; dashed: chance" if len(chance) == 1 else ""
        scale = ", 0 to 100" if group[0].get("scale", 100) == 100 else ""
        charts.append(
            Dots(
                f"{task}: {metric}",
                f"{metric}{scale}{line}",
                languages_of(group),
                _intervals(group, "value"),
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


def evaluation_tables(rows: Sequence[Row]) -> list[Table]:
    """Languages as rows, tasks and metrics as columns, a table for each run and mode."""
    tables = []
    for (name,), group in grouped(_with_systems(rows), "system").items():
        columns = grouped(group, "task", "metric")
        scores = {(row["language"], row["task"], row["metric"]): row for row in group}
        body = [
            [language, *(with_interval(scores.get((language, *column))) for column in columns)]
            for language in languages_of(group)
        ]
        headings = ["language", *(f"{task} {metric}" for task, metric in columns)]
        tables.append(Table(f"Scores, {name} (95% interval)", headings, body))
    return tables


EVALUATION = Kind(
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
    """Bits per byte with intervals, a series for each run and mode, a chart for each text."""
    shown = _by_system(rows)
    texts = grouped(shown, "text")
    joined = len({row["language"] for row in shown}) == len(texts)
    titles = short_names([row["text"] for row in shown])
    charts: list[Chart] = []
    for (text,), group in {("",): shown}.items() if joined and shown else texts.items():
        title = "Bits per byte" + (f", {titles[text]}" if text else "")
        axis = "bits per byte (lower is better)"
        charts.append(Dots(title, axis, languages_of(group), _intervals(group, "bits_per_byte")))
    return charts


_BITS = parse_columns(
    "text, language, system=model, bits_per_byte=bits per byte:ratio, low=95% from:ratio, "
    "high=to:ratio, bits_per_character=per character:ratio"
)


def _by_system(rows: Sequence[Row]) -> list[Row]:
    """Rows that compare: texts that the model's tokenizer can write."""
    measured = [row for row in _with_systems(rows) if row["bits_per_byte"] is not None]
    return [{**row, "tokenizer": row["system"]} for row in measured]


BPB = Kind(
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
    ranked=_by_system,
)


_TEXTS = parse_columns(
    "languages=vocabulary, prompt, text=continuation, prompt_tokens=prompt tokens:int"
)


GENERATION = Kind(
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
