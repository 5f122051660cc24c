"""Rows of the studies: `modtok study orders`, `combos`, `scaling`, `budget`, `cost`, `sampling`."""

import math
import shlex
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from modtok_cli.reports.charts import Chart, Curves, Dots, Mark, Spread
from modtok_cli.reports.kinds import Kind, measuring_command
from modtok_cli.reports.tables import (
    Column,
    Row,
    Summary,
    Table,
    cell,
    grouped,
    languages_of,
    marks_of,
    over,
    parse_columns,
    short_names,
    unique,
)

_NSL = parse_columns("size:int, mean=NSL:ratio, min:ratio, max:ratio")
_IN_CHARTS = {"T": "sequential, all languages"}


def _interval(rows: Sequence[Row], key: str) -> Mark:
    """Mean, smallest and largest value of a field."""
    values = [row[key] for row in rows]
    return Mark(sum(values) / len(values), min(values), max(values))


def _orders_summary(rows: Sequence[Row]) -> list[Summary]:
    """Per tokenizer and language: mean, min, max and range of the NSL over orders."""
    lines = []
    for (tokenizer, language), group in grouped(rows, "tokenizer", "language").items():
        nsl = over(group, "nsl")
        size = round(fmean(row["size"] for row in group))
        line = {"tokenizer": tokenizer, "language": language, "size": size, **nsl}
        lines.append(line | {"spread": nsl["max"] - nsl["min"]})
    columns = (
        *parse_columns("language, tokenizer"),
        *_NSL,
        Column("spread", "range", "ratio"),
    )
    return [("NSL over language orders", lines, columns)]


def _orders_charts(rows: Sequence[Row]) -> list[Chart]:
    series = marks_of(
        (_IN_CHARTS.get(tokenizer, tokenizer), language, _interval(group, "nsl"))
        for (tokenizer, language), group in grouped(rows, "tokenizer", "language").items()
    )
    count = len({row["order"] for row in rows if row["order"] is not None})
    title = f"Sequential BPE under {count} language orders"
    axis = "NSL (bars: min to max over orders)"
    return [Dots(title, axis, languages_of(rows), series, reference=1.0)]


ORDERS = Kind(
    name="orders",
    title="Order of the languages",
    about="Sequential BPE learned under several orders of the languages, and an ordinary joint "
    "BPE of the same size.",
    example="modtok study orders TEXT",
    charts=_orders_charts,
    summary=_orders_summary,
    order=40,
)


def _combos_summary(rows: Sequence[Row]) -> list[Summary]:
    """Per number of languages and method: mean, standard deviations, min and max of the NSL.

    `std` is that of the languages' means and `std_all` that of all values: the paper's table does
    not say which of the two it reports.
    """
    lines = []
    for (n, method), group in grouped(rows, "n", "method").items():
        values = np.array([row["nsl"] for row in group])
        means = [
            np.mean([row["nsl"] for row in own]) for own in grouped(group, "language").values()
        ]
        lines.append(
            {
                "n": n,
                "method": method,
                "sets": len({tuple(row["languages"]) for row in group}),
                "values": len(values),
                "mean": float(values.mean()),
                "std": float(np.std(means)),
                "std_all": float(values.std()),
                "min": float(values.min()),
                "max": float(values.max()),
            }
        )
    columns = parse_columns(
        "n=languages:int, method, sets:int, values:int, mean=NSL:ratio, std=± languages:ratio, "
        "std_all=± all:ratio, min:ratio, max:ratio"
    )
    lines.sort(key=lambda line: (line["n"], line["method"]))
    return [("NSL of unions of languages", lines, columns)]


def _combos_charts(rows: Sequence[Row]) -> list[Chart]:
    """Distribution of NSL per language, for each number of languages from two."""
    charts: list[Chart] = []
    for (n,), group in grouped(rows, "n").items():
        if n < 2:
            continue
        series: dict[str, dict[str, list[float]]] = {"concatenated": {}, "sequential": {}}
        for row in group:
            series[row["method"]].setdefault(row["language"], []).append(row["nsl"])
        axis = "NSL (shape: distribution over sets and orders; bar: quartiles)"
        title = f"Unions of {n} languages"
        charts.append(Spread(title, axis, languages_of(group), series, reference=1.0))
    return charts


COMBOS = Kind(
    name="combos",
    title="Unions of languages",
    about="Sets of languages: the union extracted from sequential BPE, and concatenated "
    "monolingual BPE in every order.",
    example="modtok study combos TEXT",
    charts=_combos_charts,
    summary=_combos_summary,
    order=50,
)

_LARGEST = 6
"""Families in a chart, the largest ones."""


def _sizes(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per number of languages: mean, min and max size of T over orders, and new tokens."""
    lines = []
    for (n,), group in grouped(rows, "n").items():
        totals = [row["total"] for row in group]
        mean = {key: round(fmean(row[key] for row in group)) for key in ("total", "new", "adopted")}
        lines.append({"n": n, **mean, "min": min(totals), "max": max(totals)})
    return lines


def _families(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per family, largest first: languages, size of T, its share of the sum, exponent of growth.

    Sizes are means over orders. T of n languages has about n^`exponent` times the tokens of one:
    1 if languages share nothing, 0 if they share all.
    """
    lines = []
    for (family,), group in grouped(rows, "family").items():
        n = max(row["n"] for row in group)
        total = fmean(row["total"] for row in group if row["n"] == n)
        each = fmean(row["tokens"] for row in group)
        lines.append(
            {
                "family": family,
                "n": n,
                "total": round(total),
                "share": total / (n * each),
                "exponent": math.log(total / each) / math.log(n),
            }
        )
    return sorted(lines, key=lambda line: (-line["n"], line["family"]))


def _has_families(rows: Sequence[Row]) -> bool:
    return bool(rows) and "family" in rows[0]


def _scaling_summary(rows: Sequence[Row]) -> list[Summary]:
    total = Column("total", "tokens of T", "int")
    columns: tuple[Column, ...]
    if _has_families(rows):
        columns = (
            *parse_columns("family, n=languages:int"),
            total,
            *parse_columns("share=of the sum:ratio, exponent:ratio"),
        )
        return [("Size of T of each family, mean over orders", _families(rows), columns)]
    counts = (Column(key, key, "int") for key in ("min", "max", "new", "adopted"))
    columns = (Column("n", "languages", "int"), total, *counts)
    return [("Size of the whole vocabulary, mean over orders", _sizes(rows), columns)]


def _scaling_charts(rows: Sequence[Row]) -> list[Chart]:
    """Size of T over the number of languages, one curve for each order or large family."""
    series: dict[str, list[tuple[float, float]]] = {}
    title = "Size of T of each family"
    if _has_families(rows):
        for line in _families(rows)[:_LARGEST]:
            family = [row for row in rows if row["family"] == line["family"]]
            series[line["family"]] = [(size["n"], size["total"]) for size in _sizes(family)]
    else:
        title = "Size of the whole vocabulary"
        for row in rows:
            name = "alphabetical" if row["order"] == 0 else f"shuffled {row['order']}"
            series.setdefault(name, []).append((row["n"], row["total"]))
    return [Curves(title, "languages", "tokens of T", series, from_zero=True)]


SCALING = Kind(
    name="scaling",
    title="Size of the vocabulary",
    about="Size of the sequential BPE vocabulary after each language.",
    example="modtok study scaling",
    charts=_scaling_charts,
    summary=_scaling_summary,
    order=60,
)


def _sizes_and(rows: Sequence[Row], key: str, *keys: str) -> list[dict[str, Any]]:
    """Per value of `keys`: size, and mean, min and max of a field over languages."""
    return [
        {
            **dict(zip(keys, values, strict=True)),
            "size": max(row["size"] for row in group),
            **over(group, key),
        }
        for values, group in grouped(rows, *keys).items()
    ]


def _budget_summary(rows: Sequence[Row]) -> list[Summary]:
    """Per budget and tokenizer: size, and mean, min and max NSL over languages."""
    lines = _sizes_and(rows, "nsl", "k", "tokenizer")
    columns = (
        *parse_columns("k=tokens per language:int, tokenizer"),
        *_NSL,
        Column("worst", "of"),
    )
    return [("NSL over budgets", lines, columns)]


def _budget_charts(rows: Sequence[Row]) -> list[Chart]:
    """Mean NSL, and the size of T, over the budget."""
    nsl: dict[str, list[tuple[float, float]]] = {}
    size: dict[str, list[tuple[float, float]]] = {}
    for (k, tokenizer), group in grouped(rows, "k", "tokenizer").items():
        name = _IN_CHARTS.get(tokenizer, tokenizer)
        nsl.setdefault(name, []).append((k, over(group, "nsl")["mean"]))
        if tokenizer == "T":
            size.setdefault(name, []).append((k, group[0]["size"]))
    axis = "tokens per language"
    return [
        Curves("NSL over the budget", axis, "mean NSL over languages", nsl),
        Curves("Size of T over the budget", axis, "tokens of T", size, from_zero=True),
    ]


BUDGET = Kind(
    name="budget",
    title="Tokens per language",
    about="Sequential BPE with several budgets, relative to monolingual references of one size.",
    example="modtok study budget TEXT",
    charts=_budget_charts,
    summary=_budget_summary,
    order=70,
)


def _cost_summary(rows: Sequence[Row]) -> list[Summary]:
    """Per tokenizer and model size: mean and max cost over languages."""
    lines = _sizes_and(rows, "cost", "tokenizer", "scale")
    columns = parse_columns(
        "tokenizer, scale=model, size:int, mean=cost:ratio, max:ratio, worst=of"
    )
    return [("Cost relative to monolingual tokenizers", lines, columns)]


def _cost_charts(rows: Sequence[Row]) -> list[Chart]:
    """Mean cost per model size, one row for each size."""
    labels = short_names([row["tokenizer"] for row in rows])
    series = marks_of(
        (labels[tokenizer], scale, _interval(group, "cost"))
        for (tokenizer, scale), group in grouped(rows, "tokenizer", "scale").items()
    )
    axis = "multiplications relative to monolingual tokenizers (bars: over languages)"
    scales = unique(rows, "scale")
    return [Dots("Cost of a text by model size", axis, scales, series, reference=1.0)]


COST = Kind(
    name="cost",
    title="Cost by model size",
    about="Multiplications of a forward pass, output layer included. Computed, not measured.",
    example="modtok study cost -t tokenizer -t tokenizer@each TEXT > results/cost.jsonl",
    charts=_cost_charts,
    summary=_cost_summary,
    order=80,
    fields=("tokenizer", "language", "text", "scale", "cost", "size"),
    command=measuring_command("study", "cost"),
)


def _sampling_charts(rows: Sequence[Row]) -> list[Chart]:
    """Bits per byte per language, a series for each regime and a chart for each vocabulary."""
    charts: list[Chart] = []
    for (inference,), group in grouped(rows, "inference").items():
        means = _over_seeds(group, rows, "bits_per_byte").items()
        series = marks_of((name, language, Mark(mean)) for (name, language), mean in means)
        title = f"Bits per byte, predicted over {inference}"
        charts.append(Dots(title, "bits per byte (lower is better)", languages_of(group), series))
    return charts


def _regime(row: Row, rows: Sequence[Row]) -> str:
    """The regime, with p where the study has several of it."""
    values = {each.get("p") for each in rows if each["sampling"] == row["sampling"]}
    return f"{row['sampling']} p={row['p']:g}" if len(values) > 1 else str(row["sampling"])


def _over_seeds(
    group: Sequence[Row], rows: Sequence[Row], key: str
) -> dict[tuple[str, str], float]:
    """(regime, language) -> mean over seeds of a field, for rows that have it."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in group:
        if row.get(key) is not None:
            values.setdefault((_regime(row, rows), row["language"]), []).append(row[key])
    return {place: sum(each) / len(each) for place, each in values.items()}


def _sampling_tables(rows: Sequence[Row]) -> list[Table]:
    """Bits per byte, and the share of output in the language, by regime and vocabulary."""
    tables = []
    columns = list(dict.fromkeys((_regime(row, rows), row["inference"]) for row in rows))
    for key, caption in (
        ("bits_per_byte", "Bits per byte of held-out text"),
        ("in_language", "Share of generated text that is in the language"),
    ):
        means = {
            (language, name, inference): mean
            for (inference,), group in grouped(rows, "inference").items()
            for (name, language), mean in _over_seeds(group, rows, key).items()
        }
        body = [
            [language, *(cell(means.get((language, *column)), "ratio") for column in columns)]
            for language in languages_of(rows)
        ]
        headings = [f"{name} / {inference}" for name, inference in columns]
        tables.append(Table(caption, ["language", *headings], body))
    return tables


def _sampling_command(rows: Sequence[Row]) -> str:
    """`modtok study sampling` with the regimes of the rows."""
    words = [
        "modtok",
        "study",
        "sampling",
        "--regimes",
        ",".join(map(str, unique(rows, "sampling"))),
    ]
    with_p = [row for row in rows if row["sampling"] not in ("joint", "none")]
    for flag, key, those in (("--p-values", "p", with_p), ("--seeds", "seed", rows)):
        values = dict.fromkeys(f"{row[key]:g}" for row in those if key in row)
        words += [flag, ",".join(values)] if len(values) > 1 else []
    return shlex.join(words)


SAMPLING = Kind(
    name="sampling",
    title="Sampling regimes at inference",
    about="The same small model trained under each regime: bits per byte of held-out text, and the "
    "share of generated text that is in the language, over three vocabularies.",
    example="modtok study sampling > studies/sampling.jsonl",
    charts=_sampling_charts,
    page_tables=_sampling_tables,
    order=90,
    fields=("sampling", "inference", "language", "bits_per_byte", "vocabulary"),
    by_fields=True,
    command=_sampling_command,
)

KINDS = (ORDERS, COMBOS, SCALING, BUDGET, COST, SAMPLING)
