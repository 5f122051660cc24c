"""`modtok eval sum`: few-shot summarization under any inference vocabulary, scored by ROUGE.

An example is a document, a line `TL;DR: summary`, and an empty line. The generated text up to the
end of the line is the summary. Shots that do not fit the context are dropped, the first ones
first; a document that does not fit alone is truncated at its end. Both are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.documents import Documents, Summarized
from modtok_cli.evaluate.generation import (
    IN_LANGUAGE,
    GenerationSettings,
    LanguageIdentifier,
    Models,
    Piece,
    Prompt,
    builder_of,
    encode,
    fit,
    languages_to_evaluate,
    open_models,
    output_fields,
    prompt_limit,
    vocabulary_of,
    write,
)
from modtok_cli.evaluate.modes import Infer
from modtok_cli.evaluate.results import Evaluation, example
from modtok_cli.evaluate.rouge import METRICS, scores
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.inference.run.processes import ALONE, Processes

TASK = "sum"
SHOTS = GenerationSettings.shots
_ASK = "\nTL;DR:"
_WORDS = "words"  # the unit of ROUGE, see rouge.words


@dataclass(frozen=True)
class Settings(GenerationSettings):
    """Settings of summarization."""


def evaluate_sum(
    run: Path | Models,
    langs: Sequence[str] | None = None,
    *,
    data: Path,
    settings: Settings | None = None,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    processes: Processes = ALONE,
    progress: Progress = SILENT,
) -> Evaluation:
    """Summarize the documents in `data` and score the summaries.

    `run` is its directory, or models that are open already. `langs` are the languages to
    evaluate, by default all of the run.

    Returns:
        rouge1, rouge2, rougeL and "in language" of each language. Languages without documents are
        in `skipped`.

    Raises:
        UsageError: the run does not support a language or the mode.
        ModtokError: there are no documents, or a row is invalid.
    """
    settings = settings or Settings()
    models = open_models(
        run,
        tokenizer=tokenizer,
        step=step,
        dtype=dtype,
        device=device or processes.device,
        progress=progress,
    )
    source = models.source
    vocabularies: dict[str, Infer] = {}
    for language in languages_to_evaluate(source, langs):
        if language in vocabularies:
            raise UsageError(f"--langs contains {language!r} twice", remedy="remove one")
        vocabularies[language] = vocabulary_of(source, settings.infer, language=language)
    documents = Documents(data)
    evaluation = Evaluation()
    identifier = models.identifier(progress)
    # All files are read before generation starts, so that an invalid row is found immediately.
    texts = {}
    for language in vocabularies:
        if documents.has(language):
            texts[language] = documents.of(language, settings.shots)
        else:
            evaluation.skipped.append(f"no documents in {language} in {documents.path}")
    for language, (shots, tests) in texts.items():
        infer = vocabularies[language]
        found = summarize(
            models.of(infer),
            language,
            shots,
            tests[: settings.limit],
            infer,
            settings,
            identifier,
            processes,
            progress,
        )
        evaluation.results += found.results
        evaluation.examples += found.examples
    return evaluation


def pieces_of(text: Summarized, *, whole: bool) -> list[Piece]:
    """Prompt pieces of an example; up to the summary if `whole` is False."""
    asked = [Piece(f"{text.document}{_ASK}")]
    return [*asked, Piece(f" {text.summary}\n\n", target=True)] if whole else asked


def prompt_of(
    model: SlicedModel, shots: Sequence[Sequence[Piece]], text: Summarized, max_tokens: int
) -> Prompt:
    """Prompt of a document; a document that does not fit alone is truncated at its end."""
    found = fit(model, shots, pieces_of(text, whole=False), max_tokens=max_tokens, crossed=False)
    if not found.cut:
        return found
    limit, rows = prompt_limit(model, max_tokens), found.rows
    low, high = 0, len(text.document)  # characters: `low` fits, `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        tried = encode(model, [Piece(f"{text.document[:middle]}{_ASK}")], crossed=False)
        if len(tried) <= limit:
            low, rows = middle, tuple(tried)
        else:
            high = middle
    return Prompt(rows, 0, cut=True)


def summarize(
    model: SlicedModel,
    language: str,
    shots: Sequence[Summarized],
    tests: Sequence[Summarized],
    infer: Infer,
    settings: Settings,
    identifier: LanguageIdentifier,
    processes: Processes = ALONE,
    progress: Progress = SILENT,
) -> Evaluation:
    """Summarize and score the documents of one language, see `evaluate_sum`."""
    shown = [pieces_of(shot, whole=True) for shot in shots]
    prompts = [prompt_of(model, shown, test, settings.max_tokens) for test in tests]
    texts = write(
        model,
        prompts,
        max_tokens=settings.max_tokens,
        batch_size=settings.batch_size,
        processes=processes,
        label=language,
        progress=progress,
    )
    written = identifier.in_language(language, [text.text for text in texts])
    found: list[dict[str, float]] = []
    for index, test in enumerate(tests):
        extra = {} if written is None else {IN_LANGUAGE: written[index]}
        found.append({**scores(test.summary, texts[index].text), **extra})
    texts_read = (part for each in (*shots, *tests) for part in (each.document, each.summary))
    builder = builder_of(
        TASK, language, model, infer, settings, texts_read, prompts, texts, progress
    )
    for metric in found[0]:
        normalization = _WORDS if metric in METRICS else "none"
        builder.add_mean(metric, [row[metric] for row in found], normalization=normalization)
    examples = [
        example(
            TASK,
            language,
            test.name,
            found[index],
            reference=test.summary,
            **output_fields(prompts[index], texts[index], builder.infer),
        )
        for index, test in enumerate(tests)
    ]
    return Evaluation(builder.results, examples)
