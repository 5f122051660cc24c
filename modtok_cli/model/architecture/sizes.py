"""Shapes by name: the [architecture] sections of the recipes in the package."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.model.architecture.families.llama import Llama
from modtok_cli.model.architecture.registry import with_switches
from modtok_cli.model.architecture.shape import Shape

RECIPES = Path(__file__).parents[2] / "recipes"
"""Directory of the recipes that are presets: NAME.toml."""

PAPER = ("0.5b", "1b", "2.5b", "7b", "12b", "30b")
"""Sizes of the paper's table 'Model architecture'."""


def shape_of(values: Mapping[str, Any]) -> Shape:
    """The shape with these fields, of the architecture that has its switches.

    >>> shape_of({"layers": 4, "hidden_size": 128, "ffn": 352, "heads": 4, "kv_heads": 2,
    ...           "head_width": 32, "qk_norm": True}).architecture
    'qwen3'
    """
    names = {field.name for field in fields(Llama)}
    return with_switches(Llama(**{name: values[name] for name in names & values.keys()}))


def _read() -> dict[str, Shape]:
    """All sizes, smallest first."""
    shapes = {
        path.stem: shape_of(tomllib.loads(path.read_text(encoding="utf-8"))["architecture"])
        for path in RECIPES.glob("*.toml")
    }
    return dict(sorted(shapes.items(), key=lambda item: item[1].parameters))


SIZES: dict[str, Shape] = _read()


def sizes(names: Sequence[str]) -> dict[str, Shape]:
    """Shapes by their names.

    >>> sizes(["2.5b"])["2.5b"].parameters
    2548190208
    """
    for name in names:
        if name not in SIZES:
            remedy = f"choose from {', '.join(SIZES)}"
            raise UsageError(f"model size '{name}' does not exist", remedy=remedy)
    return {name: SIZES[name] for name in names}
