"""Megatron's optimizer against torch's, its checkpoints, and which of the two is taken."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from helpers.as_cuda import megatron_optimizer, torch_optimizer
from helpers.microbatches import optimizer_step
from helpers.same_models import pairs
from helpers.saved import save
from modtok_cli.base.progress import SILENT
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.training import checkpoint
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model import optimizer
from modtok_cli.training.model.model import Model
from modtok_cli.training.model.optimizer import TorchAdamW, backbone_optimizer
from modtok_cli.training.rows.table import AdamW

from .test_model import SHAPE, microbatches

STEPS = 12
EXACT = {"atol": 0.0, "rtol": 0.0}


class Trained:
    """A model whose backbone an optimizer updates: torch's, Megatron's, or that one sharded."""

    def __init__(self, kind: str, size: int, dtype: torch.dtype = torch.bfloat16) -> None:
        self.optimizer = torch_optimizer if kind == "torch" else megatron_optimizer
        distributed = kind == "distributed"
        with self.optimizer():
            self.model = Model(SHAPE, size, start_ranks(), dtype=dtype, distributed=distributed)

    def train(self, batches, first: int = 1) -> list[float]:
        """Loss and norm before clipping of each step; most steps are clipped."""
        found = []
        with self.optimizer():
            for step, batch in enumerate(batches, first):
                nll, norm = optimizer_step(self.model, batch, 3e-3 * min(1, step / 10))
                found += [float(torch.stack([one.mean() for one in nll]).mean()), float(norm)]
        return found


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
@pytest.mark.parametrize("kind", ["megatron", "distributed"])
def test_it_trains_as_torch_does(
    subtokenizers: SubtokenizerCache, stores, dtype: torch.dtype, kind: str
) -> None:
    batches = microbatches(subtokenizers, stores, 12)
    plain, other = (Trained(each, subtokenizers.size, dtype) for each in ("torch", kind))
    expected, found = plain.train(batches), other.train(batches)
    exact = plain.model.ranks.device.type == "cpu"
    assert found[::2] == pytest.approx(expected[::2], abs=0, rel=0 if exact else 1e-3)
    assert found[1::2] == pytest.approx(expected[1::2], abs=0, rel=0 if exact else 1e-1)
    assert max(expected[1::2]) > 1  # some were clipped, by the norm over the rows too
    same(plain.model, other.model)


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
    first, resumed = (Trained(kind, subtokenizers.size) for kind in (before, after))
    first.train(batches[:5])
    save(tmp_path, first.model, 5)
    found = checkpoint.newest(tmp_path, SILENT)
    assert found is not None
    with resumed.optimizer():
        checkpoint.load(*found, resumed.model)
    same(first.model, resumed.model)
    first.train(batches[5:], 6)
    resumed.train(batches[5:], 6)
    same(first.model, resumed.model)


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
