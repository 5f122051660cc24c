"""Matrix products that are added to sums in float32: gradients of weights, and of rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from modtok_cli.training.distributed.megatron_core import core

# From torch 2.8 on, and of NVIDIA's GPUs: no version tells, the operation does.
IN_FLOAT32 = hasattr(torch.ops.aten.addmm, "dtype_out")


def add_product(sums: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Add the product of (n, m) and (m, d) to float32 sums (n, d), in place.

    Of 16-bit matrices the product has 16 bits; not on a GPU (`IN_FLOAT32`), which adds to the sums
    as it multiplies, a pass over them instead of three.
    """
    if left.dtype == sums.dtype:
        sums.addmm_(left, right)
    elif left.device.type == "cuda" and IN_FLOAT32:
        torch.addmm(sums, left, right, out_dtype=sums.dtype, out=sums)
    else:  # see Megatron-LM #2206
        sums += left @ right


def fuse_weight_gradients() -> None:
    """Let Megatron's linear layers add weight gradients to their buffers by `add_product`.

    Its own function for that is of an extension of Apex.
    """

    def add(inputs: torch.Tensor, gradients: torch.Tensor, sums: torch.Tensor) -> None:
        add_product(sums, gradients.t(), inputs)

    layers: Any = core().tensor_parallel.layers
    layers.fused_weight_gradient_mlp_cuda = SimpleNamespace(wgrad_gemm_accum_fp32=add)
    layers._grad_accum_fusion_available = True
