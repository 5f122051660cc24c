"""`modtok generate`: prompts to text, on the terminal or as JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import (
    LATEST,
    In,
    Out,
    Run,
    RunTokenizer,
    Step,
    require_models,
    sides,
)
from modtok_cli.cli.options import Json, Langs, References
from modtok_cli.cli.output import emit_chunks
from modtok_cli.cli.session import Session, stdin_holds_data

if TYPE_CHECKING:
    from modtok_cli.inference.generate import Generator
    from modtok_cli.inference.sampling import Options

PromptText = Annotated[
    str | None,
    typer.Argument(metavar="PROMPT", help="Text to continue; without it, JSON lines on stdin."),
]
Most = Annotated[
    int, typer.Option("--max-tokens", metavar="N", min=1, help="Tokens to write at the most.")
]
Temperature = Annotated[
    float, typer.Option("--temperature", metavar="T", min=0, help="0 is greedy, 1 as trained.")
]
TopP = Annotated[
    float,
    typer.Option(
        "--top-p", metavar="P", min=0, max=1, help="Draw among the best tokens of mass P."
    ),
]
MinP = Annotated[
    float,
    typer.Option(
        "--min-p", metavar="P", min=0, max=1, help="Draw among tokens of P times the best's mass."
    ),
]
Stop = Annotated[
    list[str] | None,
    typer.Option("--stop", metavar="TEXT", help="Stop before this. May be given several times."),
]
DrawSeed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of all draws.")]
BatchSize = Annotated[
    int, typer.Option("--batch-size", metavar="N", min=1, help="Number of prompts in a batch.")
]


@command(
    "generate",
    examples="""
    # continue a text by the French subtokenizer of the last run
    modtok generate --langs fr "Il était une fois"
    # let the prompt decide, and draw
    modtok generate --langs auto --temperature 0.8 --top-p 0.95 "Olipa kerran"
    # read English, write French
    modtok generate --in en --out fr "The cat sleeps. "
    # many prompts from a slice
    modtok generate --run fr-en/ < prompts.jsonl > answers.jsonl
    """,
)
def generate(
    session: Session,
    prompt: PromptText = None,
    run: Run = LATEST,
    langs: Langs = None,
    reading: In = None,
    writing: Out = None,
    max_tokens: Most = 128,
    temperature: Temperature = 0.0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    stop: Stop = None,
    seed: DrawSeed = 0,
    batch_size: BatchSize = 8,
    step: Step = None,
    tokenizer: RunTokenizer = None,
    references: References = None,
    json: Json = False,
) -> None:
    """Continue a text with a trained model.

    It is read and written by the subtokenizer of --langs, or of --in and --out.

    --langs auto finds the language of each prompt by the tokenizer's monolingual
    references; a prompt that leaves doubt gets the union of what it may be. Without
    --langs the whole vocabulary is used, of a slice its own.

    Without PROMPT, standard input holds a JSON object a line with "prompt", and "langs"
    where it differs; the answers are JSON lines in the same order.
    """
    if prompt is None and not stdin_holds_data():
        raise UsageError("no prompt", remedy='as in: modtok generate --langs fr "Il était"')
    inputs, outputs = sides(langs, reading, writing)
    require_models()
    from modtok_cli.inference.generate import Generator
    from modtok_cli.inference.sampling import Options

    options = Options(
        most=max_tokens,
        temperature=temperature,
        top_p=top_p,
        min_p=min_p,
        stop=tuple(stop or ()),
        seed=seed,
    )
    generator = Generator(
        Path(run),
        inputs,
        outputs,
        tokenizer=tokenizer,
        step=step,
        references=references,
        progress=session.progress,
    )
    if prompt is None:
        _answer_lines(generator, options, batch_size)
    else:
        _answer_one(session, generator, options, prompt, json)


def _answer_lines(generator: Generator, options: Options, batch_size: int) -> None:
    import orjson

    from modtok_cli.inference.generate import answer_all, read_prompts

    rows = answer_all(generator, read_prompts(sys.stdin.buffer), options, batch=batch_size)
    emit_chunks(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _answer_one(
    session: Session, generator: Generator, options: Options, prompt: str, json: bool
) -> None:
    import orjson

    from modtok_cli.inference.generate import Prompt

    def show(_: int, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    row = generator.answer([Prompt(prompt)], options, None if json else show)[0]
    if json:
        emit_chunks([orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)])
    else:
        show(0, "\n")
    session.say(_told(row))


def _told(row: dict[str, Any]) -> str:
    """What was done, in a line.

    >>> _told({"langs": ["fr"], "output_langs": ["fr"], "routed": True, "lead": 12.5, "tokens": 7,
    ...        "prompt_tokens": 4, "reason": "end"})
    'fr (chosen by the prompt, ahead by 12.5 bits); 4 tokens read, 7 written, ended by end'
    """
    told = ",".join(row["langs"])
    if row["output_langs"] != row["langs"]:
        told += f" to {','.join(row['output_langs'])}"
    if row["routed"]:
        told += f" (chosen by the prompt, ahead by {row['lead']:g} bits)"
    told += f"; {row['prompt_tokens']:,} tokens read, {row['tokens']:,} written, "
    told += f"ended by {row['reason']}"
    if "looks_like" in row:
        told += (
            f"; the prompt looks like {row['looks_like']}, whose own subtokenizer would read it in "
            f"{row['own_tokens']:,}"
        )
    return told
