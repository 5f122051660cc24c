"""A whole study in a very small world, interrupted and repeated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.studies.world.corpus import WorldSettings
from modtok_cli.studies.world.study import WorldStudySettings, run_study, with_recipe
from modtok_cli.studies.world.train import point_of, train_point
from modtok_cli.training.settings import RunSettings

SMALL = WorldStudySettings(
    seeds=(0,),
    regimes=("none", "full"),
    p_values=(0.5,),
    points=(2, 4),
    k=300,
    limit=2,
    max_tokens=3,
    world=WorldSettings(
        languages=("qaa", "qab"), documents=60, people=9, towns=8, quotes=0.5, sentences=2,
        foreign=0.1, synonyms=2, lines=4,
    ),
    training=RunSettings(
        model="tiny", layers=1, hidden_size=32, ffn=32, heads=1, kv_heads=1,
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
    runs = {path.name for path in tmp_path.glob("seed-0/runs/*") if not path.is_symlink()}
    assert runs >= {"none-2", "none-4", "full-p-0.5-2", "full-p-0.5-4"}
    weights = {
        path: path.stat().st_mtime_ns
        for path in tmp_path.glob("seed-0/runs/*-*/checkpoints/*/*")  # without latest, a link
    }
    assert weights
    found = {(row["regime"], row["p"], row["step"], row["infer"]) for row in first["curves"]}
    assert found == {
        (regime, p, step, mode)
        for regime, p in (("none", None), ("full", 0.5))
        for step in SMALL.points
        for mode in ("lang", "full", "src|tgt")
    }
    for row in first["curves"]:
        figures = set() if row["infer"] == "src|tgt" else {"facts-all", "bits per byte"}
        assert row.keys() >= {"BLEU", "in language", *figures}
    # one seed: differences without an interval, which settle nothing
    claims = {(row["claim"], row["step"]): row for row in first["claims"]}
    assert claims["worse under T", 4]["holds"] == "open"
    assert not any(claim == "none cannot translate" for claim, _ in claims)  # without joint
    for name, rows in first.items():
        lines = (tmp_path / f"{name}.jsonl").read_bytes().splitlines()
        assert [orjson.loads(line) for line in lines] == rows

    (tmp_path / "claims.jsonl").unlink()  # as if it was stopped before
    notes = Notes()
    assert run_study(tmp_path, SMALL, progress=notes) == first
    assert {path: path.stat().st_mtime_ns for path in weights} == weights
    assert any("cells" in note and "are done" in note for note in notes.notes)
    # a longer study goes on with what is there
    longer = run_study(tmp_path, replace(SMALL, points=(2, 4, 5)))
    assert longer["curves"][: len(first["curves"])] == first["curves"]
    assert {path: path.stat().st_mtime_ns for path in weights} == weights

    for other in (
        replace(SMALL, k=310),
        replace(SMALL, world=replace(SMALL.world, quotes=0.25)),
        replace(SMALL, training=replace(SMALL.training, lr=1e-3)),
    ):
        with pytest.raises(UsageError, match="other settings"):
            run_study(tmp_path, other)


def test_a_point_equals_a_run_of_its_own(tmp_path: Path) -> None:
    """The run of 9 steps that continues one of 5 has the weights of one from the start."""
    training = replace(SMALL.training, warmup=2)
    run_study(
        tmp_path, replace(SMALL, regimes=("full",), points=(5, 9), limit=1, training=training)
    )
    place = tmp_path / "seed-0"
    longer = read_run(place / "runs/full-p-0.5-9")
    alone = replace(
        with_recipe(training), sampling="full", p=0.5, langs=("qaa", "qab"),
        data=place / "world/data", tokenizer=place / "tokenizer", runs=tmp_path / "alone",
        name="whole-9", seed=0,
    )  # fmt: skip
    train_point(point_of(alone, 9))
    whole = read_run(tmp_path / "alone/whole-9")
    assert [line["lr"] for line in longer[0]] == [line["lr"] for line in whole[0]]
    assert [line["loss"] for line in longer[0]] == [line["loss"] for line in whole[0]]
    assert longer[1] == whole[1]
    # that of 5 steps was the same until its decay: its last step is another one
    short = read_run(place / "runs/full-p-0.5-5")
    assert [line["loss"] for line in short[0][:4]] == [line["loss"] for line in whole[0][:4]]
    assert short[0][4]["lr"] < whole[0][4]["lr"]


def read_run(path: Path) -> tuple[list[dict[str, Any]], bytes]:
    """Metrics of the steps, and the weights after the last one."""
    lines = [orjson.loads(line) for line in (path / "metrics.jsonl").read_bytes().splitlines()]
    steps = [line for line in lines if "loss" in line]
    checkpoint = max((path / "checkpoints").glob("step-*"))
    return steps, b"".join(file.read_bytes() for file in sorted(checkpoint.glob("*.safetensors")))


def test_a_recipe_fills_what_the_settings_leave_open() -> None:
    found = with_recipe(RunSettings(warmup=7))
    assert (found.model, found.layers, found.hidden_size, found.warmup) == ("tiny", 2, 128, 7)
    chosen = with_recipe(RunSettings(model="small"))
    assert (chosen.model, chosen.layers, chosen.warmup) == ("small", None, 40)


@pytest.mark.parametrize(
    "fields",
    [
        {"seeds": ()},
        {"seeds": (1, 1)},
        {"regimes": ("none", "none")},
        {"p_values": ()},
        {"points": (2, 2)},
    ],
)
def test_lists_have_no_repeated_entry(fields: dict[str, tuple[object, ...]]) -> None:
    with pytest.raises(UsageError, match="repeated"):
        WorldStudySettings(**fields)  # type: ignore[arg-type]
