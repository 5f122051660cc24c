"""Public functions that build corpora and count words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from modtok_cli.api.arguments import (
    FilePath,
    Languages,
    optional_languages,
    optional_path,
    progress_or_default,
    text_paths,
)
from modtok_cli.base.progress import Progress
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.api.tokenizers import Errors
    from modtok_cli.corpus.report import CorpusReport


def corpus_build(
    inputs: FilePath | Sequence[FilePath],
    languages: Languages | None = None,
    *,
    output: FilePath = "data",
    quality_model: FilePath | None = None,
    quality_top: float | None = None,
    near_duplicates: Literal["off", "language", "all"] = "off",
    language_model: FilePath | None = None,
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
        language_model: fastText model of languages; lid.176 by default.
        workers: Worker processes; one per core by default.
        force: Replace an existing corpus.
        progress: Receives progress; warnings become `ModtokWarning` by default.

    Returns:
        Pages kept and dropped, with reasons.

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
        language_model=optional_path(language_model),
        workers=workers,
        force=force,
        progress=progress_or_default(progress),
    )


def corpus_count(
    languages: Languages | None = None,
    *,
    data: FilePath = "data",
    output: FilePath = "counts",
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Count the words of each language; later calls read the counts instead of the text.

    Args:
        languages: Languages of `data` to count; all by default.
        data: Directory with one text file or directory per language.
        output: Directory to write.
        errors, field, lang_field, threads, progress: As in `bpe`.
        force: Count again even if the text is unchanged.

    Returns:
        One row per language.

    Examples:
        >>> rows = modtok.corpus_count("en,fi", output="counts")
        >>> [row["language"] for row in rows]
        ['en', 'fi']
        >>> report = modtok.bpe_seq("en,fi", data="counts", output="from-counts", k=600)

    Raises:
        ModtokError, UsageError: the text or the output are not usable.
    """
    from modtok_cli.text.corpus import write_counts

    return write_counts(
        optional_languages(languages),
        data=Path(data),
        output=Path(output),
        reading=Reading(errors, field, lang_field),
        threads=threads,
        force=force,
        progress=progress_or_default(progress),
    )
