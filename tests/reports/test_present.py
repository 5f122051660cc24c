"""Charts as people read them: names, order, colors, logarithmic axes."""

from __future__ import annotations

import pytest

from modtok_cli.reports.charts import Dots, Heat, Mark, styles_of
from modtok_cli.reports.kinds import kinds
from modtok_cli.reports.kinds.evaluation import evaluation_charts, evaluation_finding
from modtok_cli.reports.plot.layout import scene_of
from modtok_cli.reports.plot.scene import COLOURS, log_ticks
from modtok_cli.reports.present import is_squeezed, named, presented
from modtok_cli.reports.tables import Table


def dots(values: dict[str, dict[str, float]]) -> Dots:
    rows = sorted({code for marks in values.values() for code in marks})
    series = {
        name: {code: Mark(value) for code, value in marks.items()} for name, marks in values.items()
    }
    return Dots("t", "NSL", rows, series)


def test_languages_have_names_and_the_largest_comes_first() -> None:
    chart = dots({"a": {"en": 1.0, "fi": 1.2, "te": 1.1}, "b": {"en": 1.3}})
    shown = presented(chart)
    assert isinstance(shown, Dots)
    assert list(shown.rows) == ["Finnish", "English", "Telugu"]
    assert shown.series["a"]["Telugu"] == Mark(1.1)
    scales = presented(dots({"a": {"0.5b": 1.0, "1b": 2.0}}))
    assert list(scales.rows) == ["0.5b", "1b"]  # type: ignore[union-attr]
    heat = presented(Heat("t", "x", "r", "c", ["fi"], ["en"], {("fi", "en"): 2.0}))
    assert heat.values == {("Finnish", "English"): 2.0}  # type: ignore[union-attr]


def test_a_series_keeps_its_color_and_others_get_free_ones() -> None:
    styles = {"b": 0, "a": 4}
    shown = presented(dots({"new": {"en": 1.0}, "a": {"en": 1.0}, "b": {"en": 2.0}}), styles)
    assert isinstance(shown, Dots)
    assert styles_of(shown) == {"new": 1, "a": 4, "b": 0}
    marks = [shape for shape in scene_of(shown).shapes if getattr(shape, "tip", "")]
    fills = {shape.tip.split(", ")[1][:1]: shape.fill for shape in marks}  # type: ignore[union-attr]
    assert fills == {"n": COLOURS[1], "a": COLOURS[4], "b": COLOURS[0]}


@pytest.mark.parametrize(
    ("values", "squeezed"),
    [
        ([1.0, 1.1, 1.2, 1.3, 1.1, 1.0, 1.2, 10.0], True),
        ([1.0, 1.1, 1.2, 1.3, 1.1, 1.0, 1.2, 2.0], False),  # the ends differ by less than 3
        ([0.0, 1.1, 1.2, 1.3, 1.1, 1.0, 1.2, 50.0], False),  # zero has no logarithm
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], False),
        ([1.0, 9.0], False),
    ],
)
def test_a_few_large_values_take_a_logarithmic_axis(values: list[float], squeezed: bool) -> None:
    assert is_squeezed(values) is squeezed


@pytest.mark.parametrize(("low", "high"), [(0.9, 11.0), (1.0, 1.5), (0.02, 0.03), (1, 1e9), (2, 2)])
@pytest.mark.parametrize("most", [2, 4, 8])
def test_logarithmic_ticks_cover_the_values(low: float, high: float, most: int) -> None:
    found = log_ticks(low, high, most)
    assert found[0] <= low <= high <= found[-1]
    assert found == sorted(set(found))
    assert 2 <= len(found) <= most + 2


def test_the_line_of_chance_is_that_of_all_rows() -> None:
    row = {
        "task": "arc", "metric": "acc", "language": "fi", "value": 30.0, "low": 26.0, "high": 34.0,
        "n": 500, "shots": 0, "infer": "lang", "chance": 25.0,
    }  # fmt: skip
    for chance, line in ((25.0, 25.0), (50.0, None)):
        (chart,) = evaluation_charts([row, {**row, "language": "en", "chance": chance}])
        assert chart.reference == line  # type: ignore[union-attr]


def test_findings_count_languages_of_every_tokenizer() -> None:
    measured = {"a": {"fi": 1.1, "en": 1.0, "te": 9.0}, "b": {"fi": 1.4, "en": 1.2}}
    rows = [
        {"tokenizer": name, "language": language, "nsl": value}
        for name, values in measured.items()
        for language, value in values.items()
    ]
    found = kinds()["nsl"].finding(rows)
    assert found is not None
    assert found.endswith(
        "a has the lowest mean NSL, 1.050 over 2 languages; its worst is Finnish with 1.100. "
        "b has the highest, 1.300."
    )


def test_findings_name_pairs_of_languages() -> None:
    row = {"task": "mt", "metric": "BLEU", "infer": "full"}
    values = {"en-fr": 20.0, "fr-en": 30.0}
    found = evaluation_finding([{**row, "language": p, "value": v} for p, v in values.items()])
    assert found is not None
    assert "lowest in English → French: 20.0" in found


def test_tables_name_languages_in_the_order_of_names() -> None:
    table = named(
        Table("t", ["language", "x"], [["de", "1"], ["el", "2"], ["en", "3"], ["mean", "4"]])
    )
    assert [row[0] for row in table.rows] == ["English", "German", "Greek", "mean"]
    given = [["fi", "1"], ["en", "2"]]
    assert [row[0] for row in named(Table("t", ["language", "x"], given)).rows] == [
        "Finnish",
        "English",
    ]
    other = Table("t", ["name", "x"], [["fi", "1"]])
    assert named(other) is other
