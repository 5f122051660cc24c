"""Rows of `modtok study budget`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart, Curves
from modtok_cli.measure.tables import Table, grouped, number, ratio


def budget_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per budget and tokenizer: size, and mean, min and max NSL over languages."""
    lines = []
    for (k, tokenizer), group in grouped(rows, "k", "tokenizer").items():
        values = [row["nsl"] for row in group]
        worst = max(group, key=lambda row: row["nsl"])
        lines.append(
            {
                "k": k,
                "tokenizer": tokenizer,
                "size": max(row["size"] for row in group),
                "mean": float(np.mean(values)),
                "min": min(values),
                "max": worst["nsl"],
                "worst": worst["language"],
            }
        )
    return lines


def budget_charts(rows: Sequence[Row]) -> list[Chart]:
    """Mean NSL, and the size of T, over the budget."""
    nsl: dict[str, list[tuple[float, float]]] = {}
    size: dict[str, list[tuple[float, float]]] = {}
    names = {"T": "sequential, all languages"}
    for (k, tokenizer), group in grouped(rows, "k", "tokenizer").items():
        mean = sum(row["nsl"] for row in group) / len(group)
        nsl.setdefault(names.get(tokenizer, tokenizer), []).append((k, mean))
        if tokenizer == "T":
            size.setdefault(names["T"], []).append((k, group[0]["size"]))
    return [
        Curves("NSL over the budget", "tokens per language", "mean NSL over languages", nsl),
        Curves(
            "Size of T over the budget", "tokens per language", "tokens of T", size, from_zero=True
        ),
    ]


def budget_tables(rows: Sequence[Row]) -> list[Table]:
    """NSL over budgets."""
    body = [
        [
            number(line["k"]),
            line["tokenizer"],
            number(line["size"]),
            *(ratio(line[key]) for key in ("mean", "min", "max")),
            line["worst"],
        ]
        for line in budget_summary(rows)
    ]
    headings = ["tokens per language", "tokenizer", "size", "NSL", "min", "max", "of"]
    return [Table("NSL over budgets", headings, body, left=2)]


KIND = Kind(
    name="budget",
    title="Tokens per language",
    about="Sequential BPE with several budgets, relative to monolingual references of one size.",
    example="modtok study budget TEXT",
    charts=budget_charts,
    tables=budget_tables,
    order=70,
)
