"""Rows in host memory: against updates in the simplest form, and whole runs."""

import os
import random
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from helpers.delayed_updates import LateModel, sleeper
from helpers.metrics import numbers, read_metrics
from helpers.microbatches import optimizer_step
from helpers.same_models import PARTS, pairs
from modtok_cli.base.errors import ModtokError
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.training import run_memory as planned
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.loop import pretrain
from modtok_cli.training.model.model import Model
from modtok_cli.training.plan import plan
from modtok_cli.training.rows import host_tables
from modtok_cli.training.rows.copies import Copies, CudaCopies
from modtok_cli.training.rows.host_tables import Offload, host_zeros
from modtok_cli.training.rows.table import AdamW, RowTable
from modtok_cli.training.settings import RunSettings

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
    assert all(seconds > 0 for seconds in model.take_host_seconds().values())
    assert not any(model.take_host_seconds().values())  # since the last call


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


@pytest.mark.parametrize("seed", range(5))
def test_offloaded_equals_the_plain_reference_under_any_schedule(
    made, subtokenizers, stores, seed: int
) -> None:
    # Whatever is slow when, with rows active in step after step: never lost, never twice.
    rng, delay = random.Random(seed), int(seed < 4)
    # On a GPU, where updates round otherwise, bfloat16 turns signs of gradients near 0.
    half = seed > 1 and "MODTOK_GPU_CHECK" not in os.environ
    options = {"tied": bool(seed % 2), "dtype": torch.bfloat16 if half else torch.float32}
    plain = made(LateModel if delay else Model, subtokenizers.size, **options)
    offload = Offload(delay=delay, hook=sleeper(seed))
    offloaded = made(Model, subtokenizers.size, offload=offload, **options)
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
        if delay and rng.random() < 0.3:  # an evaluation sees all updates, and changes nothing
            offloaded.drain()
            unions, rate = plain.held
            for name, table in plain.tables.items():
                done, found = copied(table), offloaded.tables[name]
                done.update(*(x.cpu() for x in unions[name]), rate, AdamW())
                for part in PARTS:
                    same(getattr(done, part), getattr(found, part))
            offloaded.measure(batch[0])
    if delay:
        plain.finish()
    offloaded.drain()
    same_models(plain, offloaded)


OFFLOAD = {"offload": True, "name": "offload"}


@pytest.mark.skipif("MODTOK_GPU_CHECK" in os.environ, reason="a GPU rounds otherwise than the host")
def test_without_delay_a_run_is_the_resident_run(settings: RunSettings, tmp_path: Path) -> None:
    pretrain(settings)
    pretrain(settings.changed(**OFFLOAD, offload_delay=0))
    expected = numbers(settings.runs / "it")
    assert numbers(settings.runs / "offload") == expected
    line = read_metrics(settings.runs / "offload")[0]
    assert line["time"]["offload"].keys() == {"fetch", "update", "waited"}
    # As files, which have no names: nothing is left, whatever happens.
    store = tmp_path / "rows"
    pretrain(settings.changed(**OFFLOAD, offload_delay=0, offload_file=store), force=True)
    assert numbers(settings.runs / "offload") == expected
    assert list(store.iterdir()) == []
    names = ["step-00000006", "shard-0-of-1.safetensors"]
    one, other = (
        load_file(settings.runs / run / "checkpoints" / names[0] / names[1])
        for run in ("it", "offload")
    )
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def test_a_checkpoint_has_the_rows_that_the_next_step_sees(settings: RunSettings) -> None:
    """How a run goes on from them: `test_stages`."""
    pretrain(settings.changed(**OFFLOAD, offload_moments="bfloat16"))
    pretrain(settings)
    run = settings.runs / "offload"
    assert numbers(run) != numbers(settings.runs / "it")  # the lag is there
    kept = load_file(run / "checkpoints" / "step-00000004" / "shard-0-of-1.safetensors")
    assert kept["input.moment1"].dtype == torch.bfloat16
    late, ids = kept["output.late.weight"], kept["output.late.ids"]
    assert len(late) == len(ids) > 500
    assert not torch.equal(late, kept["output.weight"][ids])


def test_a_worker_that_dies_stops_the_run_and_the_checkpoint_stays(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = RowTable.update, []

    def dying(table: RowTable, *args: Any) -> None:
        calls.append(None)
        if len(calls) == 2 * 5:  # the output table in step 5
            raise MemoryError("no pages")
        whole(table, *args)

    wanted = settings.changed(**OFFLOAD, workers=1)
    pretrain(wanted.changed(name="unbroken", workers=0))
    monkeypatch.setattr(RowTable, "update", dying)
    with pytest.raises(ModtokError) as caught:
        pretrain(wanted)
    assert str(caught.value) == (
        "offloaded rows could not be updated (MemoryError: no pages); "
        "resume from the last checkpoint with --resume"
    )
    monkeypatch.setattr(RowTable, "update", whole)
    run = settings.runs / "offload"
    assert [path.name for path in sorted((run / "checkpoints").iterdir())][-1] == "step-00000004"
    pretrain(wanted.changed(workers=0), resume=True)
    assert numbers(run) == numbers(settings.runs / "unbroken")


def test_too_little_memory_is_said_first(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planned, "available", lambda: 1 << 17)
    with pytest.raises(ModtokError) as caught:
        pretrain(settings.changed(**OFFLOAD, device_memory=1 << 40))
    said = str(caught.value)
    assert re.search(r"2 × [\d,]+ rows × 32 × \(4 \+ 2 × 4\) bytes = 0\.0 GiB", said)
    assert "0.0 GiB are free" in said
    assert "--set parallelism.offload_moments=bfloat16" in said
    assert "--set parallelism.offload_file" in said
    assert not (settings.runs / "offload").exists()


def test_a_disk_that_is_full_after_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(opened: int, start: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(host_tables.os, "posix_fallocate", full)
    with pytest.raises(ModtokError, match=r"cannot allocate 4,096 bytes for rows \(No space left"):
        host_zeros(start_ranks(), tmp_path, (32, 32), torch.float32)


def test_memory_that_cannot_be_pinned_is_said_with_its_cost() -> None:
    # On this machine no memory can be pinned: torch says so itself.
    if torch.cuda.is_available():
        pytest.skip("memory can be pinned here")
    said: list[str] = []
    copies = CudaCopies.__new__(CudaCopies)
    copies._device, copies._warn, copies._pinned = torch.device("cpu"), said.append, True
    assert copies.empty(1 << 20, torch.float32).shape == (1 << 20,)
    assert copies.empty(5, torch.bfloat16).dtype == torch.bfloat16
    assert len(said) == 1
    assert re.search(
        r"cannot be pinned \(.+\): .+ GB/s, \d+ ms for 4 MiB, and do not overlap", said[0]
    )


def test_a_plan_of_the_node(settings: RunSettings) -> None:
    wanted = settings.changed(model="2.5b", micro_batch=2, batch_size=16)
    resident = plan(wanted, ranks=8, device="H100")
    found = plan(wanted.changed(offload=True), ranks=8, device="H100")
    size, width = found.vocabulary, 3072
    rows = {row["part"]: row["bytes"] for row in found.rows()}
    assert rows["host, tables"] == 2 * size * (width * 12 + 4)  # once, for eight GPUs
    assert rows["host, tables of 250 languages"] == 2 * (size * 250 // 4) * (width * 12 + 4)
    assert "tables" not in rows
    assert rows["all"] == sum(size for _, size in found.largest.memory.values())
    before = {row["part"]: row["bytes"] for row in resident.rows()}
    assert rows["active rows"] > before["active rows"]
    assert rows["backbone"] == before["backbone"]
    half = plan(wanted.changed(offload=True, offload_moments="bfloat16", tp=2), ranks=8)
    assert half.host["tables"] == 2 * size * (width * 8 + 4)
    assert f"2 × {size:,} rows × 3,072 × (4 + 2 × 2) bytes" in half.words
