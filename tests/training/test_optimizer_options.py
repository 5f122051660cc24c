"""Every option of the optimizer against plain torch, in each place that applies it.

The reference is torch.optim.AdamW, torch's cross-entropy and torch's clipping. Its rows are
separate parameters, and torch skips parameters without a gradient, so that it updates active
rows only.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from helpers.as_cuda import megatron_optimizer
from modtok_cli.architectures.families.llama import llama
from modtok_cli.architectures.registry import with_switches
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.execution import InitStd
from modtok_cli.training.model.megatron import build_backbone
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.rows.host_tables import Offload
from modtok_cli.training.rows.table import AdamW
from modtok_cli.training.step import optimizer_step

SHAPE = with_switches(replace(llama(1, 16, 4, 24), qk_norm=True))
SIZE, STEPS, RATE = 24, 4, 1e-2
DEFAULT = AdamW()


@dataclass(frozen=True)
class Knobs:
    adamw: AdamW = DEFAULT
    clip: float = 1.0
    z_loss: float = 0.0


KNOBS = {
    "defaults": Knobs(),
    "beta1": Knobs(AdamW(beta1=0.3)),
    "beta2": Knobs(AdamW(beta2=0.5)),
    "eps": Knobs(AdamW(epsilon=1e-2)),
    "weight-decay": Knobs(AdamW(weight_decay=20.0)),
    "decay-embeddings": Knobs(AdamW(weight_decay=20.0, decayed=("embeddings",))),
    "decay-matrices": Knobs(AdamW(weight_decay=20.0, decayed=("matrices",))),
    "decay-norms": Knobs(AdamW(weight_decay=20.0, decayed=("norms",))),
    "clip": Knobs(AdamW(epsilon=1e-3), clip=0.05),
    "no-clip": Knobs(AdamW(epsilon=1e-3), clip=0.0),
    "z-loss": Knobs(z_loss=0.05),
}
STORES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {},
    "offload": {"offload": Offload(delay=0)},
}


def batches() -> list[list[MicroBatch]]:
    """Two microbatches per step, each over half of the vocabulary."""
    generator = torch.Generator().manual_seed(5)
    found = []
    for _ in range(STEPS):
        step = []
        for _ in range(2):
            vocabulary = torch.randperm(SIZE, generator=generator)[: SIZE // 2].sort().values
            ids = vocabulary[torch.randint(len(vocabulary), (2, 7), generator=generator)]
            inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].flatten()
            weights = torch.full((len(targets),), 0.5 / len(targets))
            step.append(MicroBatch(inputs, targets, vocabulary, weights))
        found.append(step)
    return found


class Reference:
    """Plain torch, on Megatron's layers; starts from the weights of `model`."""

    def __init__(self, model: Model, knobs: Knobs, *, dense: bool) -> None:
        self.knobs, self.dense = knobs, dense
        self.backbone = build_backbone(
            SHAPE, shards=1, device=torch.device("cpu"), dtype=torch.float32, seed=0
        )
        for name, parameter in self.backbone.parameters.items():
            parameter.data.copy_(model.backbone.parameters[name])
        self.rows = {
            name: [torch.nn.Parameter(row.clone()) for row in model.tables[name].weight]
            for name in model.tables
        }
        kinds: dict[str, list[torch.nn.Parameter]] = {"norms": [], "matrices": []}
        for name, parameter in self.backbone.parameters.items():
            kinds["norms" if "norm" in name else "matrices"].append(parameter)
        kinds["embeddings"] = [row for rows in self.rows.values() for row in rows]
        a = knobs.adamw
        groups = [
            {"params": params, "weight_decay": a.weight_decay if kind in a.decayed else 0.0}
            for kind, params in kinds.items()
        ]
        self.adamw = torch.optim.AdamW(
            groups, lr=RATE, betas=(a.beta1, a.beta2), eps=a.epsilon, foreach=False
        )

    def loss(self, batch: MicroBatch) -> torch.Tensor:
        x = F.embedding(batch.inputs.t(), torch.stack(self.rows["input"]))
        hidden = self.backbone(x).transpose(0, 1).reshape(-1, SHAPE.hidden_size)
        logits = hidden @ torch.stack(self.rows["output"])[batch.vocabulary].t()
        targets = torch.searchsorted(batch.vocabulary, batch.targets)
        nll = F.cross_entropy(logits, targets, reduction="none")
        z = torch.logsumexp(logits, dim=1).square()
        return ((nll + self.knobs.z_loss * z) * batch.weights).sum()

    def step(self, microbatches: list[MicroBatch]) -> float:
        self.backbone.clear_gradients()
        self.adamw.zero_grad()
        for index, batch in enumerate(microbatches):
            with self.backbone.accumulating(more=index + 1 < len(microbatches)):
                self.loss(batch).backward()
        gradients = self.backbone.finish_gradients()
        for name, parameter in self.backbone.parameters.items():
            parameter.grad = gradients[name]
        active = {
            "input": torch.cat([batch.inputs.flatten() for batch in microbatches]),
            "output": torch.cat([batch.vocabulary for batch in microbatches]),
        }
        for name, rows in self.rows.items():
            used = set(active[name].tolist())
            for index, row in enumerate(rows):
                if index not in used and not self.dense:
                    row.grad = None
        every = [each for group in self.adamw.param_groups for each in group["params"]]
        most = self.knobs.clip or float("inf")
        norm = torch.nn.utils.clip_grad_norm_(every, most, foreach=False)
        self.adamw.step()
        return float(norm)


def trained(knobs: Knobs, store: str = "sparse") -> tuple[list[float], Model]:
    options = STORES[store]
    model = Model(
        SHAPE, SIZE, start_ranks(), seed=3, chunk=5, init=InitStd(0.2, 0.2, 0.5),
        adamw=knobs.adamw, clip=knobs.clip, z_loss=knobs.z_loss, **options,
    )  # fmt: skip
    norms = [
        float(optimizer_step(model, step, RATE, dense=store == "dense")[1]) for step in batches()
    ]
    model.drain()
    return norms, model


@pytest.fixture(scope="module")
def plain() -> Model:
    return trained(KNOBS["defaults"])[1]


@pytest.mark.parametrize(
    ("store", "megatron"),
    [("sparse", False), ("sparse", True), ("dense", False), ("offload", True)],
)
@pytest.mark.parametrize("name", KNOBS)
def test_each_option_acts_as_in_torch(name: str, store: str, megatron: bool, plain: Model) -> None:
    knobs = KNOBS[name]
    start = Model(SHAPE, SIZE, start_ranks(), seed=3, init=InitStd(0.2, 0.2, 0.5))
    context: AbstractContextManager[None] = megatron_optimizer() if megatron else nullcontext()
    with context:
        norms, model = trained(knobs, store)
    reference = Reference(start, knobs, dense=store == "dense")
    assert norms == pytest.approx([reference.step(step) for step in batches()], rel=1e-4)
    changed = 0.0
    for table, rows in reference.rows.items():
        weight = model.tables[table].weight
        torch.testing.assert_close(weight, torch.stack(list(rows)).detach(), atol=2e-5, rtol=1e-4)
        changed = max(changed, float((weight - plain.tables[table].weight).abs().max()))
    for key, parameter in reference.backbone.parameters.items():
        found = model.backbone.parameters[key].detach()
        torch.testing.assert_close(found, parameter.detach(), atol=2e-5, rtol=1e-4)
        changed = max(changed, float((found - plain.backbone.parameters[key].detach()).abs().max()))
    model.close()
    if name != "defaults":
        assert changed > 1e-3  # the option matters here


@pytest.mark.parametrize("store", ["sparse", "offload"])
def test_initial_weights_have_the_given_scales(store: str) -> None:
    shape = llama(3, 64, 16, 96)
    init = InitStd(0.3, 0.05, 2.0)
    model = Model(shape, 500, start_ranks(), init=init, **STORES[store])
    for name, parameter in model.backbone.parameters.items():
        expected = 0.05 if name.endswith(("linear_proj.weight", "linear_fc2.weight")) else 0.3
        if "norm" in name:
            assert bool((parameter == 1).all())
        else:
            assert float(parameter.detach().std()) == pytest.approx(expected, rel=0.1)
    for table in model.tables.values():
        assert float(table.weight.std()) == pytest.approx(2.0, rel=0.05)
    model.close()
