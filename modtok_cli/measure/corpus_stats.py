"""`modtok corpus stats`: statistics of texts, with token counts under a tokenizer."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, get_args

from modtok_cli.base import parameters
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.measure.candidates import is_each, open_each, open_named
from modtok_cli.modular.open import Tokenizer
from modtok_cli.text.corpus import count_files
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading
from modtok_cli.text.stats import corpus_stats as text_stats
from modtok_cli.text.table_files import is_table
from modtok_cli.text.workspace import by_language, language_files


@public
def corpus_stats(
    texts: Annotated[
        parameters.FilePath | Sequence[parameters.FilePath] | None, get_args(parameters.Texts)[1]
    ] = None,
    languages: parameters.Langs = None,
    *,
    language: parameters.Lang = None,
    data: parameters.Data = "data",
    tokenizer: Annotated[
        parameters.FilePath | None,
        Option(
            "Also count tokens: modular directory, DIR@fr,en, DIR@each, tokenizer.json, "
            ".model, or tiktoken file.",
            flags="-t --tokenizer",
            kind=str,
            metavar="TOKENIZER",
            accepts=(parameters.is_path, "a path"),
        ),
    ] = None,
    samples: Annotated[
        int, Option("Print N truncated documents of each language.", metavar="N", low=0)
    ] = 0,
    reading: Reading = Reading(),
    threads: parameters.Threads = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Print statistics of texts.

    Counts documents, bytes, words, duplicates and optionally tokens. Prints one row per
    language of the data directory, or of TEXT. A document is a duplicate if it equals an
    earlier one.

    Returns:
        One row per language, ascending, with the `samples`. `tokens` is None without a tokenizer
        for the language.

    Examples:
        >>> [row["language"] for row in modtok.corpus_stats(["parallel/en.txt", "parallel/fi.txt"])]
        ['en', 'fi']

    Raises:
        ModtokError: a file is missing, damaged or empty; or only word counts are there and the
            tokenizer needs text.
        UsageError: languages of the data directory beside texts.
    """
    names = optional_languages(languages)
    if texts is not None and names is not None:
        raise UsageError("--langs selects from the data directory", remedy="omit --langs or TEXT")
    if language is not None and texts is None:
        raise UsageError("--lang is the language of TEXT", remedy="give a TEXT, or use --langs")
    files = (
        by_language([str(path) for path in parameters.text_paths(texts)], language)
        if texts is not None
        else language_files(Path(data), names, reading, progress=progress)
    )
    return stats_of(
        files,
        tokenizer=None if tokenizer is None else str(tokenizer),
        reading=reading,
        samples=samples,
        threads=threads,
        progress=progress,
    )


def stats_of(
    files: Mapping[str, Sequence[Path | str]],
    *,
    tokenizer: str | None = None,
    reading: Reading = Reading(),
    samples: int = 0,
    threads: int | None = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Rows of `corpus_stats` of the files of each language."""
    of = _tokenizers(tokenizer, sorted(files), progress) if tokenizer else {}
    tables: dict[str, WordCounts] = {}
    statistics = text_stats(
        files,
        reading=reading,
        samples=samples,
        threads=threads,
        progress=progress,
        counted=tables.__setitem__ if of else None,
    )
    rows = []
    for stats in statistics:
        row = asdict(stats)
        used = of.get(stats.language)
        name = stats.language
        own = reading.of(name)
        row["tokens"] = _tokens(used, tables[name], files[name], own, progress) if used else None
        rows.append(row)
    return rows


def _tokenizers(spec: str, languages: Sequence[str], progress: Progress) -> dict[str, Tokenizer]:
    if not is_each(spec):
        one = open_named([spec], progress)[0].tokenizer
        return dict.fromkeys(languages, one)
    candidates = open_each([spec], languages, progress)
    return {candidate.only: candidate.tokenizer for candidate in candidates if candidate.only}


def _tokens(
    tokenizer: Tokenizer,
    counts: WordCounts,
    files: Sequence[Path | str],
    reading: Reading,
    progress: Progress,
) -> int:
    """Number of tokens: from word counts if the pre-tokenizer allows it, else from text."""
    pretokenizer = tokenizer.pretokenizer
    if pretokenizer is BPE:
        return int(tokenizer.token_lengths(counts) @ counts.counts)
    if pretokenizer is not None:
        counts = count_files(files, pretokenizer, reading, progress, None)
        return int(tokenizer.token_lengths(counts) @ counts.counts)
    total = 0
    for file in files:
        if is_table(file):
            raise ModtokError(
                f"tokenizer {tokenizer.name} uses a pre-tokenizer without word counts",
                where=file,
                remedy="pass the text itself instead of its word counts",
            )
        for batch in read_batches(file, reading, progress=progress):
            texts = [document.text.decode() for document in batch]
            total += sum(len(ids) for ids in tokenizer.encode_batch(texts))
    return total
