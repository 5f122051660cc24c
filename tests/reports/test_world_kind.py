"""Charts of the curves and the table of claims of `modtok study world`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from modtok_cli.base.progress import SILENT
from modtok_cli.reports.charts import Panels
from modtok_cli.reports.collect import read_result
from modtok_cli.reports.kinds import kinds
from modtok_cli.reports.plot.layout import scene_of
from modtok_cli.reports.plot.scene import Area
from modtok_cli.reports.present import presented


def point(regime: str, p: float | None, seed: int, step: int, infer: str) -> dict[str, Any]:
    late = 1 if p is None else 2
    row = {"regime": regime, "p": p, "seed": seed, "step": step, "infer": infer}
    return row | {"BLEU": 10.0 * step / 150 / late + seed, "in language": 90.0}


def rows(seeds: int) -> list[dict[str, Any]]:
    return [
        point(regime, p, seed, step, infer)
        for seed in range(seeds)
        for step in (600, 150)
        for regime, p in (("joint", None), ("sub:1", 0.5))
        for infer in ("lang", "full")
    ]


def test_curves_have_bands_over_seeds() -> None:
    kind = kinds()["world-curves"]
    bleu, language = kind.charts(rows(3))
    assert isinstance(bleu, Panels)
    assert isinstance(language, Panels)
    assert list(bleu.panels) == ["--infer lang", "--infer full"]
    curve = bleu.panels["--infer lang"]["sub:1 p=0.5"]
    assert curve == [(150, 6.0), (600, 21.0)]  # means of 5, 6, 7 and 20, 21, 22
    (step, low, high), _ = bleu.bands["--infer lang"]["sub:1 p=0.5"]
    assert (step, round(low, 2), round(high, 2)) == (150, 3.52, 8.48)
    areas = [each for each in scene_of(presented(bleu)).shapes
             if isinstance(each, Area) and each.opacity < 1]  # fmt: skip
    assert len(areas) == 4  # two systems under two modes
    assert len(areas[0].points) == 4
    (wide, _) = kind.charts(rows(2))
    assert isinstance(wide, Panels)
    assert wide.bands["--infer lang"]["sub:1 p=0.5"][0] == (
        150,
        0.0,
        pytest.approx(11.85, abs=0.01),
    )
    (alone, _) = kind.charts(rows(1))
    assert isinstance(alone, Panels)
    assert not alone.bands
    assert alone.note == "One seed."


def test_files_of_the_study_are_recognized(tmp_path: Path) -> None:
    claim = {"claim": "delay of sub:1", "p": 0.5, "step": None, "figure": "delay",
             "of": "sub:1 lang", "against": "2", "value": None, "other": 2.0,
             "expected": "equal", "holds": "open", "seeds": 1}  # fmt: skip
    for name, lines, kind in (
        ("curves", rows(1), "world-curves"),
        ("claims", [claim], "world-claims"),
    ):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
        found = read_result(path, SILENT)
        assert found is not None
        assert found.kind == kind
        tables = kinds()[kind].tables(found.rows)
        assert len(tables) == (kind == "world-claims")
    assert tables[0].rows[0][0] == "delay of sub:1"
