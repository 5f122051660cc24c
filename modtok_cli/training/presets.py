"""Presets: the recipes in the package, by name. `--model 0.5b` is `recipes/0.5b.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modtok_cli.architectures.shape import Shape
from modtok_cli.architectures.sizes import RECIPES, SIZES, shape_of
from modtok_cli.base.errors import UsageError
from modtok_cli.training.recipe import read_recipe


@dataclass(frozen=True)
class Preset:
    """Options of a run by name, which hold where nothing else is given."""

    options: Mapping[str, Any]

    @property
    def shape(self) -> Shape:
        """The model."""
        return shape_of(self.options)


PRESETS = {name: Preset(read_recipe(RECIPES / f"{name}.toml")) for name in SIZES}


def preset(name: str) -> Preset:
    """The preset of that name.

    >>> preset("2.5b").options["batch_size"]
    64

    Raises:
        UsageError: the name is unknown.
    """
    if name not in PRESETS:
        remedy = f"choose from {', '.join(PRESETS)}"
        raise UsageError(f"preset '{name}' does not exist", where="--model", remedy=remedy)
    return PRESETS[name]


def continued(shape: Shape) -> Mapping[str, Any]:
    """Options to continue the training of a model that is no preset.

    The learning rate is a tenth of a first training's, so that little is forgotten.
    """
    return {
        "seq_length": 512,
        "batch_size": 8,
        "micro_batch": 2,
        "steps": 1000,
        "warmup": 100,
        "lr": 1e-4,
        "recompute": shape.hidden_size >= 3072,
    }
