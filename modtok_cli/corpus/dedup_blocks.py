"""Deduplication as datatrove blocks: hash shards, compare hash ranges, write the corpus.

Three pipelines: `HashParagraphs` (one task per shard), `FindRepeated` (one per hash range),
`WriteCorpus` (one per shard). Pages below the quality cut are removed before hashing, so a
paragraph is never dropped as a repetition of one in a page that is not kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from modtok_cli.base.arrays import UInt64Array
from modtok_cli.corpus.blocks import FileStep
from modtok_cli.corpus.content import plain
from modtok_cli.corpus.dedup import (
    RUN,
    Seen,
    frequent,
    load_hashes,
    load_piece,
    paragraph_hash,
    repeated,
    save_counts,
    save_hashes,
    save_pieces,
    site_hash,
    split,
)
from modtok_cli.corpus.elements import BREAK
from modtok_cli.corpus.near import remaining
from modtok_cli.corpus.parts import (
    FineWebWriters,
    PartWriters,
    Writers,
    languages_in,
    part_path,
    read_part,
)
from modtok_cli.corpus.plan import FINEWEB, BuildPlan
from modtok_cli.corpus.quality import quality_cuts

PAGES_OF_SITE = 10
"""Number of pages of a host from which on a paragraph that they share is its boilerplate."""
MOST_SHARED = 0.5
"""Maximum share of such paragraphs in a page: above it the page itself occurs that often."""


def site_hashes(record: dict[str, Any]) -> list[int]:
    """Hashes of the paragraphs of a page with its host; 0 for code, tables, and without a host."""
    paragraphs = record["text"].split("\n")
    try:
        host = urlsplit(record["url"] or "").hostname
    except ValueError:
        host = None
    return [
        site_hash(host, text) if host and not text.startswith(BREAK) else 0 for text in paragraphs
    ]


def runs_of(
    records: Iterable[dict[str, Any]],
) -> Iterator[tuple[int, dict[str, Any], list[int]]]:
    """(run, record, hashes of its paragraphs) of the records of a shard in a language."""
    run = filled = 0
    for record in records:
        hashes = [paragraph_hash(paragraph) for paragraph in record["text"].split("\n")]
        if filled and filled + len(hashes) > RUN:
            run, filled = run + 1, 0
        filled += len(hashes)
        yield run, record, hashes


class HashParagraphs(FileStep):
    """Write the sorted hashes of a shard's paragraphs, run by run."""

    name = "hash"

    def _do(self, rank: int, world_size: int) -> None:
        for language, records in remaining(self.plan, rank):
            current, hashes_of_run, sites = 0, set[int](), Counter[int]()
            for run, record, hashes in runs_of(records):
                if run != current:
                    self._save(language, rank, current, hashes_of_run, sites)
                    current, hashes_of_run, sites = run, set(), Counter()
                hashes_of_run.update(hashes)
                if "sites" in self.plan.settings.filters:
                    sites.update({*site_hashes(record)} - {0})
            self._save(language, rank, current, hashes_of_run, sites)

    def _save(
        self, language: str, rank: int, run: int, hashes: set[int], sites: Counter[int]
    ) -> None:
        save_hashes(_run_path(self.plan, "hashes", language, rank, run), hashes)
        save_counts(_run_path(self.plan, "sites", language, rank, run), sites)


class FindRepeated(FileStep):
    """Find the hashes of each run in a range that an earlier run of the language has.

    Also the hashes of boilerplate of sites. Writes a file of each for a language and range.
    """

    name = "compare"

    def _do(self, rank: int, world_size: int) -> None:
        low, high = split(1 << 64, world_size)[rank]
        for language in languages_in(self.plan.work / "hashes"):
            paths = sorted((self.plan.work / "hashes" / language).glob("[0-9]*"))
            pieces = repeated([load_hashes(path) for path in paths], low, high)
            save_pieces(
                self.plan.work / "repeated" / language / f"{rank:05d}.npy",
                {_number_of(path): own for path, own in zip(paths, pieces, strict=True)},
            )
            counts = [self.plan.work / "sites" / language / path.name for path in paths]
            shared = np.concatenate(frequent(counts, PAGES_OF_SITE, low, high))
            save_hashes(self.plan.work / "frequent" / language / f"{rank:05d}.npy", shared)


class WriteCorpus(FileStep):
    """Write a shard's records without repeated paragraphs."""

    name = "deduplicate"

    def _do(self, rank: int, world_size: int) -> None:
        with _writers(self.plan, rank) as parts:
            for language, cut in quality_cuts(self.plan).items():
                path = part_path(self.plan.work / "parts", language, rank)
                if cut and path.exists():
                    for record in read_part(path):
                        if (record["quality"] or 0.0) < cut:
                            self.drop_page("quality", language, record["text"])
            for language, records in remaining(self.plan, rank, self._drop_near):
                self._write(records, language, rank, parts)

    def _drop_near(self, record: dict[str, Any]) -> None:
        self.drop_page("near-duplicate", record["lang"], record["text"])

    def _write(
        self, records: Iterable[dict[str, Any]], language: str, rank: int, parts: Writers
    ) -> None:
        current = -1
        shared = _frequent_of(self.plan, language)
        seen = Seen(np.zeros(0, dtype=np.uint64))
        for run, record, hashes in runs_of(records):
            if run != current:
                current = run
                seen = Seen(_repeated_of(self.plan, language, rank, run))
            paragraphs = record["text"].split("\n")
            left = []
            of_site = _of_site(record, shared)
            for paragraph, again, is_shared in zip(
                paragraphs, seen.again(hashes), of_site, strict=True
            ):
                if is_shared:
                    self.drop_paragraph("of the site", language, paragraph)
                elif again:
                    self.drop_paragraph("repeated", language, paragraph)
                else:
                    left.append(paragraph)
            text = "\n".join(left)
            if not text:
                self.drop("repeated", language)
            elif len(text) < self.plan.settings.min_characters and len(left) < len(paragraphs):
                self.drop_page("short after deduplication", language, text)
            else:
                record["text"] = plain(text)
                parts.write(language, record)
                self.keep(language, len(left), len(text))


def _writers(plan: BuildPlan, rank: int) -> Writers:
    place = plan.work / "out"
    if plan.settings.layout == FINEWEB:
        return FineWebWriters(place, rank, plan.settings)
    return PartWriters(place, rank)


def _run_path(plan: BuildPlan, folder: str, language: str, rank: int, run: int) -> Path:
    """Path of a run's hashes; paths sort in the order of the runs."""
    return plan.work / folder / language / f"{rank:05d}-{run:04d}.npy"


def _number_of(path: Path) -> int:
    """Number of a run, by the path of its hashes."""
    return int(path.stem.replace("-", ""))


def _frequent_of(plan: BuildPlan, language: str) -> UInt64Array:
    """Hashes of boilerplate of all sites, ascending."""
    files = sorted((plan.work / "frequent" / language).glob("*.npy"))
    return np.concatenate([np.zeros(0, dtype=np.uint64), *map(load_hashes, files)])


def _of_site(record: dict[str, Any], shared: UInt64Array) -> list[bool]:
    """Whether each paragraph is boilerplate of the page's site."""
    paragraphs = record["text"].split("\n")
    none = [False] * len(paragraphs)
    if not len(shared):
        return none
    hashes = np.array(site_hashes(record), dtype=np.uint64)
    places = np.minimum(np.searchsorted(shared, hashes), len(shared) - 1)
    found: list[bool] = (shared[places] == hashes).tolist()
    size = sum(len(text) for text, is_shared in zip(paragraphs, found, strict=True) if is_shared)
    return found if size <= MOST_SHARED * len(record["text"]) else none


def _repeated_of(plan: BuildPlan, language: str, rank: int, run: int) -> UInt64Array:
    """All hashes of a run that an earlier run has, ascending."""
    files = sorted((plan.work / "repeated" / language).glob("*.npy"))
    number = _number_of(_run_path(plan, "hashes", language, rank, run))
    pieces = [load_piece(path, number) for path in files]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *pieces])
