"""Tables as headings and cells, and the helpers that group, name and format result rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from statistics import fmean
from typing import Any

from modtok_cli.text.languages import Label, canonical, split_pair

Row = Mapping[str, Any]


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


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


FORMS: Mapping[str, Callable[[Any], str]] = {
    "text": _text,
    "int": lambda value: f"{int(value):,}",
    "ratio": lambda value: f"{value:.3f}",  # such as NSL
    "percent": lambda value: f"{100 * value:.2f}",  # of a fraction of 1
    "score": lambda value: f"{value:.1f}",  # accuracy, BLEU: 0 to 100
    "seconds": lambda value: f"{value:.1f} s",
    "bytes": lambda value: format_bytes(float(value)),
    "count": lambda value: f"{len(value):,}",  # of a list
}
"""Formats of the cells of a column."""


@dataclass(frozen=True)
class Column:
    """One column of a table: row key, heading, and a key of `FORMS`."""

    key: str
    heading: str
    form: str = "text"


def parse_columns(text: str) -> tuple[Column, ...]:
    """Columns of a text of `key=heading:form`; without heading it is the key, without form "text".

    >>> parse_columns("nsl=NSL:ratio, tokens:int")[1]
    Column(key='tokens', heading='tokens', form='int')
    """
    found = []
    for part in text.split(", "):
        named, _, form = part.partition(":")
        key, _, heading = named.partition("=")
        assert not form or form in FORMS, part
        found.append(Column(key, heading or key, form or "text"))
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
    note: str = ""
    prose: bool = False


class Best(str):
    """A cell with the best value of those it stands beside."""


class Worst(str):
    """A cell with the worst value of those it stands beside."""


MARKS = "Bold: the best of a row; underlined: the worst."


def marked(values: Sequence[float | None], form: str, *, least: bool = True) -> list[str]:
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
    """The table of a summary, with languages by name."""
    cells = [
        [
            display_name(row["language"])
            if column.key == "language"
            else cell(row.get(column.key), column.form)
            for column in columns
        ]
        for row in rows
    ]
    return Table(caption, [column.heading for column in columns], cells, left, prose=prose)


def display_name(code: str) -> str:
    """The name of a language, of a pair of languages, or the code itself.

    >>> [display_name(code) for code in ("fi", "en-fr", "pt-BR", "mean")]
    ['Finnish', 'English → French', 'Portuguese (BR)', 'mean']
    """
    name, pair = Label.of(code).name, split_pair(code)
    # A region has capitals: pt-BR, but en-fr is a pair.
    if pair is None or (name != code and canonical(code) == code):
        return name
    names = [Label.of(each).name for each in pair]
    return " → ".join(names) if names[0] != pair[0] and names[1] != pair[1] else code


def cell(value: Any, form: str) -> str:
    """A value in a table.

    >>> cell(1.01449, "ratio"), cell(340147, "int"), cell(0.125, "percent"), cell(None, "int")
    ('1.014', '340,147', '12.50', '–')
    """
    if value is None or (isinstance(value, float) and isnan(value)):
        return "–"
    return FORMS[form](value)


def with_interval(row: Row | None, form: str = "score") -> str:
    """A value with its 95% interval, if it has one.

    >>> with_interval({"value": 52.92, "low": 51.04, "high": 54.8})
    '52.9 (51.0–54.8)'
    """
    if row is None:
        return "–"
    text, low, high = cell(row["value"], form), row.get("low"), row.get("high")
    return text if low is None or high is None else f"{text} ({cell(low, form)}–{cell(high, form)})"


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

    >>> short_names(["a/x.json", "b/y.json"]), short_names(["a/x", "b/x"])
    ({'a/x.json': 'x.json', 'b/y.json': 'y.json'}, {'a/x': 'a/x', 'b/x': 'b/x'})
    """
    last = {name: name.rstrip("/").rpartition("/")[2] or name for name in names}
    return last if len(set(last.values())) == len(last) else {name: name for name in names}


def by_text(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """(suffix of a title, rows): all rows, or one group per text.

    A chart or table has one place for a tokenizer and a language, so several texts in one language
    get one each.
    """
    names = short_names([row["text"] for row in rows])
    places = {(row["tokenizer"], row["language"]) for row in rows}
    if len(places) == len(rows) and len(names) > 1:
        return [("", list(rows))]
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
    values: dict[tuple[str, str], Any] = {
        (row["language"], row["tokenizer"]): row.get(key) for row in rows
    }
    languages = sorted(languages_of(rows), key=display_name)
    lines = [
        (display_name(language), [values.get((language, name)) for name in names])
        for language in languages
    ]
    if mean:
        common = common_languages(rows, key)
        label = "mean" if len(common) == len(languages) else f"mean of {len(common)} languages"
        means = [
            fmean(values[language, name] for language in common) if common else None
            for name in names
        ]
        lines.append((label, means))
    body = [[label, *marked(line, "ratio", least=least)] for label, line in lines]
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
        {row["language"] for row in group if row.get(key) is not None}
        for group in grouped(rows, "tokenizer").values()
    ]
    return sorted(set.intersection(*sets)) if sets else []
