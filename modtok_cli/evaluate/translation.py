"""`modtok eval mt`: few-shot translation under any inference vocabulary.

An example is a line `source = target`. The prompt contains no text in a third language, which a
subtokenizer would have to spell out in bytes. The generated text up to the end of the line is the
translation. Under `src|tgt` the part up to `=` is tokenized by the source's subtokenizer and the
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
    builder_of,
    fit,
    languages_of,
    open_models,
    output_fields,
    vocabulary_of,
    write,
)
from modtok_cli.evaluate.modes import Infer
from modtok_cli.evaluate.parallel import Sentence, find_parallel
from modtok_cli.evaluate.results import Evaluation, example, interval
from modtok_cli.evaluate.translation_scores import corpus_metrics
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.inference.run.processes import ALONE, Processes
from modtok_cli.text.labels import split_pair, the_one
from modtok_cli.text.languages import is_language, normalize

TASK = "mt"
ALL = "all"
SHOTS = GenerationSettings.shots
Pair = tuple[str, str]


@dataclass(frozen=True)
class Settings(GenerationSettings):
    """Settings of translation.

    Attributes:
        lowercase: whether scores ignore case (as in the authors' release).
    """

    lowercase: bool = False


def evaluate_mt(
    run: Path | Models,
    pairs: str | None = None,
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
    """Translate the parallel text in `data` and score the translations.

    Args:
        run: its directory, or models that are open already.
        pairs: "en-fr,en-fi"; "all" for every pair of the run's languages; None for English into
            each other language.

    Returns:
        BLEU, chrF++ and "in language" (share of outputs in the target language) of each pair. Pairs
        without data are in `skipped`.

    Raises:
        UsageError: the run does not support a pair or the mode.
        ModtokError: there is no parallel text, or it is damaged.
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
    wanted = parse_pairs(pairs, languages_of(source))
    vocabularies = {pair: vocabulary_of(source, settings.infer, pair=pair) for pair in wanted}
    parallel = find_parallel(data, progress)
    evaluation = Evaluation()
    identifier = models.identifier(progress)
    missing = {name for pair in wanted for name in pair if not parallel.has(name)}
    evaluation.skipped += [f"no text in {name} in {parallel.path}" for name in sorted(missing)]
    # All texts are read before generation starts, so that an invalid one is found immediately.
    texts = {
        pair: parallel.pair(*pair, settings.shots, progress)
        for pair in wanted
        if missing.isdisjoint(pair)
    }
    for pair, (shots, tests) in texts.items():
        infer = vocabularies[pair]
        model = models.of(infer)
        found = translate(
            model,
            pair,
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


def parse_pairs(text: str | None, languages: Sequence[str]) -> list[Pair]:
    """Parse --pairs, for a run with `languages`.

    >>> parse_pairs("en-fr,fin_Latn-en", ["en", "fr"])
    [('en', 'fr'), ('fi', 'en')]

    Raises:
        UsageError: a part is not XX-YY, a pair occurs twice, or there is no default.
    """
    if text is None:
        if "en" not in languages or len(languages) < 2:
            raise UsageError("no language pairs", remedy="pass --pairs fr-fi, or --pairs all")
        return [("en", language) for language in languages if language != "en"]
    if text == ALL:
        if len(languages) < 2:
            raise UsageError(
                f"the model has fewer than two languages: {','.join(languages)}",
                remedy="name a pair: --pairs en-fr --infer full",
            )
        return [(one, other) for one in languages for other in languages if one != other]
    pairs: list[Pair] = []
    for part in text.split(","):
        names = split_pair(part)
        if names is None or not all(map(is_language, names)):
            raise UsageError(f"{part!r} is not a pair of languages", remedy="use --pairs en-fr")
        source, target = (the_one(name, languages) or normalize(name) for name in names)
        if source == target or (source, target) in pairs:
            what = "has one language twice" if source == target else "occurs twice"
            raise UsageError(f"--pairs: {part.strip()!r} {what}", remedy="remove it")
        pairs.append((source, target))
    return pairs


def pieces_of(sentence: Sentence, *, whole: bool) -> list[Piece]:
    """Prompt pieces of a line; up to the translation if `whole` is False."""
    asked = [Piece(f"{sentence.source} =")]
    return [*asked, Piece(f" {sentence.target}\n", target=True)] if whole else asked


def translate(
    model: SlicedModel,
    pair: Pair,
    shots: Sequence[Sentence],
    tests: Sequence[Sentence],
    infer: Infer,
    settings: Settings,
    identifier: LanguageIdentifier,
    processes: Processes = ALONE,
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
            max_tokens=settings.max_tokens,
            crossed=infer.crossed,
        )
        for test in tests
    ]
    texts = write(
        model,
        prompts,
        max_tokens=settings.max_tokens,
        batch_size=settings.batch_size,
        processes=processes,
        label=name,
        progress=progress,
    )
    outputs, references = [text.text for text in texts], [test.target for test in tests]
    written = identifier.in_language(pair[1], outputs)
    texts_read = (part for each in (*shots, *tests) for part in (each.source, each.target))
    builder = builder_of(TASK, name, model, infer, settings, texts_read, prompts, texts, progress)
    case = "lowercase" if settings.lowercase else "none"
    for metric in corpus_metrics(pair[1], lowercase=settings.lowercase):
        statistics = metric.statistics(outputs, references)
        bounds = interval(metric.resampled(statistics))
        value = metric.score(statistics.sum(0))
        builder.add(metric.name, value, bounds, normalization=case, sacrebleu=metric.signature)
    if written is not None:
        builder.add_mean(IN_LANGUAGE, written)
    evaluation = Evaluation(builder.results)
    evaluation.examples = [
        example(
            TASK,
            name,
            str(test.number),
            {} if written is None else {IN_LANGUAGE: written[index]},
            source=test.source,
            reference=test.target,
            **output_fields(prompts[index], texts[index], builder.infer),
            lowercase=settings.lowercase,
        )
        for index, test in enumerate(tests)
    ]
    return evaluation
