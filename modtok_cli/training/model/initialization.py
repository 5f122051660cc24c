"""Scales of the initial weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


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
