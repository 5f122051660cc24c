"""Charts and tables as people read them: languages by name, the largest values first.

Charts are made of the codes in the rows. This step names languages, sorts them, gives a series the
same color in all charts of a page, and takes a logarithmic axis where a few languages would squeeze
all others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, quantiles

from modtok_cli.reports.charts import Chart, Curves, Dots, Heat, Panels
from modtok_cli.reports.tables import Table
from modtok_cli.text.languages import canonical, language_name, split_pair

SQUEEZED = 3.0
"""The range is this many times the range of the lower three quarters, and the ratio of its ends."""


def display_name(code: str) -> str:
    """The name of a language, of a pair of languages, or the code itself.

    >>> [display_name(code) for code in ("fi", "en-fr", "pt-BR", "mean")]
    ['Finnish', 'English → French', 'Portuguese (BR)', 'mean']
    """
    name, pair = language_name(code), split_pair(code)
    # A region has capitals: pt-BR, but en-fr is a pair.
    if pair is None or (name != code and canonical(code) == code):
        return name
    names = [language_name(each) for each in pair]
    return " → ".join(names) if names[0] != pair[0] and names[1] != pair[1] else code


def presented(chart: Chart, styles: Mapping[str, int] | None = None) -> Chart:
    """The chart with names, in order; `styles`: series → index of its color and marker."""
    if isinstance(chart, Heat):
        names = {code: display_name(code) for code in (*chart.rows, *chart.columns)}
        return replace(
            chart,
            rows=[names[code] for code in chart.rows],
            columns=[names[code] for code in chart.columns],
            values={(names[a], names[b]): value for (a, b), value in chart.values.items()},
        )
    if isinstance(chart, Panels):
        panels = {display_name(code): curves for code, curves in chart.panels.items()}
        shown = {display_name(code): names for code, names in chart.shown.items()}
        styles = _styles(chart.series, styles)
        return replace(chart, panels=panels, shown=shown, styles=styles)
    if isinstance(chart, Curves):
        named = {display_name(code): curve for code, curve in chart.series.items()}
        return replace(chart, series=named, styles=_styles(named, styles))
    rows = _sorted(chart)
    chart = replace(chart, styles=_styles(chart.series, styles))
    series = {
        name: {display_name(code): mark for code, mark in marks.items()}
        for name, marks in chart.series.items()
    }
    return replace(chart, rows=rows, series=series, log=is_squeezed(chart.numbers))


def named(table: Table) -> Table:
    """A table with languages by name; rows in the order of codes are put in the order of names."""
    if "language" not in table.headings:
        return table
    column = list(table.headings).index("language")
    codes = [row[column] for row in table.rows]
    rows = [
        [display_name(cell) if place == column else cell for place, cell in enumerate(row)]
        for row in table.rows
    ]
    known = sum(display_name(code) != code for code in codes)
    if column == 0 and codes[:known] == sorted(set(codes[:known])):
        rows[:known] = sorted(rows[:known])  # means and counts stay below
    return replace(table, rows=rows)


def _styles(names: Iterable[str], styles: Mapping[str, int] | None) -> dict[str, int]:
    """Known series keep their index; others get the free ones in order."""
    known = {name: styles[name] for name in names if styles and name in styles}
    taken = set(known.values())
    free = (index for index in range(10**6) if index not in taken)
    return {name: known[name] if name in known else next(free) for name in names}


def _sorted(chart: Dots) -> list[str]:
    """Names of the rows; languages by their mean over the series, the largest first."""
    names = {code: display_name(code) for code in chart.rows}
    if any(name == code for code, name in names.items()):
        return list(names.values())

    def mean(code: str) -> float:
        values = [marks[code].value for marks in chart.series.values() if code in marks]
        return fmean(values) if values else float("-inf")

    return [names[code] for code in sorted(chart.rows, key=lambda code: (-mean(code), code))]


def is_squeezed(values: Sequence[float]) -> bool:
    """Whether a few large values leave little room for the others on a linear axis.

    >>> is_squeezed([1.0, 1.1, 1.2, 1.1, 1.2, 9.0]), is_squeezed([1.0, 2.0, 3.0, 4.0])
    (True, False)
    """
    if len(values) < 4 or min(values) <= 0:
        return False
    low, high = min(values), max(values)
    upper = quantiles(values, n=4)[2]
    return high / low >= SQUEEZED and high - low >= SQUEEZED * (upper - low)
