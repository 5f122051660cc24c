"""Read a model directory of transformers: configuration, and weights one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modtok_cli.architectures.registry import shape_of_hf
from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.reading import read_object

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
TOKENIZER = "tokenizer.json"
_PREFIX = "model."
_INPUT, _OUTPUT = "model.embed_tokens.weight", "lm_head.weight"
# A buffer that transformers stored until version 4.30.
_BUFFER = ".rotary_emb.inv_freq"
_CONFIG_LIMIT = 1 << 26


def is_hf_directory(path: Path) -> bool:
    """Whether `path` has the configuration and safetensors of a model of transformers."""
    files = (path / WEIGHTS, path / INDEX)
    return (path / CONFIG).is_file() and any(file.is_file() for file in files)


def indexed_files(path: Path) -> dict[str, Path] | None:
    """Name of each tensor → its file, as the index of a model in several files has it.

    None without an index.
    """
    index = path / INDEX
    if not index.is_file():
        return None
    table = read_object(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise ModtokError("field 'weight_map' is not an object of files", where=index)
    for name, file in table.items():
        # A file elsewhere is not part of the model.
        if not isinstance(file, str) or Path(file).name != file:
            raise ModtokError(
                f"field 'weight_map.{name}' is {file!r}, expected the name of a file", where=index
            )
    return {name: path / file for name, file in table.items()}


@dataclass(frozen=True)
class HfDirectory:
    """A directory that `save_pretrained` wrote, weights in one file or several.

    Nothing is read before it is needed. Weights are returned in float32.
    """

    path: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of config.json."""
        return read_object(self.path / CONFIG, largest=_CONFIG_LIMIT)

    @cached_property
    def shape(self) -> Shape:
        """The model without its vocabulary."""
        return shape_of_hf(self.config, str(self.path / CONFIG))

    def token_id(self, *names: str) -> int | None:
        """The id in the first of these fields of config.json that has one.

        A list of ids counts by its first.
        """
        for name in names:
            value = self.config.get(name)
            value = value[0] if isinstance(value, list) and value else value
            if type(value) is int and value >= 0:
                return value
        return None

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Name of each tensor → its file."""
        indexed = indexed_files(self.path)
        if indexed is None:
            return dict.fromkeys(_open(self.path / WEIGHTS).keys(), self.path / WEIGHTS)
        return indexed

    @property
    def files(self) -> list[Path]:
        """The files of weights, ascending by name."""
        return sorted(set(self._files.values()))

    def tensor(self, name: str) -> Tensor:
        """A tensor in float32."""
        import torch
        from safetensors import SafetensorError

        if name not in self._files:
            raise ModtokError(f"parameter '{name}' is missing", where=self.path)
        file = self._files[name]
        try:
            tensor: Tensor = _open(file).get_tensor(name)
        except (SafetensorError, RuntimeError) as error:
            raise ModtokError(f"'{name}' cannot be read ({error})", where=file) from error
        if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise ModtokError(
                f"'{name}' is {kind}",
                where=file,
                remedy="choose a model in bfloat16, float16 or float32",
            )
        return tensor.float()

    def table(self, kind: str) -> Tensor:
        """The "input" or "output" table, (V, d); one and the same if tied."""
        name = _OUTPUT if kind == "output" and not self.shape.tied else _INPUT
        tensor = self.tensor(name)
        expected = (self.config.get("vocab_size"), self.shape.hidden_size)
        if tuple(tensor.shape) != expected:
            raise ModtokError(
                f"'{name}' is {tuple(tensor.shape)}, {CONFIG} says {expected}", where=self.path
            )
        return tensor

    @property
    def backbone(self) -> Mapping[str, Tensor]:
        """All other weights by their names in the backbone; read when they are needed."""
        return _Backbone(self)

    @property
    def backbone_names(self) -> list[str]:
        """Names of the backbone's weights, without "model."."""
        return [
            name.removeprefix(_PREFIX)
            for name in self._files
            if name not in (_INPUT, _OUTPUT) and not name.endswith(_BUFFER)
        ]


class _Backbone(Mapping[str, "Tensor"]):
    def __init__(self, directory: HfDirectory) -> None:
        self._directory = directory
        self._names = directory.backbone_names

    def __getitem__(self, name: str) -> Tensor:
        return self._directory.tensor(_PREFIX + name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def open_hf_directory(path: Path) -> HfDirectory:
    """Open a model directory of transformers; its tokenizer must be with it."""
    if not is_hf_directory(path):
        raise UsageError(
            f"has no {CONFIG} with {WEIGHTS}",
            where=path,
            remedy="give a directory that save_pretrained wrote",
        )
    if not (path / TOKENIZER).is_file():
        raise UsageError(
            f"has no {TOKENIZER}",
            where=path,
            remedy="save the model's tokenizer there with save_pretrained",
        )
    return HfDirectory(path)


def _open(file: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(file, framework="pt")
    except (OSError, SafetensorError) as error:
        raise ModtokError(f"cannot be read ({error})", where=file) from error
