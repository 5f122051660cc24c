"""`modtok eval mt`: parallel text → BLEU, chrF++ and the share in the right language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.commands.generate import BatchSize, Most
from modtok_cli.cli.evaluation_output import (
    Examples,
    Infer,
    Limit,
    Shots,
    TaskData,
    check_examples,
    emit_evaluation,
    require_evaluation,
    torch_dtype,
)
from modtok_cli.cli.inference_options import LATEST, Dtype, Run, RunTokenizer, Step
from modtok_cli.cli.options import Json, Plot
from modtok_cli.cli.plotting import check_plot
from modtok_cli.cli.session import Session

Pairs = Annotated[
    str | None,
    typer.Option(
        "--pairs",
        metavar="FROM-TO,...",
        help="Pairs as en-fr, or all; by default English into every other language.",
    ),
]
Lowercase = Annotated[
    bool, typer.Option("--lowercase", help="Ignore case in BLEU and chrF++, as the paper.")
]


@command(
    "eval mt",
    examples="""
    # the last run on tasks/mt, each pair by its two subtokenizers together
    modtok eval mt --pairs en-fr,en-fi
    # the paper's crossed vocabulary, and every pair by the whole one
    modtok eval mt --pairs en-fr --infer "src|tgt"
    modtok eval mt --pairs all --infer full
    # a text of one's own, keeping what was written
    modtok eval mt --pairs en-fr --data news.tsv --examples written.jsonl
    """,
)
def eval_mt(
    session: Session,
    pairs: Pairs = None,
    run: Run = LATEST,
    data: TaskData = Path("tasks"),
    infer: Infer = None,
    shots: Shots = None,
    lowercase: Lowercase = False,
    max_tokens: Most = 128,
    batch_size: BatchSize = 8,
    limit: Limit = None,
    examples: Examples = None,
    step: Step = None,
    tokenizer: RunTokenizer = None,
    dtype: Dtype = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Translate few-shot and score by BLEU and chrF++.

    A prompt is five lines "sentence = translation" and the sentence; the rest of the line is
    what is scored, by sacreBLEU. Beside it stands how much was written in the target
    language at all.

    --infer lang, the default, is the union of both subtokenizers. Under src|tgt source sides
    are cut by the source's subtokenizer and target sides, predictions too, by the target's.
    A slice keeps the vocabularies it was cut for.

    --data holds parallel text as FLORES, as TSV, or in line-aligned files, also in its mt/.
    Pairs without text are named, and the exit status is 1.
    """
    check_plot(plot)
    check_examples(examples)
    require_evaluation("sacrebleu")
    from modtok_cli.evaluate.translation import SHOTS, Settings, evaluate_mt

    settings = Settings(
        infer=infer,
        shots=SHOTS if shots is None else shots,
        most=max_tokens,
        batch=batch_size,
        limit=limit,
        lowercase=lowercase,
    )
    evaluation = evaluate_mt(
        Path(run),
        pairs,
        data=data,
        settings=settings,
        tokenizer=tokenizer,
        step=step,
        dtype=torch_dtype(dtype),
        progress=session.progress,
    )
    emit_evaluation(
        session, evaluation, title="Translation", json=json, examples=examples, plot=plot
    )
