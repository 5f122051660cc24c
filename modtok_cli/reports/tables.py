"""Tables as headings and cells, and the helpers that group and format result rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

if TYPE_CHECKING:
    from modtok_cli.reports.charts import Mark

Row = Mapping[str, Any]
Form = Literal["text", "int", "ratio", "percent", "score", "seconds", "bytes", "count"]


@dataclass(frozen=True)
class Column:
    """One column of a table: row key, heading, and number format.

    Forms: text; int with thousands separators; ratio with 3 decimals (such as NSL); percent of a
    fraction of 1; score with 1 decimal (accuracy, BLEU: 0 to 100); seconds; bytes in kB, MB, GB;
    count for the length of a list.
    """

    key: str
    heading: str
    form: Form = "text"


def parse_columns(text: str) -> tuple[Column, ...]:
    """Columns of a text of `key=heading:form`; without heading it is the key, without form "text".

    >>> parse_columns("nsl=NSL:ratio, tokens:int")[1]
    Column(key='tokens', heading='tokens', form='int')
    """
    found = []
    for part in text.split(", "):
        named, _, form = part.partition(":")
        key, _, heading = named.partition("=")
        assert not form or form in get_args(Form), part
        found.append(Column(key, heading or key, cast(Form, form or "text")))
    return tuple(found)


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


class Best(str):
    """A cell with the best value of those it stands beside."""


class Worst(str):
    """A cell with the worst value of those it stands beside."""


MARKS = "Bold: the best of a row; underlined: the worst."


def marked(values: Sequence[float | None], form: Form, *, least: bool = True) -> list[str]:
    """Cells with the best and the worst marked; `least`: the least value is the best.

    >>> [type(each).__name__ for each in marked([1.2, 0.9, None], "ratio")]
    ['Worst', 'Best', 'str']
    """
    cells = [cell(value, form) for value in values]
    known = [value for value in values if value is not None]
    if len(known) < 2 or cell(min(known), form) == cell(max(known), form):
        return cells
    ends = [cell(min(known), form), cell(max(known), form)]
    best, worst = ends if least else reversed(ends)
    return [
        Best(text) if text == best else Worst(text) if text == worst else text for text in cells
    ]


Summary = tuple[str, Sequence[Row], Sequence[Column]]
"""Title, rows and columns of a table, as commands print it and the report shows it."""


def table_of(
    caption: str, rows: Sequence[Row], columns: Sequence[Column], left: int = 1, prose: bool = False
) -> Table:
    """The table of a summary."""
    cells = [[cell(row.get(column.key), column.form) for column in columns] for row in rows]
    return Table(caption, [column.heading for column in columns], cells, left, prose=prose)


def cell(value: Any, form: Form) -> str:
    """A value in a table.

    >>> cell(1.01449, "ratio"), cell(340147, "int"), cell(0.125, "percent"), cell(None, "int")
    ('1.014', '340,147', '12.50', '–')
    """
    if value is None or (isinstance(value, float) and isnan(value)):
        return "–"
    if form == "count":
        return f"{len(value):,}"
    if form == "int":
        return f"{int(value):,}"
    if form == "ratio":
        return f"{value:.3f}"
    if form == "percent":
        return f"{100 * value:.2f}"
    if form == "score":
        return f"{value:.1f}"
    if form == "seconds":
        return f"{value:.1f} s"
    if form == "bytes":
        return format_bytes(float(value))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def with_interval(row: Row | None, form: Form = "score") -> str:
    """A value with its 95% interval, if it has one.

    >>> with_interval({"value": 52.92, "low": 51.04, "high": 54.8})
    '52.9 (51.0–54.8)'
    """
    if row is None:
        return "–"
    text, low, high = cell(row["value"], form), row.get("low"), row.get("high")
    return text if low is None or high is None else f"{text} ({cell(low, form)}–{cell(high, form)})"


def format_bytes(value: float) -> str:
    """Bytes in a unit that keeps them short.

    >>> format_bytes(1_234_567)
    '1.2 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def grouped(rows: Sequence[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of some of their fields, in order of first appearance."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return groups


def unique(rows: Iterable[Row], key: str) -> list[Any]:
    """Values of a field, in order of first appearance."""
    return list(dict.fromkeys(row[key] for row in rows))


def over(rows: Sequence[Row], key: str) -> dict[str, Any]:
    """Mean, minimum and maximum of a field, and the language of the maximum."""
    values = [row[key] for row in rows]
    worst = max(rows, key=lambda row: float(row[key]))
    return {
        "mean": sum(values) / len(values),
        "min": min(values),
        "max": worst[key],
        "worst": worst["language"],
    }


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


def marks_of(marks: Iterable[tuple[str, str, Mark]]) -> dict[str, dict[str, Mark]]:
    """Series of a chart: name → row → mark, from (name, row, mark)."""
    series: dict[str, dict[str, Mark]] = {}
    for name, row, mark in marks:
        series.setdefault(name, {})[row] = mark
    return series


def by_tokenizer(rows: Sequence[Row], key: str) -> dict[str, dict[str, Mark]]:
    """tokenizer -> language -> value of the field `key`, for rows that have a value."""
    from modtok_cli.reports.charts import Mark

    names = short_names([row["tokenizer"] for row in rows])
    return marks_of(
        (names[row["tokenizer"]], row["language"], Mark(float(row[key])))
        for row in rows
        if row.get(key) is not None
    )


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


def language_table(
    rows: Sequence[Row], key: str, caption: str, mean: bool = True, least: bool = True
) -> Table:
    """Languages as rows, tokenizers as columns, the field `key` as cells.

    The best and the worst of each row are marked; `least`: the least value is the best. The last
    row is the mean over the languages that every tokenizer has, and names their number if that is
    not all.
    """
    names = short_names([row["tokenizer"] for row in rows])
    values = {(row["language"], row["tokenizer"]): row[key] for row in rows}
    languages = languages_of(rows)
    body = [
        [language, *marked([values.get((language, name)) for name in names], "ratio", least=least)]
        for language in languages
    ]
    if mean:
        common = common_languages(rows, key)
        label = "mean" if len(common) == len(languages) else f"mean of {len(common)} languages"
        means = [
            sum(values[language, name] for language in common) / len(common) if common else None
            for name in names
        ]
        body.append([label, *marked(means, "ratio", least=least)])
    return Table(caption, ["language", *names.values()], body, note=MARKS if len(names) > 1 else "")


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
