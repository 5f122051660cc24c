"""Rows of `modtok tokens --sizes`."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from modtok_cli.reports.charts import Chart, Curves
from modtok_cli.reports.kinds import RowKind
from modtok_cli.reports.tables import (
    Column,
    Row,
    Summary,
    display_name,
    grouped,
    parse_columns,
    table_of,
)

GAIN = 0.02
"""After the knee, twice as many rows cover at most this much more."""
_SIZES = "draft_rows=rows:int, mean=mean coverage:ratio, least:ratio, worst=of"
_COSTS = ", bytes=head in 16 bits:bytes, milliseconds=ms a token in float32:ratio"
_ROUNDS = ", tokens_per_round=tokens a round:ratio"


def by_size(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each size: mean over languages of equal weight, and the language of the least."""
    result = []
    for (size,), those in grouped(rows, "draft_rows").items():
        worst = min(those, key=lambda row: row["coverage"])
        mean = fmean(row["coverage"] for row in those)
        cost = {name: worst[name] for name in ("bytes", "milliseconds") if name in worst}
        if "tokens_per_round" in worst:
            cost["tokens_per_round"] = fmean(row["tokens_per_round"] for row in those)
        least = {"least": worst["coverage"], "worst": worst["language"]}
        result.append({"draft_rows": size, "mean": mean, **least, **cost})
    return result


def knee(rows: Sequence[Row]) -> str:
    """The first size of which the next one covers at most `GAIN` more, in a sentence."""
    sizes = by_size(rows)
    for one, more in pairwise(sizes):
        gain = more["mean"] - one["mean"]
        if gain <= GAIN:
            return (
                f"knee: {one['draft_rows']:,} rows cover {one['mean']:.3f} of held-out tokens "
                f"({one['worst']} {one['least']:.3f}); {more['draft_rows']:,} cover {gain:.3f} more"
            )
    return f"no knee: each size covers more than {GAIN} above the one before; use all rows"


def tables(rows: Sequence[Row]) -> list[Summary]:
    """By language and size, or list: coverage, tokens of a round with a draft; then by size.

    By size: the mean, the least, and what the head costs.
    """
    key = "list" if "list" in rows[0] else "draft_rows"
    many = f"{rows[0]['draft_rows']:,}" if key == "list" else "N"
    found = [
        _by_language(rows, key, "coverage", f"Share of held-out tokens in lists of {many} rows")
    ]
    if rounds := "tokens_per_round" in rows[0]:
        title = f"Tokens of a round with drafts of {many} rows"
        found.append(_by_language(rows, key, "tokens_per_round", title))
    if key == "list":
        return found
    sizes = by_size(rows)
    columns = _SIZES + (_ROUNDS if rounds else "") + (_COSTS if "bytes" in sizes[0] else "")
    return [*found, ("By size", sizes, parse_columns(columns))]


def _by_language(rows: Sequence[Row], key: str, field: str, title: str) -> Summary:
    names = [*dict.fromkeys(row[key] for row in rows)]
    lines = [
        {"language": language} | {str(row[key]): row[field] for row in group}
        for (language,), group in grouped(rows, "language").items()
    ]
    shown = (f"{name:,}" if type(name) is int else name for name in names)
    each = (Column(str(name), text, "ratio") for name, text in zip(names, shown, strict=True))
    return title, lines, (Column("language", "lang"), *each)


def _charts(rows: Sequence[Row]) -> list[Chart]:
    series = {
        display_name(language): [(row["draft_rows"], row["coverage"]) for row in group]
        for (language,), group in grouped(rows, "language").items()
    }
    return [Curves("Vocabularies of drafts", "rows", "share of held-out tokens", {"": series})]


KINDS = (
    RowKind(
        name="drafts",
        title="Vocabularies of drafts",
        about="Share of held-out tokens that a list of so many rows has.",
        charts=_charts,
        tables=lambda rows: [table_of(*each) for each in tables(rows)],
        order=95,
        fields=("model", "language", "draft_rows", "coverage", "tokens"),
        by_fields=True,
        sentence=knee,
    ),
)
