"""`modtok eval mt`: few-shot translation, BLEU and chrF++."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.commands.generate import BatchSize, MaxTokens
from modtok_cli.cli.evaluation_output import (
    Examples,
    Infer,
    Limit,
    Shots,
    TaskData,
    check_examples,
    emit_evaluation,
    torch_dtype,
)
from modtok_cli.cli.inference_options import (
    LATEST,
    Dtype,
    Gpus,
    Model,
    RunTokenizer,
    Step,
    require_models,
)
from modtok_cli.cli.options import Json, Plot
from modtok_cli.cli.plotting import check_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.several_processes import sharing

Pairs = Annotated[
    str | None,
    typer.Option(
        "--pairs",
        metavar="FROM-TO,...",
        help="Language pairs such as en-fr, or all; by default, English to each other language.",
    ),
]
Lowercase = Annotated[
    bool,
    typer.Option(
        "--lowercase", help="Compute BLEU and chrF++ on lowercased text, as in the paper."
    ),
]


@command(
    "eval mt",
    keeps=True,
    examples="""
    # the last run on tasks/mt, each pair with the union of its subtokenizers
    modtok eval mt --pairs en-fr,en-fi
    # separate source and target vocabularies; all pairs with the full vocabulary
    modtok eval mt --pairs en-fr --infer "src|tgt"
    modtok eval mt --pairs all --infer full
    # custom parallel text, with one row per translation
    modtok eval mt --pairs en-fr --data news.tsv --examples written.jsonl
    """,
)
def eval_mt(
    session: Session,
    model: Model = LATEST,
    pairs: Pairs = None,
    data: TaskData = Path("tasks"),
    infer: Infer = None,
    shots: Shots = None,
    lowercase: Lowercase = False,
    max_tokens: MaxTokens = 128,
    batch_size: BatchSize = 8,
    limit: Limit = None,
    gpus: Gpus = 1,
    examples: Examples = None,
    step: Step = None,
    tokenizer: RunTokenizer = None,
    dtype: Dtype = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Evaluate few-shot translation by BLEU and chrF++.

    A prompt has five lines "sentence = translation" and the source sentence. The rest of the
    line that the model generates is scored by sacreBLEU. The share of output in the target
    language is reported as well.

    --infer lang, the default, uses the union of both subtokenizers. With src|tgt, source
    sentences are tokenized by the subtokenizer of the source language; target sentences and
    predictions by that of the target language. A slice uses its own vocabularies.

    --data is a directory with FLORES, TSV or line-aligned files, directly or in mt/. Pairs
    without text are reported, and the exit status is 1.
    """
    check_plot(plot)
    check_examples(examples)
    require_models("sacrebleu")
    from modtok_cli.evaluate.generation import TranslationSettings, evaluate_mt

    settings = TranslationSettings(
        infer=infer,
        shots=5 if shots is None else shots,
        max_tokens=max_tokens,
        batch_size=batch_size,
        limit=limit,
        lowercase=lowercase,
    )
    with sharing(session, gpus) as processes:
        evaluation = evaluate_mt(
            model,
            pairs,
            data=data,
            settings=settings,
            tokenizer=tokenizer,
            step=step,
            dtype=torch_dtype(dtype),
            processes=processes,
            progress=processes.only_first(session.progress),
        )
    emit_evaluation(
        session, evaluation, title="Translation", json=json, examples=examples, plot=plot
    )
