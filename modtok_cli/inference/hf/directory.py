"""Slice the vocabulary of a Hugging Face model directory, of any architecture.

Tensors with an index per token are found by `token_tensors`, their indices are selected while
files are streamed, and every token id in every configuration file is renumbered. Nothing else
changes. The result is loaded and compared with the original before it takes its place.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.architectures.hf_directory import CONFIG, INDEX, TOKENIZER
from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.reading import read_file, read_object
from modtok_cli.inference.hf.check import check_slice
from modtok_cli.inference.hf.files import (
    CHAT_TEMPLATE,
    CONFIGS,
    LARGEST,
    TOKENIZER_CONFIG,
    ids_to_keep,
    size_rows,
    with_ids,
    write_object,
)
from modtok_cli.inference.hf.peft_settings import PEFT, renumbered
from modtok_cli.inference.hf.token_tensors import (
    TokenAxis,
    TokenTensors,
    open_config,
    size_fields,
)
from modtok_cli.inference.hf.weight_files import Cut, WeightFiles
from modtok_cli.modular.adopted.restrict import (
    check_document,
    indispensable,
    restrict,
    vocabulary_of,
)
from modtok_cli.modular.adopted.tokenizer_file import TokenizerFile
from modtok_cli.modular.segmenters.json_frame import parse_document

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
LEFT_OUT = (".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".gguf", ".ot", ".tflite")
# In the names of tensors with a row per token, if they have as many rows.
_TABLE = re.compile(r"embed|wte\b|lm_head|output|vocab|^shared\b")


@dataclass(frozen=True)
class VocabularySlice:
    """What `ModelDirectory.slice` wrote.

    Attributes:
        ids: (n,) int32: what each token's id was in the whole model.
        rows: tokens of each tensor that has an index per token, (before, after) by name.
        tables, total: bytes of these tensors and of all weights, (before, after).
        left_out: files of the model that were not copied.
    """

    output: Path
    ids: Int32Array
    rows: dict[str, tuple[int, int]]
    tables: tuple[int, int]
    total: tuple[int, int]
    left_out: tuple[str, ...]

    def table_rows(self) -> list[dict[str, Any]]:
        """A row per part and one for all: bytes, bytes of the full model, share saved."""
        before, after = self.tables
        others = (self.total[1] - after, self.total[0] - before)
        parts = {"backbone": others, "vocabulary rows": (after, before)}
        return size_rows(parts, output=str(self.output), tokens=len(self.ids))


class ModelDirectory:
    """A model as `save_pretrained` writes it: configuration, safetensors, tokenizer."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        for name in (CONFIG, TOKENIZER):
            if not (self.path / name).is_file():
                raise UsageError(
                    f"has no {name}",
                    where=self.path,
                    remedy="give a directory that save_pretrained of model and tokenizer wrote; "
                    "tokenizers without tokenizer.json (Marian, M2M-100) cannot be sliced",
                )
        self.weights = WeightFiles(self.path)

    @cached_property
    def configs(self) -> dict[str, dict[str, Any]]:
        """The configuration files that hold token ids, by name."""
        files = (self.path / name for name in CONFIGS)
        return {file.name: read_object(file, largest=LARGEST) for file in files if file.is_file()}

    @cached_property
    def tokenizer(self) -> dict[str, Any]:
        """The document `tokenizer.json`; an error names the field that is damaged."""
        place = self.path / TOKENIZER
        document = parse_document(read_file(place), str(place))
        check_document(document, str(place))
        return document

    @cached_property
    def file(self) -> TokenizerFile:
        """The tokenizer on flat arrays, of types that can be sliced by text or language."""
        return TokenizerFile(self.tokenizer, str(self.path / TOKENIZER))

    @cached_property
    def vocab_size(self) -> int:
        """Rows of the embedding tables, padding included, as the configuration states them."""
        config = self.configs[CONFIG]
        parts = [config, *(part for part in config.values() if isinstance(part, Mapping))]
        stated = [part["vocab_size"] for part in parts if "vocab_size" in part]
        if not stated:
            stated = [getattr(self.layout_config.get_text_config(), "vocab_size", None)]
        sizes = list({str(size): size for size in stated}.values())
        if len(sizes) != 1 or type(sizes[0]) is not int:
            raise ModtokError(
                f"field 'vocab_size' is {' and '.join(map(str, sizes)) or 'missing'}",
                where=self.path / CONFIG,
                remedy="only models with one vocabulary can be sliced",
            )
        return sizes[0]

    @cached_property
    def layout_config(self) -> Any:
        """The configuration as transformers reads it."""
        return open_config(self.path)

    @cached_property
    def layout(self) -> TokenTensors:
        """The tensors of the model that have an index per token, if transformers builds it."""
        return TokenTensors(self.path, self.layout_config, self.vocab_size)

    def axes(self, layout: TokenTensors | None) -> dict[str, TokenAxis]:
        """The stored tensors that have an index per token; without `layout` by their names."""
        axes: dict[str, TokenAxis] = {}
        for name, tensor in self.weights.tensors.items():
            if layout is not None:
                axis = layout.axis_of(name, tensor.shape)
            elif self.vocab_size not in tensor.shape:
                axis = None
            elif tensor.shape[0] == self.vocab_size and _TABLE.search(name):
                axis = TokenAxis(0, self.vocab_size)
            else:
                raise ModtokError(
                    f"cannot be sliced: tensor '{name}' {tensor.shape} has a size of the "
                    "vocabulary and an unknown role",
                    where=self.path,
                )
            if axis is not None:
                axes[name] = axis
        if not any(len(self.weights.tensors[name].shape) == 2 for name in axes):
            raise ModtokError(
                f"no embedding table with {self.vocab_size:,} rows was found",
                where=self.path,
                remedy="check field 'vocab_size' of config.json",
            )
        return axes

    def indispensable(self) -> Int32Array:
        """Token ids that every slice keeps, ascending.

        Those of the tokenizer (see `modular.restrict`), and those that a configuration or a
        template names.
        """
        where = str(self.path / TOKENIZER)
        ids = set(indispensable(self.tokenizer, where).tolist())
        known = set(vocabulary_of(self.tokenizer, where).values())
        text = self._templates()
        for token in self.tokenizer.get("added_tokens") or ():
            # Marks such as <think> are often not special, unlike runs of line ends, which are text.
            marks = token.get("special") or not token["content"].isspace()
            if marks and token["content"] in text:
                ids.add(token["id"])
        for config in self.configs.values():
            ids |= ids_to_keep(config) & known
        return np.array(sorted(ids), dtype=np.int32)

    def _templates(self) -> str:
        """Files that name tokens by their text, in one string."""
        files = [self.path / name for name in _TEMPLATES]
        parts = [
            read_file(file, largest=LARGEST).decode(errors="replace")
            for file in files
            if file.is_file()
        ]
        if (self.path / TOKENIZER_CONFIG).is_file():
            fields = read_object(self.path / TOKENIZER_CONFIG, largest=LARGEST)
            fields.pop("added_tokens_decoder", None)
            parts.append(str(fields))
        return "\n".join(parts)

    def slice(
        self, ids: Int32Array, output: Path, *, verify: bool = True, progress: Progress = SILENT
    ) -> VocabularySlice:
        """Write the model of the tokens `ids`, and of the indispensable ones, to `output`.

        Token i of the result is the i-th of these ids, ascending. Files are streamed: memory
        does not depend on the size of the model, except to compare logits of models that fit.

        Args:
            verify: load the result and compare its logits with the model's; without it, a model
                that transformers does not open is sliced by the names of its tables.
        """
        needed = self.indispensable()
        ids = np.union1d(ids, needed).astype(np.int32)
        if len(ids) and int(ids[-1]) >= self.vocab_size:
            raise UsageError(
                f"token {ids[-1]} has no row: the model has {self.vocab_size:,}", where=self.path
            )
        document = restrict(self.tokenizer, ids, str(self.path / TOKENIZER))
        try:
            layout = self.layout
        except ModtokError as error:
            if verify:
                remedy = "update transformers, or pass --no-verify to know tables by their names"
                raise ModtokError(error.what, where=error.where, remedy=remedy) from error
            layout = None
        axes = self.axes(layout)
        cuts = {
            name: Cut(each.axis, ids[: np.searchsorted(ids, each.size)])
            for name, each in axes.items()
        }
        new_of = {int(old): new for new, old in enumerate(ids.tolist())}
        left_out = []
        with atomic_directory(output) as beside:
            for file in sorted(self.path.iterdir()):
                if file.name in _STALE or file.suffix in LEFT_OUT or not file.is_file():
                    left_out.append(file.name)
                elif not self._is_written(file.name):
                    shutil.copyfile(file, beside / file.name)
            total = self.weights.rewrite(beside, cuts)
            write_object(beside / TOKENIZER, document)
            self._write_configs(beside, new_of, layout, progress)
            self._write_added(beside, new_of)
            facts = {"format": 1, "rows": self.vocab_size, "weights": self.weights.fingerprint}
            write_object(beside / NAME, {**facts, "ids": ids.tolist()})
            if verify and layout is not None:
                self._verify(beside, layout, ids, needed, progress)
        tensors = self.weights.tensors
        before = sum(tensors[name].stop - tensors[name].start for name in cuts)
        after = sum(
            len(cut.ids) * tensors[name].bytes_along(cut.axis) for name, cut in cuts.items()
        )
        return VocabularySlice(
            output,
            ids=ids,
            rows={name: (axes[name].size, len(cut.ids)) for name, cut in cuts.items()},
            tables=(before, after),
            total=(self.weights.size, total),
            left_out=tuple(left_out),
        )

    def _verify(
        self,
        part: Path,
        layout: TokenTensors,
        ids: Int32Array,
        needed: Int32Array,
        progress: Progress,
    ) -> None:
        before, after = self.weights.tensors, WeightFiles(part).tensors
        layout.check(
            part, {name: (tensor.shape, after[name].shape) for name, tensor in before.items()}
        )
        # Special tokens may stand for images or speech, which are not given here.
        ordinary = np.flatnonzero(~np.isin(ids, needed)).astype(np.int32)
        sample = ordinary if len(ordinary) > 1 else np.arange(len(ids), dtype=np.int32)
        check_slice(self.path, part, ids, sample, size=self.vocab_size, progress=progress)

    def _is_written(self, name: str) -> bool:
        """Whether `slice` writes a file of this name itself."""
        weights = {file.name for file in self.weights.files}
        return name in weights or name in {
            *CONFIGS, TOKENIZER, TOKENIZER_CONFIG, _ADDED, INDEX, NAME, PEFT,
        }  # fmt: skip

    def _write_configs(
        self,
        beside: Path,
        new_of: Mapping[int, int],
        layout: TokenTensors | None,
        progress: Progress,
    ) -> None:
        """Configurations with new ids and sizes; a warning names fields that lost an id."""
        for name, config in self.configs.items():
            dropped: list[str] = []
            result = with_ids(config, new_of.get, limit=self.vocab_size, dropped=dropped)
            if name == CONFIGS[0]:
                # Sizes that the file does not state are those of transformers' defaults.
                stated = size_fields(config, self.vocab_size)
                every = {**(layout.fields if layout else {}), **stated}
                for (*path, key), size in every.items():
                    part = result
                    for step in path:
                        part = part.get(step, {}) if stated else part.setdefault(step, {})
                    part[key] = sum(old < size for old in new_of)
            if dropped:
                progress.warn(
                    f"{name}: ids of tokens that are not kept were left out of {', '.join(dropped)}"
                )
            write_object(beside / name, result)

    def _write_added(self, beside: Path, new_of: Mapping[int, int]) -> None:
        """Files that list tokens by id: those added, and those to be trained."""
        config = self.path / TOKENIZER_CONFIG
        if config.is_file():
            fields = read_object(config, largest=LARGEST)
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
            ids = read_object(added, largest=LARGEST)
            left = {name: new_of[index] for name, index in ids.items() if index in new_of}
            write_object(beside / _ADDED, left)
        settings = self.path / PEFT
        if settings.is_file():
            write_object(beside / PEFT, renumbered(read_object(settings, largest=LARGEST), new_of))
