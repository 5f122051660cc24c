"""Public functions that evaluate trained models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modtok_cli.api.arguments import (
    FilePath,
    Languages,
    checked,
    optional_languages,
    optional_path,
    progress_or_default,
    text_paths,
)
from modtok_cli.base.progress import Progress

if TYPE_CHECKING:
    from modtok_cli.evaluate.grid.grid import GridResult
    from modtok_cli.evaluate.results import Evaluation


@checked
def evaluate_bpb(
    model: FilePath,
    texts: FilePath | Sequence[FilePath],
    *,
    language: str | None = None,
    infer: str | None = None,
    batch_size: int = 8,
    limit: int | None = None,
    tokenizer: FilePath | None = None,
    step: int | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Measure bits per byte and per character of texts.

    Args:
        model: A run, a checkpoint or a slice.
        texts: Files or directories; a line of a text file is a document.
        language: Language of all texts; by the file name, or identified, by default.
        infer: Inference vocabulary, as in `evaluate_mcq`.
        batch_size: Windows per forward pass.
        limit: Maximum number of documents per text and language.
        tokenizer, step, progress: As in `evaluate_mcq`.

    Returns:
        One row per text and language: `bits_per_byte` with its 95% interval (`low`, `high`),
        `bits_per_character`, `bits_per_token`, sizes and a signature.

    Examples:
        >>> rows = modtok.evaluate_bpb("runs/latest", "parallel/fr.txt", infer="full", limit=2)
        >>> rows[0]["language"], rows[0]["low"] < rows[0]["bits_per_byte"] < rows[0]["high"]
        ('fr', True)

    Raises:
        UsageError: a mode that does not fit the model.
        ModtokError: a text is missing or damaged, or no text is in a language of the model.
    """
    from modtok_cli.evaluate.bits import BitsSettings, evaluate_bpb

    return evaluate_bpb(
        Path(model),
        text_paths(texts),
        language=language,
        settings=BitsSettings(infer=infer, batch_size=batch_size, limit=limit),
        tokenizer=optional_path(tokenizer),
        step=step,
        progress=progress_or_default(progress),
    )


@checked
def evaluate_mcq(
    model: FilePath,
    languages: Languages | None = None,
    *,
    data: FilePath | None = "tasks",
    tasks: Sequence[str] | None = None,
    infer: str | None = None,
    shots: int | None = None,
    batch_size: int = 32,
    limit: int | None = None,
    include: FilePath | None = None,
    allow_code: bool = False,
    tokenizer: FilePath | None = None,
    step: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score a model on multiple-choice questions in cloze form.

    Args:
        model: A run, a checkpoint or a slice.
        languages: Languages to evaluate; all of the model by default.
        data: Directory with the questions; None reads them from the hub.
        tasks: Names of suites; all that have data by default.
        infer: Inference vocabulary: "lang", "full", "full-lang", or languages such as "en,fr".
        shots: Examples before each question; as each suite specifies by default.
        batch_size: Choices per forward pass.
        limit: Maximum number of questions per task and language.
        include: Directory with tasks of lm-eval.
        allow_code: Load tasks that contain code, such as `!function`.
        tokenizer: The run's modular directory, if it moved.
        step: Step of the checkpoint; the last by default.
        progress: Receives progress; warnings become `ModtokWarning` by default.

    Returns:
        `results` (accuracy with its 95% interval per task and language, and a signature),
        `examples` (one row per question), and `skipped` (what could not be evaluated, and why).

    Examples:
        >>> evaluation = modtok.evaluate_mcq("runs/latest", "fi", tasks=["endings"], limit=2)
        >>> [(result.task, result.language, result.n) for result in evaluation.results]
        [('endings', 'fi', 2)]

    Raises:
        UsageError: a task, language or mode that does not fit the model.
        ModtokError: no questions at all, or a damaged row.
    """
    from modtok_cli.evaluate.mcq import McqSettings, evaluate_mcq

    return evaluate_mcq(
        Path(model),
        optional_languages(languages),
        data=optional_path(data),
        include=optional_path(include),
        settings=McqSettings(
            infer=infer,
            tasks=None if tasks is None else tuple(tasks),
            shots=shots,
            batch_size=batch_size,
            limit=limit,
            allow_code=allow_code,
        ),
        tokenizer=optional_path(tokenizer),
        step=step,
        progress=progress_or_default(progress),
    )


@checked
def evaluate_mt(
    model: FilePath,
    pairs: str | None = None,
    *,
    data: FilePath = "tasks",
    infer: str | None = None,
    shots: int = 5,
    max_tokens: int = 128,
    lowercase: bool = False,
    batch_size: int = 8,
    limit: int | None = None,
    tokenizer: FilePath | None = None,
    step: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Translate few-shot and score by BLEU and chrF++.

    Args:
        model: A run, a checkpoint or a slice.
        pairs: "en-fr,en-fi", or "all"; English into each other language by default.
        data: Parallel text: FLORES, TSV, or line-aligned files.
        infer: As in `evaluate_mcq`, or "src", "tgt", "src+tgt", "src|tgt".
        shots: Example translations in each prompt.
        max_tokens: Maximum number of tokens per translation.
        lowercase: Ignore case in the scores.
        batch_size: Prompts per forward pass.
        limit, tokenizer, step, progress: As in `evaluate_mcq`.

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
    from modtok_cli.evaluate.generation import TranslationSettings, evaluate_mt

    return evaluate_mt(
        Path(model),
        pairs,
        data=Path(data),
        settings=TranslationSettings(
            infer=infer,
            shots=shots,
            max_tokens=max_tokens,
            batch_size=batch_size,
            limit=limit,
            lowercase=lowercase,
        ),
        tokenizer=optional_path(tokenizer),
        step=step,
        progress=progress_or_default(progress),
    )


@checked
def evaluate_sum(
    model: FilePath,
    languages: Languages | None = None,
    *,
    data: FilePath = "tasks",
    infer: str | None = None,
    shots: int = 5,
    max_tokens: int = 128,
    batch_size: int = 8,
    limit: int | None = None,
    tokenizer: FilePath | None = None,
    step: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Summarize few-shot and score by ROUGE in every script.

    Args:
        data: Directory with `<lang>.jsonl` and, for the shots, `<lang>.train.jsonl`.
        model, languages, infer, limit, tokenizer, step, progress: As in `evaluate_mcq`.
        shots, max_tokens, batch_size: As in `evaluate_mt`.

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
    from modtok_cli.evaluate.generation import GenerationSettings, evaluate_sum

    return evaluate_sum(
        Path(model),
        optional_languages(languages),
        data=Path(data),
        settings=GenerationSettings(
            infer=infer, shots=shots, max_tokens=max_tokens, batch_size=batch_size, limit=limit
        ),
        tokenizer=optional_path(tokenizer),
        step=step,
        progress=progress_or_default(progress),
    )


@checked
def evaluate_grid(
    grid: FilePath | Mapping[str, Any],
    output: FilePath,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> GridResult:
    """Evaluate runs on tasks under several inference modes, and go on where it stopped.

    Args:
        grid: A TOML file, or its content as a dictionary; see docs/grids.md.
        output: Directory of the results; finished cells in it are not evaluated again.
        workers: Processes, each with a model.
        progress: As in `evaluate_mcq`.

    Returns:
        `rows` (those of the evaluations, with `run`, `system`, `seed`, …), `skipped` (what does
        not apply) and `failed` (cells that could not be evaluated, and why). `output` also gets
        means with intervals (`means.jsonl`) and tests of differences (`tests.jsonl`).

    Examples:
        >>> grid = {"runs": [{"path": "runs/latest"}], "infer": ["lang", "full"]}
        >>> grid["mcq"] = [{"tasks": ["facts"], "languages": ["fi", "fr"], "limit": 2}]
        >>> found = modtok.evaluate_grid(grid, "grids/facts")
        >>> [(row["language"], row["infer"]) for row in found.rows]
        [('fi', 'lang'), ('fi', 'full'), ('fr', 'lang'), ('fr', 'full')]

    Raises:
        UsageError: an unknown key, an invalid value, or a run that does not exist.
        ModtokError: data is missing, or a file cannot be written.
    """
    from modtok_cli.evaluate.grid.grid import evaluate_grid
    from modtok_cli.evaluate.grid.means import summarize
    from modtok_cli.evaluate.grid.spec import parse_grid, read_grid

    progress = progress_or_default(progress)
    found = evaluate_grid(
        parse_grid(grid) if isinstance(grid, Mapping) else read_grid(Path(grid)),
        Path(output),
        workers=workers,
        progress=progress,
    )
    summarize(found, Path(output), progress)
    return found


@checked
def compare(first: FilePath, second: FilePath) -> list[dict[str, Any]]:
    """Test the difference of two systems on the same examples by paired bootstrap.

    Args:
        first, second: Files of examples, see `write_examples`.

    Returns:
        One row per task, language and metric: `a`, `b`, `difference`, its 95% interval and `p`.

    Examples:
        >>> for mode in ("lang", "full"):
        ...     found = modtok.evaluate_mcq("runs/latest", "fi", infer=mode, limit=2)
        ...     modtok.write_examples(f"{mode}.jsonl", found.examples)
        >>> sorted({row["task"] for row in modtok.compare("lang.jsonl", "full.jsonl")})
        ['endings', 'facts']

    Raises:
        ModtokError: the files hold different examples.
    """
    from modtok_cli.evaluate.compare import compare

    return compare(Path(first), Path(second))


@checked
def write_examples(path: FilePath, examples: Sequence[dict[str, Any]]) -> None:
    """Write the examples of an evaluation to the file `path` as JSON lines, for `compare`."""
    from modtok_cli.evaluate.results import write_examples

    write_examples(Path(path), examples)
