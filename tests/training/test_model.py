"""What a step reads, makes and changes; its numbers: test_optimizer_options."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

from helpers.as_cuda import megatron_optimizer
from helpers.microbatches import microbatch, optimizer_step, packer
from helpers.same_models import assert_same
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.rows.host_tables import Offload

from .test_loss import Largest

SHAPE = llama(2, 32, 8, 88)


def micro_of(batch: Batch, subtokenizers: SubtokenizerCache, of: int = 1) -> MicroBatch:
    ids = subtokenizers.of(batch.draw.languages).global_ids
    return microbatch(batch.inputs, batch.targets, ids, of=of)


def microbatches(subtokenizers: SubtokenizerCache, stores, steps: int, slots: int = 2, **changes):
    packers = [packer(subtokenizers, stores, s, slots, **changes) for s in range(slots)]
    return [
        [micro_of(each.batch(step), subtokenizers, slots) for each in packers]
        for step in range(1, steps + 1)
    ]


def test_rows_outside_stay_and_nothing_of_their_size_is_made(subtokenizers, stores) -> None:
    size = 50_000  # T as if of many languages; ids in use stay below
    model = Model(SHAPE, size, start_ranks())
    batch = microbatches(subtokenizers, stores, 2)[1]
    before = model.output.weight.clone()
    with Largest() as largest:
        optimizer_step(model, batch, 1e-3)
    union = torch.unique(torch.cat([m.vocabulary for m in batch]))
    idle = torch.ones(size, dtype=torch.bool, device=union.device)
    idle[union] = False
    assert torch.equal(model.output.weight[idle], before[idle])
    assert not torch.equal(model.output.weight[union], before[union])
    assert (model.output.steps > 0).sum() == len(union)
    # In-place work on a GPU shows as a result of the table's shape; nothing new is that large.
    assert largest.rows <= (size if model.ranks.device.type == "cuda" else size / 2)
    with Largest() as largest:
        active = model.activate(batch)
        loss, _ = model.loss(batch[0], active)
        with model.backbone.accumulating(more=False):
            loss.backward()
    assert largest.rows < size / 10
    assert active[1].rows.grad.shape == (len(union), 32)
    outside = union[~torch.isin(union, batch[0].vocabulary)]
    if len(outside):
        assert not active[1].rows.grad[active[1].find(outside)].any()


@pytest.mark.parametrize(
    ("optimizer", "offload"),
    [(nullcontext, None), (megatron_optimizer, None), (nullcontext, Offload(delay=0))],
)
def test_a_step_that_is_not_finite_changes_nothing(
    subtokenizers, stores, optimizer, offload
) -> None:
    """Also not the step counts: the next step is that of a model without it."""
    batch = microbatches(subtokenizers, stores, 1)[0]
    with optimizer():
        model, twin = (
            Model(SHAPE, subtokenizers.size, start_ranks(), offload=offload) for _ in range(2)
        )
        row = model.input.weight[batch[0].inputs[0, 0]]
        before = row.clone()
        row.fill_(torch.nan)
        _, norm = optimizer_step(model, batch, 1e-3)
        assert not torch.isfinite(norm)
        model.drain()
        row.copy_(before)
        exact = model.loss
        model.loss = lambda *of: (exact(*of)[0] + torch.inf, exact(*of)[1])  # of a finite gradient
        _, norm = optimizer_step(model, batch, 1e-3)
        assert not torch.isfinite(norm)
        model.loss = exact
        found = optimizer_step(model, batch, 1e-3), optimizer_step(twin, batch, 1e-3)
        assert found[0][1] == found[1][1]
        for each in (model, twin):
            each.drain()
        assert_same(model, twin)
        for each in (model, twin):
            each.close()


def test_rows_of_the_output_arrive_beside_the_forward_pass(
    subtokenizers, stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(SHAPE, subtokenizers.size, start_ranks())
    events: list[str] = []
    gather, backbone = model.exchange.gather, model.backbone.wrapped

    def gathering(placed, own):
        name = "output" if "started input" in events else "input"
        events.append(f"started {name}")
        arrive = gather(placed, own)
        return lambda: (events.append(name), arrive())[1]

    monkeypatch.setattr(model.exchange, "gather", gathering)
    forward = type(backbone).forward

    def computing(one, *of):
        events.append("forward")
        return forward(one, *of)

    monkeypatch.setattr(type(backbone), "forward", computing)
    optimizer_step(model, microbatches(subtokenizers, stores, 1)[0], 1e-3)
    expected = ["started input", "started output", "input", "forward", "output", "forward"]
    assert events == expected


def test_padding_counts_nothing(subtokenizers, stores) -> None:
    model = Model(SHAPE, subtokenizers.size, start_ranks())
    batch = packer(subtokenizers, stores).batch(1)
    ids = subtokenizers.of(batch.draw.languages).global_ids
    weights = torch.ones(batch.targets.shape, device=model.ranks.device)
    weights[:, 20:] = 0
    whole = model.measure(micro_of(batch, subtokenizers))
    padded = replace(microbatch(batch.inputs, batch.targets, ids), weights=weights.flatten())
    loss, nll = model.loss(padded, model.activate([padded], training=False))
    torch.testing.assert_close(nll, whole)
    torch.testing.assert_close(loss, (whole * padded.weights).sum())


def test_row_gradients_are_summed_in_float32(subtokenizers, stores) -> None:
    """Many microbatches in bfloat16: the sum has the digits of its parts, not of bfloat16."""
    batch = microbatches(subtokenizers, stores, 1, slots=16)[0]
    model = Model(SHAPE, subtokenizers.size, start_ranks(), dtype=torch.bfloat16)
    taken = {}

    def take(unions, lr, dense, finite) -> None:
        taken.update({name: (ids, gradient.clone()) for name, (ids, gradient) in unions.items()})

    model.update = take  # type: ignore[method-assign]
    _, norm = optimizer_step(model, batch, 0.0)
    scale = min(1.0, 1.0 / float(norm))
    device = model.ranks.device
    single = {name: torch.zeros(subtokenizers.size, 32, device=device) for name in model.tables}
    for one in batch:
        active = model.activate([one])
        with model.backbone.accumulating(more=False):
            model.loss(one, active)[0].backward()
        for name, rows in zip(model.tables, active, strict=True):
            single[name][rows.ids] += rows.rows.grad.float()
    for name, (ids, gradient) in taken.items():
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, single[name][ids] * scale, atol=1e-7, rtol=1e-5)
