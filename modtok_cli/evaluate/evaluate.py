"""The functions behind `modtok eval`; they import torch when they are called."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from modtok_cli.base import parameters
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.option import Option, option_of
from modtok_cli.base.progress import SILENT
from modtok_cli.base.public import public
from modtok_cli.evaluate.parameters import (
    EvaluationOptions,
    MaxTokens,
    ModelPaths,
    Pairs,
    Prompts,
    Shots,
    TaskData,
    Tasks,
)
from modtok_cli.model.parameters import LATEST
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

_QUESTIONS = f"{option_of(TaskData).help} Its mcq/TASK/LANG.jsonl are read instead of the hub."

if TYPE_CHECKING:
    from modtok_cli.evaluate.bits import BitsEvaluation
    from modtok_cli.evaluate.models import Models
    from modtok_cli.evaluate.results import Evaluation, Outcome


def _turns(
    models: parameters.FilePath | Sequence[parameters.FilePath],
    found: Outcome,
    how: EvaluationOptions,
) -> Iterator[tuple[Callable[[], Models], str | None, AbstractContextManager[None]]]:
    """Yield every model under every mode: a function that opens it, the mode, and a context.

    An error in the context ends one turn, and is noted with the reason in `found.skipped`.

    Raises:
        ModtokError: every turn ended with an error.
    """
    from modtok_cli.evaluate.models import open_models
    from modtok_cli.evaluate.modes import modes_of

    given = [models] if isinstance(models, str | os.PathLike) else list(models)
    turns = list(product(given or [LATEST], modes_of(how.get("infer"))))
    opening = {name: how.get(name) for name in ("tokenizer", "step", "dtype", "processes")}
    errors: list[ModtokError] = []
    cache: dict[parameters.FilePath, Models] = {}

    def opened(path: parameters.FilePath) -> Models:
        if path not in cache:
            cache.clear()  # one model is in memory at a time
            progress = how.get("progress", SILENT)
            cache[path] = open_models(path, progress=progress, **opening)  # type: ignore[arg-type]
        return cache[path]

    @contextmanager
    def noting(name: str) -> Iterator[None]:
        try:
            yield
        except ModtokError as error:
            errors.append(error)
            found.skipped.append(f"{name}: {error}")

    for path, mode in turns:
        name = f"{path}" if mode is None else f"{path} --infer {mode}"
        yield partial(opened, path), mode, noting(name)
    if len(errors) == len(turns):
        raise errors[0]


@public
def evaluate_bpb(
    models: Annotated[
        parameters.FilePath | Sequence[parameters.FilePath],
        Option(
            "Runs, checkpoints, slices, or Hugging Face models.",
            python_only=True,
            kind=list[str],
            accepts=parameters.PATHS,
        ),
    ],
    texts: Annotated[
        parameters.FilePath | Sequence[parameters.FilePath],
        Option("Files or directories.", python_only=True, kind=list[str], accepts=parameters.PATHS),
    ],
    *,
    language: parameters.Lang = None,
    languages: parameters.Langs = None,
    batch_size: Annotated[
        int, Option("Number of sequences per batch. A window of text is one.", metavar="N", low=1)
    ] = 8,
    reading: Reading = Reading(),
    **how: Unpack[EvaluationOptions],
) -> BitsEvaluation:
    """Measure bits per byte and per character of texts.

    Compare subtokenizers, inference modes and runs on the same text only. A line of a text file is
    a document and is predicted from its start, as in training; a document longer than the context
    is predicted in windows.

    Texts outside of `languages` or of the languages of the mode are skipped with a warning. A
    Hugging Face model has no modes: it predicts over its vocabulary, after the token that begins a
    text, in windows of 2,048 tokens at most.

    If more than 1% of a text are unknown tokens, the row has no bits: unknown tokens hide text.

    Returns:
        `rows`, one per text and language: `bits_per_byte` with its 95% interval (`low`, `high`;
        None for a single document), `bits_per_character`, `bits_per_token`, `unknown_tokens`,
        sizes and a signature; and `examples`, one per document.

    Examples:
        >>> found = modtok.evaluate_bpb("runs/latest", "parallel/fr.txt", infer="full", limit=2)
        >>> row = found.rows[0]
        >>> row["language"], row["low"] < row["bits_per_byte"] < row["high"]
        ('fr', True)

    Raises:
        UsageError: a mode that does not fit the model.
        ModtokError: a text is missing or damaged, or no text is in a language of the model.
    """
    from modtok_cli.evaluate.bits import BitsEvaluation, BitsSettings, measure_texts
    from modtok_cli.evaluate.results import Kept
    from modtok_cli.measure.texts import check_texts

    sources, langs = parameters.text_paths(texts), optional_languages(languages)
    check_texts(sources)

    found, kept = BitsEvaluation(), how.get("kept") or Kept()
    for opened, mode, turn in _turns(models, found, how):
        settings = BitsSettings(mode, batch_size, how.get("limit"), langs)
        with turn:
            found.extend(measure_texts(opened(), sources, language, reading, settings, kept))
    return found


@public
def evaluate_mcq(
    models: ModelPaths = (),
    languages: parameters.Langs = None,
    *,
    tasks: Tasks = None,
    data: Annotated[parameters.FilePath | None, option_of(TaskData, help=_QUESTIONS)] = "tasks",
    shots: Annotated[
        int | None,
        Option("Number of few-shot examples. Default: by task.", metavar="N", low=0),
    ] = None,
    batch_size: Annotated[
        int, Option("Number of sequences per batch. A choice is one.", metavar="N", low=1)
    ] = 32,
    include: Annotated[
        parameters.FilePath | None,
        Option(
            "Directory with additional lm-eval tasks.",
            metavar="DIR",
        ),
    ] = None,
    allow_code: Annotated[
        bool,
        Option(
            "Load tasks of --include that contain code (!function).",
        ),
    ] = False,
    **how: Unpack[EvaluationOptions],
) -> Evaluation:
    """Evaluate on multiple-choice questions in cloze form.

    English: ARC, HellaSwag, MMLU, BeleBele, CSQA, PIQA, SIQA. Other languages: translations of
    the first four. 5 shots (HellaSwag and BeleBele: 0); accuracy under the normalization of
    each task. XNLI, XCOPA, XStoryCloze and Global MMLU are not part of the mean.

    Returns:
        `results` (accuracy with its 95% interval per task and language, and a signature),
        `examples` (one row per question), and `skipped` (what could not be evaluated, and why).
        Without `data`, questions are read from the hub.

    Examples:
        >>> evaluation = modtok.evaluate_mcq("runs/latest", "fi", tasks=["endings"], limit=2)
        >>> [(result.task, result.language, result.n) for result in evaluation.results]
        [('endings', 'fi', 2)]

    Raises:
        UsageError: a task, language or mode that does not fit the model.
        ModtokError: no questions at all, or a damaged row.
    """
    from modtok_cli.evaluate.mcq import answer
    from modtok_cli.evaluate.questions import McqSettings
    from modtok_cli.evaluate.results import Evaluation, Kept

    names, langs = optional_languages(tasks, "--tasks"), optional_languages(languages)
    chosen = None if names is None else tuple(names)
    places = parameters.optional_path(data), parameters.optional_path(include)

    found, kept = Evaluation(), how.get("kept") or Kept()
    for opened, mode, turn in _turns(models, found, how):
        settings = McqSettings(mode, chosen, shots, batch_size, how.get("limit"), allow_code)
        with turn:
            found.extend(answer(opened(), langs, *places, settings, kept))
    return found


@public
def evaluate_mt(
    models: ModelPaths = (),
    pairs: Pairs = None,
    *,
    data: TaskData = "tasks",
    columns: Annotated[
        parameters.Languages | None,
        parameters.languages_option(
            "Languages of the columns of TSV without a header.", "--columns"
        ),
    ] = None,
    shots: Shots = 5,
    lowercase: Annotated[
        bool, Option("Compute BLEU and chrF++ on lowercased text, as in the paper.")
    ] = False,
    max_tokens: MaxTokens = 128,
    batch_size: Prompts = 8,
    **how: Unpack[EvaluationOptions],
) -> Evaluation:
    """Evaluate few-shot translation by BLEU and chrF++.

    A prompt has five lines "sentence = translation" and the source sentence. The rest of the
    line that the model generates is scored by sacreBLEU. The share of output in the target
    language is reported as well.

    `infer` lang, the default, uses the union of both subtokenizers. With src|tgt, source
    sentences are tokenized by the subtokenizer of the source language; target sentences and
    predictions by the subtokenizer of the target. A slice uses its own vocabularies.

    `data` is a directory with FLORES, TSV, JSON lines or line-aligned files, directly or in mt/,
    or one such file of several languages.

    Returns:
        As `evaluate_mcq`, with BLEU, chrF++ and the share of outputs in the target language.

    Examples:
        >>> evaluation = modtok.evaluate_mt("runs/latest", "en-fr", max_tokens=2, limit=1, shots=1)
        >>> [result.metric for result in evaluation.results]
        ['BLEU', 'chrF++', 'in language']

    Raises:
        UsageError: a pair or a mode that does not fit the model.
        ModtokError: no parallel text, or it is damaged.
    """
    from modtok_cli.evaluate.generation import TranslationSettings, translate
    from modtok_cli.evaluate.results import Evaluation, Kept

    found, kept, limit = Evaluation(), how.get("kept") or Kept(), how.get("limit")
    named = tuple(optional_languages(columns, "--columns") or ())
    for opened, mode, turn in _turns(models, found, how):
        settings = TranslationSettings(mode, shots, max_tokens, batch_size, limit, lowercase, named)
        with turn:
            found.extend(translate(opened(), pairs, Path(data), settings, kept))
    return found


@public
def evaluate_sum(
    models: ModelPaths = (),
    languages: parameters.Langs = None,
    *,
    data: TaskData = "tasks",
    shots: Shots = 5,
    max_tokens: MaxTokens = 128,
    batch_size: Prompts = 8,
    **how: Unpack[EvaluationOptions],
) -> Evaluation:
    """Evaluate few-shot summarization by ROUGE in any script.

    A prompt has five documents, each followed by a line "TL;DR: summary", and the document to
    summarize. The line that the model generates is scored. Shots that do not fit into the
    context are dropped, the first ones first; the rows have the number of shots used.

    `data` is a directory with LANG.jsonl and, for shots, LANG.train.jsonl, directly or in sum/.

    Returns:
        As `evaluate_mcq`, with rouge1, rouge2, rougeL and the share of outputs in the language.

    Examples:
        >>> evaluation = modtok.evaluate_sum("runs/latest", "fr", max_tokens=2, limit=1, shots=0)
        >>> [result.metric for result in evaluation.results]
        ['rouge1', 'rouge2', 'rougeL', 'in language']

    Raises:
        UsageError: a language or a mode that does not fit the model.
        ModtokError: no documents, or a damaged row.
    """
    from modtok_cli.evaluate.generation import GenerationSettings, summarize
    from modtok_cli.evaluate.results import Evaluation, Kept

    langs = optional_languages(languages)
    found, kept = Evaluation(), how.get("kept") or Kept()
    for opened, mode, turn in _turns(models, found, how):
        settings = GenerationSettings(mode, shots, max_tokens, batch_size, how.get("limit"))
        with turn:
            found.extend(summarize(opened(), langs, Path(data), settings, kept))
    return found
