"""AdamW for the backbone, on float32 master weights; and clipping over everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist

from modtok_cli.pretrain import megatron
from modtok_cli.pretrain.ranks import Ranks, summed
from modtok_cli.pretrain.rows import AdamW


class BackboneOptimizer:
    """torch's fused AdamW over the parameters that Megatron's buffers hold gradients of.

    Norm weights are not decayed. Where parameters are bfloat16 the masters are copies in
    float32, else they are the parameters themselves.
    """

    def __init__(self, parameters: Mapping[str, torch.nn.Parameter], adamw: AdamW) -> None:
        self._parameters = dict(parameters)
        self.masters: dict[str, torch.Tensor] = {
            name: p.detach() if p.dtype == torch.float32 else p.detach().float()
            for name, p in self._parameters.items()
        }
        decayed = [m for m in self.masters.values() if m.dim() > 1]
        plain = [m for m in self.masters.values() if m.dim() <= 1]
        self._adamw = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": adamw.weight_decay},
                {"params": plain, "weight_decay": 0.0},
            ],
            lr=0.0,
            betas=(adamw.beta1, adamw.beta2),
            eps=adamw.epsilon,
            fused=True,
        )

    def step(self, gradients: Mapping[str, torch.Tensor], rate: float) -> None:
        """Apply one step with these gradients (already clipped)."""
        for name, master in self.masters.items():
            master.grad = gradients[name]
        for group in self._adamw.param_groups:
            group["lr"] = rate
        self._adamw.step()
        for name, master in self.masters.items():
            master.grad = None
            if self._parameters[name].dtype != torch.float32:
                self._parameters[name].data.copy_(master)

    def state(self, name: str) -> dict[str, torch.Tensor]:
        """Master weight and moments of a parameter; tensors that `load` may fill in place."""
        master = self.masters[name]
        state = self._adamw.state[master]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=master.device)
            state["exp_avg"] = torch.zeros_like(master)
            state["exp_avg_sq"] = torch.zeros_like(master)
        return {"weight": master, "m": state["exp_avg"], "v": state["exp_avg_sq"]}

    def set_steps(self, steps: int) -> None:
        """Number of steps done, after a load."""
        for name, master in self.masters.items():
            self.state(name)
            self._adamw.state[master]["step"].fill_(steps)

    def publish(self) -> None:
        """Bring loaded masters into the parameters."""
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                if parameter.dtype != torch.float32:
                    parameter.copy_(self.masters[name])


def gradient_norm(
    backbone: Mapping[str, torch.Tensor],
    parameters: Mapping[str, torch.nn.Parameter],
    tables: Iterable[torch.Tensor],
    ranks: Ranks,
) -> torch.Tensor:
    """Euclidean norm over backbone and table rows together, of all shards; on the device.

    What lies on shards is summed over them, what every shard holds whole counts once.
    """
    own = torch.zeros((), dtype=torch.float64, device=ranks.device)
    whole = torch.zeros_like(own)
    for name, gradient in backbone.items():
        square = gradient.float().pow(2).sum(dtype=torch.float64)
        if megatron.partition(parameters[name]) is None:
            whole += square
        else:
            own += square
    for gradient in tables:
        own += gradient.float().pow(2).sum(dtype=torch.float64)
    return (summed(own, ranks.shard_group) + whole).sqrt()


def clip(gradients: Iterable[torch.Tensor], norm: torch.Tensor, most: float) -> None:
    """Scale gradients in place so that their common norm is `most` at the highest."""
    scale = (most / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.to(gradient.dtype))


def same_on_all(values: torch.Tensor) -> torch.Tensor:
    """Values summed over every rank."""
    if dist.get_world_size() > 1:
        dist.all_reduce(values)
    return values
