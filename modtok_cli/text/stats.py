"""Statistics of a corpus per language."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import UInt64Array
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.core.text import hash_spans
from modtok_cli.text.corpus import count_files
from modtok_cli.text.counts import WordCounter, WordCounts, merge_counts
from modtok_cli.text.parallel import read_each
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance
from modtok_cli.text.table_files import is_table
from modtok_cli.text.text_format import Spans

SAMPLE_CHARACTERS = 200


@dataclass(frozen=True)
class LanguageStats:
    """Size of a language's text.

    `words` counts pre-tokens, `unique_words` different ones. `duplicates` is the number of
    documents that equal an earlier one, None if only a count table exists.
    """

    language: str
    documents: int
    characters: int
    bytes: int
    words: int
    unique_words: int
    duplicates: int | None
    samples: tuple[str, ...] = ()


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


def corpus_stats(
    files: Mapping[str, Sequence[Path | str]],
    *,
    reading: Reading = Reading(),
    samples: int = 0,
    threads: int | None = None,
    progress: Progress = SILENT,
    counted: Callable[[str, WordCounts], None] | None = None,
) -> list[LanguageStats]:
    """Documents, characters, bytes, words and duplicates of each language; sorted by language.

    `files` is the result of `workspace.language_files` or `workspace.by_language`. `samples`
    is the number of documents to show per language, up to 200 characters each, picked by their
    hash. Duplicates are found by a 64-bit hash of the document; empty ones do not count.
    `counted` receives the word counts of each language, from any thread.
    """

    def count(language: str, advance: Advance) -> LanguageStats:
        own, counter, tables = reading.of(language), WordCounter(), []
        hashes: list[UInt64Array] = []
        picked: list[tuple[int, str]] = []
        for file in files[language]:
            if is_table(file):
                tables.append(count_files([file], BPE, own, progress, advance))
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
        table = merge_counts([counter.result(), *tables])
        if counted:
            counted(language, table)
        duplicates = None if tables else len(every) - len(np.unique(every))
        texts = tuple(text for _, text in picked)
        sizes = vars(table.size)
        return LanguageStats(
            language, **sizes, words=table.occurrences, unique_words=len(table),
            duplicates=duplicates, samples=texts,
        )  # fmt: skip

    return read_each(
        count,
        sorted(files),
        files=[file for paths in files.values() for file in paths],
        label="reading",
        threads=threads,
        progress=progress,
    )
