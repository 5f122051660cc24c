"""Rows of `modtok study sampling`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart, Dots, Mark
from modtok_cli.measure.tables import Table, grouped, languages_of, ratio


def sampling_charts(rows: Sequence[Row]) -> list[Chart]:
    """Bits per byte per language, a series for each regime and a chart for each vocabulary."""
    charts: list[Chart] = []
    for (inference,), group in grouped(rows, "inference").items():
        series: dict[str, dict[str, Mark]] = {}
        for (name, language), values in _over_seeds(group, rows, "bits_per_byte").items():
            series.setdefault(name, {})[language] = Mark(values)
        title = f"Bits per byte, predicted over {inference}"
        charts.append(Dots(title, "bits per byte (lower is better)", languages_of(group), series))
    return charts


def _regime(row: Row, rows: Sequence[Row]) -> str:
    """The regime, with p where the study has several of it."""
    values = {each.get("p") for each in rows if each["sampling"] == row["sampling"]}
    return f"{row['sampling']} p={row['p']:g}" if len(values) > 1 else str(row["sampling"])


def _over_seeds(group: Sequence[Row], rows: Sequence[Row], key: str) -> dict[tuple[str, str], Any]:
    """(regime, language) -> mean over seeds of a field, for rows that have it."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in group:
        if row.get(key) is not None:
            found.setdefault((_regime(row, rows), row["language"]), []).append(row[key])
    return {place: sum(values) / len(values) for place, values in found.items()}


def sampling_tables(rows: Sequence[Row]) -> list[Table]:
    """Bits per byte, and the share of output in the language, by regime and vocabulary."""
    return [
        _by_regime(rows, "bits_per_byte", "Bits per byte of held-out text"),
        _by_regime(rows, "in_language", "Share of generated text that is in the language"),
    ]


def _by_regime(rows: Sequence[Row], key: str, caption: str) -> Table:
    cells = {
        (language, name, inference): value
        for (inference,), group in grouped(rows, "inference").items()
        for (name, language), value in _over_seeds(group, rows, key).items()
    }
    columns = list(dict.fromkeys((_regime(row, rows), row["inference"]) for row in rows))
    body = [
        [language, *(ratio(cells.get((language, *column))) for column in columns)]
        for language in languages_of(rows)
    ]
    headings = [f"{name} / {inference}" for name, inference in columns]
    return Table(caption, ["language", *headings], body)


def sampling_command(rows: Sequence[Row]) -> str:
    """`modtok study sampling` with the regimes of the rows."""
    regimes = ",".join(dict.fromkeys(str(row["sampling"]) for row in rows))
    words = ["modtok", "study", "sampling", "--regimes", regimes]
    for flag, key in (("--p-values", "p"), ("--seeds", "seed")):
        known = [row for row in rows if key in row and row["sampling"] not in ("joint", "none")]
        values = dict.fromkeys(
            f"{row[key]:g}" for row in (known if key == "p" else rows) if key in row
        )
        words += [flag, ",".join(values)] if len(values) > 1 else []
    return shlex.join(words)


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
