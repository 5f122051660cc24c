"""Rows of `modtok study sampling`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart, Dots, Mark
from modtok_cli.measure.tables import Table, grouped, languages_of, ratio


def sampling_charts(rows: Sequence[Row]) -> list[Chart]:
    """Bits per byte per language, a series for each regime and a chart for each vocabulary."""
    charts: list[Chart] = []
    for (inference,), group in grouped(rows, "inference").items():
        series: dict[str, dict[str, Mark]] = {}
        for row in group:
            series.setdefault(row["sampling"], {})[row["language"]] = Mark(row["bits_per_byte"])
        title = f"Bits per byte, predicted over {inference}"
        charts.append(Dots(title, "bits per byte (lower is better)", languages_of(group), series))
    return charts


def sampling_tables(rows: Sequence[Row]) -> list[Table]:
    """Bits per byte, and the share of output in the language, by regime and vocabulary."""
    return [
        _by_regime(rows, "bits_per_byte", "Bits per byte of held-out text"),
        _by_regime(rows, "in_language", "Share of generated text that is in the language"),
    ]


def _by_regime(rows: Sequence[Row], key: str, caption: str) -> Table:
    columns = list(dict.fromkeys((row["sampling"], row["inference"]) for row in rows))
    cells = {(row["language"], row["sampling"], row["inference"]): row.get(key) for row in rows}
    body = [
        [language, *(ratio(cells.get((language, *column))) for column in columns)]
        for language in languages_of(rows)
    ]
    headings = [f"{sampling} / {inference}" for sampling, inference in columns]
    return Table(caption, ["language", *headings], body)


def sampling_command(rows: Sequence[Row]) -> str:
    """`modtok study sampling` with the regimes of the rows."""
    regimes = ",".join(dict.fromkeys(str(row["sampling"]) for row in rows))
    return shlex.join(["modtok", "study", "sampling", "--regimes", regimes])


KIND = Kind(
    name="sampling",
    title="Sampling regimes at inference",
    about="The same small model trained under each regime: bits per byte of held-out text, and the "
    "share of generated text that is in the language, over three vocabularies.",
    example="modtok study sampling > studies/sampling.jsonl",
    charts=sampling_charts,
    tables=sampling_tables,
    order=90,
    fields=("sampling", "inference", "language", "bits_per_byte", "vocabulary"),
    by_fields=True,
    command=sampling_command,
)
