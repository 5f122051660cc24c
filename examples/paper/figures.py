"""The figure of a script, WORK/SCRIPT/SCRIPT.svg, drawn from its rows in one style."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

STYLE = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.grid": True, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "grid.color": "#dddddd",
    "legend.frameon": False, "svg.fonttype": "none", "svg.hashsalt": "paper",
}  # fmt: skip
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d")
MARKERS = "os^DvPX"
AXES = {"n": "languages", "k": "tokens of a language", "vocabulary": "tokens of the vocabulary"}
Row = Mapping[str, Any]
Panels = Mapping[str, str]
"""Title of the axis → field of a row: a number, or numbers by language or pair."""
NSL = {"NSL": "nsl", "tokens per character": "tokens_per_character"}


def _name(field: str, value: Any) -> str:
    """`tied`, `not tied`; the end of a path."""
    if isinstance(value, bool):
        return field if value else f"not {field}"
    return Path(str(value)).name


def _values(rows: Sequence[Row], field: str, by: Sequence[str], x: str) -> dict[str, Any]:
    """Series → point or label → values."""
    found: dict[str, Any] = {}
    for row in rows:
        named = [_name(name, row[name]) for name in by if row.get(name) is not None]
        series = ", ".join(named) or field
        value = row.get(field)
        is_whole = x in row or not isinstance(value, dict)
        points = [(row.get(x), value)] if is_whole else value.items()
        for key, each in points:
            several = each.values() if isinstance(each, dict) else [each]
            if key is not None and each is not None:
                found.setdefault(series, {}).setdefault(key, []).extend(several)
    return found


def figure(
    options: argparse.Namespace, rows: Sequence[Row], panels: Panels, by: Sequence[str],
    x: str = "language", curves: bool = False,
) -> None:  # fmt: skip
    """A panel for each field, a series for each value of the fields `by`.

    Points are means, bars reach from the least to the greatest value. `curves`: `x` is a number,
    and the horizontal axis; else a label, one a line.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", STYLE]):
        data = [(title, _values(rows, field, by, x)) for title, field in panels.items()]
        data = [(title, series) for title, series in data if series]
        labels = [[*dict.fromkeys(key for each in series.values() for key in each)]
                  for _, series in data]  # fmt: skip
        height = 3.6 if curves else 1.2 + 0.22 * max(map(len, labels))
        page = Figure((4.6 * len(data) + 1.6, height), layout="constrained")
        axes = page.subplots(1, len(data), squeeze=False)[0]
        for axis, (title, series), keys in zip(axes, data, labels, strict=True):
            for number, (name, values) in enumerate(series.items()):
                at = sorted(values) if curves else [key for key in keys if key in values]
                found = [(fmean(each), min(each), max(each)) for each in map(values.get, at)]
                means = [mean for mean, _, _ in found]
                bars = [[mean - low for mean, low, _ in found]]
                bars += [[high - mean for mean, _, high in found]]
                look: dict[str, Any] = {
                    "color": COLOURS[number % 7], "marker": MARKERS[(number + number // 7) % 7],
                    "label": name, "markersize": 4, "capsize": 2, "linewidth": 1.2,
                }  # fmt: skip
                if curves:
                    axis.errorbar(at, means, bars, **look)
                else:
                    beside = 0.6 * ((number + 0.5) / len(series) - 0.5)
                    lines = [keys.index(key) + beside for key in at]
                    axis.errorbar(means, lines, xerr=bars, linestyle="", **look)
            if curves:
                axis.set(xlabel=AXES.get(x, x), ylabel=title)
                axis.xaxis.get_major_locator().set_params(integer=True)
                if len(keys) < 12:
                    axis.set_xticks(sorted(keys))
            else:
                axis.set(xlabel=title, yticks=range(len(keys)), yticklabels=map(str, keys))
                axis.invert_yaxis()
        axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
        path = Path(options.work) / f"{Path(options.work).name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        page.savefig(path, metadata={"Date": None, "Creator": None})
