"""Every option of the optimizer against plain torch, in each place that applies it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

import pytest
import torch

from helpers.as_cuda import megatron_optimizer
from helpers.microbatches import optimizer_step
from helpers.plain_training import PlainTraining, Rates, Sequences
from modtok_cli.model.architecture.families.llama import Llama, llama
from modtok_cli.model.architecture.megatron_layout import to_hf
from modtok_cli.model.architecture.registry import with_switches
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.execution import InitStd
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.rows.host_tables import Offload
from modtok_cli.training.rows.table import AdamW

SHAPE = with_switches(replace(llama(1, 16, 4, 24), qk_norm=True))
SIZE, STEPS, RATE = 24, 4, 1e-2


@dataclass(frozen=True)
class Capped(Llama):
    """A family that bounds its logits."""

    logit_cap: float | None = 0.5


SHAPES = {"capped, one table": Capped(**asdict(replace(llama(1, 16, 4, 24), tied=True)))}
KNOBS = {
    "defaults": Rates(),
    "beta1": Rates(beta1=0.3),
    "beta2": Rates(beta2=0.5),
    "eps": Rates(epsilon=1e-2),
    "weight-decay": Rates(weight_decay=20.0),
    "decay-embeddings": Rates(weight_decay=20.0, decayed=("embeddings",)),
    "decay-matrices": Rates(weight_decay=20.0, decayed=("matrices",)),
    "decay-norms": Rates(weight_decay=20.0, decayed=("norms",)),
    "clip": Rates(epsilon=1e-3, clip=0.05),
    "no-clip": Rates(epsilon=1e-3, clip=0.0),
    "z-loss": Rates(z_loss=0.05),
    "capped, one table": Rates(),
}
STORES: dict[str, dict[str, Any]] = {
    "sparse": {},
    "dense": {},
    "offload": {"offload": Offload(delay=0)},
}


def batches() -> list[list[Sequences]]:
    """Two microbatches per step, each over half of the vocabulary."""
    generator = torch.Generator().manual_seed(5)
    found = []
    for _ in range(STEPS):
        step = []
        for _ in range(2):
            vocabulary = torch.randperm(SIZE, generator=generator)[: SIZE // 2].sort().values
            ids = vocabulary[torch.randint(len(vocabulary), (2, 7), generator=generator)]
            step.append(Sequences(ids[:, :-1].contiguous(), ids[:, 1:], vocabulary))
        found.append(step)
    return found


def microbatch(part: Sequences) -> MicroBatch:
    """One of the two of a step."""
    weights = torch.full((part.targets.numel(),), 0.5 / part.targets.numel())
    return MicroBatch(part.inputs, part.targets.flatten(), part.vocabulary, weights)


def weights_of(model: Model) -> dict[str, torch.Tensor]:
    """Under the names of transformers, and "input" and "output"."""
    backbone = {name: each.detach() for name, each in model.backbone.parameters.items()}
    tables = {"input": model.input.weight, "output": model.output.weight}
    return to_hf(model.shape, backbone) | dict(list(tables.items())[: len(model.tables)])


def made(name: str, store: str) -> Model:
    rates = KNOBS[name]
    adamw = AdamW(rates.beta1, rates.beta2, rates.epsilon, rates.weight_decay, rates.decayed)
    return Model(
        SHAPES.get(name, SHAPE), SIZE, start_ranks(), seed=3, chunk=5,
        init=InitStd(0.2, 0.2, 0.5), adamw=adamw, clip=rates.clip, z_loss=rates.z_loss,
        **STORES[store],
    )  # fmt: skip


def train(model: Model, store: str) -> list[float]:
    """Norms of the gradients."""
    norms = []
    for parts in batches():
        step = [microbatch(part) for part in parts]
        norms.append(float(optimizer_step(model, step, RATE, dense=store == "dense")[1]))
    model.drain()
    return norms


@pytest.fixture(scope="module")
def defaults() -> dict[str, torch.Tensor]:
    """The weights after training with all defaults."""
    model = made("defaults", "sparse")
    train(model, "sparse")
    return weights_of(model)


@pytest.mark.parametrize(
    ("store", "megatron"),
    [("sparse", False), ("sparse", True), ("dense", False), ("offload", True)],
)
@pytest.mark.parametrize("name", KNOBS)
def test_each_option_acts_as_in_plain_torch(
    name: str, store: str, megatron: bool, defaults: dict[str, torch.Tensor]
) -> None:
    with megatron_optimizer() if megatron else nullcontext():
        model = made(name, store)
        plain = PlainTraining(
            model.shape, weights_of(model), sparse=store != "dense", rates=KNOBS[name]
        )
        norms = train(model, store)
    expected = []
    for parts in batches():
        plain.step(parts, RATE)
        expected.append(plain.norm)
    assert norms == pytest.approx(expected, rel=1e-4)
    found = weights_of(model)
    for key, weight in plain.weights.items():
        torch.testing.assert_close(found[key], weight.detach().float(), atol=2e-5, rtol=1e-4)
    if name != "defaults":  # the option matters here
        assert max(float((found[key] - defaults[key]).abs().max()) for key in found) > 1e-3
    model.close()


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
