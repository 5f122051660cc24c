"""Which chart shows which rows: the one place that knows both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modtok_cli.measure.plot.charts import Chart, Curves, Dots, Heat, Mark, Spread
from modtok_cli.measure.study.summary import grouped

Row = Mapping[str, Any]


def by_tokenizer(rows: Sequence[Row], key: str) -> dict[str, dict[str, Mark]]:
    """tokenizer → language → value of `key`, of the rows that have one."""
    names = short_names([row["tokenizer"] for row in rows])
    series: dict[str, dict[str, Mark]] = {}
    for row in rows:
        if row.get(key) is not None:
            name = names[row["tokenizer"]]
            series.setdefault(name, {})[row["language"]] = Mark(float(row[key]))
    return series


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name without its directories, where that leaves them different.

    >>> short_names(["a/x.json", "b/y.json"])
    {'a/x.json': 'x.json', 'b/y.json': 'y.json'}
    """
    last = {name: name.rstrip("/").rpartition("/")[2] or name for name in names}
    return last if len(set(last.values())) == len(last) else {name: name for name in names}


def languages_of(rows: Sequence[Row]) -> list[str]:
    """The languages of the rows, ascending."""
    return sorted({row["language"] for row in rows})


def _by_text(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """What to add to a title, and its rows: all, or those of each text.

    A picture has one place for a tokenizer and a language; several texts of a language
    have a picture each.
    """
    places = {(row["tokenizer"], row["language"]) for row in rows}
    if len(places) == len(rows):
        return [("", list(rows))]
    names = short_names([row["text"] for row in rows])
    return [(f", on {names[text]}", group) for (text,), group in grouped(rows, "text").items()]


def nsl_charts(rows: Sequence[Row]) -> list[Chart]:
    """NSL per language and tokenizer; tokens per character where nothing has an NSL."""
    return [_nsl_chart(group, on) for on, group in _by_text(rows)]


def _nsl_chart(rows: Sequence[Row], on: str) -> Dots:
    series = by_tokenizer(rows, "nsl")
    if not series:
        return _per_character(rows, on)
    return Dots(
        f"Tokens against a tokenizer of the language alone{on}",
        "NSL (1: as many tokens as its own monolingual tokenizer; less is better)",
        languages_of(rows),
        series,
        reference=1.0,
    )


def _per_character(rows: Sequence[Row], on: str = "") -> Dots:
    return Dots(
        f"Tokens per character{on}",
        "tokens per character (less is better, even is fairer)",
        languages_of(rows),
        by_tokenizer(rows, "tokens_per_character"),
    )


def fairness_charts(rows: Sequence[Row]) -> list[Chart]:
    """Tokens per character, and the premium over the pivot language."""
    lines = [row for row in rows if row.get("kind") == "language"]
    pivot = lines[0]["pivot"] if lines else "en"
    premium = Dots(
        f"Parity premium over {pivot}",
        f"tokens for the same lines, relative to {pivot} (1: as many)",
        languages_of(lines),
        by_tokenizer(lines, "premium"),
        reference=1.0,
    )
    return [_per_character(lines), premium]


def origin_charts(rows: Sequence[Row]) -> list[Chart]:
    """Share of foreign tokens per language, and whose they are."""
    return [chart for on, group in _by_text(rows) for chart in _origin_charts(group, on)]


def _origin_charts(rows: Sequence[Row], on: str) -> list[Chart]:
    languages = languages_of(rows)
    columns = sorted({name for row in rows for name in row["exclusive"]} | set(languages))
    outside = {
        "of any other language": {row["language"]: Mark(100 * row["outside"]) for row in rows},
        "of one other language alone": {
            row["language"]: Mark(100 * sum(row["exclusive"].values())) for row in rows
        },
    }
    values = {
        (row["language"], column): 100 * share
        for row in rows
        for column, share in row["exclusive"].items()
    }
    return [
        Dots(
            f"Tokens from outside the language's own subtokenizer{on}",
            "% of the tokens of its text",
            languages,
            outside,
        ),
        Heat(
            f"Whose tokens they are{on}",
            "% of the source's tokens that belong to the added language alone",
            "source",
            "added language",
            languages,
            columns,
            values,
        ),
    ]


def orders_charts(rows: Sequence[Row]) -> list[Chart]:
    """NSL per language, a bar from the least to the largest over orders."""
    series: dict[str, dict[str, Mark]] = {}
    names = {"T": "sequential, all languages", "extracted": "extracted", "joint": "joint"}
    for (tokenizer, language), group in grouped(rows, "tokenizer", "language").items():
        values = [row["nsl"] for row in group]
        mark = Mark(sum(values) / len(values), min(values), max(values))
        series.setdefault(names.get(tokenizer, tokenizer), {})[language] = mark
    number = len({row["order"] for row in rows if row["order"] is not None})
    return [
        Dots(
            f"Sequential BPE under {number} language orders",
            "NSL (bars: least to largest over orders)",
            languages_of(rows),
            series,
            reference=1.0,
        )
    ]


def combos_charts(rows: Sequence[Row]) -> list[Chart]:
    """A distribution of NSL per language for each number of languages from two on."""
    charts: list[Chart] = []
    for (n,), group in grouped(rows, "n").items():
        if n < 2:
            continue
        series: dict[str, dict[str, list[float]]] = {"concatenated": {}, "sequential": {}}
        for row in group:
            series[row["method"]].setdefault(row["language"], []).append(row["nsl"])
        charts.append(
            Spread(
                f"Unions of {n} languages",
                "NSL (shape: distribution over sets and orders; bar: quartiles)",
                languages_of(group),
                series,
                reference=1.0,
            )
        )
    return charts


def scaling_charts(rows: Sequence[Row]) -> list[Chart]:
    """The size of T over the number of languages, a curve for each order."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        name = "alphabetical" if row["order"] == 0 else f"shuffled {row['order']}"
        series.setdefault(name, []).append((row["n"], row["total"]))
    chart = Curves(
        "Size of the whole vocabulary", "languages", "tokens of T", series, from_zero=True
    )
    return [chart]


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


def cost_charts(rows: Sequence[Row]) -> list[Chart]:
    """Mean cost per model size, a row for each size."""
    labels = short_names([row["tokenizer"] for row in rows])
    series: dict[str, dict[str, Mark]] = {}
    for (tokenizer, scale), group in grouped(rows, "tokenizer", "scale").items():
        values = [row["cost"] for row in group]
        mark = Mark(sum(values) / len(values), min(values), max(values))
        series.setdefault(labels[tokenizer], {})[scale] = mark
    return [
        Dots(
            "Cost of a text by model size",
            "multiplications relative to monolingual tokenizers (bars: over languages)",
            list(dict.fromkeys(row["scale"] for row in rows)),
            series,
            reference=1.0,
        )
    ]


def sampling_charts(rows: Sequence[Row]) -> list[Chart]:
    """Bits per byte per language, a series for each regime, a chart for each vocabulary."""
    charts: list[Chart] = []
    for (inference,), group in grouped(rows, "inference").items():
        series: dict[str, dict[str, Mark]] = {}
        for row in group:
            series.setdefault(row["sampling"], {})[row["language"]] = Mark(row["bits_per_byte"])
        title = f"Bits per byte, predicted over {inference}"
        charts.append(Dots(title, "bits per byte (less is better)", languages_of(group), series))
    return charts


def evaluation_charts(rows: Sequence[Row]) -> list[Chart]:
    """Scores with their intervals per language or pair, a chart for each task and metric."""
    charts: list[Chart] = []
    for (task, metric), group in grouped(rows, "task", "metric").items():
        series: dict[str, dict[str, Mark]] = {}
        for row in group:
            mark = Mark(row["value"], row.get("low"), row.get("high"))
            series.setdefault(f"--infer {row['infer']}", {})[row["language"]] = mark
        charts.append(Dots(f"{task}: {metric}", f"{metric}, 0 to 100", languages_of(group), series))
    return charts


def no_charts(rows: Sequence[Row]) -> list[Chart]:
    """Texts are read, not drawn."""
    return []


CHARTS: dict[str, Callable[[Sequence[Row]], list[Chart]]] = {
    "nsl": nsl_charts,
    "fairness": fairness_charts,
    "origin": origin_charts,
    "orders": orders_charts,
    "combos": combos_charts,
    "scaling": scaling_charts,
    "budget": budget_charts,
    "cost": cost_charts,
    "sampling": sampling_charts,
    "evaluation": evaluation_charts,
    "generation": no_charts,
}
"""Command → the charts of its rows."""
