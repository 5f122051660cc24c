"""`modtok slice`: a run and some languages to a directory that transformers opens.

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
from modtok_cli.inference.dtypes import check_range
from modtok_cli.inference.run import TrainedRun, find_run, open_run
from modtok_cli.inference.slice_files import README, Labels, slice_files
from modtok_cli.inference.slicefile import NAME, WEIGHTS, SliceFacts, read_facts
from modtok_cli.inference.source import FULL, Side
from modtok_cli.inference.sources import RunSource
from modtok_cli.inference.vocabularies import Vocabularies
from modtok_cli.training.rundir import is_run


@dataclass(frozen=True)
class SliceReport:
    """What was written, by part, compared with the whole model in the same dtype.

    Attributes:
        parts: part → (bytes of the slice, bytes of the whole model).
        tokens: tokens of the model and of the slice.
    """

    output: Path
    facts: SliceFacts
    parts: dict[str, tuple[int, int]]
    tokens: tuple[int, int]

    def rows(self) -> list[dict[str, Any]]:
        """A row per part and one for all: bytes, bytes of the whole model, share saved."""
        parts = {**self.parts, "all": (self.size, sum(whole for _, whole in self.parts.values()))}
        return [
            {
                "part": part,
                "bytes": size,
                "full_bytes": whole,
                "saved": 1 - size / whole if whole else 0.0,
                "output": str(self.output),
                "signature": self.facts.signature,
            }
            for part, (size, whole) in parts.items()
        ]

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
    own dtype and labels by default; `output` may be the slice itself. For `bos`, `license` and
    `base_model` see `slice_files.Labels`.

    Raises:
        UsageError: a language that the run does not have, no run, an existing output, weights
            out of range of `dtype`.
        ModtokError: run or slice are damaged, or the slice is from another checkpoint.
    """
    path, output = Path(path), Path(output)
    extends_itself = append is not None and output.resolve() == path.resolve()
    if append is None:
        if languages is not None:
            inputs = outputs = languages
        elif inputs is None and outputs is None:
            raise UsageError(
                "no languages given", remedy="as in: modtok slice --langs fr,en -o fr-en/"
            )
        _check_output(output, force=force)
        if not is_run(path):
            raise UsageError(
                "is not a run" if path.exists() else "does not exist",
                where=str(path),
                remedy="pass a run of modtok pretrain or a directory of a Hugging Face model; "
                "--append extends a slice",
            )
        trained = open_run(path, tokenizer=tokenizer, step=step, progress=progress)
        labels = Labels()
    else:
        _check_output(output, force=force or extends_itself)
        facts, trained = _origin(path, run, tokenizer, step)
        inputs, outputs = (
            tuple(dict.fromkeys((*side, *trained.tokenizer.resolve(append))))
            for side in (facts.inputs, facts.outputs)
        )
        dtype = dtype or facts.dtype
        labels = Labels(facts.bos, facts.license, facts.base_model)
    labels = Labels(
        labels.bos if bos is None else bos,
        license or labels.license,
        base_model or labels.base_model,
    )
    source = RunSource(trained)
    vocabularies = source.vocabularies(
        inputs if inputs is not None else FULL, outputs if outputs is not None else FULL
    )
    chosen = getattr(torch, dtype) if dtype else trained.dtype
    return _write(trained, source, vocabularies, output, chosen, labels)


def _origin(
    path: Path, run: Path | None, tokenizer: Path | None, step: int | None
) -> tuple[SliceFacts, TrainedRun]:
    """A slice's facts and the checkpoint that it was extracted from."""
    if not (path / NAME).is_file():
        raise UsageError(
            "is not a slice",
            where=str(path),
            remedy="--append adds languages to a directory of modtok slice",
        )
    facts = read_facts(path)
    found = run or find_run(facts.run, facts.tokenizer, near=path.resolve())
    if found is None or not is_run(found):
        what = f"{run} is not a run" if run else f"its run '{facts.run}' was not found"
        raise UsageError(what, where=str(path), remedy="pass the run with --from")
    trained = open_run(found, tokenizer=tokenizer, step=facts.step if step is None else step)
    if trained.tokenizer.signature != facts.tokenizer:
        raise ModtokError(
            f"was extracted from tokenizer {facts.tokenizer}, "
            f"{found} has {trained.tokenizer.signature}",
            where=str(path),
            remedy="pass the right run with --from, or slice again with --langs",
        )
    if trained.step == facts.step and trained.weights != facts.weights:
        raise ModtokError(
            f"was extracted from other weights than {found} has at step {facts.step}",
            where=str(path),
            remedy="pass the right run with --from, or slice again with --langs",
        )
    return facts, trained


def _check_output(output: Path, *, force: bool) -> None:
    if not output.exists():
        return
    if not output.is_dir() or not ((output / NAME).is_file() or not any(output.iterdir())):
        raise UsageError("exists but is not a slice", where=str(output), remedy="choose another -o")
    if not force and any(output.iterdir()):
        raise UsageError(
            "already exists", where=str(output), remedy="choose another -o, or use --force"
        )


def _write(
    trained: TrainedRun,
    source: RunSource,
    vocabularies: Vocabularies,
    output: Path,
    dtype: torch.dtype,
    labels: Labels,
) -> SliceReport:
    size = _sizes(trained, vocabularies, dtype)
    need = 2 * sum(here for here, _ in size.values())
    check_memory(need, "the slice", "use --dtype bfloat16, or a larger machine")
    tied = trained.tied and vocabularies.same
    embedding, head = source.tables(vocabularies)
    weights = {"model.embed_tokens.weight": embedding}
    if not tied:
        weights["lm_head.weight"] = head
    for name, tensor in trained.shape.to_hf(trained.backbone()).items():
        weights[f"model.{name}"] = tensor
    check_range(weights, str(dtype).removeprefix("torch."))
    tensors = {name: tensor.to(dtype).contiguous() for name, tensor in weights.items()}
    facts = _facts(trained, source, vocabularies, dtype, tied, labels)
    files = slice_files(facts, vocabularies, size)
    with atomic_directory(output) as beside:
        for name, data in files.items():
            (beside / name).write_bytes(data)
        save_file(tensors, beside / WEIGHTS, metadata={"format": "pt"})
        (beside / WEIGHTS).chmod((beside / README).stat().st_mode)  # it writes with mode 600
    return SliceReport(output, facts, size, (trained.tokenizer.size, len(vocabularies.ids)))


def _sizes(
    trained: TrainedRun, vocabularies: Vocabularies, dtype: torch.dtype
) -> dict[str, tuple[int, int]]:
    """Part → (bytes of the slice, bytes of the whole model)."""
    row = trained.shape.hidden_size * (torch.finfo(dtype).bits // 8)
    total, backbone = trained.tokenizer.size, trained.shape.parameters
    backbone_bytes = backbone * (torch.finfo(dtype).bits // 8)
    parts = {
        "backbone": (backbone_bytes, backbone_bytes),
        "input rows": (len(vocabularies.ids) * row, total * row),
    }
    if not trained.tied:
        parts["output rows"] = (vocabularies.tokenizer_out.size * row, total * row)
    elif not vocabularies.same:
        parts["output rows"] = (vocabularies.tokenizer_out.size * row, 0)
    return parts


def _facts(
    trained: TrainedRun,
    source: RunSource,
    vocabularies: Vocabularies,
    dtype: torch.dtype,
    tied: bool,
    labels: Labels,
) -> SliceFacts:
    reading, writing = vocabularies.tokenizer_in, vocabularies.tokenizer_out
    both = reading.signature if vocabularies.same else f"{reading.signature}>{writing.signature}"
    total = trained.tokenizer.size
    return SliceFacts(
        inputs=reading.languages,
        outputs=writing.languages,
        full_inputs=reading.size == total,
        full_outputs=writing.size == total,
        end_of_text=source.end_of_text(vocabularies),
        context=trained.context,
        dtype=str(dtype).removeprefix("torch."),
        shape=replace(trained.shape, tied=tied),
        tokenizer=trained.tokenizer.signature,
        signature=both,
        run=trained.name,
        step=trained.step,
        weights=trained.weights,
        bos=labels.bos,
        license=labels.license,
        base_model=labels.base_model or trained.name,
        ids=vocabularies.ids,
        row_of_in=None if vocabularies.same else vocabularies.row_of_in,
        row_of_out=None if vocabularies.same else vocabularies.row_of_out,
    )
