"""Slice the vocabulary of a Hugging Face model directory, of any architecture.

Tensors with an index per token are found by `token_tensors`, their indices are selected while
files are streamed, and every token id in every configuration file is renumbered. Nothing else
changes. The result is loaded and compared with the original before it takes its place.
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.read_file import read_file, read_object
from modtok_cli.model.architecture.complete import quantization
from modtok_cli.model.architecture.stored_model import (
    CONFIG,
    LARGEST,
    TOKENIZER,
    TOKENIZER_CONFIG,
    HfDirectory,
    open_config,
    refuse_adapter,
)
from modtok_cli.model.architecture.stored_tensors import StoredTensor
from modtok_cli.model.architecture.token_rows import PEFT
from modtok_cli.model.hf.derived_card import LOAD, shown_name, write_derived
from modtok_cli.model.hf.model_check import check_slice
from modtok_cli.model.hf.model_files import (
    ADDED_TOKENS,
    WrittenModel,
    companions,
    copy_files,
    ids_to_keep,
    left_out,
    unstated_ids,
    with_ids,
    write_object,
)
from modtok_cli.model.hf.peft_settings import renumbered
from modtok_cli.model.hf.quantized_tables import SIZES, is_quantized, row_parts, with_rows
from modtok_cli.model.hf.token_tensors import TokenAxis, TokenTensors, size_fields
from modtok_cli.model.hf.weight_files import Cut, cut_tensor, fingerprint, rewrite
from modtok_cli.tokenizer.adopted.file_ids import check_ids
from modtok_cli.tokenizer.adopted.restrict import indispensable, restrict, vocabulary_of
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.model_card import Card
from modtok_cli.tokenizer.open import tokenizers_in
from modtok_cli.tokenizer.tokenizer_card import in_words

NAME = "modtok-vocabulary.json"
"""File of a sliced model with the ids that its tokens had before."""
# In the names of tensors with a row per token, if they have as many rows.
_TABLE = re.compile(r"embed|wte\b|lm_head|output|vocab|^shared\b")
_HEAD = re.compile(r"((?:.*\.)?(?:lm_head|embed_out|embed_tokens|wte|embed_in|word_embeddings))\.")


@dataclass(frozen=True)
class VocabularySlice(WrittenModel):
    """The report of `ModelDirectory.slice`.

    Attributes:
        ids: (n,) int32: what each token's id was in the whole model.
        tensors: tokens of each tensor that has an index per token, (before, after) by name.
        left_out: files of the model that were not copied.
    """

    ids: Int32Array
    tensors: dict[str, tuple[int, int]]
    left_out: tuple[str, ...]

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens of the whole model and of the slice."""
        return max(before for before, _ in self.tensors.values()), len(self.ids)


class ModelDirectory(HfDirectory):
    """A model as `save_pretrained` writes it: configuration, safetensors, tokenizer."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        refuse_adapter(self.path)
        there = {CONFIG: (self.path / CONFIG).is_file(), TOKENIZER: tokenizers_in(self.path)}
        for name, is_there in there.items():
            if not is_there:
                raise missing(
                    self.path,
                    "give a directory that save_pretrained of model and tokenizer wrote; "
                    "tokenizers without tokenizer.json (Marian, M2M-100) cannot be sliced",
                    f"has no {name}",
                )

    @cached_property
    def file(self) -> TokenizerFile:
        """The tokenizer on flat arrays, of types that can be sliced by text or language."""
        return TokenizerFile(self.tokenizer, str(self.path / TOKENIZER))

    @cached_property
    def layout_config(self) -> Any:
        """The configuration as transformers reads it."""
        return open_config(self.path)

    @cached_property
    def layout(self) -> TokenTensors:
        """The tensors of the model that have an index per token, if transformers builds it."""
        return TokenTensors(self.path, self.layout_config, self.vocab_size)

    def axes(self, layout: TokenTensors | None, *, quantized: bool = False) -> dict[str, TokenAxis]:
        """The stored tensors that have an index per token; without `layout` by their names.

        Raises:
            ModtokError: the role of a tensor is unknown, a table is quantized in a way that mixes
                tokens, or it is quantized at all, unless `quantized` says that this is right.
        """
        axes: dict[str, TokenAxis] = {}
        of_tables: dict[str, str] = {}  # tensor → part, of quantized tables
        for module, parts in self._tables(layout).items():
            if not is_quantized(parts):
                continue
            found = row_parts(parts, self.vocab_size)
            if isinstance(found, str) or not quantized:
                method = quantization(self.config) or "unknown"
                why = f": {found} is not cut by rows" if isinstance(found, str) else ""
                raise ModtokError(
                    f"its table '{module}' is quantized ({method}){why}",
                    where=self.path,
                    remedy="choose the model in bfloat16, or with tables that are not quantized",
                )
            axes |= {parts[part].name: axis for part, axis in found.items()}
            of_tables |= {tensor.name: part for part, tensor in parts.items()}
        for name, tensor in self.tensors.items():
            if name in of_tables:
                continue
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
        if not any(len(self.tensors[name].shape) == 2 for name in axes):
            raise ModtokError(
                f"no embedding table with {self.vocab_size:,} rows was found",
                where=self.path,
                remedy="check field 'vocab_size' of config.json",
            )
        return axes

    def _tables(self, layout: TokenTensors | None) -> dict[str, dict[str, StoredTensor]]:
        """Module of each table → its tensors, by their names in it."""
        tables: dict[str, dict[str, StoredTensor]] = {}
        for name, tensor in self.tensors.items():
            if layout is not None:
                module = layout.table_of(name)
            else:
                found = _HEAD.match(name)
                module = found and found[1]
            if module is not None:
                tables.setdefault(module, {})[name.removeprefix(f"{module}.")] = tensor
        return tables

    def indispensable(self) -> Int32Array:
        """Token ids that every slice keeps, ascending.

        Ids of the tokenizer (see `modular.restrict`), of a configuration, or of a template.
        """
        known = set(vocabulary_of(self.tokenizer, str(self.path / TOKENIZER)).values())
        ids = set(indispensable(self.tokenizer).tolist())
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
        names = [name for name in companions(self.path) if "template" in name or "tokens" in name]
        parts = [
            read_file(self.path / name, largest=LARGEST).decode(errors="replace") for name in names
        ]
        fields = {**self.tokenizer_config, "added_tokens_decoder": None}
        return "\n".join([*parts, str(fields)])

    def slice(
        self,
        ids: Int32Array,
        output: Path,
        *,
        verify: bool = True,
        languages: Sequence[str] = (),
        made: str = "",
        measured: str = "",
        progress: Progress = SILENT,
    ) -> VocabularySlice:
        """Write the model of the tokens `ids`, and of the indispensable ones, to `output`.

        Token i of the result is the i-th of these ids, ascending. Files are streamed: memory
        does not depend on the size of the model, except to compare logits of models that fit.

        Args:
            verify: load the result and compare its logits with the model's; without it, a model
                that transformers does not open is sliced by the names of its tables.
            languages, made, measured: for the card: languages of the tokens, the command, and a
                sentence about its effect on text.
        """
        self.warn(progress)
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
        axes = self.axes(layout, quantized=True)
        cuts = {
            name: cut_tensor(self.tensors[name], cut) for name, cut in cuts_of(axes, ids).items()
        }
        sizes = {
            name: with_rows(tensor, len(ids))
            for name, tensor in self.tensors.items()
            if name.endswith(f".{SIZES}") and name.replace(SIZES, "weight_packed") in cuts
        }
        new_of = {int(old): new for new, old in enumerate(ids.tolist())}
        with atomic_directory(output) as beside:
            copy_files(self.path, companions(self.path), beside)
            total = rewrite(self, beside, cuts | sizes)
            write_object(beside / TOKENIZER, document)
            known = vocabulary_of(self.tokenizer, str(self.path / TOKENIZER))
            kept = {name: new_of[old] for name, old in known.items() if old in new_of}
            check_ids((beside / TOKENIZER).read_bytes(), str(output), kept)
            self._write_configs(beside, new_of, layout, progress)
            self._write_added(beside, new_of, progress)
            facts = {"format": 1, "rows": self.vocab_size, "weights": fingerprint(self)}
            write_object(beside / NAME, {**facts, "ids": ids.tolist()})
            if verify and layout is not None:
                self._verify(beside, layout, ids, needed, progress)
            missing = left_out(self.path, beside)
            name = shown_name(self.path)
            card = Card(
                title=f"{name} for {in_words(languages)}" if languages else f"A part of {name}",
                about=f"The model {name} with {len(ids):,} of its {self.vocab_size:,} tokens. For "
                f"these tokens it has the logits of the whole model; other text takes more tokens. "
                f"{measured}".rstrip(),
                languages=languages,
                load=LOAD,
                made=made,
            )
            write_derived(card, self.path, beside, output, left_out=missing)
        before = sum(self.tensors[name].nbytes for name in cuts)
        after = sum(each.nbytes for each in cuts.values())
        return VocabularySlice(
            output,
            {
                "backbone": (total - after, self.tensor_bytes - before),
                "vocabulary rows": (after, before),
            },
            {"tokens": len(ids)},
            ids=ids,
            tensors={name: (each.size, cuts[name].shape[each.axis]) for name, each in axes.items()},
            left_out=missing,
        )

    def _verify(
        self,
        part: Path,
        layout: TokenTensors,
        ids: Int32Array,
        needed: Int32Array,
        progress: Progress,
    ) -> None:
        after = HfDirectory(part).tensors
        layout.check(
            part, {name: (tensor.shape, after[name].shape) for name, tensor in self.tensors.items()}
        )
        # Special tokens may stand for images or speech, which are not given here.
        ordinary = np.flatnonzero(~np.isin(ids, needed)).astype(np.int32)
        sample = ordinary if len(ordinary) > 1 else np.arange(len(ids), dtype=np.int32)
        check_slice(self.path, part, ids, sample, size=self.vocab_size, progress=progress)

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
            unknown: list[str] = []
            result = with_ids(
                config, new_of.get, limit=self.vocab_size, dropped=dropped, unknown=unknown
            )
            if name == CONFIG:
                if layout is not None:
                    full = self.layout_config.to_dict()
                    _merge(result, unstated_ids(config, full, new_of.get))
                # Sizes that the file does not state are transformers' defaults.
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
            if unknown:
                progress.warn(
                    f"{name}: unchanged, though they may be token ids: {', '.join(unknown)}"
                )
            write_object(beside / name, result)

    def write_tokenizer(self, beside: Path, progress: Progress) -> None:
        """Write the tokenizer of the tokens with a row, and what lies beside it."""
        copy_files(self.path, companions(self.path), beside)
        write_object(beside / TOKENIZER, self.tokenizer)
        check_ids((beside / TOKENIZER).read_bytes(), str(self.path))
        self._write_added(beside, {each: each for each in range(self.vocab_size)}, progress)

    def _write_added(self, beside: Path, new_of: Mapping[int, int], progress: Progress) -> None:
        """Files that list tokens by id or by name: those added, and those to be trained."""
        fields = dict(self.tokenizer_config)
        decoder = fields.get("added_tokens_decoder")
        if isinstance(decoder, Mapping):
            fields["added_tokens_decoder"] = {
                str(new_of[int(index)]): token
                for index, token in decoder.items()
                if int(index) in new_of
            }
        if fields:
            write_object(beside / TOKENIZER_CONFIG, fields)
        added = self.path / ADDED_TOKENS
        if added.is_file():
            ids = read_object(added, largest=LARGEST)
            left = {name: new_of[index] for name, index in ids.items() if index in new_of}
            write_object(beside / ADDED_TOKENS, left)
        # A special token without an id would get one behind the last row.
        every = vocabulary_of(self.tokenizer, str(self.path / TOKENIZER))
        known = {name for name, index in every.items() if index in new_of}
        for name in (TOKENIZER_CONFIG, "special_tokens_map.json"):
            if (beside / name).is_file():
                named, unknown = _naming(read_object(beside / name, largest=LARGEST), known)
                write_object(beside / name, named)
                if unknown and not self.without_row:
                    progress.warn(
                        f"{name}: tokens without an id are left out: {', '.join(unknown)}"
                    )
        settings = self.path / PEFT
        if settings.is_file():
            write_object(beside / PEFT, renumbered(read_object(settings, largest=LARGEST), new_of))


def cuts_of(axes: Mapping[str, TokenAxis], ids: Int32Array) -> dict[str, Cut]:
    """The indices of each tensor that are of the tokens `ids`, ascending."""
    return {
        name: Cut(each.axis, ids[: np.searchsorted(ids, each.size)]) for name, each in axes.items()
    }


def _merge(config: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add fields to a configuration, also to nested ones."""
    for key, value in more.items():
        if isinstance(value, Mapping):
            _merge(config.setdefault(key, {}), value)
        else:
            config[key] = value


def _naming(fields: Mapping[str, Any], known: Container[str]) -> tuple[dict[str, Any], list[str]]:
    """The fields without special tokens that are not `known`, and these tokens."""
    unknown: list[str] = []

    def is_known(token: Any) -> bool:
        text = token.get("content") if isinstance(token, Mapping) else token
        if isinstance(text, str) and text not in known:
            unknown.append(text)
        return not isinstance(text, str) or text in known

    result = {}
    for key, value in fields.items():
        if key.endswith("_token") and not is_known(value):
            continue
        if key.endswith("special_tokens") and isinstance(value, list):
            value = [each for each in value if is_known(each)]
        elif key.endswith("special_tokens") and isinstance(value, Mapping):
            value = {name: each for name, each in value.items() if is_known(each)}
        result[key] = value
    return result, list(dict.fromkeys(unknown))
