"""`modtok eval sum`: few-shot summaries under any inference vocabulary, scored by ROUGE.

An example is its document, a line `TL;DR: summary`, and an empty line. What the model writes
up to the end of the line is its summary. Shots that do not fit the context are left out, the
farthest first; a document that does not fit alone loses its end. Both are counted.
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
    encode,
    fit,
    kept_of,
    languages_of,
    room,
    sheet_of,
    vocabulary_of,
    write,
)
from modtok_cli.evaluate.modes import Infer
from modtok_cli.evaluate.results import Evaluation, example
from modtok_cli.evaluate.rouge import METRICS, scores
from modtok_cli.inference.model import SlicedModel
from modtok_cli.inference.sources import open_source

TASK = "sum"
SHOTS = GenerationSettings.shots
_ASK = "\nTL;DR:"
_WORDS = "words"  # what ROUGE compares: see rouge.words


@dataclass(frozen=True)
class Settings(GenerationSettings):
    """How to summarize."""


def evaluate_sum(
    run: Path,
    langs: Sequence[str] | None = None,
    *,
    data: Path,
    settings: Settings | None = None,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    progress: Progress = SILENT,
) -> Evaluation:
    """Summarize the documents at `data` and score the summaries; see `modtok eval sum`.

    `langs`: languages to evaluate, all of the run by default.

    Returns:
        rouge1, rouge2, rougeL and "in language" of each language; languages without documents
        are in `skipped`.

    Raises:
        UsageError: a language or a mode that makes no sense for the run.
        ModtokError: no documents, or a damaged row.
    """
    settings = settings or Settings()
    source = open_source(Path(run), tokenizer=tokenizer, step=step, progress=progress)
    vocabularies: dict[str, Infer] = {}
    for language in langs or languages_of(source):
        if language in vocabularies:
            raise UsageError(f"--langs names {language!r} twice", remedy="name it once")
        vocabularies[language] = vocabulary_of(source, settings.infer, language=language)
    documents = Documents(data)
    evaluation = Evaluation()
    models = Models(source, dtype=dtype, device=device)
    judges = LanguageIdentifier.of(source, progress)
    # All is read before anything is written: what is wrong with the last file is said at once.
    texts = {}
    for language in vocabularies:
        if language in documents.languages:
            texts[language] = documents.of(language, settings.shots)
        else:
            evaluation.skipped.append(f"{documents.path} has no documents in {language}")
    for language, (shots, tests) in texts.items():
        infer = vocabularies[language]
        told = summarize(
            models.of(infer),
            language,
            shots,
            tests[: settings.limit],
            infer,
            settings,
            judges,
            progress,
        )
        evaluation.results += told.results
        evaluation.examples += told.examples
    return evaluation


def pieces_of(text: Summarized, *, whole: bool) -> list[Piece]:
    """An example of the prompt; not `whole`, up to where the summary begins."""
    asked = [Piece(f"{text.document}{_ASK}")]
    return [*asked, Piece(f" {text.summary}\n\n", target=True)] if whole else asked


def prompt_of(
    model: SlicedModel, shots: Sequence[Sequence[Piece]], text: Summarized, most: int
) -> Prompt:
    """The prompt for a document, which loses its end where it does not fit alone."""
    found = fit(model, shots, pieces_of(text, whole=False), most=most, crossed=False)
    if not found.cut:
        return found
    limit, rows = room(model, most), found.rows
    low, high = 0, len(text.document)  # characters: so many fit, so many do not
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
    judges: LanguageIdentifier,
    progress: Progress = SILENT,
) -> Evaluation:
    """Summarize and score the documents of one language, see `evaluate_sum`."""
    shown = [pieces_of(shot, whole=True) for shot in shots]
    prompts = [prompt_of(model, shown, test, settings.most) for test in tests]
    texts = write(
        model, prompts, most=settings.most, batch=settings.batch, label=language, progress=progress
    )
    written = judges.written_in(language, [text.text for text in texts])
    found: list[dict[str, float]] = []
    for index, test in enumerate(tests):
        told = {} if written is None else {IN_LANGUAGE: written[index]}
        found.append({**scores(test.summary, texts[index].text), **told})
    texts_read = (part for each in (*shots, *tests) for part in (each.document, each.summary))
    sheet = sheet_of(TASK, language, model, infer, settings, texts_read, prompts, texts, progress)
    for metric in found[0]:
        normalization = _WORDS if metric in METRICS else "none"
        sheet.add_mean(metric, [row[metric] for row in found], normalization=normalization)
    examples = [
        example(
            TASK,
            language,
            test.name,
            found[index],
            reference=test.summary,
            **kept_of(prompts[index], texts[index], sheet.infer),
        )
        for index, test in enumerate(tests)
    ]
    return Evaluation(sheet.results, examples)
