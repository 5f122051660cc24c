"""Rotary embeddings: base, scaling and frequencies; and numbers of a transformers configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.errors import ModtokError


def count(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A whole number, an error if it is missing and has no default, or is something else."""
    value = config.get(name)
    value = default if value is None else value
    if type(value) is not int:
        raise ModtokError(f"field '{name}' is {value!r}, expected a whole number")
    return value


def number(config: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """As `count`, for any number."""
    value = config.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModtokError(f"field '{name}' is {value!r}, expected a number")
    return float(value)


def rope_of_hf(config: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """Base and scaling of the rotary embeddings.

    Version 5 has "rope_parameters"; version 4 has "rope_theta" and "rope_scaling".
    """
    fields = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = number({**config, **fields}, "rope_theta")
    if number({**config, **fields}, "partial_rotary_factor", 1.0) != 1:
        raise ModtokError("field 'partial_rotary_factor' is not 1, which is not supported")
    kind = fields.get("rope_type", fields.get("type", "default"))
    if kind == "default":
        return theta, None
    if kind == "linear":
        return theta, RopeScaling(kind, number(fields, "factor"))
    if kind == "llama3":
        return theta, RopeScaling(
            kind,
            number(fields, "factor"),
            number(fields, "low_freq_factor"),
            number(fields, "high_freq_factor"),
            count(fields, "original_max_position_embeddings"),
        )
    raise ModtokError(f"rotary scaling '{kind}' is not supported")


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
            "kind": self.kind in ("linear", "llama3"),
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

    def divisors(self, frequencies: Float64Array) -> Float64Array:
        """Divisor of each frequency; (d,) to (d,), 1 where it is kept."""
        if self.kind == "linear":
            return np.full_like(frequencies, self.factor)
        turns = frequencies * self.original_context / (2 * pi)
        width = self.high_frequency_factor - self.low_frequency_factor
        share = ((turns - self.low_frequency_factor) / width).clip(0, 1)  # that stays as it is
        divisors: Float64Array = 1 / ((1 - share) / self.factor + share)
        return divisors


def rope_frequencies(width: int, theta: float, scaling: RopeScaling | None = None) -> Float64Array:
    """Radians per position of each rotated pair of a head; (width / 2,).

    >>> rope_frequencies(4, 100.0).tolist()
    [1.0, 0.1]
    """
    frequencies = 1 / theta ** (np.arange(0, width, 2) / width)
    return frequencies if scaling is None else frequencies / scaling.divisors(frequencies)
