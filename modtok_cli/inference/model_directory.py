"""Slice the vocabulary of a Hugging Face model directory, of any architecture.

Embedding tables are found by shape and name, their rows are selected while files are streamed,
and every token id in every configuration file is renumbered. Nothing else changes.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.architectures.hf_directory import INDEX
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.reading import read_file, read_object
from modtok_cli.inference.model_configs import (
    CHAT_TEMPLATE,
    CONFIGS,
    TABLE,
    TOKENIZER_CONFIG,
    with_ids,
    write_object,
)
from modtok_cli.inference.weight_files import StoredTensor, WeightFiles
from modtok_cli.modular.document_checks import check_document
from modtok_cli.modular.json_frame import parse_document
from modtok_cli.modular.restrict import indispensable, restrict, vocabulary_of
from modtok_cli.modular.tokenizer_file import TokenizerFile

Ids = npt.NDArray[np.int32]

_TOKENIZER = "tokenizer.json"
_ADDED = "added_tokens.json"
_TEMPLATES = (CHAT_TEMPLATE, "chat_template.json", "special_tokens_map.json")
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
        for name in CONFIGS:
            if (self.path / name).is_file():
                found[name] = read_object(self.path / name, largest=_LIMIT)
        return found

    @cached_property
    def tokenizer(self) -> dict[str, Any]:
        """The document `tokenizer.json`.

        Raises:
            ModtokError: it is damaged; names the field.
        """
        place = self.path / _TOKENIZER
        document = parse_document(read_file(place), str(place))
        check_document(document, str(place))
        return document

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
        stated = [part["vocab_size"] for part in parts if "vocab_size" in part]
        sizes = list({str(size): size for size in stated}.values())
        if len(sizes) != 1 or type(sizes[0]) is not int:
            raise ModtokError(
                f"field 'vocab_size' is {' and '.join(map(str, sizes)) or 'missing'}",
                where=str(self.path / "config.json"),
                remedy="a model with one vocabulary can be sliced",
            )
        return sizes[0]

    @cached_property
    def tables(self) -> dict[str, StoredTensor]:
        """Embedding tables and output biases: tensors with a row per token, by name.

        Raises:
            ModtokError: there is none.
        """
        found = {
            name: tensor
            for name, tensor in self.weights.tensors.items()
            if tensor.shape[:1] == (self.vocab_size,) and TABLE.search(name)
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
            # Marks such as <think> are often not special, unlike runs of line ends, which are text.
            marks = token.get("special") or not token["content"].isspace()
            if marks and token["content"] in text:
                found.add(token["id"])

        def note(index: int) -> int:
            if index in known:
                found.add(index)
            return index

        for config in self.configs.values():
            with_ids(config, note)
        return np.array(sorted(found), dtype=np.int32)

    def _templates(self) -> str:
        """Files that name tokens by their text, in one string."""
        parts = []
        for name in _TEMPLATES:
            if (self.path / name).is_file():
                parts.append(read_file(self.path / name, largest=_LIMIT).decode(errors="replace"))
        if (self.path / TOKENIZER_CONFIG).is_file():
            fields = read_object(self.path / TOKENIZER_CONFIG, largest=_LIMIT)
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
            write_object(beside / _TOKENIZER, document)
            for name, config in self.configs.items():
                write_object(beside / name, _sliced_config(config, new_of, self.vocab_size))
            self._write_added(beside, new_of)
            write_object(
                beside / NAME, {"format": 1, "rows": self.vocab_size, "ids": kept.tolist()}
            )
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
            *CONFIGS, _TOKENIZER, TOKENIZER_CONFIG, _ADDED, INDEX, NAME,
        }  # fmt: skip

    def _write_added(self, beside: Path, new_of: Mapping[int, int]) -> None:
        """Files that list added tokens by id."""
        config = self.path / TOKENIZER_CONFIG
        if config.is_file():
            fields = read_object(config, largest=_LIMIT)
            decoder = fields.get("added_tokens_decoder")
            if isinstance(decoder, Mapping):
                fields["added_tokens_decoder"] = {
                    str(new_of[int(index)]): token
                    for index, token in decoder.items()
                    if int(index) in new_of
                }
            write_object(beside / TOKENIZER_CONFIG, fields)
        added = self.path / _ADDED
        if added.is_file():
            ids = read_object(added, largest=_LIMIT)
            kept = {name: new_of[index] for name, index in ids.items() if index in new_of}
            write_object(beside / _ADDED, kept)


def _sliced_config(
    config: Mapping[str, Any], new_of: Mapping[int, int], vocab_size: int
) -> dict[str, Any]:
    result: dict[str, Any] = with_ids(config, lambda index: new_of.get(index, index))
    for part in (result, *(part for part in result.values() if isinstance(part, dict))):
        if part.get("vocab_size") == vocab_size:
            part["vocab_size"] = len(new_of)
    return result
