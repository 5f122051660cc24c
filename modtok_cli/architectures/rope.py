"""Rotary position embeddings: frequencies and their scaling to longer contexts."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
import numpy.typing as npt

KINDS = ("linear", "llama3")


@dataclass(frozen=True)
class RopeScaling:
    """How frequencies are scaled to contexts longer than the original one.

    Attributes:
        kind: "linear" divides every frequency by `factor`. "llama3" divides frequencies with
            wavelengths above original_context / low_frequency_factor, keeps those below
            original_context / high_frequency_factor and interpolates between (Llama 3.1).
    """

    kind: str
    factor: float
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    original_context: int = 8192

    def invalid_field(self) -> str | None:
        """Name of the first field out of range, None if all are valid."""
        checks = {
            "kind": self.kind in KINDS,
            "factor": 1 <= self.factor < 1 << 20,
            "low_frequency_factor": 0 < self.low_frequency_factor < self.high_frequency_factor,
            "high_frequency_factor": self.high_frequency_factor < 1 << 20,
            "original_context": 1 <= self.original_context < 1 << 31,
        }
        return next((name for name, valid in checks.items() if not valid), None)

    def to_hf(self) -> dict[str, Any]:
        """Fields of "rope_parameters" in a transformers configuration."""
        fields: dict[str, Any] = {"rope_type": self.kind, "factor": self.factor}
        if self.kind == "llama3":
            fields |= {
                "low_freq_factor": self.low_frequency_factor,
                "high_freq_factor": self.high_frequency_factor,
                "original_max_position_embeddings": self.original_context,
            }
        return fields

    def divisors(self, frequencies: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Divisor of each frequency; (d,) to (d,), 1 where it is kept."""
        if self.kind == "linear":
            return np.full_like(frequencies, self.factor)
        turns = frequencies * self.original_context / (2 * pi)
        width = self.high_frequency_factor - self.low_frequency_factor
        share = ((turns - self.low_frequency_factor) / width).clip(0, 1)  # that stays as it is
        divisors: npt.NDArray[np.float64] = 1 / ((1 - share) / self.factor + share)
        return divisors


def rope_frequencies(
    width: int, theta: float, scaling: RopeScaling | None = None
) -> npt.NDArray[np.float64]:
    """Radians per position of each rotated pair of a head; (width / 2,).

    >>> rope_frequencies(4, 100.0).tolist()
    [1.0, 0.1]
    """
    frequencies = 1 / theta ** (np.arange(0, width, 2) / width)
    return frequencies if scaling is None else frequencies / scaling.divisors(frequencies)
