"""How the backbone is executed: overlap, sequence parallelism, fused kernels, FP8.

None of this changes what is computed, up to rounding (FP8 rounds to three or two bits).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

# Where the kernels come from: the extra [gpu].
TRANSFORMER_ENGINE = "transformer_engine"


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
    return find_spec(TRANSFORMER_ENGINE) is not None
