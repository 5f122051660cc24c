"""`modtok eval mt`: few-shot translation under any inference vocabulary.

An example is a line, `source = target`: no word of a prompt is of a third language, which a
subtokenizer would have to spell out. What the model writes up to the end of the line is its
translation. Under `src|tgt` the part up to the `=` is cut by the source's subtokenizer, the
rest by the target's, in the shots too (the paper's EN|Lang).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.generation import (
    IN_LANGUAGE,
    GenerationSettings,
    LanguageIdentifier,
    Models,
    Piece,
    fit,
    kept_of,
    languages_of,
    sheet_of,
    vocabulary_of,
    write,
)
from modtok_cli.evaluate.modes import Infer
from modtok_cli.evaluate.parallel import Sentence, find_parallel
from modtok_cli.evaluate.results import Evaluation, example, interval
from modtok_cli.evaluate.translation_scores import corpus_metrics
from modtok_cli.inference.model import SlicedModel
from modtok_cli.inference.sources import open_source
from modtok_cli.text.languages import is_language, normalize

TASK = "mt"
ALL = "all"
SHOTS = GenerationSettings.shots
Pair = tuple[str, str]


@dataclass(frozen=True)
class Settings(GenerationSettings):
    """How to translate.

    Attributes:
        lowercase: whether scores ignore case (the paper's authors do).
    """

    lowercase: bool = False


def evaluate_mt(
    run: Path,
    pairs: str | None = None,
    *,
    data: Path,
    settings: Settings | None = None,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    progress: Progress = SILENT,
) -> Evaluation:
    """Translate the parallel text at `data` and score it; see `modtok eval mt`.

    `pairs`: "en-fr,en-fi", "all" for every pair of the run's languages, None for English into
    each of the others.

    Returns:
        BLEU, chrF++ and "in language" (share of outputs in the target's) of each pair; pairs
        without data are in `skipped`.

    Raises:
        UsageError: a pair or a mode that makes no sense for the run.
        ModtokError: no parallel text, or it is damaged.
    """
    settings = settings or Settings()
    source = open_source(Path(run), tokenizer=tokenizer, step=step, progress=progress)
    wanted = parse_pairs(pairs, languages_of(source))
    vocabularies = {pair: vocabulary_of(source, settings.infer, pair=pair) for pair in wanted}
    parallel = find_parallel(data, progress)
    evaluation = Evaluation()
    models = Models(source, dtype=dtype, device=device)
    judges = LanguageIdentifier.of(source, progress)
    there = set(parallel.languages)
    missing = sorted({language for pair in wanted for language in pair} - there)
    evaluation.skipped += [f"{parallel.path} has no text in {name}" for name in missing]
    # All is read before anything is written: what is wrong with the last text is said at once.
    texts = {
        pair: parallel.pair(*pair, settings.shots, progress)
        for pair in wanted
        if there.issuperset(pair)
    }
    for pair, (shots, tests) in texts.items():
        infer = vocabularies[pair]
        model = models.of(infer)
        told = translate(
            model, pair, shots, tests[: settings.limit], infer, settings, judges, progress
        )
        evaluation.results += told.results
        evaluation.examples += told.examples
    return evaluation


def parse_pairs(text: str | None, languages: Sequence[str]) -> list[Pair]:
    """The pairs that --pairs names, of a run with `languages`.

    >>> parse_pairs("en-fr,fin_Latn-en", ["en", "fr"])
    [('en', 'fr'), ('fi', 'en')]

    Raises:
        UsageError: not as XX-YY, a pair named twice, or nothing to choose from.
    """
    if text is None:
        if "en" not in languages or len(languages) < 2:
            raise UsageError("which pairs?", remedy="name them: --pairs fr-fi, or --pairs all")
        return [("en", language) for language in languages if language != "en"]
    if text == ALL:
        if len(languages) < 2:
            raise UsageError(
                f"the model has no pair of languages: {','.join(languages)}",
                remedy="name one: --pairs en-fr --infer full",
            )
        return [(one, other) for one in languages for other in languages if one != other]
    pairs: list[Pair] = []
    for part in text.split(","):
        names = [name.strip() for name in part.split("-")]
        if len(names) != 2 or not all(map(is_language, names)):
            raise UsageError(f"{part!r} is no pair of languages", remedy="as in --pairs en-fr")
        source, target = map(normalize, names)
        if source == target or (source, target) in pairs:
            what = "the same language twice" if source == target else "given twice"
            raise UsageError(f"--pairs: {part.strip()!r} is {what}", remedy="leave it out")
        pairs.append((source, target))
    return pairs


def pieces_of(sentence: Sentence, *, whole: bool) -> list[Piece]:
    """A line of the prompt; not `whole`, up to where the translation begins."""
    asked = [Piece(f"{sentence.source} =")]
    return [*asked, Piece(f" {sentence.target}\n", target=True)] if whole else asked


def translate(
    model: SlicedModel,
    pair: Pair,
    shots: Sequence[Sentence],
    tests: Sequence[Sentence],
    infer: Infer,
    settings: Settings,
    judges: LanguageIdentifier,
    progress: Progress = SILENT,
) -> Evaluation:
    """Translate and score the sentences of one pair, see `evaluate_mt`."""
    name = "-".join(pair)
    shown = [pieces_of(shot, whole=True) for shot in shots]
    prompts = [
        fit(
            model,
            shown,
            pieces_of(test, whole=False),
            most=settings.most,
            crossed=infer.crossed,
        )
        for test in tests
    ]
    texts = write(
        model, prompts, most=settings.most, batch=settings.batch, label=name, progress=progress
    )
    outputs, references = [text.text for text in texts], [test.target for test in tests]
    written = judges.written_in(pair[1], outputs)
    texts_read = (part for each in (*shots, *tests) for part in (each.source, each.target))
    sheet = sheet_of(TASK, name, model, infer, settings, texts_read, prompts, texts, progress)
    case = "lowercase" if settings.lowercase else "none"
    for metric in corpus_metrics(pair[1], lowercase=settings.lowercase):
        statistics = metric.statistics(outputs, references)
        bounds = interval(metric.resampled(statistics))
        value = metric.score(statistics.sum(0))
        sheet.add(metric.name, value, bounds, normalization=case, sacrebleu=metric.signature)
    if written is not None:
        sheet.add_mean(IN_LANGUAGE, written)
    evaluation = Evaluation(sheet.results)
    evaluation.examples = [
        example(
            TASK,
            name,
            str(test.number),
            {} if written is None else {IN_LANGUAGE: written[index]},
            source=test.source,
            reference=test.target,
            **kept_of(prompts[index], texts[index], sheet.infer),
            lowercase=settings.lowercase,
        )
        for index, test in enumerate(tests)
    ]
    return evaluation
