"""Cut the output rows of a draft model to a list of tokens; its input rows and ids stay.

The output matrix of a draft (R, d) has a row for each draft id. Layouts:

* EAGLE-3, P-EAGLE, DFlash and DSpark: `lm_head.weight`, `d2t`, `t2d`; in DSpark also
  `markov_head.markov_w2.weight`. Engines: `load_weights` of llama_eagle3.py, qwen3_dflash.py and
  qwen3_dspark.py in vllm/model_executor/models (0.33.0), of sglang/srt/models/llama_eagle3.py
  (0.5.23), and speculators/models (0.9.0).
* Medusa: a matrix for each further token, and `token_map` with the target id of each row.
  vllm/model_executor/models/medusa.py reads it in 0.8.5 to 0.11.0, and expects all rows in 0.12.0
  to 0.32.0; 0.33.0 has no Medusa.
* Layers for multi-token prediction with heads of their own, `….shared_head.head.weight`. SGLang
  0.5.23 and vLLM 0.33.0 expect all rows.
* A model with an output matrix of its own, or tied to the input's: it gets one of its own.

A quantized matrix is cut where codes and scales are by row (`model.hf.quantized_tables`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.model.architecture.complete import quantization
from modtok_cli.model.architecture.stored_model import (
    CONFIG,
    GENERATION,
    HfDirectory,
    refuse_adapter,
)
from modtok_cli.model.architecture.stored_tensors import StoredTensor
from modtok_cli.model.draft.formats import draft_map
from modtok_cli.model.draft.list_files import map_of, read_list, targets_of
from modtok_cli.model.hf.derived_card import shown_name, write_derived
from modtok_cli.model.hf.graft_hf import SliceIds
from modtok_cli.model.hf.model_files import (
    WrittenModel,
    check_output,
    companions,
    copy_files,
    left_out,
    write_object,
)
from modtok_cli.model.hf.quantized_tables import SIZES, is_quantized, row_parts, with_rows
from modtok_cli.model.hf.weight_files import (
    Cut,
    NewTensor,
    cut_tensor,
    fingerprint,
    rewrite,
)
from modtok_cli.tokenizer.model_card import Card

NAME = "modtok-head.json"
"""File of a reduced draft with the target id of each output row."""
# Modules with a row for each draft id.
_PREDICTION = re.compile(r".*\bshared_head\.head")
HEAD = re.compile(r"(model\.|language_model\.|text_model\.)*(lm_head|embed_out|output)")
_TABLE = re.compile(r"(.*\.)?(embed_tokens|wte|embed_in|word_embeddings)")
# As Medusa's own code saves them, and as vLLM names them.
_MEDUSA = re.compile(r"(medusa_heads?\.)?\d+\.\d+|((model|medusa_heads)\.)?lm_heads\.\d+")
# Of DSpark, the bias by the last token: beside the head.
_BIAS = re.compile(r"(model\.)?markov_head\.markov_w2")
# Of X-Press: vLLM 0.33.0 and speculators 0.9.0 name it differently, vLLM runs it with all rows.
_REFINER = re.compile(r"(xpress|refiner)_head\.")
# Weights of EAGLE and DFlash: without a head such a draft uses the target's.
_EAGLE = re.compile(r"(model\.)?(fc|midlayer)\.")


@dataclass(frozen=True)
class HeadCut(WrittenModel):
    """The report of `cut_head`.

    Attributes:
        ids: (n,) int64, ascending: target id of each output row.
        tokens: output rows before and after.
    """

    ids: Int64Array
    tokens: tuple[int, int]


class Draft:
    """A draft in a directory with config.json and safetensors; a tokenizer is not needed.

    Attributes:
        heads: the output matrices: module → its tensors, by their names in it.
        rows: R, rows of each of them.
        targets: (R,) int64, target id of each of their rows.
        size: tokens of the target.
    """

    def __init__(self, path: Path) -> None:
        refuse_adapter(path)
        if not (path / CONFIG).is_file():
            raise missing(path, "give the directory of a draft", f"has no {CONFIG}")
        self.path, self.directory = path, HfDirectory(path)
        self.tensors = self.directory.tensors
        self.size = self._size()
        self.heads = self._heads()
        self.rows = self._rows()
        self.targets = self._targets()

    @property
    def is_medusa(self) -> bool:
        """Whether it has a matrix for each further token."""
        return any(_MEDUSA.fullmatch(module) for module in self.heads)

    @property
    def is_eagle(self) -> bool:
        """Whether its map is `d2t` among the weights."""
        # A model of its own has that field too, once it was cut.
        is_cut = (self.path / NAME).is_file()
        mapped = not is_cut and "draft_vocab_size" in self.directory.config
        return "d2t" in self.tensors or mapped or any(_EAGLE.match(name) for name in self.tensors)

    @property
    def is_prediction(self) -> bool:
        """Whether it is layers of its target for multi-token prediction."""
        return any(_PREDICTION.fullmatch(module) for module in self.heads)

    @property
    def is_tied(self) -> bool:
        """Whether its output matrix is the input's."""
        return any(_TABLE.fullmatch(module) for module in self.heads)

    def _size(self) -> int:
        """By the configuration; that of speculators leaves out fields with a default value."""
        config, mask = self.directory.config, self.tensors.get("t2d")
        parts = [config, *(part for part in config.values() if isinstance(part, dict))]
        stated = any("vocab_size" in part for part in parts)
        return self.directory.vocab_size if stated or mask is None else mask.shape[0]

    def _heads(self) -> dict[str, dict[str, StoredTensor]]:
        def of(pattern: re.Pattern[str]) -> dict[str, dict[str, StoredTensor]]:
            modules = {name.rpartition(".")[0] for name in self.tensors}
            return {
                module: {
                    name.removeprefix(f"{module}."): tensor
                    for name, tensor in self.tensors.items()
                    if name.startswith(f"{module}.")
                }
                for module in sorted(modules)
                if pattern.fullmatch(module)
            }

        if any(_REFINER.match(name) for name in self.tensors):
            raise UsageError(
                "has a refiner of X-Press, which vLLM runs with all output rows only",
                where=self.path,
                remedy="use the whole draft",
            )
        shared = any(name.startswith("mtp.") for name in self.tensors)
        if heads := of(_PREDICTION) or of(_MEDUSA):
            return heads
        if not shared and (heads := of(HEAD)):
            return heads | of(_BIAS)
        is_eagle = any(_EAGLE.match(name) for name in self.tensors)
        tied = self.directory.config.get("tie_word_embeddings", True) and not is_eagle
        if not shared and tied and (heads := of(_TABLE)):
            return heads
        raise UsageError(
            "has no output matrix of its own: it uses the target's",
            where=self.path,
            remedy="cut that one in the engine: SGLang reads a list of modtok tokens --format "
            "sglang with --speculative-token-map",
        )

    def _rows(self) -> int:
        counts = set()
        for module, parts in self.heads.items():
            matrix = parts.get("weight", parts.get("weight_packed"))
            if matrix is None or len(matrix.shape) != 2:
                raise self._mixed(module, "its matrix")
            counts.add(matrix.shape[0])
        if len(counts) != 1:
            raise ModtokError(
                f"its output matrices have {' and '.join(f'{n:,}' for n in sorted(counts))} rows",
                where=self.path,
            )
        return counts.pop()

    def _mixed(self, module: str, part: str) -> ModtokError:
        method = quantization(self.directory.config) or "unknown"
        return ModtokError(
            f"its output matrix '{module}' is quantized ({method}): {part} is not cut by rows",
            where=self.path,
            remedy="choose the draft in bfloat16, or with rows that have scales of their own",
        )

    def _targets(self) -> Int64Array:
        if "d2t" in self.tensors:
            targets, name = targets_of(self.tensors, self.size, self.path), "d2t"
        elif "token_map" in self.tensors and self.rows != self.size:
            targets, name = map_of(self.tensors["token_map"], self.size, self.path), "token_map"
        elif self.rows == self.size:
            return np.arange(self.size, dtype=np.int64)
        elif (self.path / NAME).is_file():
            targets, name = SliceIds.read(self.path / NAME).ids.astype(np.int64), NAME
        else:
            raise ModtokError(
                f"the head has {self.rows:,} rows, {CONFIG} says {self.size:,}",
                where=self.path,
                remedy="check field 'vocab_size'",
            )
        if self.rows != len(targets):
            raise ModtokError(
                f"'{name}' has {len(targets):,} ids, the head {self.rows:,} rows",
                where=self.path,
            )
        return targets

    def cuts(self, places: Int64Array) -> dict[str, NewTensor]:
        """These rows of the output matrices, of their biases and of their scales."""
        cuts = {}
        for module, parts in self.heads.items():
            for part, tensor in parts.items():
                if part in self._parts(module, parts):
                    cuts[tensor.name] = cut_tensor(tensor, Cut(0, places))
                elif part == SIZES:
                    cuts[tensor.name] = with_rows(tensor, len(places))
        return cuts

    def _parts(self, module: str, parts: Mapping[str, StoredTensor]) -> Collection[str]:
        """The tensors of a matrix that have an index for each row."""
        if not is_quantized(parts):
            return [part for part in parts if parts[part].shape[:1] == (self.rows,)]
        found = row_parts(parts, self.rows)
        if isinstance(found, str):
            raise self._mixed(module, found)
        return found


def check_own_model(directory: HfDirectory) -> None:
    """Check that a draft is a model of its own, which runs without its target.

    Raises:
        UsageError: it runs on hidden states of its target.
    """
    parts = {name.rpartition(".")[0] for name in directory.tensors}
    layers = (_PREDICTION, _MEDUSA)
    if (
        directory.tensors.keys() & {"d2t", "token_map"}
        or any(_EAGLE.match(name) or name.startswith("mtp.") for name in directory.tensors)
        or any(pattern.fullmatch(part) for part in parts for pattern in layers)
    ):
        raise UsageError(
            "runs on hidden states of its target: transformers does not open it",
            where=directory.path,
            remedy="open it with the engine that runs its model",
        )


def cut_head(
    path: Path, wanted: Path, output: Path, *, force: bool = False, progress: Progress = SILENT
) -> HeadCut:
    """Write the draft in `path` with the output rows of the list `wanted` to `output`.

    Rows are in ascending order of target ids. `modtok-head.json` has the target id of each; a draft
    whose engines read a map has it too: `d2t` and `t2d`, or Medusa's `token_map`. Weights are
    streamed.

    Raises:
        UsageError: no draft, or the list is of another vocabulary.
        ModtokError: a file is damaged.
    """
    check_output(output, NAME, force=force, kind="draft with fewer output rows")
    draft = Draft(path)
    ids = np.sort(read_list(wanted, draft.size))
    places = np.flatnonzero(np.isin(draft.targets, ids))
    places = places[np.argsort(draft.targets[places])]
    kept = draft.targets[places]
    if not len(kept):
        raise UsageError("the draft has no row for any id of the list", where=wanted)
    if len(kept) < len(ids):
        progress.warn(
            f"{len(ids) - len(kept):,} of {len(ids):,} ids of the list are left out: the draft has "
            "no rows for them"
        )
    field = "truncated_vocab_size" if draft.is_medusa else "draft_vocab_size"
    config = {**draft.directory.config, field: len(kept)}
    changed = draft.cuts(places)
    after = sum(each.nbytes for each in changed.values())
    before = 0 if draft.is_tied else sum(draft.tensors[name].nbytes for name in changed)
    if draft.is_tied:
        changed = {f"lm_head.{name.rpartition('.')[2]}": changed[name] for name in changed}
        for part in (config, config.get("text_config")):
            if isinstance(part, dict):
                part["tie_word_embeddings"] = False
    if draft.is_medusa:
        changed["token_map"] = NewTensor.of("I64", kept.shape, kept)
        progress.warn("of vLLM, only 0.8.5 to 0.11 opens Medusa heads with fewer rows")
    elif draft.is_eagle:
        changed |= _maps(kept, draft.size)
    elif draft.is_prediction:
        progress.warn(
            "vLLM and SGLang open layers for multi-token prediction with all rows only; SGLang "
            "cuts them itself by a list of modtok tokens --format sglang"
        )
    with atomic_directory(output) as beside:
        settings = [GENERATION] if (path / GENERATION).is_file() else []
        copy_files(path, [*companions(path, vocabulary=True), *settings], beside)
        total = rewrite(draft.directory, beside, changed)
        write_object(beside / CONFIG, config)
        facts = {"format": 1, "rows": draft.size, "weights": fingerprint(draft.directory)}
        write_object(beside / NAME, {**facts, "ids": kept.tolist()})
        missing = left_out(path, beside)
        name = shown_name(path)
        card = Card(
            title=f"{name} with {len(kept):,} output rows",
            about=f"The draft {name} of speculative decoding, with {len(kept):,} of "
            f"{len(draft.targets):,} output rows. {NAME} has the token of each.",
            made=f"modtok slice {name} --head LIST -o DIR",
        )
        write_derived(card, path, beside, output, left_out=missing)
    if missing:
        progress.note(f"not copied: {', '.join(missing)}")
    parts = {
        "others": (total - after, draft.directory.tensor_bytes - before),
        "output rows": (after, before),
    }
    tokens = len(draft.targets), len(kept)
    return HeadCut(output, parts, {"tokens": len(kept)}, kept, tokens)


def _maps(ids: Int64Array, rows: int) -> dict[str, NewTensor]:
    d2t, t2d = draft_map(ids, rows)
    return {
        "d2t": NewTensor.of("I64", d2t.shape, d2t),
        "t2d": NewTensor.of("BOOL", t2d.shape, t2d),
    }
