"""Shapes by name: those of the paper, and two for a CPU."""

from __future__ import annotations

from collections.abc import Sequence

from modtok_cli.architectures.families.llama import llama
from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import UsageError


def _paper(layers: int, hidden_size: int) -> Shape:
    """Table 'Model architecture': head width 128, feed-forward 2.75 · hidden size."""
    return llama(layers, hidden_size, 128, hidden_size * 11 // 4)


SIZES: dict[str, Shape] = {
    "tiny": llama(4, 128, 32, 352),
    "small": llama(8, 512, 64, 1408),
    "0.5b": _paper(19, 1536),
    "1b": _paper(21, 2048),
    "2.5b": _paper(24, 3072),
    "7b": _paper(40, 4096),
    "12b": _paper(40, 5120),
    "30b": _paper(52, 7168),
}
PAPER = ("0.5b", "1b", "2.5b", "7b", "12b", "30b")


def sizes(names: Sequence[str]) -> dict[str, Shape]:
    """Shapes by their names.

    >>> sizes(["2.5b"])["2.5b"].parameters
    2548190208

    Raises:
        UsageError: a name is unknown.
    """
    for name in names:
        if name not in SIZES:
            remedy = f"choose from {', '.join(SIZES)}"
            raise UsageError(f"model size '{name}' does not exist", remedy=remedy)
    return {name: SIZES[name] for name in names}
