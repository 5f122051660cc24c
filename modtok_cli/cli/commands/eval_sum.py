"""`modtok eval sum`: few-shot summarization, ROUGE."""

from __future__ import annotations

from pathlib import Path

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
from modtok_cli.cli.options import Json, Langs, Plot
from modtok_cli.cli.plotting import check_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.several_processes import sharing
from modtok_cli.text.languages import optional_languages


@command(
    "eval sum",
    keeps=True,
    examples="""
    # the last run on tasks/sum, each language with its own subtokenizer
    modtok eval sum --langs fr
    # full input vocabulary, output over the vocabulary of the language
    modtok eval sum --langs fr,en --infer full-lang
    # a slice on other documents, with one row per summary
    modtok eval sum fr-en/ --data wikilingua --examples summaries.jsonl
    """,
)
def eval_sum(
    session: Session,
    model: Model = LATEST,
    langs: Langs = None,
    data: TaskData = Path("tasks"),
    infer: Infer = None,
    shots: Shots = None,
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
    """Evaluate few-shot summarization by ROUGE in any script.

    A prompt has five documents, each followed by a line "TL;DR: summary", and the document to
    summarize. The line that the model generates is scored. Shots that do not fit into the
    context are dropped, the first ones first; the rows have the number of shots used.

    --data is a directory with LANG.jsonl and, for shots, LANG.train.jsonl, directly or in
    sum/. Languages without documents are reported, and the exit status is 1.
    """
    languages = optional_languages(langs)
    check_plot(plot)
    check_examples(examples)
    require_models()
    from modtok_cli.evaluate.generation import GenerationSettings, evaluate_sum

    settings = GenerationSettings(
        infer=infer,
        shots=5 if shots is None else shots,
        max_tokens=max_tokens,
        batch_size=batch_size,
        limit=limit,
    )
    with sharing(session, gpus) as processes:
        evaluation = evaluate_sum(
            model,
            languages,
            data=data,
            settings=settings,
            tokenizer=tokenizer,
            step=step,
            dtype=torch_dtype(dtype),
            processes=processes,
            progress=processes.only_first(session.progress),
        )
    emit_evaluation(
        session, evaluation, title="Summarization", json=json, examples=examples, plot=plot
    )
