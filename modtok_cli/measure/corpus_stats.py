"""`modtok corpus stats`: statistics of texts, with token counts under a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.measure.candidates import is_each, open_each, open_named
from modtok_cli.modular.open import Tokenizer
from modtok_cli.text.corpus import count_files
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading
from modtok_cli.text.stats import corpus_stats as text_stats
from modtok_cli.text.table_files import is_table


def corpus_stats(
    files: Mapping[str, Sequence[Path | str]],
    *,
    tokenizer: str | None = None,
    reading: Reading = Reading(),
    samples: int = 0,
    threads: int | None = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """One row per language: the fields of `text.stats.corpus_stats`, and tokens.

    Args:
        files: as returned by `workspace.language_files` or `workspace.by_language`.
        tokenizer: as in `modular.open.open_tokenizer`, or `DIR@each` for each language's own
            subtokenizer; None for no token counts.

    Returns:
        Rows sorted by language. `tokens` is None without a tokenizer for the language.

    Raises:
        ModtokError: a file is missing, damaged or empty; or only word counts are given and the
            tokenizer needs text.
    """
    of = _tokenizers(tokenizer, sorted(files), progress) if tokenizer else {}
    tables: dict[str, WordCounts] = {}
    found = text_stats(
        files,
        reading=reading,
        samples=samples,
        threads=threads,
        progress=progress,
        counted=tables.__setitem__ if of else None,
    )
    rows = []
    for stats in found:
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
    found = open_each([spec], languages, progress)
    return {candidate.only: candidate.tokenizer for candidate in found if candidate.only}


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
                where=str(file),
                remedy="pass the text itself instead of its word counts",
            )
        for batch in read_batches(file, reading, progress=progress):
            texts = [document.text.decode() for document in batch]
            total += sum(len(ids) for ids in tokenizer.encode_batch(texts))
    return total
