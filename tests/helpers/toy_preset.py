"""Presets of tests."""

from __future__ import annotations

from typing import Any

from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training.settings import values_of_shape


def toy_preset(shape: Shape, sequence: int, steps: int, lr: float) -> dict[str, Any]:
    """A preset of that shape, with what every preset sets."""
    return {
        **values_of_shape(shape),
        "seq_length": sequence,
        "batch_size": 4,
        "micro_batch": 2,
        "steps": steps,
        "warmup": 2,
        "lr": lr,
    }
