"""Megatron's optimizer against torch's, its checkpoints, and which of the two is taken."""

import shutil
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.as_cuda import megatron_optimizer, torch_optimizer
from helpers.metrics import numbers
from helpers.same_models import pairs
from helpers.saved import save
from modtok_cli.architectures.families.llama import llama
from modtok_cli.base.progress import SILENT
from modtok_cli.training import checkpoint
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.loop import pretrain
from modtok_cli.training.model import optimizer
from modtok_cli.training.model.model import Model
from modtok_cli.training.model.optimizer import TorchAdamW, backbone_optimizer
from modtok_cli.training.rows.table import AdamW
from modtok_cli.training.step import optimizer_step

from .test_model import SHAPE, microbatches

STEPS = 12
EXACT = {"atol": 0.0, "rtol": 0.0}


def as_told(megatron: bool) -> AbstractContextManager[None]:
    return megatron_optimizer() if megatron else torch_optimizer()


def trained(
    batches, size: int, dtype: torch.dtype, *, megatron: bool, distributed: bool = False
) -> tuple[list[float], list[float], Model]:
    """Losses, norms before clipping, and the model; most steps are clipped."""
    with as_told(megatron):
        model = Model(SHAPE, size, start_ranks(), dtype=dtype, distributed=distributed)
        losses, norms = [], []
        for step, batch in enumerate(batches, 1):
            nll, norm = optimizer_step(model, batch, 3e-3 * min(1, step / 10))
            losses.append(float(torch.stack([one.mean() for one in nll]).mean()))
            norms.append(float(norm))
        return losses, norms, model


def same(one: Model, other: Model) -> None:
    """On a CPU to the last bit; on a GPU it may be Transformer Engine's Adam that updates."""
    states = [one.optimizer.state(name) for name in one.backbone.parameters]
    assert {tensor.dtype for state in states for tensor in state.values()} == {torch.float32}
    for tensor, also in pairs(one, other):
        if one.ranks.device.type == "cpu":
            torch.testing.assert_close(tensor, also, **EXACT)
        else:  # counts of steps are integers
            assert (tensor - also).float().norm() <= 0.05 * tensor.float().norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("distributed", [False, True])
def test_it_trains_as_torch_does(
    subtokenizers: SubtokenizerCache, stores, dtype: torch.dtype, distributed: bool
) -> None:
    batches = microbatches(subtokenizers, stores, STEPS)
    expected, norms, plain = trained(batches, subtokenizers.size, dtype, megatron=False)
    found, also, model = trained(
        batches, subtokenizers.size, dtype, megatron=True, distributed=distributed
    )
    exact = model.ranks.device.type == "cpu"
    assert found == pytest.approx(expected, abs=0, rel=0 if exact else 1e-3)
    assert also == pytest.approx(norms, abs=0, rel=0 if exact else 1e-1)
    assert max(norms) > 1  # some were clipped, by the norm over the rows too
    same(plain, model)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch", "megatron"),
        ("megatron", "torch"),
        ("torch", "distributed"),
        ("distributed", "torch"),
    ],
)
def test_one_goes_on_from_the_others_checkpoint(
    subtokenizers: SubtokenizerCache, stores, tmp_path: Path, before: str, after: str
) -> None:
    batches = microbatches(subtokenizers, stores, 8)
    _, _, unbroken = trained(
        batches, subtokenizers.size, torch.bfloat16, megatron=before != "torch"
    )
    with as_told(before != "torch"):
        model = Model(
            SHAPE,
            subtokenizers.size,
            start_ranks(),
            dtype=torch.bfloat16,
            distributed=before == "distributed",
        )
        for step, batch in enumerate(batches[:5], 1):
            optimizer_step(model, batch, 3e-3 * step / 10)
        save(tmp_path, model, 5)
    with as_told(after != "torch"):
        resumed = Model(
            SHAPE,
            subtokenizers.size,
            start_ranks(),
            seed=7,
            dtype=torch.bfloat16,
            distributed=after == "distributed",
        )
        found = checkpoint.newest(tmp_path, SILENT)
        assert found is not None
        checkpoint.load(*found, resumed)
        same(model, resumed)
        for step, batch in enumerate(batches[5:], 6):
            optimizer_step(resumed, batch, 3e-3 * step / 10)
    same(unbroken, resumed)


def test_a_run_is_resumed_bit_for_bit(settings) -> None:
    half = replace(settings, dtype="bfloat16", name="whole")
    with megatron_optimizer():
        pretrain(half)
        expected = numbers(settings.runs / "whole")
        for old in (settings.runs / "whole" / "checkpoints").glob("step-00000006"):
            shutil.rmtree(old)
        pretrain(half, resume=True)
    assert numbers(settings.runs / "whole") == expected


def test_a_gpu_gets_megatrons(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(llama(1, 32, 8, 88), 40, start_ranks())
    gpu = replace(model.ranks, device=torch.device("cuda"))
    made = []
    monkeypatch.setattr(
        optimizer, "MegatronAdamW", lambda *found, **options: made.append((found, options))
    )
    backbone_optimizer(model.backbone, AdamW(), gpu, distributed=True)
    assert made == [((model.backbone, AdamW(), gpu), {"distributed": True})]
    cpu = replace(model.ranks, device=torch.device("cpu"))
    assert isinstance(backbone_optimizer(model.backbone, AdamW(), cpu), TorchAdamW)
