"""Rows in host memory: equal to resident rows, and to delayed updates in the simplest form."""

import os
import random
import threading
from dataclasses import replace
from typing import Any

import pytest
import torch

from helpers.delayed_updates import LateModel
from helpers.random_delays import sleeper
from helpers.same_models import PARTS, pairs
from modtok_cli.architectures.families.llama import llama
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows import host_tables
from modtok_cli.training.rows.copies import Copies
from modtok_cli.training.rows.host_tables import Offload
from modtok_cli.training.rows.table import AdamW, RowTable
from modtok_cli.training.step import optimizer_step

from .test_model import microbatches

SHAPE = llama(1, 32, 8, 88)


def same(one: torch.Tensor, other: torch.Tensor) -> None:
    """Equal to the bit; on a GPU up to rounding, as offloaded rows are updated on the host."""
    if "MODTOK_GPU_CHECK" in os.environ:
        torch.testing.assert_close(one.cpu(), other.cpu(), atol=2e-5, rtol=1e-2)
    else:
        assert torch.equal(one, other)


def same_models(one: Model, other: Model) -> None:
    for mine, theirs in pairs(one, other):
        same(mine, theirs)


@pytest.mark.skipif("MODTOK_GPU_CHECK" in os.environ, reason="records copies of the CPU")
def test_the_thread_that_copies_is_prepared_first(made, subtokenizers, stores) -> None:
    # On a GPU it would open a context on the first one, also in the processes of the others.
    entered = []

    class Recording(Copies):
        def enter_thread(self) -> None:
            entered.append(threading.current_thread().name)

        def upload(self, staged: Any) -> Any:
            assert entered == [threading.current_thread().name]
            return super().upload(staged)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_tables, "copies_for", lambda *_: Recording())
        model = made(Model, subtokenizers.size, offload=Offload())
    for batch in microbatches(subtokenizers, stores, 2):
        optimizer_step(model, batch, 3e-3)
    model.drain()
    assert len(entered) == 1


def copied(table: RowTable) -> RowTable:
    twin = RowTable(table.size, table.width)
    for part in PARTS:
        getattr(twin, part).copy_(getattr(table, part))
    return twin


def equal_losses(one: Any, other: Any) -> None:
    (losses, norm), (others, other_norm) = one, other
    same(norm, other_norm)
    for a, b in zip(losses, others, strict=True):
        same(a, b)


@pytest.fixture
def made() -> Any:
    """Makes models and ends their threads."""
    models: list[Model] = []

    def make(kind: type[Model], size: int, tied: bool = False, **options: Any) -> Model:
        shape = replace(SHAPE, tied=tied)
        models.append(kind(shape, size, start_ranks(), seed=5, chunk=16, **options))
        return models[-1]

    yield make
    for model in models:
        model.close()


@pytest.mark.parametrize("seed", range(4))
def test_delayed_equals_the_plain_reference_under_any_schedule(
    made, subtokenizers, stores, seed: int
) -> None:
    # Whatever is slow when, with rows active in step after step: never lost, never twice.
    rng = random.Random(seed)
    options = {"tied": bool(seed % 2), "dtype": [torch.float32, torch.bfloat16][seed // 2]}
    plain = made(LateModel, subtokenizers.size, **options)
    delayed = Offload(delay=1, hook=sleeper(seed))
    offloaded = made(Model, subtokenizers.size, offload=delayed, **options)
    for table in offloaded.tables.values():
        table.threads = 1 + seed % 3
    steps = microbatches(subtokenizers, stores, 14)
    for step, batch in enumerate(steps):
        upcoming = steps[step + 1] if step + 1 < len(steps) else None
        if rng.random() < 0.2:
            upcoming = None  # not fetched ahead: seen is the same version
        equal_losses(
            optimizer_step(plain, batch, 3e-3),
            optimizer_step(offloaded, batch, 3e-3, upcoming=upcoming),
        )
        if rng.random() < 0.3:  # an evaluation, which sees all updates, and changes nothing
            offloaded.drain()
            unions, rate = plain.held
            for name, table in plain.tables.items():
                done, found = copied(table), offloaded.tables[name]
                done.update(*(x.cpu() for x in unions[name]), rate, AdamW())
                for part in PARTS:
                    same(getattr(done, part), getattr(found, part))
            offloaded.measure(batch[0])
    plain.finish()
    offloaded.drain()
    same_models(plain, offloaded)
