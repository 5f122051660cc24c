"""How the backbone is executed (overlap, recomputation, fused kernels …) and initialized.

Execution does not change what is computed, up to rounding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import Any

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.training.distributed.megatron_core import core


@dataclass(frozen=True)
class Execution:
    """Switches of Megatron-Core.

    Attributes:
        overlap_grad_reduce: reduce the gradients of a bucket while earlier layers are still in the
            backward pass.
        overlap_param_gather: gather the weights of a bucket while earlier layers are still in the
            forward pass; with the distributed optimizer.
        sequence_parallel: tensor-parallel shards divide the sequence between their layers.
        fused: compiled kernels of SwiGLU, rotary embeddings and the loss; needs a GPU.
        attention: kernel of causal attention on a GPU, flash or cudnn.
        transformer_engine: layers and kernel of rotary embeddings of Transformer Engine.
    """

    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    sequence_parallel: bool = False
    fused: bool = False
    transformer_engine: bool = False
    attention: str = "flash"


@cache
def compile_failure(device: torch.device) -> str:
    """Why torch.compile does not work on a device, in a line; "" if it does."""
    try:
        torch.compile(torch.square)(torch.ones(8, device=device))
    except Exception as error:  # of a compiler, of Triton: no type is common to all
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return ""


@contextmanager
def in_one_order(device: torch.device) -> Iterator[None]:
    """While active, GPU kernels give the same bits each time; CPU kernels always do.

    Raises:
        ModtokError: a kernel has no such form; names it.
    """
    if device.type == "cpu":
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # of cuBLAS, for one order
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    except RuntimeError as error:
        kernel, found, _ = str(error).partition(" does not have a deterministic implementation")
        if not found:
            raise
        what = f"the kernel {kernel} adds in no fixed order"
        raise ModtokError(what, where="--deterministic", remedy="leave it out") from error
    finally:
        torch.use_deterministic_algorithms(False)


@dataclass(frozen=True)
class InitStd:
    """Standard deviations of initial weights; all are normal with mean 0, norms are 1.

    Attributes:
        matrices: of the backbone's matrices.
        projections: of matrices that write to the residual stream, the output projections of
            attention and feed-forward layers; None: `matrices` / √(2 · layers).
        embeddings: of embedding rows.
    """

    matrices: float = 0.02
    projections: float | None = None
    embeddings: float = 0.02

    def projection(self, layers: int) -> float:
        """Standard deviation of the output projections of a model with so many layers.

        >>> InitStd().projection(2), InitStd(projections=0.5).projection(2)
        (0.01, 0.5)
        """
        if self.projections is not None:
            return self.projections
        return self.matrices / sqrt(2 * layers)


def recomputed(layer: Any) -> Callable[..., Any]:
    """`layer.forward` with activation recomputation: keeps its inputs only.

    Megatron's version saves CUDA random states, which are not needed without dropout. torch's gives
    the backward pass copies of weights, so that Megatron's linear layers cannot tell the weight
    that they have added its gradient: it is told before, and has an empty one for the exchange.
    """
    from torch.utils.checkpoint import checkpoint

    parallel = core().tensor_parallel
    linear = (parallel.ColumnParallelLinear, parallel.RowParallelLinear)
    weights = [part.weight for part in layer.modules() if isinstance(part, linear)]
    whole = layer.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        for weight in weights if torch.is_grad_enabled() else ():
            weight.grad_added_to_main_grad = True
            weight.grad = weight.new_zeros(()).expand_as(weight)
        return whole(*args, **kwargs)

    def run(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return run
