"""Cut the output rows of a draft model to a list of tokens; its input rows and ids stay.

The output matrix of a draft (R, d) has a row for each draft id. Layouts:

* EAGLE-3, which has `d2t` or a field `draft_vocab_size`: `lm_head.weight`, `d2t`, `t2d`;
* layers for multi-token prediction with heads of their own, `….shared_head.head.weight`;
* a model with an output matrix of its own, or tied to the input's: it gets one of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
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
from modtok_cli.model.draft.list_files import read_list, targets_of
from modtok_cli.model.hf.model_files import (
    WrittenModel,
    check_output,
    companions,
    copy_files,
    left_out,
    write_object,
)
from modtok_cli.model.hf.weight_files import (
    FLOATS,
    Cut,
    NewTensor,
    cut_tensor,
    fingerprint,
    rewrite,
)

NAME = "modtok-head.json"
"""File of a reduced draft with the target id of each output row."""
_PREDICTION = re.compile(r".*\bshared_head\.head\.weight")
HEAD = re.compile(r"(model\.|language_model\.|text_model\.)*(lm_head|embed_out|output)\.weight")
# Weights of an EAGLE draft: without a head it uses the target's.
_EAGLE = re.compile(r"(model\.)?(fc|midlayer)\.")
_TABLE = re.compile(r"(.*\.)?(embed_tokens|wte|embed_in|word_embeddings)\.weight")
# As Medusa's own code saves them, and as vLLM reads them.
_MEDUSA = re.compile(r"(medusa_heads?\.)?\d+\.\d+\.weight|(model\.)?lm_heads\.\d+\.weight")


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
        heads: the output matrices.
        targets: (R,) int64, target id of each of their rows.
        size: tokens of the target.
    """

    def __init__(self, path: Path) -> None:
        refuse_adapter(path)
        if not (path / CONFIG).is_file():
            raise UsageError(f"has no {CONFIG}", where=path, remedy="give the directory of a draft")
        self.path, self.directory = path, HfDirectory(path)
        self.tensors = self.directory.tensors
        self.size = self.directory.vocab_size
        self.heads = self._heads()
        self.targets = self._targets()

    @property
    def is_eagle(self) -> bool:
        """Whether its map is part of the weights."""
        return "d2t" in self.tensors or "draft_vocab_size" in self.directory.config

    @property
    def is_tied(self) -> bool:
        """Whether its output matrix is the input's."""
        return _TABLE.fullmatch(self.heads[0].name) is not None

    def _heads(self) -> list[StoredTensor]:
        tensors = [*self.tensors.values()]
        heads = [tensor for tensor in tensors if _PREDICTION.fullmatch(tensor.name)]
        shared = any(tensor.name.startswith("mtp.") for tensor in tensors)
        if not heads and not shared:
            heads = [tensor for tensor in tensors if HEAD.fullmatch(tensor.name)]
        tied = self.directory.config.get("tie_word_embeddings", True) and not any(
            _EAGLE.match(tensor.name) for tensor in tensors
        )
        if not heads and not shared and tied:
            heads = [tensor for tensor in tensors if _TABLE.fullmatch(tensor.name)]
        medusa = [tensor for tensor in tensors if _MEDUSA.fullmatch(tensor.name)]
        if medusa:
            raise UsageError(
                f"has {len(medusa)} Medusa heads, each with an output matrix of its own for a "
                "further token: they cannot be cut yet",
                where=self.path,
                remedy="use the whole draft, or a draft of EAGLE-3",
            )
        if not heads:
            raise UsageError(
                "has no output matrix of its own: it uses the target's",
                where=self.path,
                remedy="cut that one in the engine: SGLang reads a list of modtok tokens --format "
                "sglang with --speculative-token-map",
            )
        for head in heads:
            if head.dtype not in FLOATS or len(head.shape) != 2:
                method = quantization(self.directory.config)
                raise ModtokError(
                    f"tensor '{head.name}' is {head.dtype} {head.shape}"
                    + (f", quantized ({method})" if method else "")
                    + f", expected a matrix in {', '.join(FLOATS)}",
                    where=self.path,
                )
        return heads

    def _targets(self) -> Int64Array:
        rows = {head.shape[0] for head in self.heads}
        if "d2t" in self.tensors:
            targets = targets_of(self.tensors, self.size, self.path)
            if rows != {len(targets)}:
                raise ModtokError(
                    f"tensor 'd2t' has {len(targets):,} ids, the head {max(rows):,} rows",
                    where=self.path,
                )
            return targets
        if rows != {self.size}:
            raise ModtokError(
                f"the head has {max(rows):,} rows, {CONFIG} says {self.size:,}",
                where=self.path,
                remedy="check field 'vocab_size'",
            )
        return np.arange(self.size, dtype=np.int64)

    def cuts(self, places: Int64Array) -> dict[str, NewTensor]:
        """These rows of the output matrices and of their biases."""
        cuts = {}
        for head in self.heads:
            beginning = head.name.removesuffix("weight")
            for name, tensor in self.tensors.items():
                if name.startswith(beginning) and tensor.shape[:1] == head.shape[:1]:
                    cuts[name] = cut_tensor(tensor, Cut(0, places))
        return cuts


def cut_head(
    path: Path, wanted: Path, output: Path, *, force: bool = False, progress: Progress = SILENT
) -> HeadCut:
    """Write the draft in `path` with the output rows of the list `wanted` to `output`.

    Rows are in ascending order of target ids. `modtok-head.json` has the target id of each, in
    EAGLE-3 also `d2t` and `t2d`. Weights are streamed.

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
    config = {**draft.directory.config, "draft_vocab_size": len(kept)}
    saved = draft.heads
    if draft.is_tied:
        changed = {"lm_head.weight": cut_tensor(saved[0], Cut(0, places))}
        for part in (config, config.get("text_config")):
            if isinstance(part, dict):
                part["tie_word_embeddings"] = False
    else:
        changed = draft.cuts(places)
    if draft.is_eagle:
        changed |= _maps(kept, draft.size)
    with atomic_directory(output) as beside:
        settings = [GENERATION] if (path / GENERATION).is_file() else []
        copy_files(path, [*companions(path, vocabulary=True), *settings], beside)
        total = rewrite(draft.directory, beside, changed)
        write_object(beside / CONFIG, config)
        facts = {"format": 1, "rows": draft.size, "weights": fingerprint(draft.directory)}
        write_object(beside / NAME, {**facts, "ids": kept.tolist()})
        missing = left_out(path, beside)
    if missing:
        progress.note(f"not copied: {', '.join(missing)}")
    before = 0 if draft.is_tied else sum(head.nbytes for head in saved)
    after = sum(len(kept) * head.bytes_along(0) for head in saved)
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
