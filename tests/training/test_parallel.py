"""Runs on several processes against one, and against plain torch with a full softmax.

Tensor parallel, data parallel, both ways of saving. All cases of replays: `python -m benchmarks
replay`.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson
import pytest

from helpers.metrics import read_metrics
from helpers.rank_of_runs import train_on
from helpers.ranks import run_ranks
from helpers.replay import TOLERANCE, Case, compare
from helpers.replay import train as train_cases
from helpers.same_models import assert_same
from helpers.saved import save
from helpers.two_ranks import SHAPE, SHAPES, WAYS, evaluated, train
from modtok_cli.base.progress import SILENT
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training import checkpoint
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.model import Model

from .conftest import LANGUAGES, SAMPLE


@pytest.fixture(scope="module")
def left(tokenizer: Path, subtokenizers: SubtokenizerCache, stores, tmp_path_factory) -> Path:
    """What two ranks left behind."""
    out = tmp_path_factory.mktemp("two")
    single = Model(SHAPE, subtokenizers.size, start_ranks(), seed=3)
    save(out / "single", single, 3)
    texts = next(iter(stores.values())).directory.parent
    run_ranks(2, "helpers.two_ranks", tokenizer, texts, out)
    return out


def loaded(
    directory: Path, subtokenizers: SubtokenizerCache, tied: bool = False, shape: Shape = SHAPE
) -> Model:
    model = Model(replace(shape, tied=tied), subtokenizers.size, start_ranks(), seed=8)
    found = checkpoint.newest(directory, SILENT)
    assert found is not None
    checkpoint.load(*found, model)
    return model


@pytest.mark.parametrize("name", WAYS)
def test_two_processes_train_as_one(
    name: str, left: Path, subtokenizers: SubtokenizerCache, stores
) -> None:
    alone, losses = train(name, start_ranks(), subtokenizers, stores)
    found = orjson.loads((left / "losses.json").read_bytes())[name]
    assert found == pytest.approx(losses, rel=1e-5)
    assert losses[-1] < losses[0]
    measured = orjson.loads((left / "evaluated.json").read_bytes())[name]
    assert measured == pytest.approx(evaluated(alone), rel=1e-3)
    shape = SHAPES.get(name, SHAPE)
    assert_same(
        loaded(left / name, subtokenizers, WAYS[name][2], shape), alone, atol=2e-4, rtol=5e-3
    )


def test_a_checkpoint_changes_its_number_of_shards(
    left: Path, subtokenizers: SubtokenizerCache
) -> None:
    # One file to two, and back to one: every number is where it was.
    assert len(list((left / "again" / "step-00000003").glob("*.safetensors"))) == 2
    once, twice = loaded(left / "single", subtokenizers), loaded(left / "again", subtokenizers)
    assert_same(once, twice)


def test_checkpoint_is_sharded_over_replicas_and_gathered(
    left: Path, subtokenizers: SubtokenizerCache
) -> None:
    # Two shards' files to Megatron's distributed optimizer on two replicas, and to one file.
    names = sorted(file.name for file in (left / "dealt").glob("*/*.safetensors"))
    assert names == [f"shard-0-of-1-part-{part}-of-2.safetensors" for part in (0, 1)]
    sharded = loaded(left / "tp-megatron", subtokenizers)
    dealt = loaded(left / "dealt", subtokenizers)
    assert_same(sharded, dealt)


def test_any_number_of_ranks_trains_as_one(tokenizer: Path, tmp_path: Path) -> None:
    """Losses, gradient norms and evaluations, also where a rank has no answer in a step."""
    for language in ("en", "fi"):
        lines = (SAMPLE / f"{language}.jsonl").read_bytes().splitlines()
        texts = [orjson.loads(line)["text"] for line in lines]
        rows = [
            {"messages": [{"role": "user", "content": text[: number * 37 % 150 + 1]},
                          {"role": "assistant", "content": text[5 : number * 53 % 90 + 9]}]}
            for number, text in enumerate(texts)
        ]  # fmt: skip
        (tmp_path / f"{language}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    (tmp_path / "template.jinja").write_text(template)
    small = {
        "model": "tiny", "layers": 1, "hidden_size": 32, "ffn": 64, "heads": 4, "kv_heads": 2,
        "head_width": 8, "tokenizer": str(tokenizer), "runs": str(tmp_path / "runs"),
        "langs": ["en", "fi"], "sampling": "sub:1", "steps": 4, "batch_size": 8, "micro_batch": 1,
        "seq_length": 32, "workers": 0, "eval_bytes": 400, "warmup": 1, "lr": 1e-3, "clip": 0.3,
        "z_loss": 0.01,
    }  # fmt: skip
    chat = {"data": str(tmp_path), "chat_template": str(tmp_path / "template.jinja")}
    kinds = {"chat": chat, "text": {"data": str(SAMPLE), "offload": True}}
    ways = [(1, 1), (2, 1), (4, 2)]
    for world in (1, 2, 4):
        runs = [
            {**small, **kind, "tp": tp, "name": f"{name}-{count}-{tp}"}
            for count, tp in ways if count == world
            for name, kind in kinds.items()
        ]  # fmt: skip
        train_on(world, runs, tmp_path / "settings.json")
    for name in kinds:
        alone, *others = (
            [numbers(line) for line in read_metrics(tmp_path / "runs" / f"{name}-{count}-{tp}")]
            for count, tp in ways
        )
        assert len(alone) == 5
        for other in others:
            assert other == [pytest.approx(line, rel=1e-6) for line in alone]
    slow = [line["time"] for line in read_metrics(tmp_path / "runs" / "text-4-2") if "time" in line]
    assert "slowest" not in slow[0]  # ranks tell each other after a step
    assert all(time["slowest"]["rank"] in range(4) for time in slow[1:])
    assert all(0 <= time["slowest"]["seconds"] < 60 for time in slow[1:])
    # All replicas compute; draws of the first differ a little from those of the others.
    computed = [
        sum(line["time"]["model_flops_per_second"] * line["time"]["step_seconds"]
            for line in read_metrics(tmp_path / "runs" / f"text-{count}-{tp}") if "time" in line)
        for count, tp in ways
    ]  # fmt: skip
    assert computed == pytest.approx([computed[0]] * len(ways), rel=0.3)


def numbers(line: dict[str, Any]) -> dict[str, Any]:
    """What a line of metrics says, flat; without times."""
    parts = {**line, **line.get("languages", {}), **line.get("held_out", {})}
    plain = {key: value for key, value in parts.items() if isinstance(value, int | float)}
    return plain | {
        f"{key} {name}": value
        for key, figures in parts.items() if isinstance(figures, dict) and key != "time"
        for name, value in figures.items() if isinstance(value, int | float)
    }  # fmt: skip


STEPS = 12
CASES = (
    Case(1, 1, "joint", "step", update="dense"),
    Case(2, 2, "sub:2", "micro", tied=True, staged=True),
    Case(2, 1, "full", "micro", staged=True),
    Case(2, 1, "none", "step", update="dense"),
)


@pytest.fixture(scope="module")
def runs(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a trained run of each case."""
    place = tmp_path_factory.mktemp("replay")
    shutil.copytree(tokenizer, place / "tokenizer")
    (place / "data").mkdir()
    for language in LANGUAGES:
        shutil.copy(SAMPLE / f"{language}.jsonl", place / "data")
    for _, cases in groupby(CASES, lambda case: case.world):
        train_cases([*cases], place, STEPS)
    return place


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_losses_are_those_of_the_masked_softmax(case: Case, runs: Path) -> None:
    row = compare(case, runs)
    assert row["steps"] == STEPS
    assert row["largest_relative_error"] < TOLERANCE
    assert row["last_loss"] < row["first_loss"] - 0.05
