"""The functions behind `modtok eval`; they import torch when they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from modtok_cli.base import parameters
from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import check_new, write_lines
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.evaluate.bits import BitsEvaluation
    from modtok_cli.evaluate.fetch import Fetched
    from modtok_cli.evaluate.grid.grid import GridResult
    from modtok_cli.evaluate.results import Evaluation
    from modtok_cli.inference.run.processes import Processes

Infer = Annotated[
    str | None,
    Option(
        "Inference vocabulary: lang, full, full-lang, or languages such as en,fr; for pairs "
        "src, tgt, src+tgt or src|tgt.",
        metavar="MODE",
    ),
]
Shots = Annotated[int, Option("Number of few-shot examples.", metavar="N", low=0)]
MaxTokens = Annotated[int, Option("Maximum number of new tokens.", metavar="N", low=1)]
Prompts = Annotated[int, Option("Number of prompts per batch.", metavar="N", low=1)]
Limit = Annotated[
    int | None,
    Option("Maximum number of examples per task and language.", metavar="N", low=1),
]
TaskData = Annotated[
    parameters.FilePath,
    Option("Directory with evaluation data; see modtok eval fetch.", metavar="PATH"),
]
Shared = Annotated[
    "Processes | None",
    Option("Processes that share the work; by default this one.", python_only=True, kind=object),
]
Workers = Annotated[int, Option("Number of processes, each with a model.", metavar="N", low=1)]


@public
def evaluate_bpb(
    model: Annotated[
        parameters.FilePath,
        Option("Run, checkpoint, slice, or Hugging Face model.", python_only=True, kind=Path),
    ],
    texts: Annotated[
        parameters.FilePath | Sequence[parameters.FilePath],
        Option("Files or directories.", python_only=True, kind=list[str], accepts=parameters.PATHS),
    ],
    *,
    language: parameters.Lang = None,
    languages: parameters.Langs = None,
    infer: Infer = None,
    batch_size: Annotated[int, Option("Number of windows per batch.", metavar="N", low=1)] = 8,
    limit: Limit = None,
    reading: Reading = Reading(),
    step: parameters.Step = None,
    tokenizer: parameters.RunTokenizer = None,
    dtype: parameters.Dtype = None,
    processes: Shared = None,
    progress: Progress = SILENT,
) -> BitsEvaluation:
    """Measure bits per byte and per character of texts.

    Bits per byte do not depend on the vocabulary, so subtokenizers, inference modes and runs
    compare on the same text. A line of a text file is a document and is predicted from its
    start, as in training; a document longer than the context is predicted in windows.

    Texts in languages that the mode does not support are skipped with a warning, and so are those
    in other languages than `languages`. A Hugging Face model has no modes: it predicts over its
    vocabulary, after the token that begins a text, in windows of 2,048 tokens at most.

    Where more than 1% of a text are unknown tokens, the row has no bits: text that they stand for
    would cost next to nothing.

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
    from modtok_cli.evaluate import bits
    from modtok_cli.evaluate.models import dtype_of, open_models
    from modtok_cli.inference.hf.causal_lm import CausalLM
    from modtok_cli.measure.texts import check_texts, load_texts

    sources = parameters.text_paths(texts)
    settings = bits.BitsSettings(infer, batch_size, limit, optional_languages(languages))
    check_texts(sources)
    if bits.is_foreign(Path(model)):
        if infer or tokenizer or step is not None:
            raise UsageError(
                "is a Hugging Face model: --infer, -t and --step do not apply", where=model
            )
        if processes is not None and processes.count > 1:
            raise UsageError(
                "a Hugging Face model runs on one GPU", where=model, remedy="leave --gpus out"
            )
        found = load_texts(
            sources, language=language, references=None, keep_documents=True, reading=reading,
            progress=progress,
        )  # fmt: skip
        foreign = CausalLM(Path(model), dtype=dtype_of(dtype))
        return bits.measure_directory(foreign, found, settings, progress)[0]
    models = open_models(model, tokenizer, step, dtype, processes=processes, progress=progress)
    return bits.measure_texts(models, sources, language, reading, settings)


@public
def evaluate_mcq(
    model: parameters.Model = parameters.LATEST,
    languages: parameters.Langs = None,
    *,
    tasks: Annotated[
        parameters.Languages | None,
        Option(
            "Comma-separated tasks: built-in suites or lm-eval tasks.",
            kind=str,
            metavar="NAME,...",
            complete="tasks",
            accepts=parameters.CODES,
        ),
    ] = None,
    data: Annotated[
        parameters.FilePath | None,
        Option("Directory with mcq/TASK/LANG.jsonl, instead of the hub.", metavar="PATH"),
    ] = "tasks",
    infer: Infer = None,
    shots: Annotated[
        int | None,
        Option("Number of few-shot examples; set by the task by default.", metavar="N", low=0),
    ] = None,
    batch_size: Annotated[int, Option("Number of choices per batch.", metavar="N", low=1)] = 32,
    limit: Limit = None,
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
    step: parameters.Step = None,
    tokenizer: parameters.RunTokenizer = None,
    dtype: parameters.Dtype = None,
    processes: Shared = None,
    progress: Progress = SILENT,
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
    from modtok_cli.evaluate.mcq import McqSettings, answer
    from modtok_cli.evaluate.models import open_models

    models = open_models(model, tokenizer, step, dtype, processes=processes, progress=progress)
    names = optional_languages(tasks, "--tasks")
    settings = McqSettings(
        infer, None if names is None else tuple(names), shots, batch_size, limit, allow_code
    )
    places = parameters.optional_path(data), parameters.optional_path(include)
    return answer(models, optional_languages(languages), *places, settings)


@public
def evaluate_mt(
    model: parameters.Model = parameters.LATEST,
    pairs: Annotated[
        str | None,
        Option(
            "Language pairs such as en-fr, or all; by default, English to each other language.",
            metavar="FROM-TO,...",
        ),
    ] = None,
    *,
    data: TaskData = "tasks",
    infer: Infer = None,
    shots: Shots = 5,
    lowercase: Annotated[
        bool, Option("Compute BLEU and chrF++ on lowercased text, as in the paper.")
    ] = False,
    max_tokens: MaxTokens = 128,
    batch_size: Prompts = 8,
    limit: Limit = None,
    step: parameters.Step = None,
    tokenizer: parameters.RunTokenizer = None,
    dtype: parameters.Dtype = None,
    processes: Shared = None,
    progress: Progress = SILENT,
) -> Evaluation:
    """Evaluate few-shot translation by BLEU and chrF++.

    A prompt has five lines "sentence = translation" and the source sentence. The rest of the
    line that the model generates is scored by sacreBLEU. The share of output in the target
    language is reported as well.

    `infer` lang, the default, uses the union of both subtokenizers. With src|tgt, source
    sentences are tokenized by the subtokenizer of the source language; target sentences and
    predictions by that of the target language. A slice uses its own vocabularies.

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
    from modtok_cli.evaluate.models import open_models

    models = open_models(model, tokenizer, step, dtype, processes=processes, progress=progress)
    settings = TranslationSettings(infer, shots, max_tokens, batch_size, limit, lowercase)
    return translate(models, pairs, Path(data), settings)


@public
def evaluate_sum(
    model: parameters.Model = parameters.LATEST,
    languages: parameters.Langs = None,
    *,
    data: TaskData = "tasks",
    infer: Infer = None,
    shots: Shots = 5,
    max_tokens: MaxTokens = 128,
    batch_size: Prompts = 8,
    limit: Limit = None,
    step: parameters.Step = None,
    tokenizer: parameters.RunTokenizer = None,
    dtype: parameters.Dtype = None,
    processes: Shared = None,
    progress: Progress = SILENT,
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
    from modtok_cli.evaluate.models import open_models

    models = open_models(model, tokenizer, step, dtype, processes=processes, progress=progress)
    settings = GenerationSettings(infer, shots, max_tokens, batch_size, limit)
    return summarize(models, optional_languages(languages), Path(data), settings)


@public
def evaluate_grid(
    grid: Annotated[
        parameters.FilePath | Mapping[str, Any],
        Option(
            "TOML file with runs, tasks and inference modes.",
            argument=True,
            kind=Path,
            metavar="GRID",
            accepts=(lambda value: True, "a path or a dictionary"),
        ),
    ],
    output: parameters.Output = None,
    *,
    workers: Workers = 1,
    progress: Progress = SILENT,
) -> GridResult:
    """Evaluate runs on tasks under several inference modes.

    Each run, task, language or pair, and mode of the file is a cell, which is evaluated once and
    saved. An interrupted grid continues; when a checkpoint, a text or a setting changes, only
    its cells are evaluated again. Cells that do not apply to a run are listed and skipped.

    Rows have the fields of eval mcq, mt, sum and bpb, and run, step, sampling, p, seed. `output`,
    grids/NAME by default, gets them, and means over tasks and languages with intervals and paired
    tests between modes and between systems; modtok report makes a page of it.

    Returns:
        `rows` (those of the evaluations, with `run`, `system`, `seed`, …), `skipped` (what does
        not apply) and `failed` (cells that could not be evaluated, and why). `output` also gets
        means with intervals (`means.jsonl`) and tests of differences (`tests.jsonl`). The grid may
        be the content of a file as a dictionary; see docs/grids.md.

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
    from modtok_cli.evaluate.grid.grid import run_grid
    from modtok_cli.evaluate.grid.means import summarize
    from modtok_cli.evaluate.grid.spec import parse_grid, place_of, read_grid

    place = place_of(grid, output)
    content = parse_grid(grid) if isinstance(grid, Mapping) else read_grid(Path(grid))
    result = run_grid(content, place, workers=workers, progress=progress)
    summarize(result, place, progress)
    return result


@public
def compare(
    first: Annotated[
        parameters.FilePath,
        Option(
            "Examples of the first system, written by modtok eval --examples.",
            argument=True,
            metavar="A",
        ),
    ],
    second: Annotated[
        parameters.FilePath, Option("Examples of the second system.", argument=True, metavar="B")
    ],
) -> list[dict[str, Any]]:
    """Compare two systems by paired bootstrap.

    Both files must have the same examples. Each metric is computed on 1,000 resamples of the
    examples, the same for both systems; BLEU and chrF++ from sentence statistics. Reports the
    95% interval of the difference and the p-value of no difference. A task in several
    languages also has a row for their mean.

    Returns:
        One row per task, language and metric: `a`, `b`, `difference` (b - a), its 95% interval
        and `p`. `write_examples` writes the files.

    Examples:
        >>> for mode in ("lang", "full"):
        ...     found = modtok.evaluate_mcq("runs/latest", "fi", infer=mode, limit=2)
        ...     modtok.write_examples(f"{mode}.jsonl", found.examples)
        >>> sorted({row["task"] for row in modtok.compare("lang.jsonl", "full.jsonl")})
        ['endings', 'facts']

    Raises:
        ModtokError: the files hold different examples, or an example differs between them.
    """
    from modtok_cli.evaluate.compare import compare_files

    return compare_files(Path(first), Path(second))


@public
def write_examples(
    path: Annotated[parameters.FilePath, Option("File to write.", metavar="FILE")],
    examples: Annotated[
        Sequence[Mapping[str, Any]],
        Option("Those of an evaluation.", python_only=True, kind=object),
    ],
    *,
    force: parameters.Force = False,
) -> None:
    """Write the examples of an evaluation as JSON lines, for `compare`.

    Raises:
        UsageError: the file exists and `force` is not set.
        ModtokError: the file cannot be written.
    """
    check_new(Path(path), force=force, flag="path")
    write_lines(Path(path), examples)


@public
def fetch_tasks(
    tasks: Annotated[
        Sequence[str] | None,
        Option(
            "mcq, mt or sum; all by default.",
            argument=True,
            kind=list[str],
            metavar="TASK",
            accepts=parameters.CODES,
        ),
    ] = None,
    *,
    languages: parameters.Langs = None,
    output: parameters.Output = None,
    force: parameters.Force = False,
    progress: Progress = SILENT,
) -> Fetched:
    """Download evaluation data from the Hugging Face hub.

    Writes the multiple-choice suites, FLORES-200 and WikiLingua to tasks/, in the layout that
    modtok eval reads. No other command needs the network. Without network access, place the
    files by hand; the error describes the layout. The languages are those of tokenizer/ by
    default.

    Returns:
        `rows` (task, language, number of examples and shots, source, path) and `skipped` (what
        could not be downloaded, and why).

    Raises:
        UsageError: a task is unknown, or a directory exists already.
        ModtokError: the hub cannot be reached.
    """
    from modtok_cli.evaluate.fetch import TASKS, fetch

    chosen = optional_languages(languages) or _workspace_languages()
    place = Path(output or "tasks")
    return fetch(list(tasks or TASKS), chosen, place, force=force, progress=progress)


def _workspace_languages() -> list[str]:
    from modtok_cli.modular.directory import is_modular
    from modtok_cli.modular.manifest import languages_of

    path = Path("tokenizer")
    if not is_modular(path):
        raise UsageError("no languages given", remedy="as in: modtok eval fetch --langs en,fr")
    return languages_of(path)
