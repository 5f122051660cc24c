"""Put a fine-tuned slice of a Hugging Face model back into the model, as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import Progress
from modtok_cli.base.read_file import read_file, read_object
from modtok_cli.model.architecture.complete import check_complete
from modtok_cli.model.architecture.stored_model import LARGEST, TOKENIZER, HfDirectory
from modtok_cli.model.architecture.stored_tensors import StoredTensor
from modtok_cli.model.hf.derived_card import LOAD, shown_name, write_derived
from modtok_cli.model.hf.model_directory import NAME, ModelDirectory, cuts_of
from modtok_cli.model.hf.model_files import WrittenModel, companions, copy_files, left_out
from modtok_cli.model.hf.weight_files import (
    FLOATS,
    Cut,
    fingerprint,
    grafted_tensor,
    rewrite,
)
from modtok_cli.tokenizer.adopted.restrict import vocabulary_of
from modtok_cli.tokenizer.model_card import Card
from modtok_cli.tokenizer.segmenters.json_frame import parse_document

ANOTHER = "graft it onto the model that the slice was made from"


@dataclass(frozen=True)
class GraftReport(WrittenModel):
    """A model with the rows of a slice; of `parts`, what was replaced, and the whole.

    Attributes:
        whole: the model or checkpoint that was grafted onto.
        tokens: rows of the whole, and how many of them were replaced.
    """

    whole: Path
    tokens: tuple[int, int]


@dataclass(frozen=True)
class SliceIds:
    """The content of `modtok-vocabulary.json`.

    Attributes:
        rows: rows of the tables of the whole model.
        ids: (n,) int32, ascending: what the id of each token was.
        weights: fingerprint of the whole model's weights; "" in older slices.
    """

    rows: int
    ids: Int32Array
    weights: str

    @staticmethod
    def read(file: Path) -> SliceIds:
        """Read and check the file."""
        fields = read_object(file, largest=LARGEST)
        rows, ids, weights = (fields.get(name) for name in ("rows", "ids", "weights"))
        if (
            type(rows) is not int
            or not isinstance(ids, list)
            or not ids
            or not all(type(index) is int and 0 <= index < rows for index in ids)
            or not all(low < high for low, high in pairwise(ids))
            or not isinstance(weights, str | None)
        ):
            raise ModtokError("is damaged", where=file, remedy="slice the model again")
        return SliceIds(rows, np.array(ids, dtype=np.int32), weights or "")


def check_vocabulary(directory: Path, expected: Mapping[str, int], whole: Path) -> None:
    """Check that a `tokenizer.json`, if there is one, has the ids that the slice had.

    Raises:
        UsageError: it has others.
    """
    file = directory / TOKENIZER
    if not file.is_file():
        return
    found = vocabulary_of(parse_document(read_file(file), str(file)), str(file))
    if found == expected:
        return
    differing = found.items() ^ expected.items()
    raise UsageError(
        f"is not a tokenizer of a slice of {whole}: token {min(name for name, _ in differing)!r} "
        "has another id there, or none",
        where=file,
        remedy="graft it onto the model whose slice was trained, without adding tokens to it",
    )


def graft_directory(
    part: Path,
    slice: Path,
    whole: Path,
    output: Path,
    *,
    convert: bool,
    progress: Progress,
) -> GraftReport:
    """Write the model `whole` with the weights of `part`: of tables, the rows of its tokens.

    Args:
        slice: the slice that `part` was trained from, with the ids of its tokens.

    See `model.slice.graft.graft`.
    """
    model, facts = ModelDirectory(whole), SliceIds.read(slice / NAME)
    check_complete(model)
    if facts.rows != model.vocab_size:
        raise UsageError(
            f"is a slice of a model of {facts.rows:,} rows, {whole} has {model.vocab_size:,}",
            where=slice,
            remedy="graft it onto the model that the slice was made from",
        )
    new_of = {old: new for new, old in enumerate(facts.ids.tolist())}
    model.warn(progress)
    vocabulary = vocabulary_of(model.tokenizer, str(whole / TOKENIZER))
    expected = {token: new_of[old] for token, old in vocabulary.items() if old in new_of}
    for directory in dict.fromkeys((slice, part)):
        check_vocabulary(directory, expected, whole)
    if facts.weights not in ("", fingerprint(model)):
        raise UsageError(f"was cut from other weights than {whole} has", where=slice,
                         remedy=ANOTHER)  # fmt: skip
    cuts, stored = cuts_of(model.axes(model.layout), facts.ids), model.tensors
    grafted = _tensors(model, part, cuts, convert=convert)
    new = {
        name: grafted_tensor(stored[name], cuts.get(name), each) for name, each in grafted.items()
    }
    with atomic_directory(output) as beside:
        copied = [*companions(whole, vocabulary=True), *model.configs]
        copy_files(whole, copied, beside)
        rewrite(model, beside, new)
        if missing := left_out(whole, beside):
            progress.note(f"not copied: {', '.join(missing)}")
        name = shown_name(whole)
        card = Card(
            title=f"{name}, trained in part",
            about=f"The model {name}, with the weights of a fine-tuned slice: its backbone, and "
            f"the rows of {len(facts.ids):,} of {model.vocab_size:,} tokens. Other rows are as "
            "they were.",
            load=LOAD,
            made=f"modtok graft SLICE --onto {name} -o DIR",
        )
        write_derived(card, whole, beside, output, left_out=missing)
    tables = sum(stored[name].nbytes for name in cuts)
    rows = sum(len(cut.ids) * stored[name].bytes_along(cut.axis) for name, cut in cuts.items())
    others = sum(stored[name].nbytes for name in grafted if name not in cuts)
    sizes = {
        "backbone": (others, model.tensor_bytes - tables),
        "vocabulary rows": (rows, tables),
    }
    count = len(facts.ids)
    return GraftReport(output, sizes, {"tokens": count}, whole, (model.vocab_size, count))


def _tensors(
    model: ModelDirectory,
    part: Path,
    cuts: Mapping[str, Cut],
    *,
    convert: bool,
) -> dict[str, StoredTensor]:
    """The tensors of `part` by their names in the whole; each fits.

    A tensor that transformers does not know, such as a stored buffer, may be missing.

    Raises:
        UsageError: one has another shape or dtype, or is in one of both only.
    """
    theirs, grafted = HfDirectory(part).tensors, dict[str, StoredTensor]()
    have = dict(theirs)
    tied = getattr(model.layout_config, "tie_word_embeddings", False) and not model.diverged
    for name, tensor in model.tensors.items():
        shape = list(tensor.shape)
        if name in cuts:
            shape[cuts[name].axis] = len(cuts[name].ids)
        found = have.pop(name, None)
        if found is None and tied and name in cuts:  # stored once, here twice
            others = [each for other, each in theirs.items() if other in cuts]
            found = next((each for each in others if list(each.shape) == shape), None)
        if found is None:
            if not model.layout.names_of(name, tensor.shape):
                continue
            raise _misfit(part, f"tensor '{name}' is missing", "")
        if list(found.shape) != shape:
            what = f"tensor '{name}' is {found.shape}, expected {tuple(shape)}"
            raise _misfit(part, what, "fine-tune a slice of this model, without resizing tables")
        if found.dtype != tensor.dtype:
            what = f"tensor '{name}' is {found.dtype}, the model's is {tensor.dtype}"
            if not {found.dtype, tensor.dtype} <= FLOATS.keys():
                raise _misfit(part, what, "merge into unquantized weights")
            if not convert:
                to = FLOATS[tensor.dtype]
                raise _misfit(part, what, f"save it in {to}, or pass --convert")
        grafted[name] = found
    if have:
        name = min(have)
        more = " (its tables are no longer tied)" if tied and "head" in name else ""
        raise _misfit(part, f"tensor '{name}' is not one of {model.path}{more}", "")
    return grafted


def _misfit(where: Path, what: str, remedy: str) -> UsageError:
    return UsageError(
        f"does not fit: {what}",
        where=where,
        remedy=remedy or "save the fine-tuned slice with save_pretrained of its own class",
    )
