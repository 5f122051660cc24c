"""Tables as headings and cells, and the helpers that group and format result rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from modtok_cli.measure.plot.charts import Mark

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """A caption, headings and rows of text.

    Attributes:
        left: number of leading columns that hold names and are aligned left.
        note: text below the table.
        prose: whether cells hold sentences, which may be wrapped.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    note: str = field(default="")
    prose: bool = False


def ratio(value: float | None) -> str:
    """A ratio with three decimals.

    >>> ratio(1.01449), ratio(None)
    ('1.014', '–')
    """
    return "–" if value is None else f"{value:.3f}"


def number(value: float | None) -> str:
    """An integer with thousands separators."""
    return "–" if value is None else f"{int(value):,}"


def size(value: int) -> str:
    """A number of bytes in MB or kB.

    >>> size(12_345_678), size(9_500)
    ('12.3 MB', '9.5 kB')
    """
    return f"{value / 1e6:.1f} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"


def percent(value: float | None) -> str:
    """A fraction of 1 as a percentage."""
    return "–" if value is None else f"{100 * value:.2f}"


def score(value: float | None) -> str:
    """A score from 0 to 100.

    >>> score(33.333), score(None)
    ('33.3', '–')
    """
    return "–" if value is None else f"{value:.1f}"


def grouped(rows: Sequence[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of some of their fields, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def languages_of(rows: Sequence[Row]) -> list[str]:
    """Languages of the rows, ascending."""
    return sorted({row["language"] for row in rows})


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each path without its directories, if the names stay distinct.

    >>> short_names(["a/x.json", "b/y.json"])
    {'a/x.json': 'x.json', 'b/y.json': 'y.json'}
    """
    last = {name: name.rstrip("/").rpartition("/")[2] or name for name in names}
    return last if len(set(last.values())) == len(last) else {name: name for name in names}


def by_tokenizer(rows: Sequence[Row], key: str) -> dict[str, dict[str, Mark]]:
    """tokenizer -> language -> value of the field `key`, for rows that have a value."""
    names = short_names([row["tokenizer"] for row in rows])
    series: dict[str, dict[str, Mark]] = {}
    for row in rows:
        if row.get(key) is not None:
            name = names[row["tokenizer"]]
            series.setdefault(name, {})[row["language"]] = Mark(float(row[key]))
    return series


def by_text(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """(suffix of a title, rows): all rows, or one group per text.

    A chart has one mark for a tokenizer and a language, so several texts in one language get a
    chart each.
    """
    places = {(row["tokenizer"], row["language"]) for row in rows}
    if len(places) == len(rows):
        return [("", list(rows))]
    names = short_names([row["text"] for row in rows])
    return [(f", on {names[text]}", group) for (text,), group in grouped(rows, "text").items()]


def language_table(rows: Sequence[Row], key: str, caption: str, mean: bool = True) -> Table:
    """Languages as rows, tokenizers as columns, the field `key` as cells.

    The last row is the mean over the languages that every tokenizer has, and names their number
    if that is not all.
    """
    names = short_names([row["tokenizer"] for row in rows])
    cells = {(row["language"], row["tokenizer"]): row[key] for row in rows}
    languages = languages_of(rows)
    body = [
        [language, *(ratio(cells.get((language, name))) for name in names)]
        for language in languages
    ]
    if mean:
        common = common_languages(rows, key)
        label = "mean" if len(common) == len(languages) else f"mean of {len(common)} languages"
        means = [
            ratio(sum(cells[language, name] for language in common) / len(common))
            if common
            else "–"
            for name in names
        ]
        body.append([label, *means])
    return Table(caption, ["language", *names.values()], body)


def common_languages(rows: Sequence[Row], key: str) -> list[str]:
    """Languages in which every tokenizer has a value of the field `key`, ascending.

    >>> rows = [{"tokenizer": "a", "language": "en", "nsl": 1.0},
    ...         {"tokenizer": "a", "language": "fi", "nsl": 1.1},
    ...         {"tokenizer": "b", "language": "fi", "nsl": 0.9}]
    >>> common_languages(rows, "nsl")
    ['fi']
    """
    sets = [
        {row["language"] for row in group if row[key] is not None}
        for group in grouped(rows, "tokenizer").values()
    ]
    return sorted(set.intersection(*sets)) if sets else []
