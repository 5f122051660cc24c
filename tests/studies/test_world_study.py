"""A whole study in a very small world, interrupted and repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.studies.world.corpus import WorldSettings
from modtok_cli.studies.world.study import WorldStudySettings, run_study, with_recipe
from modtok_cli.training.settings import RunSettings

SMALL = WorldStudySettings(
    seeds=(0,),
    regimes=("none", "full"),
    k=300,
    limit=2,
    max_tokens=3,
    world=WorldSettings(
        languages=("qaa", "qab"), documents=60, people=9, towns=8, quotes=0.5, sentences=2
    ),
    training=RunSettings(
        model="tiny", layers=1, hidden_size=32, ffn=32, heads=1, kv_heads=1, steps=2,
        seq_length=64, batch_size=2, micro_batch=2, workers=0,
    ),
)  # fmt: skip


class Notes(Silent):
    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_finished_study_is_not_repeated(tmp_path: Path) -> None:
    first = run_study(tmp_path, SMALL)
    weights = {
        path: path.stat().st_mtime_ns for path in tmp_path.glob("seed-0/runs/*/checkpoints/*/*")
    }
    assert {path.parts[-4] for path in weights} > {"none", "full"}  # and latest, a link
    systems = {(row["regime"], row["infer"]) for row in first["scores"]}
    assert {(regime, "lang") for regime in SMALL.regimes} < systems
    lang = next(row for row in first["scores"] if row["infer"] == "lang")
    assert {"BLEU", "in language", "facts-all"} < lang.keys()
    # one seed: differences without an interval, which settle nothing
    claims = {row["claim"]: row for row in first["claims"]}
    assert claims["worse under T"]["holds"] == "open"
    assert "none cannot translate" not in claims  # joint was not trained
    for name, rows in first.items():
        lines = (tmp_path / f"{name}.jsonl").read_bytes().splitlines()
        assert [orjson.loads(line) for line in lines] == rows

    (tmp_path / "claims.jsonl").unlink()  # as if it was stopped before
    notes = Notes()
    assert run_study(tmp_path, SMALL, progress=notes) == first
    assert {path: path.stat().st_mtime_ns for path in weights} == weights
    assert any("cells" in note and "are done" in note for note in notes.notes)

    for other in (
        replace(SMALL, k=310),
        replace(SMALL, world=replace(SMALL.world, quotes=0.25)),
        replace(SMALL, training=replace(SMALL.training, steps=3)),
    ):
        with pytest.raises(UsageError, match="other settings"):
            run_study(tmp_path, other)


def test_a_recipe_fills_what_the_settings_leave_open() -> None:
    found = with_recipe(RunSettings(steps=7))
    assert (found.model, found.layers, found.hidden_size, found.steps) == ("tiny", 2, 160, 7)
    chosen = with_recipe(RunSettings(model="small"))
    assert (chosen.model, chosen.layers, chosen.steps) == ("small", None, 1200)


@pytest.mark.parametrize(
    "fields", [{"seeds": ()}, {"seeds": (1, 1)}, {"regimes": ("none", "none")}]
)
def test_lists_have_no_repeated_entry(fields: dict[str, tuple[object, ...]]) -> None:
    with pytest.raises(UsageError, match="repeated"):
        WorldStudySettings(**fields)  # type: ignore[arg-type]
