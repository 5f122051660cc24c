"""`modtok eval mt` and `modtok eval sum`: few-shot generation under any inference vocabulary.

A task is a table entry: what stands between a source and its target, and how targets are scored.

    mt     a line `source = target`. The prompt contains no text in a third language, which a
           subtokenizer would have to spell out in bytes.
    sum    a document, a line `TL;DR: summary`, and an empty line. A document that does not fit
           alone is truncated at its end.

The generated text up to the end of the line is the output. A prompt is a list of `TextPart`s of the
source side and the target side: under a crossed vocabulary (`src|tgt`, the paper's EN|Lang) each is
tokenized by the subtokenizer of its side, in the shots too; otherwise the prompt is one text. Shots
that do not fit the context are dropped, the first ones first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.evaluate.documents import Documents
from modtok_cli.evaluate.models import Models
from modtok_cli.evaluate.modes import Infer, mode_name, vocabularies_of, vocabulary_of
from modtok_cli.evaluate.parallel_text import find_parallel
from modtok_cli.evaluate.results import (
    MT,
    SUM,
    Evaluation,
    Kept,
    Result,
    ResultBuilder,
    data_digest,
    evaluation_signature,
    example,
    interval,
    resampled_sums,
)
from modtok_cli.evaluate.task_files import Example
from modtok_cli.evaluate.text_scores import ROUGE, corpus_metrics, rouge
from modtok_cli.model.generate.decoding import generate
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.text.languages import Label, split_pair, the_one

ALL = "all"
LINE = "\n"
IN_LANGUAGE = "in language"
Pair = tuple[str, str]


@dataclass(frozen=True)
class GenerationSettings:
    """Options of `evaluate.evaluate_sum`; `infer` None: see `modes.vocabulary_of`."""

    infer: str | None = None
    shots: int = 5
    max_tokens: int = 128
    batch_size: int = 8
    limit: int | None = None


@dataclass(frozen=True)
class TranslationSettings(GenerationSettings):
    """Options of `evaluate.evaluate_mt`."""

    lowercase: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class GenerationTask:
    """One kind of generation.

    Attributes:
        ask: between a source and its target.
        end: after the target of a shot.
        cuts: whether a source that does not fit alone is truncated at its end.
        normalization: of the scores of examples.
        scores: (target, output) → scores of an example, fractions of 1.
    """

    name: str
    ask: str
    end: str
    cuts: bool = False
    normalization: str = "none"
    scores: Callable[[str, str], Mapping[str, float]] = lambda target, output: {}


TASKS = {
    MT: GenerationTask(MT, " =", "\n"),
    SUM: GenerationTask(SUM, "\nTL;DR:", "\n\n", True, "words", rouge),
}


@dataclass(frozen=True)
class ExampleSet:
    """The examples of one language or pair, for which text is generated."""

    infer: Infer
    shots: Sequence[Example]
    tests: Sequence[Example]


def translate(
    models: Models,
    pairs: str | None,
    data: Path,
    settings: TranslationSettings,
    kept: Kept,
) -> Evaluation:
    """Translate the parallel text in `data`, see `evaluate.evaluate_mt`."""
    source = models.source
    wanted = parse_pairs(pairs, source.all_languages)
    vocabularies = {pair: vocabulary_of(source, settings.infer, pair) for pair in wanted}
    parallel = find_parallel(data, models.progress, settings.columns)
    missing = {name for pair in wanted for name in pair if not parallel.has(name)}
    # All texts are read before generation starts, so that an invalid one is found immediately.
    sets = {
        "-".join(pair): ExampleSet(
            vocabularies[pair], *parallel.pair(*pair, settings.shots, models.progress)
        )
        for pair in wanted
        if missing.isdisjoint(pair)
    }
    skipped = [f"no text in {name} in {parallel.path}" for name in sorted(missing)]
    return _evaluate(TASKS[MT], models, sets, settings, skipped, kept)


def summarize(
    models: Models,
    languages: Sequence[str] | None,
    data: Path,
    settings: GenerationSettings,
    kept: Kept,
) -> Evaluation:
    """Summarize the documents in `data`, see `evaluate.evaluate_sum`."""
    vocabularies = vocabularies_of(models.source, settings.infer, languages)
    documents = Documents(data, vocabularies)
    sets, skipped = {}, []
    # All files are read before generation starts, so that an invalid row is found immediately.
    for language, infer in vocabularies.items():
        if documents.has(language):
            sets[language] = ExampleSet(infer, *documents.of(language, settings.shots))
        else:
            skipped.append(f"no documents in {language} in {documents.path}")
    return _evaluate(TASKS[SUM], models, sets, settings, skipped, kept)


def _evaluate(
    task: GenerationTask,
    models: Models,
    sets: Mapping[str, ExampleSet],
    settings: GenerationSettings,
    skipped: list[str],
    kept: Kept,
) -> Evaluation:
    evaluation = Evaluation(skipped=skipped)
    mode = mode_name(models.source, settings.infer)
    for name, examples in sets.items():
        shots, tests = examples.shots, examples.tests[: settings.limit]
        texts = (part for each in (*shots, *tests) for part in (each.source, each.target))
        sign = evaluation_signature(
            task.name,
            language=name,
            data=data_digest(texts),
            shots=settings.shots,
            infer=f"{mode}:{examples.infer}",
            model=models.signed,
            most=settings.max_tokens,
            among=",".join(models.source.all_languages),
            case="lower" if getattr(settings, "lowercase", False) else "own",
            packages=("torch", "transformers", "sacrebleu"),
        )
        rows = kept.find(sign)
        if rows is not None:
            evaluation.results += map(Result.from_row, rows)
            continue
        builder = ResultBuilder(
            task.name, name, len(tests), settings.shots, mode, sign, models.labels
        )
        evaluation.examples += generate_set(task, models, builder, examples, settings)
        kept.add([result.as_row() for result in builder.results])
        evaluation.results += builder.results
    return evaluation


def parse_pairs(text: str | None, languages: Sequence[str]) -> list[Pair]:
    """Parse --pairs, for a run with `languages`.

    >>> parse_pairs("en-fr,fin_Latn-en", ["en", "fr"])
    [('en', 'fr'), ('fi', 'en')]
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
        if names is None or not all(Label.of(name).is_known for name in names):
            raise UsageError(f"{part!r} is not a pair of languages", remedy="use --pairs en-fr")
        source, target = (the_one(name, languages) or Label.of(name).short for name in names)
        if source == target or (source, target) in pairs:
            what = "has one language twice" if source == target else "occurs twice"
            raise UsageError(f"--pairs: {part.strip()!r} {what}", remedy="remove it")
        pairs.append((source, target))
    return pairs


@dataclass(frozen=True)
class TextPart:
    """Part of a prompt; `target` is True on the target side."""

    text: str
    target: bool = False


@dataclass(frozen=True)
class ExamplePrompt:
    """Prompt of one example.

    Attributes:
        rows: embedding rows, with what begins a text.
        shots: number of few-shot examples in it.
        cut: whether the text itself was truncated, or does not fit.
    """

    rows: tuple[int, ...]
    shots: int
    cut: bool = False


@dataclass(frozen=True)
class Continuation:
    """First line generated after a prompt.

    Attributes:
        text: without leading and trailing white space.
        tokens: number of generated tokens.
        reason: "stop" (line end), "end" (end of text), "length", "context", or "long" if the prompt
            leaves no space in the context.
    """

    text: str
    tokens: int
    reason: str


def encode(model: SlicedModel, pieces: Sequence[TextPart], *, crossed: bool) -> list[int]:
    """Return embedding rows of a prompt, with what begins a text.

    If `crossed`, target pieces are tokenized by `tokenizer_out`. Otherwise all pieces are one text,
    and a token may span two pieces.
    """
    if not crossed:
        text = "".join(piece.text for piece in pieces)
        return model.prompt(text)
    rows = [model.end_of_text]
    row_of_out = model.vocabularies.row_of_out
    for piece in pieces:
        if piece.target:
            rows += row_of_out[model.encode_out(piece.text)].tolist()
        else:
            rows += model.encode_in(piece.text)
    return rows


def prompt_limit(model: SlicedModel, max_tokens: int) -> int:
    """Return the most tokens of a prompt: the context less `max_tokens`, at least half of it."""
    return max(model.context - max_tokens, model.context // 2)


def fit(
    model: SlicedModel,
    shots: Sequence[Sequence[TextPart]],
    question: Sequence[TextPart],
    *,
    max_tokens: int,
    crossed: bool,
) -> ExamplePrompt:
    """Return the prompt with as many of the last `shots` as leave space for `max_tokens` tokens.

    If the question alone is too long, the prompt is the question alone and `cut` is set.
    """
    limit = prompt_limit(model, max_tokens)
    for first in range(len(shots) + 1):
        pieces = [piece for shot in shots[first:] for piece in shot]
        rows = encode(model, [*pieces, *question], crossed=crossed)
        if len(rows) <= limit:
            return ExamplePrompt(tuple(rows), len(shots) - first)
    return ExamplePrompt(tuple(rows), 0, cut=True)


def pieces_of(task: GenerationTask, text: Example, *, whole: bool) -> list[TextPart]:
    """Return the prompt pieces of an example; up to its target if `whole` is False."""
    asked = [TextPart(text.source + task.ask)]
    return [*asked, TextPart(f" {text.target}{task.end}", target=True)] if whole else asked


def prompt_of(
    task: GenerationTask,
    model: SlicedModel,
    shots: Sequence[Example],
    test: Example,
    *,
    max_tokens: int,
    crossed: bool = False,
) -> ExamplePrompt:
    """Return the prompt of an example."""
    shown = [pieces_of(task, shot, whole=True) for shot in shots]
    asked = pieces_of(task, test, whole=False)
    prompt = fit(model, shown, asked, max_tokens=max_tokens, crossed=crossed)
    if not (prompt.cut and task.cuts):
        return prompt
    limit, rows = prompt_limit(model, max_tokens), prompt.rows
    low, high = 0, len(test.source)  # characters: `low` fits, `high` does not
    while high - low > 1:
        middle = (low + high) // 2
        tried = encode(model, [TextPart(test.source[:middle] + task.ask)], crossed=crossed)
        if len(tried) <= limit:
            low, rows = middle, tuple(tried)
        else:
            high = middle
    return ExamplePrompt(rows, 0, cut=True)


def write(
    models: Models,
    model: SlicedModel,
    prompts: Sequence[ExamplePrompt],
    *,
    max_tokens: int,
    batch_size: int,
    label: str = "writing",
) -> list[Continuation]:
    """Generate one line greedily after each prompt, in the order of the prompts.

    Prompts of similar length run together. Batching changes results by rounding only; the processes
    share the batches.
    """
    options = SamplingOptions(max_tokens=max_tokens, stop=(LINE,))
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index].rows))
    parts = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

    def lines(part: list[int]) -> list[tuple[str, int, str]]:
        longest = min(len(prompts[part[-1]].rows) + max_tokens, model.context)
        model.check_batch(len(part), longest)
        fitting = [index for index in part if len(prompts[index].rows) < model.context]
        texts = generate(model, [prompts[index].rows for index in fitting], options)
        written = {
            index: (text.text.strip(), len(text.ids), text.reason)
            for index, text in zip(fitting, texts, strict=True)
        }
        return [written.get(index, ("", 0, "long")) for index in part]

    with models.progress.task(label, len(prompts), "examples") as task:
        written = models.processes.map(lines, parts, done=lambda part: task.advance(len(part)))
    outputs = {
        index: Continuation(*line)
        for part, made in zip(parts, written, strict=True)
        for index, line in zip(part, made, strict=True)
    }
    return [outputs[index] for index in range(len(prompts))]


def generate_set(
    task: GenerationTask,
    models: Models,
    builder: ResultBuilder,
    examples: ExampleSet,
    settings: GenerationSettings,
) -> list[dict[str, Any]]:
    """Generate and score the examples of a language or pair; the scores go to `builder`."""
    name = builder.language
    infer, shots, tests = examples.infer, examples.shots, examples.tests[: settings.limit]
    model, length = models.of(infer), settings.max_tokens
    prompts = [
        prompt_of(task, model, shots, test, max_tokens=length, crossed=infer.crossed)
        for test in tests
    ]
    outputs = write(
        models, model, prompts, max_tokens=length, batch_size=settings.batch_size, label=name
    )
    texts, target = [output.text for output in outputs], (split_pair(name) or (name,))[-1]
    rows = [dict(task.scores(test.target, text)) for test, text in zip(tests, texts, strict=True)]
    in_language = models.in_language(target, texts)
    for row, value in zip(rows, in_language or (), strict=False):
        row[IN_LANGUAGE] = value
    builder.facts = {
        "max_tokens": length,
        "shots_dropped": sum(settings.shots - prompt.shots for prompt in prompts),
        "prompts_cut": sum(prompt.cut for prompt in prompts),
        "unfinished": sum(output.reason not in ("stop", "end") for output in outputs),
        "tokens": sum(output.tokens for output in outputs),
    }
    _note_dropped(builder, model.context, models.progress)
    if builder.facts["shots_dropped"]:
        used = round(fmean(prompt.shots for prompt in prompts), 1)
        builder.shots = int(used) if used.is_integer() else used
    if isinstance(settings, TranslationSettings):
        _add_corpus_scores(builder, target, texts, tests, lowercase=settings.lowercase)
    for metric in rows[0]:
        normalization = task.normalization if metric in ROUGE else "none"
        builder.add_mean(metric, [row[metric] for row in rows], normalization=normalization)
    rows_of_examples = []
    for test, row, prompt, output in zip(tests, rows, prompts, outputs, strict=True):
        fields: dict[str, Any] = {"source": test.source} if task.name == MT else {}
        fields |= {
            "reference": test.target,
            "output": output.text,
            "reason": output.reason,
            "tokens": output.tokens,
            "prompt_tokens": len(prompt.rows),
            "shots": prompt.shots,
            "cut": prompt.cut,
            "infer": builder.infer,
        }
        if isinstance(settings, TranslationSettings):
            fields["lowercase"] = settings.lowercase
        rows_of_examples.append(example(task.name, name, test.name, row, **fields))
    return rows_of_examples


def _add_corpus_scores(
    builder: ResultBuilder,
    target: str,
    outputs: Sequence[str],
    tests: Sequence[Example],
    *,
    lowercase: bool,
) -> None:
    case = "lowercase" if lowercase else "none"
    references = [test.target for test in tests]
    for metric in corpus_metrics(target, lowercase=lowercase):
        statistics = metric.statistics(outputs, references)
        bounds = interval(metric.of_sums(resampled_sums(statistics)))
        value = metric.score(statistics.sum(0))
        builder.add(metric.name, value, bounds, normalization=case, sacrebleu=metric.signature)


def _note_dropped(builder: ResultBuilder, context: int, progress: Progress) -> None:
    dropped, cut = builder.facts["shots_dropped"], builder.facts["prompts_cut"]
    if dropped or cut:
        of = builder.n * builder.shots
        progress.note(
            f"{builder.task} {builder.language}: the context has {context:,} tokens; {dropped:,} "
            f"of {of:,} shots were dropped and {cut:,} of {builder.n:,} texts were truncated"
        )
