"""Deduplication as datatrove blocks: hash shards, compare hash ranges, write the corpus.

Three pipelines: `HashParagraphs` (one task per shard), `FindRepeated` (one per hash range),
`WriteCorpus` (one per shard). Pages below the quality cut are removed before hashing, so a
paragraph is never dropped as a repetition of one in a page that is not kept.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.arrays import UInt64Array
from modtok_cli.corpus.blocks import FileStep
from modtok_cli.corpus.content import plain
from modtok_cli.corpus.dedup import (
    RUN,
    Seen,
    load_hashes,
    load_piece,
    paragraph_hash,
    repeated,
    save_hashes,
    save_pieces,
    split,
)
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
            current, hashes_of_run = 0, set[int]()
            for run, _, hashes in runs_of(records):
                if run != current:
                    save_hashes(_hash_path(self.plan, language, rank, current), hashes_of_run)
                    current, hashes_of_run = run, set()
                hashes_of_run.update(hashes)
            save_hashes(_hash_path(self.plan, language, rank, current), hashes_of_run)


class FindRepeated(FileStep):
    """Find the hashes of each run in a range that an earlier run of the language has.

    Writes one file per language and range.
    """

    name = "compare"

    def _do(self, rank: int, world_size: int) -> None:
        low, high = split(1 << 64, world_size)[rank]
        for language in languages_in(self.plan.work / "hashes"):
            paths = sorted((self.plan.work / "hashes" / language).iterdir())
            paths = [path for path in paths if not path.name.startswith(".")]
            pieces = repeated([load_hashes(path) for path in paths], low, high)
            save_pieces(
                self.plan.work / "repeated" / language / f"{rank:05d}.u64",
                {path.stem: own for path, own in zip(paths, pieces, strict=True)},
            )


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
        seen = Seen(np.zeros(0, dtype=np.uint64))
        for run, record, hashes in runs_of(records):
            if run != current:
                current = run
                seen = Seen(_repeated_of(self.plan, language, rank, run))
            paragraphs = record["text"].split("\n")
            left = []
            for paragraph, again in zip(paragraphs, seen.again(hashes), strict=True):
                if again:
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


def _hash_path(plan: BuildPlan, language: str, rank: int, run: int) -> Path:
    """Path of a run's hashes; paths sort in the order of the runs."""
    return plan.work / "hashes" / language / f"{rank:05d}-{run:04d}.u64"


def _repeated_of(plan: BuildPlan, language: str, rank: int, run: int) -> UInt64Array:
    """All hashes of a run that an earlier run has, ascending."""
    files = sorted((plan.work / "repeated" / language).glob("*.u64"))
    pieces = [load_piece(path, f"{rank:05d}-{run:04d}") for path in files]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *pieces])
