"""How the backbone is executed (overlap, sequence parallelism, fused kernels) and initialized.

Execution does not change what is computed, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
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
        fused: compiled kernels of SwiGLU and of the loss; needs a GPU.
        transformer_engine: layers and kernel of rotary embeddings of Transformer Engine.
        bucket: parameters of a bucket; None: Megatron's default, 40 million and more.
    """

    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    sequence_parallel: bool = False
    fused: bool = False
    transformer_engine: bool = False
    bucket: int | None = None


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
