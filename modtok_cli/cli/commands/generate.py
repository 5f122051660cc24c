"""`modtok generate`: continue prompts, on the terminal or as JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import standard_input
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import (
    LATEST,
    Gpus,
    In,
    Out,
    RunTokenizer,
    Step,
    require_models,
    sides,
)
from modtok_cli.cli.options import Json, Langs, References
from modtok_cli.cli.output import emit_text
from modtok_cli.cli.session import Session, stdin_holds_data
from modtok_cli.cli.several_processes import sharing

if TYPE_CHECKING:
    from modtok_cli.inference.run.generate import Generator
    from modtok_cli.inference.run.processes import Processes
    from modtok_cli.inference.run.sampling import SamplingOptions

ModelOrPrompt = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        help="Run, slice or directory of a Hugging Face model. A single argument that is not a "
        "directory is the prompt of runs/latest.",
    ),
]
PromptText = Annotated[
    str | None,
    typer.Argument(
        metavar="PROMPT", help="Text to continue; without it, reads JSON lines from stdin."
    ),
]
MaxTokens = Annotated[
    int, typer.Option("--max-tokens", metavar="N", min=1, help="Maximum number of new tokens.")
]
Temperature = Annotated[
    float,
    typer.Option("--temperature", metavar="T", min=0, help="Sampling temperature; 0 is greedy."),
]
TopP = Annotated[
    float,
    typer.Option(
        "--top-p",
        metavar="P",
        min=0,
        max=1,
        help="Sample from the most probable tokens with total probability P.",
    ),
]
MinP = Annotated[
    float,
    typer.Option(
        "--min-p",
        metavar="P",
        min=0,
        max=1,
        help="Sample from tokens with at least P times the highest probability.",
    ),
]
Stop = Annotated[
    list[str] | None,
    typer.Option("--stop", metavar="TEXT", help="Stop before this text. Repeatable."),
]
DrawSeed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Random seed.")]
BatchSize = Annotated[
    int, typer.Option("--batch-size", metavar="N", min=1, help="Number of prompts per batch.")
]


@command(
    "generate",
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
def generate(
    session: Session,
    model: ModelOrPrompt = None,
    prompt: PromptText = None,
    langs: Langs = None,
    reading: In = None,
    writing: Out = None,
    max_tokens: MaxTokens = 128,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    stop: Stop = None,
    seed: DrawSeed = 0,
    batch_size: BatchSize = 8,
    gpus: Gpus = 1,
    step: Step = None,
    tokenizer: RunTokenizer = None,
    references: References = None,
    json: Json = False,
) -> None:
    """Continue a text with a trained model.

    Uses the subtokenizer of --langs, or those of --in and --out.

    --langs auto identifies the language of each prompt with the monolingual references of the
    tokenizer; an ambiguous prompt gets the union of the candidates. Without --langs, the full
    vocabulary is used; for a slice, its own.

    A Hugging Face model has one vocabulary, and no --langs.

    Without PROMPT, reads one JSON object per line from standard input, with "prompt" and
    optionally "langs". Results are JSON lines in the same order.
    """
    if model is not None and prompt is None and not (model.endswith("/") or Path(model).is_dir()):
        model, prompt = None, model
    if prompt is None and not stdin_holds_data():
        raise UsageError("no prompt given", remedy='as in: modtok generate --langs fr "Il était"')
    inputs, outputs = sides(langs, reading, writing)
    require_models()
    from modtok_cli.inference.run.generate import Generator
    from modtok_cli.inference.run.sampling import SamplingOptions

    options = SamplingOptions(
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        min_p=min_p,
        stop=tuple(stop or ()),
        seed=seed,
    )
    if prompt is not None and gpus > 1:
        if "gpus" in session.explicit:
            raise UsageError("one prompt is not shared", where="--gpus", remedy="leave it out")
        gpus = 1
    with sharing(session, gpus, reads_input=True) as processes:
        generator = Generator(
            LATEST if model is None else Path(model),
            inputs,
            outputs,
            tokenizer=tokenizer,
            step=step,
            references=references,
            device=processes.device,
            progress=processes.only_first(session.progress),
        )
        if prompt is None:
            _answer_lines(generator, options, batch_size, processes)
        else:
            _answer_one(session, generator, options, prompt, json)


def _answer_lines(
    generator: Generator, options: SamplingOptions, batch_size: int, processes: Processes
) -> None:
    import orjson

    from modtok_cli.inference.run.generate import answer_all, read_prompts

    prompts = read_prompts(standard_input())
    rows = answer_all(generator, prompts, options, batch=batch_size, processes=processes)
    if not processes.first:
        for _ in rows:
            pass
        return
    emit_text(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _answer_one(
    session: Session, generator: Generator, options: SamplingOptions, prompt: str, json: bool
) -> None:
    import orjson

    from modtok_cli.inference.run.generate import Prompt

    def show(_: int, text: str) -> None:
        emit_text([text.encode()])

    row = generator.answer([Prompt(prompt)], options, None if json else show)[0]
    if json:
        emit_text([orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)])
    else:
        show(0, "\n")
    session.say(_summary(row))


def _summary(row: dict[str, Any]) -> str:
    """One line about the result.

    >>> row = {"langs": ["fr"], "output_langs": ["fr"], "routed": True, "lead": 12.5}
    >>> _summary(row | {"tokens": 7, "prompt_tokens": 4, "reason": "end"})
    'fr (identified, by a margin of 12.5 bits); 4 prompt tokens, 7 new tokens, stopped by end'
    """
    text = ",".join(row["langs"]) or "the model's vocabulary"
    if row["output_langs"] != row["langs"]:
        text += f" to {','.join(row['output_langs'])}"
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
