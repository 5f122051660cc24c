"""AdamW for the backbone, on float32 master weights, and gradient clipping.

On a GPU this is Megatron's optimizer, which requires a GPU. On a CPU it is torch's. Both
agree bit for bit (`tests/training/test_megatron_adamw.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from modtok_cli.training.distributed.ranks import Ranks, summed
from modtok_cli.training.model import megatron
from modtok_cli.training.model.megatron_adamw import MegatronAdamW
from modtok_cli.training.rows.table import AdamW


def backbone_optimizer(
    backbone: megatron.Backbone, adamw: AdamW, ranks: Ranks, *, distributed: bool = False
) -> TorchAdamW | MegatronAdamW:
    """Megatron's optimizer on a GPU, torch's on a CPU; `distributed` requires GPUs."""
    if ranks.device.type == "cuda":
        return MegatronAdamW(backbone, adamw, ranks, distributed=distributed)
    return TorchAdamW(backbone.parameters, adamw)


class TorchAdamW:
    """torch's fused AdamW over parameters with gradients in Megatron's buffers.

    Master weights of bfloat16 parameters are float32 copies;
    float32 parameters are their own master weights.
    """

    distributed = False

    def __init__(self, parameters: Mapping[str, torch.nn.Parameter], adamw: AdamW) -> None:
        self._parameters = dict(parameters)
        self.masters: dict[str, torch.Tensor] = {
            name: p.detach() if p.dtype == torch.float32 else p.detach().float()
            for name, p in self._parameters.items()
        }
        matrices = [m for m in self.masters.values() if m.dim() > 1]
        norms = [m for m in self.masters.values() if m.dim() <= 1]
        self._adamw = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": adamw.decay("matrices")},
                {"params": norms, "weight_decay": adamw.decay("norms")},
            ],
            lr=0.0,
            betas=(adamw.beta1, adamw.beta2),
            eps=adamw.epsilon,
            fused=True,
        )

    def own(self, gradients: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The gradients that this rank clips and applies: all."""
        return dict(gradients)

    def step(self, gradients: Mapping[str, torch.Tensor], lr: float) -> None:
        """Apply one step with these gradients (already clipped)."""
        for name, master in self.masters.items():
            master.grad = gradients[name]
        for group in self._adamw.param_groups:
            group["lr"] = lr
        self._adamw.step()
        for name, master in self.masters.items():
            master.grad = None
            if self._parameters[name].dtype != torch.float32:
                self._parameters[name].data.copy_(master)

    def state(self, name: str) -> dict[str, torch.Tensor]:
        """Master weight and moments of a parameter."""
        master = self.masters[name]
        state = self._adamw.state[master]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=master.device)
            state["exp_avg"] = torch.zeros_like(master)
            state["exp_avg_sq"] = torch.zeros_like(master)
        return {"weight": master, "m": state["exp_avg"], "v": state["exp_avg_sq"]}

    @torch.no_grad()
    def load(self, name: str, parts: Mapping[str, torch.Tensor]) -> None:
        """Restore what `state` returned."""
        for part, tensor in self.state(name).items():
            tensor.copy_(parts[part])
        self._parameters[name].copy_(parts["weight"])

    def set_steps(self, steps: int) -> None:
        """Set the number of completed steps, after `load`."""
        for name, master in self.masters.items():
            self.state(name)
            self._adamw.state[master]["step"].fill_(steps)


def gradient_norm(
    backbone: Mapping[str, torch.Tensor],
    parameters: Mapping[str, torch.nn.Parameter],
    tables: Iterable[torch.Tensor],
    ranks: Ranks,
    *,
    sharded: bool = False,
) -> torch.Tensor:
    """Euclidean norm over backbone and table rows together, of all ranks; on the device.

    Squares of shards are summed over them, those of replicated weights count once. Every rank has
    the gradients of its own table rows; with `sharded`, also parts of the backbone's.
    """
    own = torch.zeros((), dtype=torch.float64, device=ranks.device)
    whole, rows = torch.zeros_like(own), torch.zeros_like(own)
    for name, gradient in backbone.items():
        square = gradient.float().pow(2).sum(dtype=torch.float64)
        if megatron.partition(parameters[name]) is None:
            whole += square
        else:
            own += square
    for gradient in tables:
        rows += gradient.float().pow(2).sum(dtype=torch.float64)
    if sharded:
        own, whole, rows = summed(torch.stack([own, whole, rows]), ranks.replica_group)
    else:
        rows = summed(rows, ranks.replica_group)
    return (summed(own + rows, ranks.shard_group) + whole).sqrt()


def clip(gradients: Iterable[torch.Tensor], norm: torch.Tensor, most: float) -> None:
    """Scale gradients in place so that their common norm is at most `most`; 0: never."""
    if not most:
        return
    scale = (most / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.to(gradient.dtype))
