"""Presets of tests."""

from __future__ import annotations

from modtok_cli.architectures.shape import Shape
from modtok_cli.training.recipe import Preset
from modtok_cli.training.settings import OPTIONS


def toy_preset(
    shape: Shape, sequence: int, batch: int, micro_batch: int, steps: int, warmup: int, lr: float
) -> Preset:
    """A preset of that shape, with what every preset sets."""
    sizes = {name: getattr(shape, name) for name, option in OPTIONS.items() if option.of_shape}
    return Preset(
        {
            **sizes,
            "seq_length": sequence,
            "batch_size": batch,
            "micro_batch": micro_batch,
            "steps": steps,
            "warmup": warmup,
            "lr": lr,
        }
    )
