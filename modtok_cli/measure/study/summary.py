"""Short tables of a study's many rows: what a person wants to see first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Row = Mapping[str, Any]


def grouped(rows: Sequence[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of some of their keys, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def orders_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per tokenizer and language: mean, least and largest NSL over orders, and their spread."""
    lines = []
    for (tokenizer, language), group in grouped(rows, "tokenizer", "language").items():
        values = [row["nsl"] for row in group]
        lines.append(
            {
                "tokenizer": tokenizer,
                "language": language,
                "size": round(float(np.mean([row["size"] for row in group]))),
                "mean": float(np.mean(values)),
                "min": min(values),
                "max": max(values),
                "spread": max(values) - min(values),
            }
        )
    return lines


def combos_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per number of languages and method: mean NSL, deviation over languages and extremes.

    `std` is that of the languages' means and `std_all` that of all single values: the
    paper's table does not say which of the two its deviation is.
    """
    lines = []
    for (n, method), group in grouped(rows, "n", "method").items():
        values = np.array([row["nsl"] for row in group])
        means = [
            float(np.mean([row["nsl"] for row in mine]))
            for mine in grouped(group, "language").values()
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
    return sorted(lines, key=lambda line: (line["n"], line["method"]))


def scaling_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per number of languages: size of T, mean and extremes over orders, new tokens each."""
    lines = []
    for (n,), group in grouped(rows, "n").items():
        totals = [row["total"] for row in group]
        lines.append(
            {
                "n": n,
                "total": round(float(np.mean(totals))),
                "min": min(totals),
                "max": max(totals),
                "new": round(float(np.mean([row["new"] for row in group]))),
                "adopted": round(float(np.mean([row["adopted"] for row in group]))),
            }
        )
    return lines


def budget_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per budget and tokenizer: size, mean and largest NSL over languages."""
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


def cost_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per tokenizer and scale: mean and largest cost over languages."""
    lines = []
    for (tokenizer, scale), group in grouped(rows, "tokenizer", "scale").items():
        worst = max(group, key=lambda row: row["cost"])
        lines.append(
            {
                "tokenizer": tokenizer,
                "scale": scale,
                "size": max(row["size"] for row in group),
                "mean": float(np.mean([row["cost"] for row in group])),
                "max": worst["cost"],
                "worst": worst["language"],
            }
        )
    return lines
