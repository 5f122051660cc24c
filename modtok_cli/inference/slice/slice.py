"""`modtok slice` of a run: some languages to a directory that transformers opens.

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


def slice_model(
    path: Path,
    languages: Sequence[str] | None = None,
    *,
    output: Path,
    outputs: Side = None,
    inputs: Side = None,
    append: Sequence[str] | None = None,
    run: Path | None = None,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: str | None = None,
    bos: bool | None = None,
    license: str | None = None,
    base_model: str | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> SliceReport:
    """Extract the model of some languages from a run.

    `languages` are both sides; `inputs` and `outputs` set them separately ("full" is T). With
    `append`, `path` is a slice: these languages are added from its run (or `run`), with the slice's
    own dtype and labels by default; `output` may be the slice itself. `bos`: whether the tokenizer
    puts the end of text before every text, as training does; by default it does. `license` and
    `base_model` are identifiers on the Hugging Face Hub, the latter by default the run's name.

    Raises:
        UsageError: a language that the run does not have, no run, an existing output, weights
            out of range of `dtype`.
        ModtokError: run or slice are damaged, or the slice is from another checkpoint.
    """
    path, output = Path(path), Path(output)
    if append is None:
        if languages is not None:
            inputs = outputs = languages
        elif inputs is None and outputs is None:
            raise UsageError(
                "no languages given", remedy="as in: modtok slice --langs fr,en -o fr-en/"
            )
        check_output(output, NAME, force=force)
        if not is_run(path):
            raise UsageError(
                "is not a run" if path.exists() else "does not exist",
                where=str(path),
                remedy="pass a run of modtok pretrain or a directory of a Hugging Face model; "
                "--append extends a slice",
            )
        source = open_run(path, tokenizer=tokenizer, step=step, progress=progress)
        bos = True if bos is None else bos
        license, base_model = license or "unknown", base_model or source.name
    else:
        check_output(output, NAME, force=force or output.resolve() == path.resolve())
        facts, source = _origin(path, run, tokenizer, step)
        inputs, outputs = (
            tuple(dict.fromkeys((*side, *source.tokenizer.resolve(append))))
            for side in (facts.inputs, facts.outputs)
        )
        dtype = dtype or facts.dtype
        bos = facts.bos if bos is None else bos
        license, base_model = license or facts.license, base_model or facts.base_model
    vocabularies = source.vocabularies(
        inputs if inputs is not None else FULL, outputs if outputs is not None else FULL
    )
    reading, writing = vocabularies.tokenizer_in, vocabularies.tokenizer_out
    same, total = vocabularies.same, source.tokenizer.size
    facts = SliceFacts(
        inputs=reading.languages,
        outputs=writing.languages,
        full_inputs=reading.size == total,
        full_outputs=writing.size == total,
        end_of_text=source.end_of_text(vocabularies),
        context=source.context,
        dtype=dtype or str(source.dtype).removeprefix("torch."),
        shape=replace(source.shape, tied=source.shape.tied and same),
        tokenizer=source.tokenizer.signature,
        signature=reading.signature if same else f"{reading.signature}>{writing.signature}",
        run=source.name,
        step=source.step,
        weights=source.fingerprint,
        bos=bos,
        license=license,
        base_model=base_model,
        ids=vocabularies.ids,
        row_of_in=None if same else vocabularies.row_of_in,
        row_of_out=None if same else vocabularies.row_of_out,
    )
    return _write(source, vocabularies, facts, output)


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
    source: RunSource, vocabularies: Vocabularies, facts: SliceFacts, output: Path
) -> SliceReport:
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
