"""Public functions that build corpora and count words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from modtok_cli.api.arguments import (
    FilePath,
    Languages,
    checked,
    optional_languages,
    optional_path,
    progress_or_default,
    text_paths,
)
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.api.arguments import Errors
    from modtok_cli.corpus.report import CorpusReport

Executor = Literal["local", "slurm", "ray"]


@checked
def corpus_build(
    inputs: FilePath | Sequence[FilePath],
    languages: Languages | None = None,
    *,
    output: FilePath = "data",
    quality_model: FilePath | None = None,
    quality_top: float | None = None,
    near_duplicates: Literal["off", "language", "all"] = "off",
    layout: Literal["languages", "fineweb-2"] = "languages",
    language_model: FilePath | None = None,
    executor: Executor = "local",
    executor_options: Mapping[str, str] | None = None,
    workers: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> CorpusReport | None:
    """Turn crawled pages into cleaned text per language.

    Args:
        inputs: WARC, WET, HTML, text or JSON lines files, or directories of them.
        languages: Languages to keep; all that are identified by default.
        output: Directory to write, one directory per language.
        quality_model: fastText classifier of page quality.
        quality_top: Share of the best pages to keep.
        near_duplicates: Keep one of each group of nearly equal pages: of a language, or of all.
        layout: JSON lines in a directory per language, or Parquet files as FineWeb-2 has them.
        language_model: fastText model of languages; lid.176 by default.
        executor: Where tasks run: "local", "slurm" or "ray".
        executor_options: Options of datatrove's executor, such as `{"partition": "cpu"}`.
        workers: Parallel tasks; one per core by default.
        force: Replace an existing corpus.
        progress: Receives progress; warnings become `ModtokWarning` by default.

    Returns:
        Pages kept and dropped, with reasons; None if the tasks were submitted to a cluster and
        still run. The same call gets the report later.

    Examples:
        >>> report = modtok.corpus_build("data/en.jsonl", "en", output="pages", workers=1)
        >>> report.output
        PosixPath('pages')

    Raises:
        ModtokError, UsageError: an input, a model or the output is not usable, or the extra
            `[corpus]` is missing.
    """
    from modtok_cli.corpus.build import corpus_build

    return corpus_build(
        text_paths(inputs),
        languages=optional_languages(languages),
        output=Path(output),
        quality_model=optional_path(quality_model),
        quality_top=quality_top,
        near_duplicates=near_duplicates,
        layout=layout,
        language_model=optional_path(language_model),
        executor=executor,
        executor_options=executor_options,
        workers=workers,
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def corpus_count(
    languages: Languages | None = None,
    *,
    data: FilePath = "data",
    output: FilePath = "counts",
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    threads: int | None = None,
    executor: Executor | None = None,
    executor_options: Mapping[str, str] | None = None,
    tasks: int | None = None,
    workers: int | None = None,
    memory: str | int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> list[dict[str, Any]] | None:
    """Count the words of each language; later calls read the counts instead of the text.

    Args:
        languages: Languages of `data` to count; all by default.
        data: Directory with one text file or directory per language.
        output: Directory to write.
        errors, field, lang_field, threads, progress: As in `bpe`.
        executor: Count in tasks that share the files: "local", "slurm" or "ray". The tables are
            the same, and an interrupted count resumes.
        executor_options: Options of datatrove's executor, such as `{"partition": "cpu"}`.
        tasks: Number of these tasks; by default one per file, at most 1,000.
        workers: Parallel tasks; one per core by default.
        memory: Most bytes for tables of words, such as "4GB", of each task with `executor`; larger
            ones are sorted on disk. The result is the same.
        force: Count again even if the text is unchanged.

    Returns:
        One row per language; None if the tasks were submitted to a cluster and still run. The
        same call gets the rows later.

    Examples:
        >>> rows = modtok.corpus_count("en,fi", output="counts")
        >>> [row["language"] for row in rows]
        ['en', 'fi']
        >>> report = modtok.bpe_seq("en,fi", data="counts", output="from-counts", k=600)

    Raises:
        ModtokError, UsageError: the text or the output are not usable, options of tasks are given
            without an executor, or the extra `[corpus]` is missing for one.
    """
    names, reading = optional_languages(languages), Reading(errors, field, lang_field)
    said = progress_or_default(progress)
    from modtok_cli.text.corpus import checked_memory

    most = checked_memory(memory)
    if executor is None:
        if executor_options or tasks or workers:
            raise UsageError("tasks, workers and executor_options require executor")
        from modtok_cli.text.corpus import write_counts

        return write_counts(
            names,
            data=Path(data),
            output=Path(output),
            reading=reading,
            threads=threads,
            memory=most,
            force=force,
            progress=said,
        )
    from modtok_cli.base.extras import require

    require("modtok corpus count --executor", corpus=("datatrove",))
    from modtok_cli.corpus.count import count_shards

    return count_shards(
        names,
        data=Path(data),
        output=Path(output),
        reading=reading,
        executor=executor,
        executor_options=executor_options,
        tasks=tasks,
        workers=workers,
        memory=most,
        force=force,
        progress=said,
    )
