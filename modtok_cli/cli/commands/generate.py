"""`modtok generate`: continue prompts, on the terminal or as JSON lines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import is_there, standard_input
from modtok_cli.base.hub import is_hub_name, local_path
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import is_path, optional_path
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models, sharing
from modtok_cli.cli.output import emit_chunks
from modtok_cli.cli.session import stdin_holds_data
from modtok_cli.model.generate.generate import (
    Generator,
    Prompt,
    answer_all,
    generate,
    read_prompts,
)
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.generate.worker_processes import Processes
from modtok_cli.model.kinds import model_kind
from modtok_cli.model.parameters import LATEST, Gpus
from modtok_cli.model.vocabularies import sides

ModelOrPrompt = Annotated[
    str | None,
    Option(
        "Run, slice or Hugging Face model (directory or name on the hub); runs/latest by default: "
        "a single argument that is not a directory is the prompt.",
        argument=True,
        metavar="MODEL",
        accepts=(is_path, "a model or a prompt"),
        kind_of=lambda path, _: model_kind(Path(path)),
    ),
]
PromptText = Annotated[
    str | None,
    Option(
        "Text to continue; without it or with -, reads JSON lines from stdin.",
        argument=True,
        metavar="PROMPT",
    ),
]
BatchSize = Annotated[
    int, Option("Number of sequences per batch. A prompt is one.", metavar="N", low=1)
]


@command(
    "generate",
    generate,
    tables=False,
    examples="""
    # continue a text with the French subtokenizer of the last run
    modtok generate --langs fr "Il était une fois"
    # choose the subtokenizer by the prompt, and sample
    modtok generate --langs auto --temperature 0.8 --top-p 0.95 "Olipa kerran"
    # English input vocabulary, French output vocabulary
    modtok generate --in en --out fr "The cat sleeps. "
    # many prompts, with a slice
    modtok generate fr-en/ < prompts.jsonl > answers.jsonl
    # eight GPUs share the prompts
    modtok generate --gpus 8 < prompts.jsonl > answers.jsonl
    """,
)
def show(
    call: Call,
    model: ModelOrPrompt = None,
    prompt: PromptText = None,
    batch_size: BatchSize = 8,
    gpus: Gpus = 1,
    json: Json = False,
) -> None:
    """Without PROMPT, reads one JSON object per line from standard input, with "prompt" and
    optionally "languages". Results are JSON lines in the same order.
    """
    only = model if prompt is None else None
    if only and not (
        only.endswith("/")
        or (is_there(only) and Path(only).is_dir())
        or (is_hub_name(only) and stdin_holds_data())
    ):
        model, prompt = None, only
    model = local_path(model, "model", call.progress) if model else LATEST
    if prompt == "-":
        prompt = None
    elif prompt is None and not stdin_holds_data():
        raise UsageError("no prompt given", remedy='as in: modtok generate --langs fr "Il était"')
    inputs, outputs = sides(*(call.value(name) for name in ("languages", "inputs", "outputs")))
    require_models()
    call.leave_out_unused({"model": model})
    options = SamplingOptions(
        call.value("max_tokens"),
        call.value("temperature"),
        call.value("top_p"),
        call.value("min_p"),
        tuple(call.value("stop")),
        call.value("seed"),
    )
    if prompt is not None and gpus > 1:
        if "gpus" in call.explicit:
            raise UsageError("one prompt is not shared", where="--gpus", remedy="leave it out")
        gpus = 1
    with sharing(call, gpus, reads_input=True) as processes:
        generator = Generator(
            Path(model),
            inputs,
            outputs,
            tokenizer=optional_path(call.value("tokenizer")),
            step=call.value("step"),
            references=optional_path(call.value("references")),
            device=processes.device,
            progress=processes.only_first(call.progress),
        )
        if prompt is not None:
            _answer_one(call, generator, options, prompt, json)
            return
        rows = answer_all(
            generator,
            read_prompts(standard_input()),
            options,
            batch=batch_size,
            processes=processes,
        )
        emit_chunks(_lines(rows, processes))


def _lines(rows: Iterator[dict[str, Any]], processes: Processes) -> Iterator[bytes]:
    """Yield rows as JSON lines, of the first process only."""
    for row in rows:
        if processes.first:
            yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _answer_one(
    call: Call, generator: Generator, options: SamplingOptions, prompt: str, json: bool
) -> None:
    def emit(_: int, text: str) -> None:
        emit_chunks([text.encode()])

    row = generator.answer([Prompt(prompt)], options, None if json else emit)[0]
    if json:
        emit_chunks([orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)])
    else:
        emit(0, "\n")
    call.say(_summary(row))


def _summary(row: dict[str, Any]) -> str:
    """Return one line about the result.

    >>> row = {"languages": ["fr"], "output_languages": ["fr"], "routed": True, "lead": 12.5}
    >>> _summary(row | {"tokens": 7, "prompt_tokens": 4, "reason": "end"})
    'fr (identified, by a margin of 12.5 bits); 4 prompt tokens, 7 new tokens, stopped by end'
    """
    text = ",".join(row["languages"]) or "the model's vocabulary"
    if row["output_languages"] != row["languages"]:
        text += f" to {','.join(row['output_languages'])}"
    if row["routed"]:
        text += f" (identified, by a margin of {row['lead']:g} bits)"
    text += f"; {row['prompt_tokens']:,} prompt tokens, {row['tokens']:,} new tokens, "
    text += f"stopped by {row['reason']}"
    if "looks_like" in row:
        text += (
            f"; the prompt looks like {row['looks_like']}, which needs {row['own_tokens']:,} "
            "prompt tokens with its own subtokenizer"
        )
    return text
