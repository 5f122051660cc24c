"""How the backbone is executed (overlap, sequence parallelism, fused kernels, FP8) and initialized.

Execution does not change what is computed, up to rounding (FP8 rounds to three or two bits).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from math import sqrt


@dataclass(frozen=True)
class Execution:
    """Switches of Megatron-Core.

    Attributes:
        overlap_grad_reduce: reduce the gradients of a bucket while earlier layers are still in the
            backward pass.
        overlap_param_gather: gather the weights of a bucket while earlier layers are still in the
            forward pass; with the distributed optimizer.
        sequence_parallel: tensor-parallel shards divide the sequence between their layers.
        fuse_swiglu, fuse_rope, fuse_grad_accumulation: fused kernels of SwiGLU, of rotary
            embeddings, and of weight gradients that are added to the float32 sum.
        fp8: "hybrid" or "e4m3" for FP8 matrix products, "none".
        bucket: parameters of a bucket; None: Megatron's default, 40 million and more.
    """

    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    sequence_parallel: bool = False
    fuse_swiglu: bool = False
    fuse_rope: bool = False
    fuse_grad_accumulation: bool = False
    fp8: str = "none"
    bucket: int | None = None

    @property
    def kernels(self) -> list[str]:
        """The switches that need a GPU."""
        names = ("fuse_swiglu", "fuse_rope", "fuse_grad_accumulation")
        return [name for name in names if getattr(self, name)] + ["fp8"] * (self.fp8 != "none")


def has_kernels() -> bool:
    """Whether Transformer Engine is installed; it may still be built for another CUDA."""
    return find_spec("transformer_engine") is not None


@dataclass(frozen=True)
class InitStd:
    """Standard deviations of initial weights; all are normal with mean 0, norms are 1.

    Attributes:
        matrices: of the backbone's matrices.
        projections: of those that write to the residual stream, the output projections of
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
