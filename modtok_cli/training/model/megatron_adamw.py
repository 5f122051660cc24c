"""Megatron-Core's optimizer for the backbone, on GPUs.

Its pitfalls, in 0.16 as in 0.19, and how they are avoided:

- It clips by the norm of its own parameters, without the tables. Its clipping is off;
  gradients are scaled in the buffers that it reads (`optimizer.clip`).
- `step()` computes that norm anyway: its two halves are called instead.
- In float32 it leaves the buffer in `.grad`, to which the next backward pass would add a
  second time: `.grad` is cleared after each step.
- Its groups carry a factor for weight decay, 0 for norms, which only its scheduler applies:
  the groups get the decay of their kind here.
- It uses the fused Adam of Transformer Engine or Apex if installed, else torch's AdamW, which
  it does not fuse (4 more bytes per parameter in a step): it is fused here.
- torch counts steps per parameter, the others per group.
- Its checkpoints depend on buffers and ranks: ours store whole tensors by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from modtok_cli.training.distributed.megatron_core import core
from modtok_cli.training.distributed.ranks import Ranks, summed
from modtok_cli.training.model import megatron
from modtok_cli.training.rows.table import AdamW

_MOMENTS = {"m": "exp_avg", "v": "exp_avg_sq"}


class MegatronAdamW:
    """AdamW by `get_megatron_optimizer`, float32 masters of bfloat16 parameters.

    Attributes:
        distributed: optimizer state is sharded across replicas; each updates its part.
    """

    def __init__(
        self,
        backbone: megatron.Backbone,
        adamw: AdamW,
        ranks: Ranks,
        *,
        distributed: bool = False,
    ) -> None:
        self.distributed = distributed
        self._parameters = backbone.parameters
        self._replicas = ranks.replica_group
        dtype = next(iter(self._parameters.values())).dtype
        library = core().optimizer
        config = library.OptimizerConfig(
            optimizer="adam",
            lr=0.0,
            weight_decay=adamw.weight_decay,
            adam_beta1=adamw.beta1,
            adam_beta2=adamw.beta2,
            adam_eps=adamw.epsilon,
            clip_grad=0.0,
            bf16=dtype == torch.bfloat16,
            params_dtype=dtype,
            use_distributed_optimizer=distributed,
        )
        # A chain of optimizers, because experts have a separate one; this is the only one.
        self._optimizer: Any = library.get_megatron_optimizer(config, [backbone.wrapped])
        (self._inner,) = self._optimizer.chained_optimizers
        self._by_torch = isinstance(self._inner.optimizer, torch.optim.AdamW)
        for group in self._optimizer.param_groups:
            group["weight_decay"] = adamw.decay("matrices" if group["wd_mult"] else "norms")
            if self._by_torch:
                group["fused"], group["foreach"] = True, False

    def own(self, gradients: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The gradients that this rank applies: all, or flat parts of them.

        With the distributed optimizer the rest of the buffers is not reduced.
        """
        if not self.distributed:
            return dict(gradients)
        return {
            name: gradient.view(-1)[self._range(self._parameters[name])]
            for name, gradient in gradients.items()
        }

    def step(self, gradients: Mapping[str, torch.Tensor], lr: float) -> None:
        """Apply one step; reads the buffers of which `gradients` are views."""
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        self._optimizer.prepare_grads()
        self._optimizer.step_with_ready_grads()
        self._optimizer.zero_grad()

    def state(self, name: str) -> dict[str, torch.Tensor]:
        """Master weight and moments of a whole parameter, float32.

        Collective over replicas with the distributed optimizer.
        """
        parameter = self._parameters[name]
        pieces = self._pieces(parameter)
        if not self.distributed:
            return {part: piece.detach() for part, piece in pieces.items()}
        whole = {}
        for part in ("weight", *_MOMENTS):
            flat = torch.zeros(parameter.numel(), device=parameter.device)
            if pieces:
                flat[self._range(parameter)] = pieces[part].detach()
            whole[part] = summed(flat, self._replicas).view(parameter.shape)
        return whole

    @torch.no_grad()
    def load(self, name: str, parts: Mapping[str, torch.Tensor]) -> None:
        """Restore what `state` returned, on any number of replicas."""
        parameter = self._parameters[name]
        for part, piece in self._pieces(parameter).items():
            whole = parts[part].view(-1)[self._range(parameter)] if self.distributed else None
            piece.copy_(parts[part] if whole is None else whole)
        parameter.copy_(parts["weight"])

    def set_steps(self, steps: int) -> None:
        """Set the number of completed steps, after `load`."""
        for group in self._inner.param_groups:
            if not self._by_torch:
                group["step"] = steps
            for master in group["params"]:
                if "step" in self._state(master):
                    self._state(master)["step"].fill_(steps)

    def _pieces(self, parameter: torch.nn.Parameter) -> dict[str, torch.Tensor]:
        """This rank's part of master weight and moments of a parameter; may be empty."""
        if self.distributed:
            place = self._inner.model_param_group_index_map.get(parameter)
            if place is None:
                return {}
            master = self._inner.param_groups[place[0]]["params"][place[1]]
        else:
            master = getattr(parameter, "main_param", parameter)
        state = self._state(master)
        return {"weight": master, **{part: state[key] for part, key in _MOMENTS.items()}}

    def _state(self, master: torch.Tensor) -> dict[str, torch.Tensor]:
        """The optimizer's state of a master weight, created before the first step."""
        state: dict[str, torch.Tensor] = self._inner.optimizer.state[master]
        if not state:
            state.update({key: torch.zeros_like(master) for key in _MOMENTS.values()})
            if self._by_torch:
                state["step"] = torch.zeros((), dtype=torch.float32, device=master.device)
        return state

    def _range(self, parameter: torch.nn.Parameter) -> slice:
        """The range of a flat parameter that this replica updates; may be empty."""
        if parameter not in self._inner.model_param_group_index_map:
            return slice(0, 0)
        own = self._inner._get_model_param_range_map(parameter)["param"]
        return slice(own.start, own.end)
