"""Rows of `modtok eval bpb`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.kinds.evaluation import checkpoint_of, system_names
from modtok_cli.measure.plot.charts import Chart, Dots, Mark
from modtok_cli.measure.tables import Table, grouped, languages_of, ratio, short_names


def bpb_charts(rows: Sequence[Row]) -> list[Chart]:
    """Bits per byte with intervals, a series for each run and mode, a chart for each text."""
    names, texts = system_names(rows), grouped(rows, "text")
    joined = len({row["language"] for row in rows}) == len(texts)
    titles = short_names([row["text"] for row in rows])
    charts: list[Chart] = []
    for (text,), group in {("",): list(rows)}.items() if joined else texts.items():
        series: dict[str, dict[str, Mark]] = {}
        for row in group:
            mark = Mark(row["bits_per_byte"], row.get("low"), row.get("high"))
            name = names[checkpoint_of(row), str(row["infer"])]
            series.setdefault(name, {})[row["language"]] = mark
        title = "Bits per byte" + (f", {titles[text]}" if text else "")
        charts.append(Dots(title, "bits per byte (lower is better)", languages_of(group), series))
    return charts


def bpb_tables(rows: Sequence[Row]) -> list[Table]:
    """One row for each text, language, run and mode."""
    names = system_names(rows)
    body = [
        [
            str(row["text"]),
            row["language"],
            names[checkpoint_of(row), str(row["infer"])],
            ratio(row["bits_per_byte"]),
            "–" if row.get("low") is None else f"{row['low']:.3f}–{row['high']:.3f}",
            ratio(row["bits_per_character"]),
        ]
        for row in rows
    ]
    headings = ["text", "language", "model", "bits per byte", "95% interval", "per character"]
    return [Table("Bits per byte", headings, body, left=3)]


def bpb_command(rows: Sequence[Row]) -> str:
    """`modtok eval bpb` lines, one for each inference mode."""
    texts = list(dict.fromkeys(str(row["text"]) for row in rows))
    lines = []
    for mode in dict.fromkeys(str(row["infer"]) for row in rows):
        # The vocabularies of a slice or another model are fixed: these are no modes.
        words = ["modtok", "eval", "bpb", *texts]
        fixed = mode in ("slice", "model")
        lines.append(shlex.join([*words, *([] if fixed else ["--infer", mode])]))
    return "\n".join(lines)


KIND = Kind(
    name="bpb",
    title="Bits per byte",
    about="Bits that a model needs per byte of a text. They do not depend on the vocabulary; bars "
    "are 95% bootstrap intervals over documents.",
    example="modtok eval bpb TEXT > results/bpb.jsonl",
    charts=bpb_charts,
    tables=bpb_tables,
    order=95,
    fields=("text", "language", "infer", "bits_per_byte", "bits_per_character"),
    command=bpb_command,
)
