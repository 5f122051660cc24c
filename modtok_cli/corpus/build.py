"""`modtok corpus build`: crawls in, `data/<lang>/*.jsonl.zst` and a report out."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import fsync_directory, write_bytes
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.corpus.executors import Stage, check_executor, clear_sockets, run_stages
from modtok_cli.corpus.extra import require_build
from modtok_cli.corpus.heuristics import MIN_CHARACTERS
from modtok_cli.corpus.language import THRESHOLD
from modtok_cli.corpus.parts import NAME, SUFFIX
from modtok_cli.corpus.plan import (
    RANGES,
    SHARD_BYTES,
    STAGES,
    Plan,
    Settings,
    begin,
    is_unfinished,
    make_plan,
    read_json,
    resume,
    work_of,
)
from modtok_cli.corpus.report import CorpusReport, collect
from modtok_cli.corpus.sandbox import SECONDS
from modtok_cli.corpus.sources import find_files
from modtok_cli.text.languages import is_language, normalize

REPORT = "corpus.json"
_SECONDS = "seconds.json"
_STALE = "stale.json"
# The tasks' statistics and bad records stay: a build killed at its very end reports them again.
_BETWEEN = ("parts", "scores", "hashes", "repeated", "out", "progress")


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
    executor: str = "local",
    executor_options: Mapping[str, str] | None = None,
    workers: int | None = None,
    force: bool = False,
    shard_bytes: int = SHARD_BYTES,
    progress: Progress = SILENT,
) -> CorpusReport | None:
    """Build a corpus for each language out of crawled pages.

    Args:
        inputs: WARC, WET, HTML, text (a page per line) or JSON lines files, or directories.
        languages: which to keep; None for all that are found.
        output: where `<lang>/<shard>.jsonl.zst` and `corpus.json`, the report, go.
        language_model: a fastText model; by default lid.176.
        language_threshold: least score of a page's language.
        page_seconds: most processor time for the text of one page.
        min_characters: pages with less text are dropped.
        quality_model: as `train_quality` writes it; then one of the next two as well, or
            neither to write the scores only.
        quality_threshold: least score of a page.
        quality_top: share of the pages of each language to keep, the best.
        executor: "local", "slurm" or "ray"; with `executor_options` of datatrove's executor.
        workers: tasks at a time; by default one a core (local), or all.
        force: replace what is there, and begin anew.

    Returns:
        The report; None if the tasks were submitted to a cluster and run there now. The
        same call goes on after an interruption, and gives the report once all is done.

    Raises:
        UsageError: settings that cannot be, or an output that is there already.
        ModtokError: an input or model that cannot be read, or a task that failed.
    """
    options = check_executor(executor, executor_options or {})
    require_build()
    settings = _settings(
        languages,
        language_model,
        language_threshold,
        page_seconds,
        min_characters,
        quality_model,
        quality_threshold,
        quality_top,
    )
    if output.exists() and not output.is_dir():
        raise UsageError("is no directory", where=str(output), remedy="choose another -o")
    plan = make_plan(find_files(inputs, output), settings, output, force, shard_bytes)
    if is_unfinished(plan):
        progress.note(f"going on with the build in {output}")
        plan = resume(plan)
    else:
        finished = _finished(plan, progress)
        if finished:
            clear_sockets(plan.work / "logs")
            return finished
        _check_models(settings)
        if not force:
            for language in settings.languages or ():
                _check_free(output / language)
        begin(plan)
    with _progress(plan, progress):
        done = run_stages(stages_of(plan), plan.work / "logs", executor, workers, options)
    if not done:
        progress.note("submitted; the same call tells the result once the jobs are done")
        return None
    report = load_report(output)
    kept = {row["language"] for row in report.languages}
    if without := [name for name in settings.languages or () if name not in kept]:
        progress.warn(f"no page is left in {', '.join(without)}; {output / REPORT} says why")
    elif not kept:
        progress.warn(f"no page is left; {output / REPORT} says why")
    return report


def stages_of(plan: Plan) -> list[Stage]:
    """The pipelines of a build, in their order."""
    from modtok_cli.corpus import blocks, dedup_blocks
    from modtok_cli.corpus.publish import Publish

    shards = len(plan.shards)
    steps = [
        (
            [
                blocks.ReadPages,
                blocks.ExtractText,
                blocks.JudgeParagraphs,
                blocks.IdentifyLanguage,
                blocks.ScoreQuality,
                blocks.WriteParts,
            ],
            shards,
        ),
        ([dedup_blocks.HashParagraphs], shards),
        ([dedup_blocks.FindRepeated], min(RANGES, shards)),
        ([dedup_blocks.WriteCorpus], shards),
        ([Publish], 1),
    ]
    return [
        Stage(name, [block(plan.work) for block in classes], tasks)
        for name, (classes, tasks) in zip(STAGES, steps, strict=True)
    ]


def publish(plan: Plan) -> None:
    """Put the finished languages in their places, and the report beside them, last of all.

    Raises:
        UsageError: a place is taken, and not by an earlier build that is to be replaced.
    """
    output, out = Path(plan.output), plan.work / "out"
    fresh = sorted(entry for entry in out.iterdir() if entry.is_dir()) if out.is_dir() else []
    if not plan.force:
        for entry in fresh:
            _check_free(output / entry.name)
    report = collect(plan.work, output)
    noted = plan.work / _STALE  # the earlier report is gone if this was killed before
    if not noted.is_file():
        replaces = plan.force and (output / REPORT).is_file()
        write_bytes(noted, orjson.dumps(_earlier(output) if replaces else []))
    stale: list[str] = read_json(noted)
    (output / REPORT).unlink(missing_ok=True)  # what it says is no longer so
    for entry in fresh:
        place = output / entry.name
        if place.exists():
            _remove(place)
        entry.replace(place)
    written = {row["language"] for row in report.languages}
    for language in stale:
        if language not in written:
            _remove(output / language)
    fsync_directory(output)
    content = {"format": "modtok corpus", "build": plan.key} | asdict(report)
    # The same build gives the same report: what differs each time lies beside the logs.
    seconds = content.pop("seconds")
    del content["output"]
    write_bytes(plan.work / _SECONDS, orjson.dumps(seconds))
    write_bytes(output / REPORT, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    for name in _BETWEEN:
        shutil.rmtree(plan.work / name, ignore_errors=True)


def load_report(output: Path) -> CorpusReport:
    """The report of a finished build.

    Raises:
        ModtokError: there is none, or it is damaged.
    """
    content = read_json(output / REPORT)
    spent = work_of(output) / _SECONDS
    seconds = read_json(spent) if spent.is_file() else {}
    names = ("languages", "dropped", "bad")
    if not isinstance(content, dict) or not all(_is_rows(content.get(name)) for name in names):
        raise ModtokError(
            "not a report of modtok corpus build",
            where=str(output / REPORT),
            remedy="build with --force",
        )
    return CorpusReport(output, **{name: content[name] for name in names}, seconds=seconds)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def _settings(
    languages: Sequence[str] | None,
    language_model: Path | None,
    language_threshold: float,
    page_seconds: float,
    min_characters: int,
    quality_model: Path | None,
    quality_threshold: float | None,
    quality_top: float | None,
) -> Settings:
    for name in languages or ():
        if not is_language(name):
            raise UsageError(f"'{name}' is not a language code", remedy="use codes like en,fi,fr")
    if quality_threshold is not None and quality_top is not None:
        raise UsageError("--quality-threshold and --quality-top exclude each other")
    if quality_model is None and (quality_threshold is not None or quality_top is not None):
        raise UsageError(
            "no model to tell the quality by",
            remedy="pass --quality-model; `modtok corpus train-quality` makes one",
        )
    for flag, share in (
        ("--lang-threshold", language_threshold),
        ("--quality-threshold", quality_threshold),
        ("--quality-top", quality_top),
    ):
        if share is not None and not 0 <= share <= 1:
            raise UsageError(f"{flag} {share} is not between 0 and 1")
    return Settings(
        None if languages is None else tuple(sorted({normalize(name) for name in languages})),
        str(Path(language_model).absolute()) if language_model else None,
        language_threshold,
        page_seconds,
        min_characters,
        str(Path(quality_model).absolute()) if quality_model else None,
        quality_threshold,
        quality_top,
    )


def _check_models(settings: Settings) -> None:
    """Fail now and not in the tasks."""
    from modtok_cli.corpus.language import LanguageModel
    from modtok_cli.corpus.quality import QualityModel

    path = Path(settings.language_model) if settings.language_model else None
    LanguageModel(path, settings.languages)
    if settings.quality_model:
        QualityModel(Path(settings.quality_model))


def _earlier(output: Path) -> list[str]:
    """Languages of the corpus that is there, by its report; only such as may be removed.

    What is removed must look like ours, whatever the report says: a directory of this very
    place that holds parts and nothing else. A damaged report names none.
    """
    try:
        rows = load_report(output).languages
    except ModtokError:  # it is what is to be replaced
        return []
    names = [row.get("language") for row in rows]
    return [
        name
        for name in names
        if isinstance(name, str)
        and NAME.fullmatch(name)
        and (output / name).is_dir()
        and not (output / name).is_symlink()
        and all(entry.name.endswith(SUFFIX) for entry in (output / name).iterdir())
    ]


def _check_free(place: Path) -> None:
    if place.exists():
        raise UsageError(
            "is there already", where=str(place), remedy="choose another -o, or --force"
        )


def _finished(plan: Plan, progress: Progress) -> CorpusReport | None:
    """The report of this very build if it is done, None to go on."""
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
            "another corpus is there, of other inputs or settings",
            where=str(output / REPORT),
            remedy="choose another -o, or --force to replace it",
        )
    progress.warn(f"{output.name} is finished already, with these settings; --force builds again")
    return load_report(output)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


@contextmanager
def _progress(plan: Plan, progress: Progress) -> Iterator[None]:
    """Show how much is read, by what the tasks note of themselves."""
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
