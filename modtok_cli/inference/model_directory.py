"""Slice the vocabulary of a Hugging Face model directory, of any architecture.

Embedding tables are found by shape and name, their rows are selected while files are streamed,
and every token id in every configuration file is renumbered. Nothing else changes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.reading import read_file
from modtok_cli.inference.weight_files import INDEX, StoredTensor, WeightFiles
from modtok_cli.modular.restrict import indispensable, restrict, vocabulary_of
from modtok_cli.modular.tokenizer_file import TokenizerFile

Ids = npt.NDArray[np.int32]

_TABLE = re.compile(r"embed|wte\b|lm_head|output|vocab")
_ID_FIELD = re.compile(r"(^|_)token_(ids?|index)$|^(begin_)?suppress_tokens$|^bad_words_ids$")
_CONFIGS = ("config.json", "generation_config.json")
_TOKENIZER = "tokenizer.json"
_TOKENIZER_CONFIG = "tokenizer_config.json"
_ADDED = "added_tokens.json"
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "special_tokens_map.json")
NAME = "modtok-vocabulary.json"
"""File of a sliced model with the ids that its tokens had before."""
# Files with the old vocabulary: transformers would read them in place of tokenizer.json.
_STALE = {
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model",
    "sentencepiece.bpe.model", "tekken.json", "tiktoken.model",
}  # fmt: skip
# Weights in other formats, and caches.
_LEFT_OUT = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".gguf", ".ot", ".tflite")
# Configuration files are small; a larger one is not read.
_LIMIT = 64 << 20
_TOKENIZER_LIMIT = 1 << 30


@dataclass(frozen=True)
class VocabularySlice:
    """What `ModelDirectory.slice` wrote.

    Attributes:
        ids: (n,) int32: what each token's id was in the whole model.
        rows: rows of each embedding table, (before, after) by name.
        tables, total: bytes of the embedding tables and of all weights, (before, after).
        left_out: files of the model that were not copied.
    """

    output: Path
    ids: Ids
    rows: dict[str, tuple[int, int]]
    tables: tuple[int, int]
    total: tuple[int, int]
    left_out: tuple[str, ...]

    def table_rows(self) -> list[dict[str, Any]]:
        """Rows for people: part, bytes of the slice, bytes of the full model, share saved."""
        others = (self.total[0] - self.tables[0], self.total[1] - self.tables[1])
        parts = {"backbone": others, "vocabulary rows": self.tables, "all": self.total}
        return [
            {
                "part": part,
                "bytes": after,
                "full_bytes": before,
                "saved": 1 - after / before if before else 0.0,
                "output": str(self.output),
                "tokens": len(self.ids),
            }
            for part, (before, after) in parts.items()
        ]


class ModelDirectory:
    """A model as `save_pretrained` writes it: configuration, safetensors, tokenizer.

    Raises:
        UsageError: it is no such directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        for name in ("config.json", _TOKENIZER):
            if not (self.path / name).is_file():
                raise UsageError(
                    f"has no {name}",
                    where=str(self.path),
                    remedy="give a directory that save_pretrained wrote, tokenizer included",
                )
        self.weights = WeightFiles(self.path)

    @cached_property
    def configs(self) -> dict[str, dict[str, Any]]:
        """The configuration files that hold token ids, by name."""
        found = {}
        for name in _CONFIGS:
            if (self.path / name).is_file():
                found[name] = _read(self.path / name)
        return found

    @cached_property
    def tokenizer(self) -> dict[str, Any]:
        """The document `tokenizer.json`."""
        return _read(self.path / _TOKENIZER, _TOKENIZER_LIMIT)

    @cached_property
    def file(self) -> TokenizerFile:
        """The tokenizer on flat arrays.

        Raises:
            UsageError: its type cannot be sliced by text or language.
        """
        return TokenizerFile(self.tokenizer, str(self.path / _TOKENIZER))

    @cached_property
    def vocab_size(self) -> int:
        """Rows of the embedding tables, padding included.

        Raises:
            ModtokError: the configuration does not say.
        """
        config = self.configs["config.json"]
        parts = [config, *(part for part in config.values() if isinstance(part, Mapping))]
        sizes = {part["vocab_size"] for part in parts if "vocab_size" in part}
        if len(sizes) != 1 or type(next(iter(sizes))) is not int:
            raise ModtokError(
                f"field 'vocab_size' is {' and '.join(map(str, sizes)) or 'missing'}",
                where=str(self.path / "config.json"),
                remedy="a model with one vocabulary can be sliced",
            )
        return int(next(iter(sizes)))

    @cached_property
    def tables(self) -> dict[str, StoredTensor]:
        """Embedding tables and output biases: tensors with a row per token, by name.

        Raises:
            ModtokError: there is none.
        """
        found = {
            name: tensor
            for name, tensor in self.weights.tensors.items()
            if tensor.shape[:1] == (self.vocab_size,) and _TABLE.search(name)
        }
        if not any(len(tensor.shape) == 2 for tensor in found.values()):
            raise ModtokError(
                f"no embedding table with {self.vocab_size:,} rows was found",
                where=str(self.path),
                remedy="check field 'vocab_size' of config.json",
            )
        return found

    def indispensable(self) -> Ids:
        """Token ids that every slice keeps, ascending.

        Those of the tokenizer (see `modular.restrict`), and those that a configuration or a
        template names.
        """
        where = str(self.path / _TOKENIZER)
        found = set(indispensable(self.tokenizer, where).tolist())
        known = set(vocabulary_of(self.tokenizer, where).values())
        text = self._templates()
        for token in self.tokenizer.get("added_tokens") or ():
            if token.get("special") and token["content"] in text:
                found.add(token["id"])

        def note(index: int) -> int:
            if index in known:
                found.add(index)
            return index

        for config in self.configs.values():
            _with_ids(config, note)
        return np.array(sorted(found), dtype=np.int32)

    def _templates(self) -> str:
        """Files that name tokens by their text, in one string."""
        parts = []
        for name in _TEMPLATES:
            if (self.path / name).is_file():
                parts.append(read_file(self.path / name, largest=_LIMIT).decode(errors="replace"))
        if (self.path / _TOKENIZER_CONFIG).is_file():
            fields = _read(self.path / _TOKENIZER_CONFIG)
            fields.pop("added_tokens_decoder", None)
            parts.append(str(fields))
        return "\n".join(parts)

    def slice(self, ids: Ids, output: Path) -> VocabularySlice:
        """Write the model of the tokens `ids`, and of the indispensable ones, to `output`.

        Token i of the result is the i-th of these ids, ascending. Files are streamed: memory
        does not depend on the size of the model.

        Raises:
            UsageError: an id has no row in the model, or no token.
            ModtokError: a file is damaged, or the file system refused.
        """
        kept = np.union1d(ids, self.indispensable()).astype(np.int32)
        if len(kept) and int(kept[-1]) >= self.vocab_size:
            raise UsageError(
                f"token {kept[-1]} has no row: the model has {self.vocab_size:,}",
                where=str(self.path),
            )
        document = restrict(self.tokenizer, kept, str(self.path / _TOKENIZER))
        new_of = {int(old): new for new, old in enumerate(kept.tolist())}
        left_out = []
        with atomic_directory(output) as beside:
            for file in sorted(self.path.iterdir()):
                if file.name in _STALE or file.suffix in _LEFT_OUT or not file.is_file():
                    left_out.append(file.name)
                elif not self._is_written(file.name):
                    shutil.copyfile(file, beside / file.name)
            total = self.weights.rewrite(beside, dict.fromkeys(self.tables, kept))
            _write(beside / _TOKENIZER, document)
            for name, config in self.configs.items():
                _write(beside / name, _sliced_config(config, new_of, self.vocab_size))
            self._write_added(beside, new_of)
            _write(beside / NAME, {"format": 1, "rows": self.vocab_size, "ids": kept.tolist()})
        tables = list(self.tables.values())
        before = sum(table.stop - table.start for table in tables)
        return VocabularySlice(
            output,
            ids=kept,
            rows={name: (self.vocab_size, len(kept)) for name in self.tables},
            tables=(before, sum(len(kept) * table.row_bytes for table in tables)),
            total=(self.weights.size, total),
            left_out=tuple(left_out),
        )

    def _is_written(self, name: str) -> bool:
        """Whether `slice` writes a file of this name itself."""
        weights = {file.name for file in self.weights.files}
        return name in weights or name in {
            *_CONFIGS, _TOKENIZER, _TOKENIZER_CONFIG, _ADDED, INDEX, NAME,
        }  # fmt: skip

    def _write_added(self, beside: Path, new_of: Mapping[int, int]) -> None:
        """Files that list added tokens by id."""
        config = self.path / _TOKENIZER_CONFIG
        if config.is_file():
            fields = _read(config)
            decoder = fields.get("added_tokens_decoder")
            if isinstance(decoder, Mapping):
                fields["added_tokens_decoder"] = {
                    str(new_of[int(index)]): token
                    for index, token in decoder.items()
                    if int(index) in new_of
                }
            _write(beside / _TOKENIZER_CONFIG, fields)
        added = self.path / _ADDED
        if added.is_file():
            ids = _read(added)
            kept = {name: new_of[index] for name, index in ids.items() if index in new_of}
            _write(beside / _ADDED, kept)


def _sliced_config(
    config: Mapping[str, Any], new_of: Mapping[int, int], vocab_size: int
) -> dict[str, Any]:
    result: dict[str, Any] = _with_ids(config, lambda index: new_of.get(index, index))
    for part in (result, *(part for part in result.values() if isinstance(part, dict))):
        if part.get("vocab_size") == vocab_size:
            part["vocab_size"] = len(new_of)
    return result


def _with_ids(part: Any, change: Callable[[int], int], of_ids: bool = False) -> Any:
    """A copy of a configuration in which each token id was changed."""
    if isinstance(part, Mapping):
        return {
            key: _with_ids(value, change, bool(_ID_FIELD.search(key)))
            for key, value in part.items()
        }
    if isinstance(part, list):
        return [_with_ids(one, change, of_ids) for one in part]
    if of_ids and type(part) is int and part >= 0:
        return change(part)
    return part


def _read(file: Path, limit: int = _LIMIT) -> dict[str, Any]:
    try:
        found = orjson.loads(read_file(file, largest=limit))
    except ValueError as error:
        raise ModtokError(f"is not JSON ({error})", where=str(file)) from error
    if not isinstance(found, dict):
        raise ModtokError("is not a JSON object", where=str(file))
    return found


def _write(file: Path, content: Mapping[str, Any]) -> None:
    file.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
