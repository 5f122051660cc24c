"""Model sizes with the settings to train them when nothing else is given."""

from __future__ import annotations

from dataclasses import dataclass

from modtok_cli.architectures.shape import Shape
from modtok_cli.architectures.sizes import SIZES
from modtok_cli.base.errors import UsageError


@dataclass(frozen=True)
class Preset:
    """A shape and its default training settings.

    `lr` is the peak learning rate, `recompute` the default of `--recompute`.
    """

    shape: Shape
    sequence: int
    batch: int
    micro_batch: int
    steps: int
    warmup: int
    lr: float
    recompute: bool = False


def _paper(name: str) -> Preset:
    """Tables 'Pre-training hyperparameters' and 'Benchmark configurations'."""
    # From 2.5b on, activations of 4,096 tokens do not fit 80 GB beside weights and moments.
    recompute = SIZES[name].hidden_size >= 3072
    return Preset(SIZES[name], 4096, 64, 2, 300_000, 2000, 3e-4, recompute)


PRESETS = {
    # For a CPU: some minutes, and falling curves.
    "tiny": Preset(SIZES["tiny"], 256, 8, 4, 300, 30, 3e-3),
    "small": Preset(SIZES["small"], 1024, 32, 8, 20_000, 500, 1e-3),
    **{name: _paper(name) for name in ("0.5b", "1b", "2.5b", "7b", "12b", "30b")},
}


def preset(name: str) -> Preset:
    """The preset of that name.

    >>> preset("2.5b").shape.parameters
    2548190208

    Raises:
        UsageError: the name is unknown.
    """
    if name not in PRESETS:
        remedy = f"choose from {', '.join(PRESETS)}"
        raise UsageError(f"preset '{name}' does not exist", where="--model", remedy=remedy)
    return PRESETS[name]
