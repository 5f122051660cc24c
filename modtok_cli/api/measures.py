"""Public functions that measure tokenizers on text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modtok_cli.api.arguments import (
    FilePath,
    Languages,
    checked,
    optional_path,
    progress_or_default,
    text_paths,
)
from modtok_cli.base.progress import Progress
from modtok_cli.text.languages import language_list
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.api.arguments import Errors
    from modtok_cli.modular.open import Tokenizer
    from modtok_cli.modular.tokenizer import ModularTokenizer

    AnyTokenizer = FilePath | Tokenizer | ModularTokenizer

Rows = list[dict[str, Any]]


@checked
def check(
    tokenizers: AnyTokenizer | Sequence[AnyTokenizer],
    texts: FilePath | Sequence[FilePath],
    *,
    language: str | None = None,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    progress: Progress | None = None,
) -> Rows:
    """Judge how well tokenizers suit languages, without references or parallel text.

    Args:
        tokenizers, texts, language, errors, field, lang_field, progress: See `nsl`.

    Returns:
        One row per language, text and tokenizer, the worst languages first: `tokens_per_word`,
        `tokens_per_character`, `tokens_per_byte`, `excess` (estimated tokens relative to a
        tokenizer made for the language), `premium` over parallel English text if there is any,
        `byte_tokens`, `unknown_tokens`, `verdict` ("good", "fair", "poor" or "bad"), `reason`,
        `hint` and a signature.

    Examples:
        >>> row = modtok.check("tokenizer", "parallel/fi.txt")[0]
        >>> row["name"], row["tokens_per_word"] > 1
        ('Finnish', True)

    Raises:
        ModtokError: a file is missing, empty or damaged.
    """
    from modtok_cli.measure.check import check

    return check(
        _tokenizers(tokenizers),
        text_paths(texts),
        language=language,
        reading=Reading(errors, field, lang_field),
        progress=progress_or_default(progress),
    )


@checked
def fairness(
    tokenizers: AnyTokenizer | Sequence[AnyTokenizer],
    texts: FilePath | Sequence[FilePath],
    *,
    pivot: str | None = None,
    references: FilePath | None = None,
    language: str | None = None,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    progress: Progress | None = None,
) -> Rows:
    """Compare the cost of the same content across languages on line-aligned texts.

    Args:
        tokenizers, references, language, errors, field, lang_field, progress: See `nsl`.
        texts: One line-aligned file per language, or a directory of them.
        pivot: Language that premiums are relative to; English by default.

    Returns:
        One row of kind "language" per tokenizer and language, then one of kind "tokenizer" per
        tokenizer with mean, min, max and Gini coefficient over languages.

    Examples:
        >>> rows = modtok.fairness("tokenizer", ["parallel/en.txt", "parallel/fi.txt"])
        >>> [(row["language"], row["pivot"]) for row in rows if row["kind"] == "language"]
        [('en', 'en'), ('fi', 'en')]

    Raises:
        ModtokError: texts are not line-aligned, or a file is missing, empty or damaged.
        UsageError: two texts in one language, or no text in the pivot language.
    """
    from modtok_cli.measure.fairness import fairness

    return fairness(
        _tokenizers(tokenizers),
        text_paths(texts),
        pivot=pivot,
        references=optional_path(references),
        language=language,
        reading=Reading(errors, field, lang_field),
        progress=progress_or_default(progress),
    )


@checked
def origin(
    tokenizer: FilePath,
    texts: FilePath | Sequence[FilePath],
    *,
    language: str | None = None,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    progress: Progress | None = None,
) -> Rows:
    """Measure which languages the tokens of a text come from.

    Args:
        tokenizer: A modular directory, or `DIR@fr,en` for a subset of it.
        texts, language, errors, field, lang_field, progress: See `nsl`.

    Returns:
        One row per text and language: `tokens`, `outside` (share of tokens that the language's
        own subtokenizer lacks), `exclusive` and `member` (language to share).

    Examples:
        >>> 0 < modtok.origin("tokenizer", "parallel/fi.txt")[0]["outside"] < 0.2
        True

    Raises:
        UsageError: not a modular directory.
        ModtokError: a text is missing, empty or damaged.
    """
    from modtok_cli.measure.origin import origin

    return origin(
        str(tokenizer),
        text_paths(texts),
        language=language,
        reading=Reading(errors, field, lang_field),
        progress=progress_or_default(progress),
    )


@checked
def explore(
    tokenizers: AnyTokenizer | Sequence[AnyTokenizer],
    output: FilePath = "explore.html",
    *,
    languages: Languages | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write an HTML page on which one types text and sees how tokenizers segment it.

    Args:
        tokenizers: Modular tokenizers, whose languages can be chosen on the page, and files of
            modtok, published `tokenizer.json` or tiktoken to compare them with.
        output: File to write.
        languages: Languages that are chosen when the page opens.
        force: Replace an existing page.
        progress: See `nsl`.

    Returns:
        `output`, its size in `bytes`, and the names of the `tokenizers`.

    Examples:
        >>> modtok.explore(["tokenizer", "tokenizer@fi"], languages="fi", force=True)["tokenizers"]
        ['tokenizer', 'tokenizer@fi']

    Raises:
        UsageError: `output` exists, or the page cannot run a tokenizer.
        ModtokError: a tokenizer is damaged.
    """
    from modtok_cli.modular.tokenizer import ModularTokenizer
    from modtok_cli.reports.explore.page import explore

    single = isinstance(tokenizers, str | os.PathLike | ModularTokenizer)
    given = tokenizers if isinstance(tokenizers, Sequence) and not single else [tokenizers]
    return explore(
        [str(each) if isinstance(each, os.PathLike) else each for each in given],  # type: ignore[misc]
        Path(output),
        languages=None if languages is None else language_list(languages),
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def report(
    workspace: FilePath = ".",
    output: FilePath = "report.html",
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Rows:
    """Write one HTML page with all tokenizers, runs and result files of a workspace.

    Args:
        workspace: Directory to look in.
        output: File to write.
        force: Replace an existing page.
        progress: See `nsl`.

    Returns:
        One row per section.

    Examples:
        >>> rows = modtok.report(".", "report.html", force=True)

    Raises:
        UsageError: `output` exists.
        ModtokError: the workspace holds nothing to show, or a file is damaged.
    """
    from modtok_cli.reports.report import report

    return report(
        Path(workspace), Path(output), force=force, progress=progress_or_default(progress)
    )


def _tokenizers(given: AnyTokenizer | Sequence[AnyTokenizer]) -> list[str | Tokenizer]:
    """Paths as strings; a modular tokenizer as the tokenizer of all its languages."""
    from modtok_cli.modular.tokenizer import ModularTokenizer

    def one(tokenizer: AnyTokenizer) -> str | Tokenizer:
        if isinstance(tokenizer, ModularTokenizer):
            return tokenizer.full()
        return str(tokenizer) if isinstance(tokenizer, str | os.PathLike) else tokenizer

    if isinstance(given, Sequence) and not isinstance(given, str):
        return [one(tokenizer) for tokenizer in given]
    return [one(given)]
