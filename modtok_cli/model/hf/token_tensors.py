"""Which tensors of a model have an index per token, by building the model with more tokens.

Names and sizes do not tell: a bias of outputs may be called anything, and a table of positions may
have as many rows as there are tokens. So transformers builds the model twice on the meta device,
without weights, and compares the shapes of the tensors.
"""

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import quiet
from modtok_cli.model.architecture.complete import model_class
from modtok_cli.model.architecture.stored_model import not_opened, open_config

Shape = tuple[int, ...]
Field = tuple[str, ...]
"""Path of a field of a configuration."""

_SIZE = re.compile(r"vocab(ulary)?_size|^n_(vocab|words|token)$")
# Sizes of other tables of the same tokens, of the first ids.
_FIRST_TOKENS = "vocab_size_per_layer_input"
_MORE = 64


def shapes_of(config: Any, where: Path) -> dict[str, Shape]:
    """The shape of each tensor of a model, tied ones under all their names."""
    import torch

    kind = model_class(config)
    build = kind if hasattr(kind, "base_model_prefix") else kind.from_config
    try:
        with quiet(), torch.device("meta"):
            state = build(copy.deepcopy(config)).state_dict()
    except Exception as error:  # as above
        raise not_opened(where, error) from error
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def size_fields(config: Mapping[str, Any], size: int) -> dict[Field, int]:
    """The fields of a configuration that count the tokens of a vocabulary of `size`.

    >>> size_fields({"text_config": {"vocab_size": 9}, "type_vocab_size": 2}, 9)
    {('text_config', 'vocab_size'): 9}
    """
    fields: dict[Field, int] = {}

    def walk(part: Mapping[str, Any], path: Field) -> None:
        for key, value in part.items():
            if isinstance(value, Mapping):
                walk(value, (*path, key))
            elif type(value) is int and (
                (value == size and _SIZE.search(key)) or (key == _FIRST_TOKENS and value <= size)
            ):
                fields[*path, key] = value

    walk(config, ())
    return fields


def with_sizes(config: Any, sizes: Mapping[Field, int]) -> Any:
    """A copy of a configuration with other sizes."""
    config = copy.deepcopy(config)
    for (*path, key), value in sizes.items():
        part = reduce(lambda part, name: getattr(part, name, None), path, config)
        if part is not None:
            setattr(part, key, value)
    return config


def _nearest(name: str, others: Iterable[str]) -> tuple[list[str], int]:
    """The names with the longest end in common with `name`, and its number of parts."""
    parts, most = name.split(".")[::-1], 0
    names: list[str] = []
    for other in others:
        theirs = other.split(".")[::-1]
        common = 0
        while common < min(len(parts), len(theirs)) and parts[common] == theirs[common]:
            common += 1
        if common > most:
            names, most = [], common
        if common == most:
            names.append(other)
    return names, most


@dataclass(frozen=True)
class TokenAxis:
    """The axis of a tensor that has an index for each of the first `size` tokens."""

    axis: int
    size: int


class TokenTensors:
    """The tensors of a model with an index per token.

    Attributes:
        fields: the fields of the configuration that count tokens.
    """

    def __init__(self, path: Path, config: Any, size: int) -> None:
        self.path, self.config = path, config
        self.fields = size_fields(config.to_dict(), size)
        self.shapes = shapes_of(config, path)
        self._alike: dict[tuple[str, Shape], list[str]] = {}
        for name, shape in self.shapes.items():
            self._alike.setdefault((name.rsplit(".", 1)[-1], shape), []).append(name)
        self._changed: dict[str, list[TokenAxis]] = {}
        for count in set(self.fields.values()):
            more = {field: n + _MORE for field, n in self.fields.items() if n == count}
            others = shapes_of(with_sizes(config, more), path)
            for name, shape in self.shapes.items():
                self._changed.setdefault(name, []).extend(
                    TokenAxis(axis, count)
                    for axis, (one, two) in enumerate(zip(shape, others[name], strict=True))
                    if one != two
                )

        self._tables = {
            name.split(".")[-2]
            for name, axes in self._changed.items()
            if axes and len(self.shapes[name]) == 2 and name.endswith(".weight")
        }

    def names_of(self, name: str, shape: Shape) -> list[str]:
        """The tensors of the model that a stored one may be: same shape, longest common end.

        Names in files differ in their beginning: with or without the name of the base model, or as
        an older version had it.
        """
        return _nearest(name, self._alike.get((name.rsplit(".", 1)[-1], shape), ()))[0]

    def table_of(self, name: str) -> str | None:
        """The module of a table that a stored tensor is part of, as its name has it.

        Parts of a quantized table have other names and shapes than the table.
        """
        parts = name.split(".")
        for stop in range(1, len(parts)):
            if parts[stop - 1] in self._tables:
                module = ".".join(parts[:stop])
                others, common = _nearest(f"{module}.weight", self.shapes)
                if common > 1 and all(self._changed.get(other) for other in others):
                    return module
        return None

    def axis_of(self, name: str, shape: Shape) -> TokenAxis | None:
        """The axis of a stored tensor with an index per token; None if it has none."""
        names = self.names_of(name, shape)
        choices = {tuple(self._changed[other]) for other in names}
        if choices == {()} or (not choices and not set(shape) & set(self.fields.values())):
            return None
        if len(choices) != 1 or len(axes := next(iter(choices))) != 1:
            raise self._refused(name, shape, "has a size of the vocabulary and an unknown role")
        if shape[axes[0].axis] != axes[0].size:
            raise self._refused(
                name, shape, f"depends on the vocabulary, but has not {axes[0].size:,} rows"
            )
        return axes[0]

    def check(self, path: Path, shapes: Mapping[str, tuple[Shape, Shape]]) -> None:
        """Check the stored shapes of a model with fewer tokens, by name (before, after)."""
        sliced = shapes_of(open_config(path), path)
        for name, (before, after) in shapes.items():
            expected = {sliced.get(other) for other in self.names_of(name, before)}
            if expected - {after}:
                raise self._refused(name, after, f"would be {sorted(expected, key=str)[0]}")

    def _refused(self, name: str, shape: Shape, what: str) -> ModtokError:
        return ModtokError(f"cannot be sliced: tensor '{name}' {shape} {what}", where=self.path)
