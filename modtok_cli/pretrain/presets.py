"""Model sizes: the paper's, and two that train where one sits."""

from __future__ import annotations

from dataclasses import dataclass

from modtok_cli.base.errors import UsageError


@dataclass(frozen=True)
class Shape:
    """A decoder: RMS pre-norm, SwiGLU, RoPE, two query heads a key-value head.

    Parameters of a layer but for its norms: 2 · width² · (1 + 1/2) for attention (where
    heads · head_width = width) and 3 · width · ffn.
    """

    layers: int
    width: int
    head_width: int
    ffn: int
    rope_theta: int = 100_000

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.width // self.head_width

    @property
    def groups(self) -> int:
        """Key-value heads."""
        return self.heads // 2

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer, its two norms included."""
        attention = self.width * self.head_width * (2 * self.heads + 2 * self.groups)
        return attention + 3 * self.width * self.ffn + 2 * self.width

    @property
    def parameters(self) -> int:
        """Parameters without the tables, the final norm included."""
        return self.layers * self.layer_parameters + self.width


@dataclass(frozen=True)
class Preset:
    """A shape and what to train it with when nothing else is said."""

    shape: Shape
    sequence: int
    batch: int
    micro_batch: int
    steps: int
    warmup: int
    rate: float


def _paper(layers: int, width: int) -> Preset:
    """Tables 'Model architecture', 'Pre-training hyperparameters' and 'Benchmark configurations'.

    Head width 128, feed-forward 2.75 · width.
    """
    return Preset(Shape(layers, width, 128, width * 11 // 4), 4096, 64, 2, 300_000, 2000, 3e-4)


PRESETS = {
    # For a CPU: some minutes, and falling curves.
    "tiny": Preset(Shape(4, 128, 32, 352), 256, 8, 4, 300, 30, 3e-3),
    "small": Preset(Shape(8, 512, 64, 1408), 1024, 32, 8, 20_000, 500, 1e-3),
    "0.5b": _paper(19, 1536),
    "1b": _paper(21, 2048),
    "2.5b": _paper(24, 3072),
    "7b": _paper(40, 4096),
    "12b": _paper(40, 5120),
    "30b": _paper(52, 7168),
}


def preset(name: str) -> Preset:
    """The preset of that name.

    >>> preset("2.5b").shape.parameters
    2548190208

    Raises:
        UsageError: there is none.
    """
    if name not in PRESETS:
        remedy = f"choose from {', '.join(PRESETS)}"
        raise UsageError(f"no model is called '{name}'", where="--model", remedy=remedy)
    return PRESETS[name]
