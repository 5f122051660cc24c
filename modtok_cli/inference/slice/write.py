"""A slice of a run, written as a directory that transformers opens.

    config.json, generation_config.json   the run's architecture with |V_S| tokens
    model.safetensors                     backbone and active rows
    tokenizer.json, tokenizer_config.json the subtokenizer; its ids are the rows
    modtok.json                           languages, ids in T, signature, run
    README.md                             model card

If the sides differ, the directory is in a format of modtok: `modtok.json` holds the id map, and
the architecture has a name that no other program accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.memory import check_memory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.hf.files import check_output, size_rows
from modtok_cli.inference.run.backbone import check_range
from modtok_cli.inference.slice.directory import NAME, WEIGHTS, SliceFacts, read_facts
from modtok_cli.inference.slice.files import README, slice_files
from modtok_cli.inference.slice.run import RunSource, find_run, open_run
from modtok_cli.inference.vocabularies import FULL, Side, Vocabularies
from modtok_cli.training.rundir import is_run


@dataclass(frozen=True)
class SliceReport:
    """What was written, by part, compared with the full model in the same dtype.

    Attributes:
        parts: part → (bytes of the slice, bytes of the full model).
        tokens: tokens of the model and of the slice.
    """

    output: Path
    facts: SliceFacts
    parts: dict[str, tuple[int, int]]
    tokens: tuple[int, int]

    def rows(self) -> list[dict[str, Any]]:
        """A row per part and one for all: bytes, bytes of the full model, share saved."""
        return size_rows(self.parts, output=str(self.output), signature=self.facts.signature)

    @property
    def size(self) -> int:
        """Bytes of all weights."""
        return sum(size for size, _ in self.parts.values())


@dataclass(frozen=True)
class Labels:
    """What a slice tells other programs about itself; None is the default.

    Attributes:
        dtype: of the weights; that of training, or of the slice that is extended.
        bos: whether its tokenizer puts the end of text before every text, as training does.
        license: license identifier of the Hugging Face Hub.
        base_model: model on the Hub that it was extracted from; the run's name by default.
    """

    dtype: str | None = None
    bos: bool | None = None
    license: str | None = None
    base_model: str | None = None

    def or_those_of(self, other: Labels) -> Labels:
        """Those that are not given are the others'."""
        own = {name: value for name, value in self.__dict__.items() if value is not None}
        return replace(other, **own)


def sliced(
    path: Path,
    languages: tuple[Side, Side],
    output: Path,
    tokenizer: Path | None,
    step: int | None,
    labels: Labels,
    *,
    force: bool,
    progress: Progress = SILENT,
) -> SliceReport:
    """Extract the model of some languages, for reading and for writing, from a run."""
    check_output(output, NAME, force=force)
    if not is_run(path):
        raise UsageError(
            "is not a run" if path.exists() else "does not exist",
            where=str(path),
            remedy="pass a run of modtok pretrain or a directory of a Hugging Face model; "
            "--append extends a slice",
        )
    source = open_run(path, tokenizer=tokenizer, step=step, progress=progress)
    defaults = Labels(str(source.dtype).removeprefix("torch."), True, "unknown", source.name)
    return _write(source, languages, output, labels.or_those_of(defaults))


def extended(
    path: Path,
    languages: Sequence[str],
    output: Path,
    run: Path | None,
    tokenizer: Path | None,
    step: int | None,
    labels: Labels,
    *,
    force: bool,
) -> SliceReport:
    """Add languages to the slice in `path` from its run; `output` may be the slice itself."""
    check_output(output, NAME, force=force or output.resolve() == path.resolve())
    facts, source = _origin(path, run, tokenizer, step)
    added = source.tokenizer.resolve(languages)
    both = (tuple(dict.fromkeys((*side, *added))) for side in (facts.inputs, facts.outputs))
    reading, writing = both
    own = Labels(facts.dtype, facts.bos, facts.license, facts.base_model)
    return _write(source, (reading, writing), output, labels.or_those_of(own))


def _origin(
    path: Path, run: Path | None, tokenizer: Path | None, step: int | None
) -> tuple[SliceFacts, RunSource]:
    """A slice's facts and the checkpoint that it was extracted from."""
    if not (path / NAME).is_file():
        raise UsageError(
            "is not a slice",
            where=str(path),
            remedy="--append adds languages to a directory of modtok slice",
        )
    facts = read_facts(path)
    place = run or find_run(facts.run, facts.tokenizer, near=path.resolve())
    if place is None or not is_run(place):
        what = f"{run} is not a run" if run else f"its run '{facts.run}' was not found"
        raise UsageError(what, where=str(path), remedy="pass the run with --from")
    source = open_run(place, tokenizer=tokenizer, step=facts.step if step is None else step)
    what = ""
    if source.tokenizer.signature != facts.tokenizer:
        what = f"tokenizer {facts.tokenizer}, {place} has {source.tokenizer.signature}"
    elif source.step == facts.step and source.fingerprint != facts.weights:
        what = f"other weights than {place} has at step {facts.step}"
    if what:
        raise ModtokError(
            f"was extracted from {what}",
            where=str(path),
            remedy="pass the right run with --from, or slice again with --langs",
        )
    return facts, source


def _write(
    source: RunSource, languages: tuple[Side, Side], output: Path, labels: Labels
) -> SliceReport:
    vocabularies = source.vocabularies(*(FULL if side is None else side for side in languages))
    facts = _facts(source, vocabularies, labels)
    dtype = getattr(torch, facts.dtype)
    sizes = _sizes(source, vocabularies, dtype)
    need = 2 * sum(here for here, _ in sizes.values())
    check_memory(need, "the slice", "use --dtype bfloat16, or a larger machine")
    embedding, head = source.tables(vocabularies)
    weights = {"model.embed_tokens.weight": embedding}
    if not facts.shape.tied:
        weights["lm_head.weight"] = head
    weights |= {f"model.{name}": tensor for name, tensor in source.parameters().items()}
    check_range(weights, facts.dtype)
    tensors = {name: tensor.to(dtype).contiguous() for name, tensor in weights.items()}
    with atomic_directory(output) as beside:
        for name, data in slice_files(facts, vocabularies, sizes).items():
            (beside / name).write_bytes(data)
        save_file(tensors, beside / WEIGHTS, metadata={"format": "pt"})
        (beside / WEIGHTS).chmod((beside / README).stat().st_mode)  # it writes with mode 600
    return SliceReport(output, facts, sizes, (source.tokenizer.size, len(vocabularies.ids)))


def _facts(source: RunSource, vocabularies: Vocabularies, labels: Labels) -> SliceFacts:
    reading, writing = vocabularies.tokenizer_in, vocabularies.tokenizer_out
    same, total = vocabularies.same, source.tokenizer.size
    return SliceFacts(
        inputs=reading.languages,
        outputs=writing.languages,
        full_inputs=reading.size == total,
        full_outputs=writing.size == total,
        end_of_text=source.end_of_text(vocabularies),
        context=source.context,
        dtype=str(labels.dtype),
        shape=replace(source.shape, tied=source.shape.tied and same),
        tokenizer=source.tokenizer.signature,
        signature=reading.signature if same else f"{reading.signature}>{writing.signature}",
        run=source.name,
        step=source.step,
        weights=source.fingerprint,
        bos=bool(labels.bos),
        license=str(labels.license),
        base_model=str(labels.base_model),
        ids=vocabularies.ids,
        row_of_in=None if same else vocabularies.row_of_in,
        row_of_out=None if same else vocabularies.row_of_out,
    )


def _sizes(
    source: RunSource, vocabularies: Vocabularies, dtype: torch.dtype
) -> dict[str, tuple[int, int]]:
    """Part → (bytes of the slice, bytes of the whole model)."""
    number_bytes = torch.finfo(dtype).bits // 8
    row = source.shape.hidden_size * number_bytes
    backbone = source.shape.parameters * number_bytes
    whole = source.tokenizer.size * row
    parts = {
        "backbone": (backbone, backbone),
        "input rows": (len(vocabularies.ids) * row, whole),
    }
    if not (source.shape.tied and vocabularies.same):
        rows = vocabularies.tokenizer_out.size * row
        parts["output rows"] = (rows, 0 if source.shape.tied else whole)
    return parts
