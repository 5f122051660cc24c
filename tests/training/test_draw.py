"""What shares a draw (a step, a rank, a microbatch): batches on any number of ranks, and replay."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.metrics import read_metrics
from helpers.microbatches import plan_of
from modtok_cli.base.errors import UsageError
from modtok_cli.training import prepare
from modtok_cli.training.config import Config
from modtok_cli.training.data.stream import BatchStream
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.loop import pretrain
from modtok_cli.training.resolve import resolve
from modtok_cli.training.rows.microbatch import Prefetcher, Step
from modtok_cli.training.settings import RunSettings

DRAWS = ("step", "rank", "micro")


def config_of(draw: str, **changes: Any) -> Config:
    given = {"batch_size": 8, "micro_batch": 4, "seq_length": 24, "sampling": "sub:1", **changes}
    return resolve(RunSettings(draw=draw, **given), gpu=False)  # type: ignore[arg-type]


def steps_of(
    config: Config,
    tokenizer: Path,
    subtokenizers: SubtokenizerCache,
    stores: Any,
    count: int,
    replicas: int = 1,
    workers: int = 0,
) -> list[list[Step]]:
    """For each of `count` steps, what each replica works on."""
    plan, share = plan_of(config, tokenizer, stores, replicas), config.batch_size // replicas
    feeds = []
    for replica in range(replicas):
        mine = range(replica * share, (replica + 1) * share)
        stream = BatchStream(plan, mine, first_step=1, last_step=count, workers=workers)
        sequences = config.sequences(replicas)
        feeds.append(Prefetcher(stream, subtokenizers, start_ranks(), sequences))
    return [[feed.step(step) for feed in feeds] for step in range(1, count + 1)]


def sequences(steps: list[list[Step]]) -> list[np.ndarray]:
    """The input ids of each step, all replicas one after the other."""
    return [
        np.concatenate([batch.inputs for step in replicas for batch in step.batches])
        for replicas in steps
    ]


@pytest.mark.parametrize("draw", DRAWS)
def test_what_shares_a_draw(
    draw: str, tokenizer: Path, subtokenizers: SubtokenizerCache, stores: Any
) -> None:
    steps = steps_of(config_of(draw), tokenizer, subtokenizers, stores, 12, replicas=2)
    per_step = [{batch.draw for step in replicas for batch in step.batches} for replicas in steps]
    per_rank = [{batch.draw for batch in step.batches} for replicas in steps for step in replicas]
    assert all(len(step.batches) == 1 for replicas in steps for step in replicas)
    if draw == "step":
        assert all(len(draws) == 1 for draws in per_step)
    else:
        assert any(len(draws) == 2 for draws in per_step)
    assert all(len(draws) == 1 for draws in per_rank)


def test_a_process_of_a_pool_makes_batches_itself(
    tokenizer: Path, subtokenizers: SubtokenizerCache, stores: Any, monkeypatch: Any
) -> None:
    """It is daemonic and may start no process."""
    config = config_of("step")
    expected = sequences(steps_of(config, tokenizer, subtokenizers, stores, 2))
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    made = sequences(steps_of(config, tokenizer, subtokenizers, stores, 2, workers=2))
    for one, other in zip(expected, made, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("draw", ["step", "micro"])
def test_batches_do_not_depend_on_ranks(
    draw: str, tokenizer: Path, subtokenizers: SubtokenizerCache, stores: Any
) -> None:
    config = config_of(draw)
    alone = sequences(steps_of(config, tokenizer, subtokenizers, stores, 5))
    for replicas in (2, 4, 8):
        steps = steps_of(config, tokenizer, subtokenizers, stores, 5, replicas)
        for one, other in zip(alone, sequences(steps), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_microbatch_larger_than_a_ranks_share_is_split(
    tokenizer: Path, subtokenizers: SubtokenizerCache, stores: Any
) -> None:
    config = config_of("micro", micro_batch=8)
    steps = steps_of(config, tokenizer, subtokenizers, stores, 2, replicas=4)
    assert [len(batch.inputs) for step in steps[0] for batch in step.batches] == [2] * 4
    assert len({batch.draw for step in steps[0] for batch in step.batches}) == 1
    assert config_of("step", batch_size=64, micro_batch=64).sequences(8) == 8


def test_draws_of_ranks_need_their_number(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(replace(settings, draw="rank", steps=2))
    assert len(read_metrics(settings.runs / "it")) == 3
    whole = prepare.start_ranks

    def two(shards: int) -> Any:
        return replace(whole(shards), replicas=2)

    monkeypatch.setattr(prepare, "start_ranks", two)
    with pytest.raises(UsageError, match=r"--gpus: the run has 1 replicas, and draw = rank"):
        pretrain(RunSettings(runs=settings.runs, steps=3), resume=True)
