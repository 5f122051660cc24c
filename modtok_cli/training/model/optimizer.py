"""AdamW for the backbone, on float32 master weights, and gradient clipping.

On a GPU this is Megatron's optimizer, which requires a GPU. On a CPU it is torch's. Both
agree bit for bit (`tests/training/test_megatron_adamw.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from modtok_cli.training.distributed.megatron_core import core, partition
from modtok_cli.training.distributed.ranks import Ranks, summed
from modtok_cli.training.model import megatron
from modtok_cli.training.rows.table import AdamW

_MOMENTS = {"m": "exp_avg", "v": "exp_avg_sq"}


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

    def step(
        self, gradients: Mapping[str, torch.Tensor], lr: float, finite: torch.Tensor | None = None
    ) -> None:
        """Apply one step with these gradients (already clipped); nothing if not `finite`."""
        if finite is not None and not finite:
            return
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


class MegatronAdamW:
    """AdamW by Megatron's `get_megatron_optimizer`, float32 masters of bfloat16 parameters.

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
    - A step that is not finite is left out by torch's AdamW as with mixed precision; the others
      make the host wait for the device.
    - torch counts steps per parameter, the others per group.
    - Its checkpoints depend on buffers and ranks: ours store whole tensors by name.

    Attributes:
        distributed: optimizer state is sharded across replicas; each updates its part. Then `state`
            is a collective, and the gradients of `own` are parts.
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

    def step(
        self, gradients: Mapping[str, torch.Tensor], lr: float, finite: torch.Tensor | None = None
    ) -> None:
        """Apply one step, or nothing; reads the buffers of which `gradients` are views."""
        if self._by_torch:  # its kernels read this where they run
            self._inner.optimizer.found_inf = None if finite is None else (~finite).float()
        elif finite is not None and not finite:
            return
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


def gradient_norm(
    backbone: Mapping[str, torch.Tensor],
    parameters: Mapping[str, torch.nn.Parameter],
    tables: Iterable[torch.Tensor],
    losses: list[torch.Tensor],
    ranks: Ranks,
    *,
    sharded: bool = False,
) -> torch.Tensor:
    """Euclidean norm over backbone and table rows together, of all ranks; on the device.

    NaN if one of the `losses`, scalars of this rank's microbatches, is not finite on any rank: its
    gradient may be finite nevertheless.

    Squares are summed over shards; replicated weights count once. Every rank has the gradients of
    its own table rows; with `sharded`, also parts of the backbone's.
    """
    sharing: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    for name, gradient in backbone.items():
        sharing[partition(parameters[name]) is None].append(gradient)
    whole, own = _square(sharing[True], ranks), _square(sharing[False], ranks)
    rows = _square(list(tables), ranks) + 0 * torch.stack(losses).sum()
    if sharded:
        own, whole, rows = summed(torch.stack([own, whole, rows]), ranks.replica_group)
    else:
        rows = summed(rows, ranks.replica_group)
    return (summed(own + rows, ranks.shard_group) + whole).sqrt()


def _square(gradients: list[torch.Tensor], ranks: Ranks) -> torch.Tensor:
    """Sum of squares of all numbers, in float64."""
    if not gradients:
        return torch.zeros((), dtype=torch.float64, device=ranks.device)
    norms = torch._foreach_norm(gradients, 2, torch.float64)
    return torch.stack(norms).square().sum()


def clip(gradients: Iterable[torch.Tensor], norm: torch.Tensor, most: float) -> None:
    """Scale gradients in place so that their common norm is at most `most`; 0: never."""
    if not most:
        return
    scale = (most / (norm + 1e-6)).clamp(max=1.0).float()
    torch._foreach_mul_(list(gradients), scale)
