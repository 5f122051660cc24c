"""`modtok corpus build`: from crawls to a directory per language and a report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.extras import require
from modtok_cli.base.files import check_directory
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS, FilePath, Force, Langs, OutputDirectory, text_paths
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.corpus.build_plan import (
    FILTERS,
    MIN_CHARACTERS,
    PLAN,
    RANGES,
    SHARD_BYTES,
    STAGES,
    BuildPlan,
    BuildSettings,
    BuildStage,
    begin,
    is_begun,
    is_unfinished,
    make_plan,
)
from modtok_cli.corpus.build_report import REPORT, CorpusReport, load_report, read_report, summary
from modtok_cli.corpus.executors import (
    Executor,
    ExecutorOptions,
    Wait,
    Workers,
    check_executor,
    one_caller,
    run_stages,
)
from modtok_cli.corpus.input_pages import find_files
from modtok_cli.corpus.language import FASTTEXT_THRESHOLD, THRESHOLD
from modtok_cli.corpus.sandbox import SECONDS, Extractor
from modtok_cli.corpus.slurm import check_no_jobs, until_done
from modtok_cli.text.languages import Label, optional_languages

PACKAGES = ("datatrove", "fastwarc", "resiliparse", "py3langid")


def _share(help: str, **facts: Any) -> Option:
    """A share or score from 0 to 1."""
    return Option(help, **{"metavar": "SCORE", "low": 0, "high": 1, **facts})


def _filters(value: object) -> tuple[str, ...]:
    """Names of filters in the order of `FILTERS`."""
    names = value.split(",") if isinstance(value, str) else value
    if names in (["none"], [""], None):
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
            "fastText language identification model, such as GlotLID; py3langid by default.",
            flags="--lang-model",
            metavar="FILE",
        ),
    ] = None,
    language_threshold: Annotated[
        float | None,
        _share(
            f"Minimum language identification score, 0 to 1 (default: {THRESHOLD}, with "
            f"--lang-model {FASTTEXT_THRESHOLD}).",
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
        Option("fastText classifier with the labels good and bad.", metavar="FILE"),
    ] = None,
    quality_threshold: Annotated[float | None, _share("Minimum quality score, 0 to 1.")] = None,
    quality_top: Annotated[
        float | None,
        _share("Keep the best SHARE of the pages of each language, 0 to 1.", metavar="SHARE"),
    ] = None,
    extractor: Annotated[
        Extractor, Option("Library that finds the main text of HTML.")
    ] = "trafilatura",
    filters: Annotated[
        str | Sequence[str] | None,
        Option(
            f"datatrove's filters of pages, comma-separated, of: {', '.join(FILTERS)}.",
            metavar="NAMES",
            kind=str,
            parse=_filters,
        ),
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

    Extracts the main text of the pages, identifies the language, optionally filters and scores
    quality, and removes duplicate paragraphs. Writes DIR/LANG/*.jsonl.zst and DIR/corpus.json, a
    report of what each step dropped. Invalid records are counted and skipped. An interrupted
    build resumes when the command is repeated.

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
    extra: tuple[str, ...] = ("trafilatura",) if extractor == "trafilatura" else ()
    extra += ("fasttext",) if language_model or quality_model else ()
    chosen = _filters(filters)
    extra += ("tldextract", "ahocorasick", "fasteners") if "url" in chosen else ()
    require("modtok corpus build", corpus=(*PACKAGES, *extra))
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
        extractor,
        chosen,
    )
    check_directory(output)
    plan = make_plan(find_files(inputs, output, progress), settings, output, shard_bytes)

    def advance(before: int | None) -> CorpusReport:
        with one_caller(output, executor):
            # What this call has built before is not built again.
            finished = _begun(plan, force and before is None, executor, progress)
            if finished is None:
                stages = stages_of(plan, force)
                how = (executor, workers, options)
                run_stages(stages, plan.work / "logs", *how, before=before, progress=progress)
                finished = load_report(output)
        return finished

    return _checked(until_done(advance, wait, progress), settings, progress)


def _begun(plan: BuildPlan, force: bool, executor: str, progress: Progress) -> CorpusReport | None:
    """Report of a finished build; None if this one has begun and is to be run.

    Raises:
        UsageError: there is another build, and `force` is not set; or settings are invalid.
    """
    from modtok_cli.corpus.publish import check_places

    output, work, settings = Path(plan.output), plan.work, plan.settings
    if is_unfinished(work):
        if is_begun(work, plan.content):
            if executor != "slurm":
                progress.note(f"resuming the build in {output}")
            return None
        if not force:
            raise UsageError(
                "contains an unfinished build with other inputs or settings",
                where=work,
                remedy="repeat the earlier call to resume it, or pass --force to restart",
            )
    elif (output / REPORT).is_file() and not force:
        return _existing_report(plan, progress)
    _check_settings(settings)
    check_places([output / name for name in settings.languages or ()], force=force)
    check_no_jobs(work / "logs")
    begin(work, plan.content)
    return None


def _checked(report: CorpusReport, settings: BuildSettings, progress: Progress) -> CorpusReport:
    """Check that something was kept, and warn about languages without a page.

    Raises:
        ModtokError: no page was kept, or none could be read.
    """
    output = report.output
    present = {row["language"] for row in report.languages}
    if not present:
        bad = [row for row in report.dropped if row["reason"].startswith("bad record: ")]
        if report.bad and len(bad) == len(report.dropped):
            raise ModtokError(
                f"no page was read: {report.bad[0]['reason']}",
                where=report.bad[0]["source"],
                remedy=f"check the format of the file; {output / REPORT} lists bad records",
            )
        most = max(summary(report), key=lambda row: row["pages"], default=None)
        why = f" ({most['pages']:,}: {most['reason']})" if most else ""
        raise ModtokError(
            f"no page was kept{why}",
            where=output,
            remedy=f"{REPORT} in it lists the reasons; check --min-characters, --langs and the "
            "thresholds",
        )
    if without := [name for name in settings.languages or () if name not in present]:
        progress.warn(f"no page was kept in {', '.join(without)}; see {output / REPORT}")
    return report


def stages_of(plan: BuildPlan, force: bool = False) -> list[BuildStage]:
    """Pipelines of a build, in order."""
    from modtok_cli.corpus import blocks, filters, paragraphs
    from modtok_cli.corpus.publish import Publish

    work, chosen, shards = plan.work, plan.settings, len(plan.shards)
    scores, hashes, repeated = work / "scores", work / "hashes", work / "repeated"
    models = (chosen.language_model, chosen.quality_model)
    language_model, quality_model = (Path(name) if name else None for name in models)
    steps = [
        filters.ReplaceAddresses() if name == "pii" else filters.FilterPages(name)
        for name in chosen.filters
    ]
    is_early = int("url" in chosen.filters)
    top, least = chosen.quality_top, chosen.min_characters
    counted = None if top is None else scores
    pages = [
        blocks.ReadPages(work / PLAN, plan.directory),
        *steps[:is_early],
        blocks.MainText(chosen.extractor, chosen.page_seconds, least),
        blocks.IdentifyLanguage(chosen.languages, language_model, chosen.language_threshold),
        *steps[is_early:],
        blocks.ScoreQuality(quality_model, chosen.quality_threshold, counted),
        blocks.WriteRecords(work / "pages"),
    ]

    def again() -> list[Any]:
        """The pages that were written, without those outside of the best share."""
        best = [] if top is None else [blocks.KeepBest(scores, top)]
        return [blocks.ReadRecords(work / "pages"), *best]

    output = blocks.WriteRecords(work / "out", by_language=True)
    pipelines: list[tuple[list[Any], int]] = [
        (pages, shards),
        ([*again(), paragraphs.HashParagraphs(hashes)], shards),
        ([paragraphs.FindRepeated(hashes, repeated)], min(RANGES, shards)),
        ([*again(), paragraphs.DropRepeated(repeated, least), output], shards),
        ([Publish(plan, force)], 1),
    ]
    return [
        BuildStage(name, steps, tasks)
        for name, (steps, tasks) in zip(STAGES, pipelines, strict=True)
    ]


def _check_quality(model: FilePath | None, threshold: float | None, top: float | None) -> None:
    if threshold is not None and top is not None:
        raise UsageError("--quality-threshold and --quality-top are mutually exclusive")
    if model is None and (threshold is not None or top is not None):
        raise UsageError(
            "no quality model",
            remedy="pass --quality-model; examples/paper/train_quality.py trains one",
        )


def _code(name: str) -> str:
    if not Label.of(name).is_known:
        raise UsageError(f"'{name}' is not a language code", remedy="use codes like en,fi,fr")
    return Label.of(name).short


def _absolute(path: FilePath | None) -> str | None:
    return str(Path(path).absolute()) if path else None


def _check_settings(settings: BuildSettings) -> None:
    from modtok_cli.corpus.filters import check_languages
    from modtok_cli.corpus.language import LanguageModel
    from modtok_cli.corpus.quality import QualityModel

    path = Path(settings.language_model) if settings.language_model else None
    LanguageModel(path, settings.languages)
    if settings.quality_model:
        QualityModel(Path(settings.quality_model))
    check_languages(settings.filters, settings.languages)


def _existing_report(plan: BuildPlan, progress: Progress) -> CorpusReport:
    """Report of a finished build with the same plan.

    Raises:
        UsageError: it is of another one.
    """
    output = Path(plan.output)
    try:
        is_same = read_report(output / REPORT).get("build") == plan.key
    except ModtokError:
        is_same = False
    if not is_same:
        raise UsageError(
            "contains a corpus built from other inputs or settings",
            where=output / REPORT,
            remedy="choose another -o, or pass --force to replace it",
        )
    progress.warn(f"{output.name} is already finished with these settings; --force rebuilds it")
    return load_report(output)
