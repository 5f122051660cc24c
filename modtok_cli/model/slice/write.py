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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors.torch import save_file

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.memory import check_memory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.model.architecture.stored_model import CHAT_TEMPLATE
from modtok_cli.model.generate.backbone import backbone_config, check_range
from modtok_cli.model.hf.derived_card import LOAD
from modtok_cli.model.hf.model_check import warn_of_other_ids
from modtok_cli.model.hf.model_files import WrittenModel, check_output, framed
from modtok_cli.model.kinds import FACTS, RUN, SLICE, model_kind
from modtok_cli.model.slice.run_source import RunSource, find_run, open_run, steps_of
from modtok_cli.model.slice.slice_check import check_run_slice
from modtok_cli.model.slice.slice_directory import (
    TOKENIZER_OUT,
    WEIGHTS,
    SliceFacts,
    read_facts,
)
from modtok_cli.model.source import Chat
from modtok_cli.model.vocabularies import FULL, Side, Vocabularies
from modtok_cli.tokenizer.adopted.file_ids import check_ids
from modtok_cli.tokenizer.model_card import README, Card, readme


@dataclass(frozen=True)
class SliceReport(WrittenModel):
    """A slice, compared with the full model in the same dtype.

    Attributes:
        tokens: tokens of the model and of the slice.
    """

    facts: SliceFacts
    tokens: tuple[int, int]

    @property
    def caption(self) -> str:
        """Signature and step too."""
        return f"{self.output}  (signature {self.facts.signature}, step {self.facts.step:,})"


@dataclass(frozen=True)
class RunPart:
    """The part of a run that a slice has.

    Attributes:
        sides: input and output languages or "full"; no outputs are the inputs.
        append: add these languages to both sides of an existing slice, in place of `sides`.
        origin: the run of that slice, if it has moved.
        tokenizer: modular directory of the run; found by its settings by default.
        step: the checkpoint; by default the slice's or the last one.
        dtype: of the weights; by default the slice's or the dtype of training.
        bos: whether its tokenizer puts the end of text before every text, as training does; by
            default the slice's, or true.
    """

    sides: tuple[Side, Side] = (None, None)
    append: Sequence[str] | None = None
    origin: Path | None = None
    tokenizer: Path | None = None
    step: int | None = None
    dtype: str | None = None
    bos: bool | None = None


def sliced(
    path: Path,
    part: RunPart,
    output: Path,
    *,
    force: bool = False,
    verify: bool = True,
    progress: Progress = SILENT,
) -> SliceReport:
    """Write a part of the run in `path` to `output`, or add languages to the slice in `path`.

    Then `output` may be the slice itself.
    """
    is_extended = part.append is not None
    if not is_extended and model_kind(path) != RUN:
        remedy = "pass a run of modtok pretrain or a directory of a Hugging Face model; "
        raise missing(path, f"{remedy}--append extends a slice", "is not a run")
    if not is_extended and part.sides == (None, None):
        remedy = "as in: modtok slice --langs fr,en -o fr-en/"
        raise UsageError("no languages given", remedy=remedy)
    is_own = is_extended and output.resolve() == path.resolve()
    check_output(output, FACTS, force=force or is_own, kind="slice of a run")
    if is_extended:
        source, part = _extended(path, part, progress)
    else:
        source = open_run(path, tokenizer=part.tokenizer, step=part.step, progress=progress)
    return _write(source, part, output, verify, progress)


def _extended(path: Path, part: RunPart, progress: Progress) -> tuple[RunSource, RunPart]:
    """The run of the slice in `path`, and the slice with the languages of `append` too."""
    if model_kind(path) != SLICE:
        remedy = "--append adds languages to a directory of modtok slice"
        raise missing(path, remedy, "is not a slice")
    facts, run = read_facts(path), part.origin
    place = run or find_run(facts.run, facts.tokenizer, near=path.resolve())
    if place is None or model_kind(place) != RUN:
        what = f"{run} is not a run" if run else f"its run '{facts.run}' was not found"
        raise UsageError(what, where=path, remedy="pass the run with --from")
    step = part.step
    if step is None and not (run and facts.step not in steps_of(run)):
        step = facts.step  # another run that is named has its own last one
    source = open_run(place, tokenizer=part.tokenizer, step=step)
    if source.step != facts.step:
        progress.note(f"all rows are from step {source.step} of {place}")
    what = ""
    if source.tokenizer.signature != facts.tokenizer:
        what = f"tokenizer {facts.tokenizer}, {place} has {source.tokenizer.signature}"
    elif source.step == facts.step and source.fingerprint != facts.weights:
        what = f"other weights than {place} has at step {facts.step}"
    if what:
        raise ModtokError(
            f"was extracted from {what}",
            where=path,
            remedy="pass the right run with --from, or slice again with --langs",
        )
    added = source.side(part.append).languages
    if present := [each for each in added if each in facts.inputs and each in facts.outputs]:
        raise UsageError(f"{path} already has {', '.join(present)}", where="--append")
    reading, writing = (
        FULL if full else tuple(dict.fromkeys((*side, *added)))
        for side, full in (
            (facts.inputs, facts.full_inputs),
            (facts.outputs, facts.full_outputs),
        )
    )
    bos = facts.bos if part.bos is None else part.bos
    return source, replace(part, sides=(reading, writing), dtype=part.dtype or facts.dtype, bos=bos)


def _write(
    source: RunSource, part: RunPart, output: Path, verify: bool, progress: Progress
) -> SliceReport:
    reading, writing = part.sides
    vocabularies = source.vocabularies(reading, writing)
    dtype_name = part.dtype or str(source.dtype).removeprefix("torch.")
    facts = _facts(source, vocabularies, dtype_name, part.bos is not False)
    dtype = getattr(torch, dtype_name)
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
        files = slice_files(facts, vocabularies, sizes, source.chat(vocabularies), output)
        for name, data in files.items():
            (beside / name).write_bytes(data)
        save_file(tensors, beside / WEIGHTS, metadata={"format": "pt"})
        (beside / WEIGHTS).chmod((beside / README).stat().st_mode)  # it writes with mode 600
        if verify and vocabularies.same:
            check_run_slice(source, beside, vocabularies, dtype, progress=progress)
    if vocabularies.same:
        warn_of_other_ids(output, progress)
    tokens = source.tokenizer.size, len(vocabularies.ids)
    return SliceReport(output, sizes, {"signature": facts.signature}, facts, tokens)


def _facts(source: RunSource, vocabularies: Vocabularies, dtype: str, bos: bool) -> SliceFacts:
    reading, writing = vocabularies.tokenizer_in, vocabularies.tokenizer_out
    same, total = vocabularies.same, source.tokenizer.size
    return SliceFacts(
        inputs=reading.languages,
        outputs=writing.languages,
        full_inputs=reading.size == total,
        full_outputs=writing.size == total,
        end_of_text=source.end_of_text(vocabularies),
        context=source.context,
        dtype=dtype,
        shape=replace(source.shape, tied=source.shape.tied and same),
        tokenizer=source.tokenizer.signature,
        signature=reading.signature if same else f"{reading.signature}>{writing.signature}",
        run=source.name,
        step=source.step,
        weights=source.fingerprint,
        bos=bos,
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


OUR_ARCHITECTURE = "ModtokTwoVocabularies"


def slice_files(
    facts: SliceFacts,
    vocabularies: Vocabularies,
    sizes: Mapping[str, tuple[int, int]],
    chat: Chat | None,
    output: Path,
) -> dict[str, bytes]:
    """File name → content.

    Args:
        sizes: part → (bytes of the slice, bytes of the whole model).
        chat: how the run, or the model that it began from, speaks in conversations.
        output: the directory, whose card of the user is kept.
    """
    end = facts.end_of_text
    chat = chat or Chat(None, ())
    begin = end if chat.begin is None else chat.begin
    ends = sorted({end, *chat.ends})
    ids = {"bos_token_id": begin, "eos_token_id": ends if len(ends) > 1 else end}
    files = {
        "config.json": _json(_config(facts, vocabularies) | ids),
        "generation_config.json": _json({**ids, "pad_token_id": end, "do_sample": False}),
        "tokenizer.json": vocabularies.tokenizer_in.to_json(),
        "tokenizer_config.json": _json(_tokenizer_config(facts, vocabularies, chat)),
        FACTS: facts.to_json(),
        README: readme(_model_card(facts, sizes, vocabularies), output),
    }
    if facts.bos:
        before = vocabularies.name_of(end), end
        files["tokenizer.json"] = framed(files["tokenizer.json"], before)
    if chat.template is not None:
        files[CHAT_TEMPLATE] = chat.template.encode()
    check_ids(files["tokenizer.json"], facts.run)
    if not vocabularies.same:
        files[TOKENIZER_OUT] = vocabularies.tokenizer_out.to_json()
    return files


def _config(facts: SliceFacts, vocabularies: Vocabularies) -> dict[str, Any]:
    config = backbone_config(
        facts.shape,
        vocabulary=len(vocabularies.ids),
        context=facts.context,
        end=facts.end_of_text,
        dtype=getattr(torch, facts.dtype),
    )
    document: dict[str, Any] = orjson.loads(config.to_json_string())
    # transformers before version 5 reads these; without them it assumes 10,000 and no scaling.
    scaling = facts.shape.rope_scaling
    document["rope_theta"] = float(facts.shape.rope_theta)
    document["rope_scaling"] = None if scaling is None else scaling.to_hf()
    document["torch_dtype"] = facts.dtype
    if not vocabularies.same:
        # transformers decides by the model type, and must not open this as an ordinary model.
        document |= {"architectures": [OUR_ARCHITECTURE], "model_type": "modtok"}
    return document


def _tokenizer_config(facts: SliceFacts, vocabularies: Vocabularies, chat: Chat) -> dict[str, Any]:
    name = vocabularies.name_of(facts.end_of_text)
    begin, end = (
        name if row is None else vocabularies.name_of(row) for row in (chat.begin, chat.end)
    )
    document = {
        # By the model type transformers would choose LlamaTokenizer, which has a pre-tokenizer of
        # its own.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": begin,
        "eos_token": end,
        "pad_token": name,
        "add_bos_token": facts.bos,
        "add_eos_token": False,
        # transformers before version 5 also returns token types, which a Llama refuses.
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": facts.context,
    }
    if "<unk>" in vocabularies.tokenizer_in.vocabulary.specials:
        document["unk_token"] = "<unk>"
    return document


def _json(document: dict[str, Any]) -> bytes:
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS
    return orjson.dumps(document, option=option)


def _model_card(
    facts: SliceFacts, sizes: Mapping[str, tuple[int, int]], vocabularies: Vocabularies
) -> Card:
    reading, writing = vocabularies.tokenizer_in, vocabularies.tokenizer_out
    end, shape = vocabularies.name_of(facts.end_of_text), facts.shape
    load, after = f'{LOAD}\nids = tokenizer("...", return_tensors="pt")', ""
    if vocabularies.same:
        vocabulary, languages = f"{reading.size:,} tokens", ", ".join(facts.inputs)
        who = "the tokenizer adds it" if facts.bos else "put it before prompts"
        after = f"Every text in training follows `{end}`: {who}."
    else:
        vocabulary = f"input {reading.size:,} tokens, output {writing.size:,}"
        languages = f"input {', '.join(facts.inputs)}; output {', '.join(facts.outputs)}"
        load, after = (
            'modtok generate NAME "..."',
            ("Input and output vocabularies differ, which only modtok runs."),
        )
    chosen = " ".join(
        f"--{side} {'full' if full else ','.join(names)}"
        for side, names, full in (
            ("in", facts.inputs, facts.full_inputs),
            ("out", facts.outputs, facts.full_outputs),
        )
    )
    return Card(
        title=f"A slice for {languages}",
        about="Extracted by modtok from a multilingual model with a modular tokenizer: the whole "
        "backbone, and the embedding rows of these languages only. For these tokens it has the "
        "logits of the whole model. Text in other languages needs more tokens and stays lossless.",
        languages=[*facts.inputs, *facts.outputs],
        loaded_by="transformers" if vocabularies.same else "modtok",
        metadata={"pipeline_tag": "text-generation"},
        tables=[
            (
                ("property", "value"),
                [
                    ("languages", languages),
                    ("vocabulary", vocabulary),
                    (
                        "layers, hidden size, context",
                        f"{shape.layers}, {shape.hidden_size}, {facts.context}",
                    ),
                    ("dtype", facts.dtype),
                    ("run, step, tokenizer", f"{facts.run}, {facts.step:,}, {facts.tokenizer}"),
                ],
            ),
            (("part", "bytes", "whole model"), [(name, *size) for name, size in sizes.items()]),
        ],
        load=load,
        after=after,
        made=f"modtok slice runs/{facts.run} --step {facts.step} {chosen} -o DIR",
        signature=facts.signature,
    )
