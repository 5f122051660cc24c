"""`modtok slice`: a run and some languages to a directory that transformers opens.

    config.json, generation_config.json   a Llama of |V_S| tokens
    model.safetensors                     backbone and active rows
    tokenizer.json, tokenizer_config.json the subtokenizer, ids in step with the rows
    modtok.json                           languages, ids in T, signature, where it comes from
    README.md                             the model card

With two different sides the directory is in our own format: `modtok.json` holds the id map,
and the architecture is named so that no stock program takes it for a Llama.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors.torch import save_file

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.memory import check_memory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.backbone import backbone_config
from modtok_cli.inference.card import model_card
from modtok_cli.inference.dtypes import check_range
from modtok_cli.inference.run import TrainedRun, is_run, open_run
from modtok_cli.inference.slicefile import (
    NAME,
    TOKENIZER_OUT,
    WEIGHTS,
    SliceFacts,
    read_facts,
)
from modtok_cli.inference.sources import FULL, RunSource, Side
from modtok_cli.inference.vocabularies import Vocabularies

_README = "README.md"
OUR_ARCHITECTURE = "ModtokTwoVocabularies"


@dataclass(frozen=True)
class SliceReport:
    """What was written, part by part, against the whole model in the same numbers."""

    output: Path
    facts: SliceFacts
    parts: dict[str, tuple[int, int]]

    def rows(self) -> list[dict[str, Any]]:
        """A row a part and one of all: bytes here, bytes of the whole, and the share saved."""
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
    add: Sequence[str] | None = None,
    run: Path | None = None,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: str | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> SliceReport:
    """Cut the model of some languages out of a run.

    `languages` are both sides; `inputs` and `outputs` name them apart ("full" is T). With
    `add`, `path` is a slice, which is widened by those languages from the run it came from
    (or `run`); it may be its own `output`.

    Raises:
        UsageError: a language that the run does not have, no run, an output that is there.
        ModtokError: run or slice are damaged, or the slice's run has changed.
    """
    path, output = Path(path), Path(output)
    widens_itself = add is not None and output.resolve() == path.resolve()
    if add is not None:
        path, inputs, outputs, step, dtype = _widened(path, add, run, tokenizer, step, dtype)
    elif languages is not None:
        inputs = outputs = languages
    elif inputs is None and outputs is None:
        raise UsageError("which languages?", remedy="name them: modtok slice --langs fr,en")
    _check_output(output, force=force or widens_itself)
    if not is_run(path):
        raise UsageError(
            "is no run" if path.exists() else "no such directory",
            where=str(path),
            remedy="name one that modtok pretrain made; to add languages to a slice use --append",
        )
    trained = open_run(path, tokenizer=tokenizer, step=step, progress=progress)
    source = RunSource(trained)
    vocabularies = source.vocabularies(
        inputs if inputs is not None else FULL, outputs if outputs is not None else FULL
    )
    numbers = getattr(torch, dtype) if dtype else trained.dtype
    return _write(trained, source, vocabularies, output, numbers)


def _widened(
    path: Path,
    add: Sequence[str],
    run: Path | None,
    tokenizer: Path | None,
    step: int | None,
    dtype: str | None,
) -> tuple[Path, Side, Side, int, str]:
    """(run, inputs, outputs, step, dtype) of a slice with more languages."""
    if not (path / NAME).is_file():
        raise UsageError(
            "is no slice",
            where=str(path),
            remedy="--append adds languages to a directory of modtok slice",
        )
    facts = read_facts(path)
    # Where the slice really lies, as it was written: it may be reached by a link.
    origin = run or Path(os.path.normpath(path.resolve() / facts.run))
    if not is_run(origin):
        raise UsageError(
            f"{origin} is no run" if run else f"its run is not at {origin} any more",
            where=str(path),
            remedy="say where it is with --from",
        )
    trained = open_run(origin, tokenizer=tokenizer, step=step if step is not None else facts.step)
    if trained.tokenizer.signature != facts.tokenizer:
        raise ModtokError(
            f"was sliced from tokenizer {facts.tokenizer}, "
            f"the run has {trained.tokenizer.signature}",
            where=str(path),
            remedy="slice the run anew with --langs",
        )
    widened = [
        tuple(dict.fromkeys((*side, *trained.tokenizer.resolve(add))))
        for side in (facts.inputs, facts.outputs)
    ]
    return origin, widened[0], widened[1], trained.step, dtype or facts.dtype


def _check_output(output: Path, *, force: bool) -> None:
    if not output.exists():
        return
    if not output.is_dir() or not ((output / NAME).is_file() or not any(output.iterdir())):
        raise UsageError("is there and is no slice", where=str(output), remedy="choose another -o")
    if not force and any(output.iterdir()):
        raise UsageError(
            "is there already", where=str(output), remedy="choose another -o, or --force"
        )


def _write(
    trained: TrainedRun,
    source: RunSource,
    vocabularies: Vocabularies,
    output: Path,
    dtype: torch.dtype,
) -> SliceReport:
    size = _sizes(trained, vocabularies, dtype)
    need = 2 * sum(here for here, _ in size.values())
    check_memory(need, "the slice", "--dtype bfloat16 takes half, or use a larger machine")
    tied = trained.tied and vocabularies.same
    embedding, head = source.tables(vocabularies)
    weights = {"model.embed_tokens.weight": embedding}
    if not tied:
        weights["lm_head.weight"] = head
    for name, tensor in trained.shape.to_hf(trained.backbone()).items():
        weights[f"model.{name}"] = tensor
    check_range(weights, str(dtype).removeprefix("torch."))
    tensors = {name: tensor.to(dtype).contiguous() for name, tensor in weights.items()}
    end = source.end_of_text()
    facts = _facts(trained, vocabularies, output, end, dtype, tied)
    config = backbone_config(
        facts.shape,
        vocabulary=len(vocabularies.ids),
        context=trained.context,
        end=end,
        dtype=dtype,
    )
    files = _files(config, vocabularies, facts, end)
    files[_README] = model_card(facts, size, vocabularies).encode()
    with atomic_directory(output) as beside:
        for name, data in files.items():
            (beside / name).write_bytes(data)
        save_file(tensors, beside / WEIGHTS, metadata={"format": "pt"})
        (beside / WEIGHTS).chmod((beside / NAME).stat().st_mode)  # it makes files for us alone
    return SliceReport(output, facts, size)


def _sizes(
    trained: TrainedRun, vocabularies: Vocabularies, dtype: torch.dtype
) -> dict[str, tuple[int, int]]:
    """Part → (bytes here, bytes of the whole model)."""
    width, each = trained.shape.hidden_size, torch.finfo(dtype).bits // 8
    total, backbone = trained.tokenizer.size, trained.shape.parameters
    parts = {
        "backbone": (backbone * each, backbone * each),
        "input rows": (len(vocabularies.ids) * width * each, total * width * each),
    }
    if not trained.tied:
        parts["output rows"] = (
            vocabularies.tokenizer_out.size * width * each,
            total * width * each,
        )
    elif not vocabularies.same:
        parts["output rows"] = (vocabularies.tokenizer_out.size * width * each, 0)
    return parts


def _facts(
    trained: TrainedRun,
    vocabularies: Vocabularies,
    output: Path,
    end: int,
    dtype: torch.dtype,
    tied: bool,
) -> SliceFacts:
    reading, writing = vocabularies.tokenizer_in, vocabularies.tokenizer_out
    both = reading.signature if vocabularies.same else f"{reading.signature}>{writing.signature}"
    return SliceFacts(
        inputs=reading.languages,
        outputs=writing.languages,
        end_of_text=end,
        context=trained.context,
        dtype=str(dtype).removeprefix("torch."),
        shape=replace(trained.shape, tied=tied),
        tokenizer=trained.tokenizer.signature,
        signature=both,
        run=os.path.relpath(trained.path.resolve(), output.resolve()),
        step=trained.step,
        ids=vocabularies.ids,
        row_of_in=None if vocabularies.same else vocabularies.row_of_in,
        row_of_out=None if vocabularies.same else vocabularies.row_of_out,
    )


def _files(
    config: Any, vocabularies: Vocabularies, facts: SliceFacts, end: int
) -> dict[str, bytes]:
    reading = vocabularies.tokenizer_in
    specials = reading.vocabulary.specials
    document: dict[str, Any] = orjson.loads(config.to_json_string())
    # Before transformers 5 it was read here, and silently taken for 10,000 where it is not.
    document["rope_theta"] = float(facts.shape.rope_theta)
    if not vocabularies.same:
        # model_type too: transformers goes by it, and must not take this for a Llama.
        document |= {"architectures": [OUR_ARCHITECTURE], "model_type": "modtok"}
    name = specials[end]
    tokenizer_config = {
        # Not LlamaTokenizer, which transformers would choose by the model type and which
        # cuts text by a pre-tokenizer of its own.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": name,
        "eos_token": name,
        "pad_token": name,
        "add_bos_token": False,
        "add_eos_token": False,
        # Else transformers before 5 gives types of tokens too, which a Llama refuses.
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": facts.context,
    }
    if "<unk>" in specials:
        tokenizer_config["unk_token"] = "<unk>"
    generation = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
    files = {
        "config.json": _json(document),
        "generation_config.json": _json({**generation, "do_sample": False}),
        "tokenizer.json": reading.to_json(),
        "tokenizer_config.json": _json(tokenizer_config),
        NAME: facts.to_json(),
    }
    if not vocabularies.same:
        files[TOKENIZER_OUT] = vocabularies.tokenizer_out.to_json()
    return files


def _json(document: dict[str, Any]) -> bytes:
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS
    return orjson.dumps(document, option=option)
