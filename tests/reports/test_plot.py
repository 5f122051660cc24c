"""Pictures: everything inside its frame, nothing on top of each other, the same each time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from helpers.reports import ROWS, shown
from modtok_cli.base.errors import UsageError
from modtok_cli.reports.charts import Chart, Curves, Dots, Heat, Mark, Panels, is_empty
from modtok_cli.reports.collect import ResultFile, _merged
from modtok_cli.reports.kinds import kind_of, kinds
from modtok_cli.reports.kinds.tokenizers import nsl_charts
from modtok_cli.reports.plot.heat import cell_text
from modtok_cli.reports.plot.layout import draw, scene_of, write_plot
from modtok_cli.reports.plot.scene import (
    Disc,
    Label,
    tick_text,
    ticks,
)
from modtok_cli.reports.plot.svg import to_svg
from modtok_cli.reports.present import presented
from modtok_cli.reports.tables import short_names

_MAIN = ["bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "hr", "hu", "it", "lt"]
LANGUAGES = [*_MAIN, "lv", "ne", "nl", "pl", "pt", "ro", "si", "sk", "sl", "so", "sv", "sw", "te"]
DOTS = Dots(
    "Tokens & <others>",
    "NSL",
    LANGUAGES,
    {
        f"tokenizer {i}": {name: Mark(1 + 0.01 * i * j) for j, name in enumerate(LANGUAGES)}
        for i in range(6)
    },
    reference=1.0,
    note="A note that says what is missing.",
)
CHART_KINDS: dict[str, Chart] = {
    "dots": DOTS,
    "ranges": Dots("Ranges", "NSL", LANGUAGES, {"T": {"fi": Mark(1.0, 0.9, 1.2)}}),
    "curves": Curves("Size", "languages", "tokens", {"a": [(1, 24000), (27, 430000)]}),
    "panels": Panels(
        "Runs",
        "step",
        "bits per byte",
        {name: {f"run {i}": [(4, 2.0 + i), (12, 1.5 + i)] for i in range(3)} for name in LANGUAGES},
        {name: ["run 0", "run 2"] for name in LANGUAGES},
    ),
    "heat": Heat(
        "Whose",
        "% of the tokens of the source that belong to the added language alone and to no other",
        "source",
        "added",
        LANGUAGES,
        LANGUAGES,
        {(a, b): 0.1 * i for i, a in enumerate(LANGUAGES) for b in LANGUAGES if a != b},
    ),
}
BY_KIND = pytest.mark.parametrize("chart", CHART_KINDS.values(), ids=CHART_KINDS)


@BY_KIND
def test_svg_is_xml_with_its_text_and_without_requests(chart: Chart) -> None:
    svg = to_svg(scene_of(chart))
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    texts = {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert chart.title in texts
    assert "href" not in svg
    assert set(re.findall(r"https?://[^\"]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert to_svg(scene_of(chart)) == svg


def test_png(tmp_path: Path) -> None:
    chart = CHART_KINDS["ranges"]
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
    own = ResultFile(name, [Path("a")], [row], "")
    others = [ResultFile(name, [Path(key)], [{**row, key: "x"}], "") for key in fields]
    assert len(_merged([own, own], kind.key).rows) == 1
    assert len(_merged([own, *others], kind.key).rows) == 1 + len(fields)
    assert len(kind.key) == len(fields)


def test_numbers() -> None:
    assert ticks(0.93, 1.31) == [0.9, 1.0, 1.1, 1.2, 1.3, 1.4]
    assert ticks(1.0, 1.0)[0] <= 1.0 < ticks(1.0, 1.0)[-1]
    assert [ticks(1, 1 + size)[1] % 1 for size in (10, 13, 17, 22, 25)] == [0] * 5  # whole steps
    assert tick_text(340000, 20000) == "340k"
    assert (cell_text(48.46, 48.46), cell_text(0.28, 2.95)) == ("48", ".28")
    assert short_names(["a/x", "b/x"]) == {"a/x": "a/x", "b/x": "b/x"}


def test_names_are_escaped() -> None:
    chart = Dots("t", "a", ["fi"], {"<script>&\x07": {"fi": Mark(1.0)}})
    svg = to_svg(scene_of(chart))
    assert "<script>" not in svg
    ET.fromstring(svg)


def test_two_texts_of_a_language_give_two_charts() -> None:
    row = {"tokenizer": "t", "language": "en", "tokens_per_character": 0.3}
    rows = [{**row, "text": "a.txt", "nsl": 1.0}, {**row, "text": "b.txt", "nsl": 1.2}]
    charts = nsl_charts(rows)
    assert [chart.title for chart in charts] == [
        "Tokens relative to a monolingual tokenizer, on a.txt",
        "Tokens relative to a monolingual tokenizer, on b.txt",
    ]
    assert [chart.series["t"]["en"].value for chart in charts] == [1.0, 1.2]
    (chart,) = nsl_charts([rows[0], {**rows[1], "language": "fi"}])
    assert chart.title == "Tokens relative to a monolingual tokenizer"


def test_nothing_to_plot_is_an_error() -> None:
    assert is_empty(Dots("t", "a", [], {}))
    with pytest.raises(UsageError, match="nothing to plot"):
        draw([Dots("t", "a", [], {})], ".svg")
    assert set(kinds()) >= {"nsl", "fairness", "origin"}


def test_names_without_room_in_a_matrix_become_codes_with_a_key() -> None:
    values = {(a, b): 1.0 for a in LANGUAGES for b in LANGUAGES if a != b}
    heat = Heat("Shared", "%", "language", "shared with", LANGUAGES, LANGUAGES, values)
    chart = presented(heat)
    wide, narrow = (
        [part.text for part in scene_of(chart, width).shapes if isinstance(part, Label)]
        for width in (760.0, 344.0)
    )
    assert "Bulgarian" in wide
    assert "bg" not in wide
    assert narrow.count("bg") == 2
    assert "Bulgarian" not in narrow
    key = " ".join(narrow[narrow.index("%") + 1 :])
    assert key.startswith("bg Bulgarian, cs Czech, da Danish")
    assert key.endswith("sw Swahili, te Telugu")


def test_a_logarithmic_axis_has_equal_steps_for_equal_ratios() -> None:
    marks = {name: Mark(value) for name, value in (("en", 1.0), ("fi", 10.0), ("fr", 100.0))}
    for log in (False, True):
        scene = scene_of(Dots("Cost", "seconds", list(marks), {"T": marks}, log=log))
        first, second, third = (
            x for x, _ in (d.centre for d in scene.shapes if isinstance(d, Disc) and d.tip)
        )
        assert (second - first == pytest.approx(third - second)) is log
