"""Pictures: everything inside its frame, nothing on top of each other, the same each time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from helpers.reports import PICTURES, ROWS, legend, shown
from modtok_cli.base.errors import UsageError
from modtok_cli.reports.charts import MOST_TOGETHER, Curves, Dots, Mark, dots, is_empty, is_squeezed
from modtok_cli.reports.collect import ResultFile, _merged
from modtok_cli.reports.kinds import kind_of, kinds
from modtok_cli.reports.kinds.evaluation import evaluation_charts
from modtok_cli.reports.kinds.tokenizers import nsl_charts
from modtok_cli.reports.plot.figures import COLOURS, draw, write_plot
from modtok_cli.reports.plot.terminal import round_ends
from modtok_cli.reports.tables import language_table, parse_columns, table_of


@pytest.mark.parametrize("name", PICTURES)
def test_svg_is_xml_with_its_text_and_without_requests(name: str) -> None:
    chart = replace(PICTURES[name], title="$Tokens$ & <others>\x07")
    svg = draw([chart], ".svg")
    texts = {node.text for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}
    assert "$Tokens$ & <others>\ufffd" in texts
    shown = " ".join(filter(None, texts))
    axes = [getattr(chart, name) for name in vars(chart) if name.endswith("axis")]
    assert all(axis.split()[0] in shown for axis in axes if axis)
    assert all(link.startswith((b"#", b"data:")) for link in re.findall(rb'href="([^"]*)', svg))
    assert not re.search(rb"<script|<metadata|@import|url[(](?!#)", svg)
    assert draw([chart], ".svg") == svg


@pytest.mark.parametrize("name", PICTURES)
def test_texts_are_inside_the_picture_and_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[Text, Bbox] = {}
    frame: list[Bbox] = []
    draw_text = Text.draw

    def keep(text: Text, renderer: Any) -> None:
        if text.get_visible() and text.get_text().strip():
            drawn[text] = text.get_window_extent(renderer)
            frame.append(Bbox([[-1, -1], [renderer.width + 1, renderer.height + 1]]))
        draw_text(text, renderer)

    monkeypatch.setattr(Text, "draw", keep)
    draw([PICTURES[name]] * 2, ".png")
    assert len(drawn) > 10
    for text, box in drawn.items():
        assert frame[0].contains(box.x0, box.y0), text
        assert frame[0].contains(box.x1, box.y1), text
    for one, other in combinations(drawn, 2):
        assert not drawn[one].padded(-1).overlaps(drawn[other].padded(-1)), (one, other)


def test_every_series_is_in_the_legend() -> None:
    """Also one that begins with an underscore, and two that are shortened to the same text."""
    long = [f"{'a' * 50}{middle}{'b' * 50}" for middle in "12"]
    series = {name: {"x": Mark(1.0)} for name in ("_mine", *long)}
    picture = draw([Dots("t", "a", ["x"], series)], ".svg").decode()
    assert picture.count(">_mine<") == 1
    assert picture.count(f">{'a' * 45}…") == 2


def test_png(tmp_path: Path) -> None:
    chart = PICTURES["curves"]
    write_plot([chart], tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") == 1520
    write_plot([chart], tmp_path / "b.png")
    assert data == (tmp_path / "b.png").read_bytes()


def test_what_is_shown_of_rows_is_frozen() -> None:
    frozen = (Path(__file__).parent / "shown.txt").read_text(encoding="utf-8")
    assert shown() == frozen, (
        "if this is meant: python tests/helpers/reports.py > tests/reports/shown.txt"
    )


FIELDS = {
    "check": "tokenizer language text excess verdict",
    "nsl": "tokenizer language text nsl tokens_per_character",
    "fairness": "kind tokenizer",
    "origin": "tokenizer language text outside several exclusive",
    "bpb": "text language infer bits_per_byte bits_per_character",
    "drafts": "model language draft_rows coverage tokens",
    "evaluation": "task language metric value infer n shots",
    "generation": "prompt text languages prompt_tokens reason",
}
KEYS = {
    "check": "tokenizer language text",
    "nsl": "tokenizer language text",
    "bpb": "text language infer checkpoint signature",
    "evaluation": "task language metric infer shots signature",
}


@pytest.mark.parametrize("name", kinds())
def test_rows_of_a_kind_have_all_of_its_fields(name: str) -> None:
    kind = kinds()[name]
    row = {**ROWS[name][0], "signature": "" if kind.by_fields else f"{name}|"}
    assert kind_of(row) == name
    assert kind.is_complete(row)
    for field in FIELDS[name].split():
        less = {key: value for key, value in row.items() if key != field}
        assert not kind.is_complete(less), field
        assert (kind_of(less) == name) is not kind.by_fields
    # Of rows of several files about the same, one counts; rows that differ in the key are others.
    fields = KEYS.get(name, "").split()
    own = ResultFile(name, [Path("a")], [row])
    others = [ResultFile(name, [Path(key)], [{**row, key: "x"}]) for key in fields]
    assert len(_merged([own, own], kind.key).rows) == 1
    assert len(_merged([own, *others], kind.key).rows) == 1 + len(fields)
    assert len(kind.key) == len(fields)


def test_two_texts_of_a_language_give_two_charts() -> None:
    row = {"tokenizer": "t", "language": "en", "tokens_per_character": 0.3}
    rows = [{**row, "text": "a.txt", "nsl": 1.0}, {**row, "text": "b.txt", "nsl": 1.2}]
    title = "Tokens relative to a monolingual tokenizer"
    first, second = (cast(Dots, chart) for chart in nsl_charts(rows))
    assert (first.title, first.series["t"]["English"].value) == (f"{title}, on a.txt", 1.0)
    assert (second.title, second.series["t"]["English"].value) == (f"{title}, on b.txt", 1.2)


def test_nothing_to_plot_is_an_error() -> None:
    assert is_empty(Dots("t", "a", [], {}))
    with pytest.raises(UsageError, match="nothing to plot"):
        draw([Dots("t", "a", [], {})], ".svg")


def test_scores_of_one_system_with_other_shots_or_examples_are_all_shown() -> None:
    row = {"task": "arc", "metric": "acc", "language": "fi", "infer": "lang", "text": "fi.txt"}
    for field, values, names in (
        ("shots", (0, 5), ["--infer lang --shots 0", "--infer lang --shots 5"]),
        ("n", (10, 99), ["--infer lang n=10", "--infer lang n=99"]),
        ("documents", (10, 99), ["--infer lang documents=10", "--infer lang documents=99"]),
    ):
        own = {"n": 7, "shots": 1, "value": 20.0, "bits_per_byte": 2.0, "documents": 3}
        rows = [{**row, **own, field: value} for value in values]
        rows += [{**rows[0], "language": "en"}]  # of which there is one
        kind = kinds()["bpb" if field == "documents" else "evaluation"]
        (chart,) = kind.charts(rows)
        assert list(cast(Dots, chart).series) == [*names, "--infer lang"]
        assert len([line for table in kind.tables(rows) for line in table.rows]) == 3


def measured(**tokenizers: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {"tokenizer": name, "language": language, "nsl": value}
        for name, values in tokenizers.items()
        for language, value in values.items()
    ]


def test_languages_have_names_and_the_largest_comes_first() -> None:
    rows = measured(a={"en": 1.0, "fi": 1.2, "te": 1.1}, b={"en": 1.3})
    chart = dots(rows, "nsl", "t", "NSL")
    assert chart.rows == ["Finnish", "English", "Telugu"]
    assert chart.series["a"]["Telugu"] == Mark(1.1)
    scales = dots(measured(a={"1b": 2.0, "0.5b": 1.0}), "nsl", "t", "NSL")
    assert scales.rows == ["0.5b", "1b"]


def test_a_series_keeps_its_color_and_others_get_free_ones() -> None:
    series = {name: {"en": Mark(1.0)} for name in ("new", "a", "b")}
    picture = draw([Dots("t", "NSL", ["en"], series)], ".svg", {"b": 0, "a": 4}).decode()
    assert legend(picture) == {"new": COLOURS[1], "a": COLOURS[4], "b": COLOURS[0]}


@pytest.mark.parametrize("sign", [1, -1])
def test_the_best_and_the_worst_of_many_series_have_a_color(sign: int) -> None:
    """The same ones whichever is better."""
    names = [f"run {chr(ord('a') + number)}" for number in range(MOST_TOGETHER + 1)]
    curves = {name: [(0.0, 1.0), (1.0, 2.0 + sign * at / 9)] for at, name in enumerate(names)}
    picture = draw([Curves("t", "x", "y", {"p": curves, "q": curves})], ".svg").decode()
    found = {name: color for name, color in legend(picture).items() if name in names}
    assert found == {names[0]: COLOURS[0], names[-1]: COLOURS[1]}


def test_a_few_large_values_take_a_logarithmic_axis() -> None:
    most = [1.0, 1.1, 1.2, 1.3, 1.1, 1.0, 1.2]
    assert is_squeezed([*most, 10.0])
    assert not is_squeezed([*most, 2.0])  # the ends differ by less than 3
    assert not is_squeezed([0.0, *most[1:], 50.0])  # zero has no logarithm
    assert not is_squeezed([1.0, 9.0])


@pytest.mark.parametrize(("low", "high"), [(0.9, 11.0), (1.0, 1.5), (0.02, 0.03), (1, 1e9), (2, 2)])
def test_ends_of_an_axis_cover_the_values(low: float, high: float) -> None:
    for log in (False, True):
        first, last = round_ends(low, high, log=log)
        assert first <= low <= high <= last
        assert last <= 11 * high
    assert round_ends(1, 11)[1] % 1 == round_ends(1, 26)[1] % 1 == 0  # whole steps


def test_the_line_of_chance_is_that_of_all_rows() -> None:
    row = {
        "task": "arc", "metric": "acc", "language": "fi", "value": 30.0, "low": 26.0, "high": 34.0,
        "n": 500, "shots": 0, "infer": "lang", "chance": 25.0,
    }  # fmt: skip
    for chance, line in ((25.0, 25.0), (50.0, None)):
        (chart,) = evaluation_charts([row, {**row, "language": "en", "chance": chance}])
        assert chart.reference == line  # type: ignore[union-attr]


def test_findings_count_languages_of_every_tokenizer() -> None:
    rows = measured(a={"fi": 1.1, "en": 1.0, "te": 9.0}, b={"fi": 1.4, "en": 1.2})
    found = kinds()["nsl"].finding(rows)
    assert found is not None
    assert found.endswith(
        "a has the lowest mean NSL, 1.050 over 2 languages; its worst is Finnish with 1.100. "
        "b has the highest, 1.300."
    )


def test_a_finding_has_no_mean_over_two_texts_in_one_language() -> None:
    rows = [
        {"tokenizer": "a", "language": language, "text": text, "nsl": nsl}
        for language, text, nsl in (("en", "x/en", 1.0), ("fi", "x/fi", 2.0), ("fi", "y/fi", 6.0))
    ]
    title = kinds()["nsl"].title
    assert kinds()["nsl"].finding(rows) == (
        f"{title}, on x: a has a mean NSL of 1.500 over 2 languages; its worst is Finnish with "
        f"2.000. {title}, on y: a has a mean NSL of 6.000 over 1 language; its worst is Finnish "
        "with 6.000."
    )
    rows[2]["text"] = "x/fi.old"
    assert f"{title}, on x/fi.old: a has a mean NSL of 6.000" in str(kinds()["nsl"].finding(rows))


def test_tables_name_languages_in_the_order_of_names() -> None:
    table = language_table(measured(t={"de": 1, "el": 2, "en": 3}), "nsl", "t")
    assert [row[0] for row in table.rows] == ["English", "German", "Greek", "mean"]
    table = table_of("t", measured(t={"fi": 1, "en": 2}), parse_columns("language, nsl"))
    assert table.rows == [["Finnish", "1"], ["English", "2"]]  # rows keep their order
