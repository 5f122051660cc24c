"""Training with an additive mask over the full softmax: slow, obvious, the size of T.

What the benchmarks of a step compare with; in plain torch: `helpers.plain_training`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training.model import megatron
from modtok_cli.training.model.model import MicroBatch
from modtok_cli.training.model.optimizer import TorchAdamW
from modtok_cli.training.rows.table import AdamW, RowTable


class MaskedModel:
    """Tables as ordinary parameters under torch's AdamW, and −inf on what is not in V_S."""

    def __init__(
        self,
        shape: Shape,
        vocabulary: int,
        *,
        seed: int = 0,
        tied: bool = False,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        device = device or torch.device("cpu")
        self.shape, self.size, self.dtype = shape, vocabulary, dtype
        self.input = self._table(2 * seed + 1, device)
        self.output = self.input if tied else self._table(2 * seed + 2, device)
        self.backbone = megatron.build_backbone(
            shape, shards=1, device=device, dtype=dtype, seed=seed
        )
        adamw = AdamW()
        self.optimizer = TorchAdamW(self.backbone.parameters, adamw)
        self.tables = [self.input] if tied else [self.input, self.output]
        self.adamw = torch.optim.AdamW(
            self.tables,
            betas=(adamw.beta1, adamw.beta2),
            eps=adamw.epsilon,
            weight_decay=adamw.weight_decay,
        )

    def _table(self, seed: int, device: torch.device) -> torch.nn.Parameter:
        table = RowTable(self.size, self.shape.hidden_size, device=device)
        table.initialize(seed)
        return torch.nn.Parameter(table.weight)

    def loss(self, microbatch: MicroBatch) -> torch.Tensor:
        x = F.embedding(microbatch.inputs.t(), self.input.to(self.dtype))
        hidden = self.backbone(x).transpose(0, 1).reshape(-1, self.shape.hidden_size)
        mask = torch.full((self.size,), -torch.inf, device=hidden.device)
        mask[microbatch.vocabulary] = 0
        logits = (hidden @ self.output.to(self.dtype).t()).float()
        if (cap := self.shape.logit_cap) is not None:
            logits = cap * torch.tanh(logits / cap)
        logits = logits + mask
        nll = F.cross_entropy(logits, microbatch.targets, reduction="none")
        return (nll * microbatch.weights).sum()

    def step(self, microbatches: Sequence[MicroBatch], rate: float) -> torch.Tensor:
        self.backbone.clear_gradients()
        self.adamw.zero_grad()
        total = torch.zeros(())
        for index, microbatch in enumerate(microbatches):
            with self.backbone.accumulating(more=index + 1 < len(microbatches)):
                loss = self.loss(microbatch)
                loss.backward()
            total = total + loss.detach().cpu()
        gradients = self.backbone.finish_gradients()
        every = [*gradients.values(), *(table.grad for table in self.tables)]
        norm = torch.stack([g.double().pow(2).sum() for g in every]).sum().sqrt()
        for gradient in every:
            gradient.mul_((1.0 / (norm + 1e-6)).clamp(max=1.0).float())
        self.optimizer.step(gradients, rate)
        for group in self.adamw.param_groups:
            group["lr"] = rate
        self.adamw.step()
        return total
