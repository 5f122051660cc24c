"""`modtok corpus stats`: statistics of texts, with token counts under a tokenizer."""

import heapq
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from modtok_cli.base import parameters
from modtok_cli.base.arrays import UInt64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.option import Option, option_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.remote import path_of
from modtok_cli.base.unused import Unused, uses
from modtok_cli.core.text import hash_spans
from modtok_cli.measure.candidates import is_each, open_each, open_named
from modtok_cli.text.corpus import count_files, no_text
from modtok_cli.text.counts import WordCounter, WordCounts, merge_counts
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.parallel import read_each
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_batches, read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance
from modtok_cli.text.table_files import is_table
from modtok_cli.text.text_format import Spans
from modtok_cli.text.workspace import by_language, language_files
from modtok_cli.tokenizer.protocol import Tokenizer

SAMPLE_CHARACTERS = 200


def _unused(values: Mapping[str, Any]) -> Unused:
    if values.get("texts"):
        yield ("data", "languages"), "TEXT is given"
    else:
        yield ("language",), "--lang is the language of TEXT"


@public
@uses(_unused)
def corpus_stats(
    texts: Annotated[
        parameters.FilePath | Sequence[parameters.FilePath] | None, option_of(parameters.Texts)
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
            hub="tokenizer",
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
    language of the data directory, or of TEXT. The pre-tokenizer splits words; punctuation
    counts too. A document is a duplicate if it equals an earlier one.

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
    files = (
        by_language(list(map(str, parameters.text_paths(texts))), language, reading, progress)
        if texts is not None
        else language_files(path_of(data), names, reading, progress=progress)
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
    """Return rows of `corpus_stats` of the files of each language, ascending.

    `files` is the result of `workspace.language_files` or `workspace.by_language`. `samples`
    is the number of documents to show per language, up to 200 characters each, picked by their
    hash. Duplicates are found by a 64-bit hash of the document; empty ones do not count, and
    there is no number of them (None) if only a count table exists.
    """
    of = _tokenizers(tokenizer, sorted(files), progress) if tokenizer else {}
    tables: dict[str, WordCounts] = {}

    def count(language: str, advance: Advance) -> dict[str, Any]:
        own, counter, counted = reading.of(language), WordCounter(), []
        hashes: list[UInt64Array] = []
        picked: list[tuple[int, str]] = []
        for file in files[language]:
            if is_table(file):
                counted.append(count_files([file], BPE, own, progress, advance))
                continue
            several = len(files[language]) > 1
            for spans in read_spans(
                file, own, progress=progress, advance=advance, may_be_empty=several
            ):
                counter.add_spans(spans.data, spans.starts, spans.stops)
                filled = spans.stops > spans.starts
                of_batch = hash_spans(spans.data, spans.starts, spans.stops)
                hashes.append(of_batch[filled])
                if samples:
                    # The smallest hashes of all: an even sample in any order of the text.
                    smallest = _smallest(spans, of_batch, samples)
                    picked = heapq.nsmallest(samples, {*picked, *smallest})
        every = np.concatenate([np.zeros(0, dtype=np.uint64), *hashes])
        table = merge_counts([counter.result(), *counted])
        if not table.size.documents:
            raise no_text(files[language], own)
        if of:
            tables[language] = table
        return {
            "language": language,
            **vars(table.size),
            "words": table.occurrences,
            "unique_words": len(table),
            "duplicates": None if counted else len(every) - len(np.unique(every)),
            "samples": tuple(text for _, text in picked),
        }

    rows = read_each(
        count,
        sorted(files),
        files=[file for paths in files.values() for file in paths],
        label="reading",
        threads=threads,
        progress=progress,
    )
    for row in rows:
        name = row["language"]
        used, own = of.get(name), reading.of(name)
        row["tokens"] = _tokens(used, tables[name], files[name], own, progress) if used else None
    return rows


def _smallest(spans: Spans, hashes: UInt64Array, samples: int) -> list[tuple[int, str]]:
    smallest = []
    filled = np.flatnonzero(spans.stops > spans.starts)
    different, first = np.unique(hashes[filled], return_index=True)
    for value, document in zip(different[:samples], filled[first[:samples]], strict=True):
        start, stop = int(spans.starts[document]), int(spans.stops[document])
        # A code point has four bytes at most; an incomplete one is not shown.
        raw = spans.data[start : min(stop, start + 4 * SAMPLE_CHARACTERS)].tobytes()
        smallest.append((int(value), raw.decode(errors="ignore")[:SAMPLE_CHARACTERS]))
    return smallest


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
