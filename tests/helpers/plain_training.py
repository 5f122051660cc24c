"""Training in plain torch, in float64: `reference.pretrain`'s decoder, a masked softmax, AdamW.

Nothing here is the engine's or Megatron's: the reference that `benchmarks replay` compares with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from modtok_cli.model.architecture.shape import Shape
from modtok_cli.reference.pretrain import decode


@dataclass(frozen=True)
class Sequences:
    """Sequences of one draw: ids of T, (B, S) each, and the ids of V_S, (|V_S|,)."""

    inputs: torch.Tensor
    targets: torch.Tensor
    vocabulary: torch.Tensor


@dataclass(frozen=True)
class Rates:
    """Hyperparameters of AdamW and of clipping."""

    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0
    decayed: tuple[str, ...] = ("matrices", "embeddings")
    z_loss: float = 0.0


class PlainTraining:
    """Decoder and optimizer; weights have the names of transformers, and "input" and "output".

    `sparse`: rows that are not active in a step keep weights and moments, and active rows have
    bias corrections of their own (docs/pretraining.md). Otherwise AdamW updates all rows.
    """

    def __init__(
        self,
        shape: Shape,
        weights: Mapping[str, torch.Tensor],
        *,
        sparse: bool,
        rates: Rates | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.shape, self.sparse, self.rates = shape, sparse, rates or Rates()
        self.weights = {
            name: weight.detach().to(dtype).clone().requires_grad_()
            for name, weight in weights.items()
        }
        self._moments = {n: (torch.zeros_like(w), torch.zeros_like(w)) for n, w in self._items()}
        self._counts = {n: torch.zeros(len(w), 1, dtype=dtype) for n, w in self._items()}

    def _items(self) -> list[tuple[str, torch.Tensor]]:
        return [(name, weight.detach()) for name, weight in self.weights.items()]

    def step(self, parts: Sequence[Sequences], lr: float) -> float:
        """One step over all sequences of all ranks; returns the mean loss before it."""
        losses = [self._losses(part) for part in parts]
        loss = torch.cat(losses).mean()
        names = list(self.weights)
        gradients = torch.autograd.grad(loss, [self.weights[name] for name in names])
        norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
        self.norm = float(norm)
        scale = min(1.0, (self.rates.clip or torch.inf) / (self.norm + 1e-6))
        for name, gradient in zip(names, gradients, strict=True):
            self._update(name, gradient * scale, self._active(name, parts), lr)
        return loss.item()

    def _active(self, name: str, parts: Sequence[Sequences]) -> torch.Tensor:
        """Which rows of a weight a step updates, (n, 1) bool."""
        rows = torch.ones(len(self.weights[name]), 1, dtype=torch.bool)
        if self.sparse and name in ("input", "output"):
            rows[:] = False
            for part in parts:
                if name == "output" or self.shape.tied:
                    rows[part.vocabulary] = True
                else:
                    rows[part.inputs.flatten()] = True
        return rows

    @torch.no_grad()
    def _update(self, name: str, g: torch.Tensor, active: torch.Tensor, lr: float) -> None:
        rates, (m, v) = self.rates, self._moments[name]
        weight, count = self.weights[name], self._counts[name]
        if weight.dim() == 1:
            active, count = active.flatten(), count.view(-1)
        count += active
        new_m = rates.beta1 * m + (1 - rates.beta1) * g
        new_v = rates.beta2 * v + (1 - rates.beta2) * g * g
        correct = [1 - beta**count for beta in (rates.beta1, rates.beta2)]
        kind = "embeddings" if name in ("input", "output") else "matrices"
        kind = "norms" if weight.dim() == 1 else kind
        decay = rates.weight_decay if kind in rates.decayed else 0.0
        change = lr * (new_m / correct[0]) / ((new_v / correct[1]).sqrt() + rates.epsilon)
        m.copy_(torch.where(active, new_m, m))
        v.copy_(torch.where(active, new_v, v))
        weight.copy_(torch.where(active, weight * (1 - lr * decay) - change, weight))

    def _losses(self, part: Sequences) -> torch.Tensor:
        """Loss of each token, (B · S,), by the softmax over T with a mask; z-loss included."""
        rows = self.weights["input"][part.inputs]
        hidden = decode(self.shape, self.weights, rows).flatten(0, 1)
        output = self.weights["input" if self.shape.tied else "output"]
        mask = torch.full((len(output),), -torch.inf, dtype=output.dtype)
        mask[part.vocabulary] = 0
        logits = hidden @ output.t()
        if (cap := self.shape.logit_cap) is not None:
            logits = cap * torch.tanh(logits / cap)
        logits = logits + mask
        z = torch.logsumexp(logits, dim=1).square()
        nll = F.cross_entropy(logits, part.targets.flatten(), reduction="none")
        return nll + self.rates.z_loss * z
