"""Deduplication as datatrove blocks: hash shards, compare hash ranges, write the corpus.

Three pipelines: `HashParagraphs` (one task per shard), `FindRepeated` (one per hash range),
`WriteCorpus` (one per shard). Pages below the quality cut are removed before hashing, so a
paragraph is never dropped as a repetition of one in a page that is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.arrays import UInt64Array
from modtok_cli.corpus.blocks import Documents, Step
from modtok_cli.corpus.cut import quality_cuts
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
from modtok_cli.corpus.fineweb import FineWebWriters
from modtok_cli.corpus.near_blocks import remaining
from modtok_cli.corpus.parts import PartWriters, languages_in, part_path, read_part
from modtok_cli.corpus.plan import FINEWEB, Plan

Writers = PartWriters | FineWebWriters


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


class HashParagraphs(Step):
    """Write the sorted hashes of a shard's paragraphs, run by run."""

    name = "hash"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Write hashes; yields no documents."""
        with self.track_time():
            for language, records in remaining(self.plan, rank):
                self._hash(records, language, rank)
        yield from ()

    def _hash(self, records: Iterable[dict[str, Any]], language: str, rank: int) -> None:
        current, held = 0, set[int]()
        for run, _, hashes in runs_of(records):
            if run != current:
                save_hashes(_hash_path(self.plan, language, rank, current), held)
                current, held = run, set()
            held.update(hashes)
        save_hashes(_hash_path(self.plan, language, rank, current), held)


class FindRepeated(Step):
    """Find the hashes of each run in a range that an earlier run of the language has."""

    name = "compare"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Write repeated hashes, one file per language and range; yields no documents."""
        low, high = split(1 << 64, world_size)[rank]
        with self.track_time():
            for language in languages_in(self.plan.work / "hashes"):
                paths = sorted((self.plan.work / "hashes" / language).iterdir())
                paths = [path for path in paths if not path.name.startswith(".")]
                found = repeated([load_hashes(path) for path in paths], low, high)
                save_pieces(
                    self.plan.work / "repeated" / language / f"{rank:05d}.u64",
                    {path.stem: pieces for path, pieces in zip(paths, found, strict=True)},
                )
        yield from ()


class WriteCorpus(Step):
    """Write a shard's records without repeated paragraphs."""

    name = "deduplicate"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Write the corpus; yields no documents."""
        with self.track_time(), _writers(self.plan, rank) as parts:
            for language, cut in quality_cuts(self.plan).items():
                path = part_path(self.plan.work / "parts", language, rank)
                if cut and path.exists():
                    self._count_cut(path, language, cut)
            for language, records in remaining(self.plan, rank, self._drop_near):
                self._write(records, language, rank, parts)
        yield from ()

    def _drop_near(self, record: dict[str, Any]) -> None:
        text = record["text"]
        self.drop(
            "near-duplicate",
            record["lang"],
            paragraphs=text.count("\n") + 1,
            characters=len(text),
        )

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
            kept = []
            for paragraph, again in zip(paragraphs, seen.again(hashes), strict=True):
                if again:
                    self.drop(
                        "paragraph: repeated",
                        language,
                        pages=0,
                        paragraphs=1,
                        characters=len(paragraph),
                    )
                else:
                    kept.append(paragraph)
            record["text"] = text = "\n".join(kept)
            if not text:
                self.drop("repeated", language)
            elif len(text) < self.plan.settings.min_characters and len(kept) < len(paragraphs):
                self.drop(
                    "short after deduplication",
                    language,
                    paragraphs=len(kept),
                    characters=len(text),
                )
            else:
                parts.write(language, record)
                self.keep(language, len(kept), len(text))

    def _count_cut(self, path: Path, language: str, cut: float) -> None:
        for record in read_part(path):
            if (record["quality"] or 0.0) < cut:
                text = record["text"]
                self.drop(
                    "quality", language, paragraphs=text.count("\n") + 1, characters=len(text)
                )


def _writers(plan: Plan, rank: int) -> Writers:
    place = plan.work / "out"
    if plan.settings.layout == FINEWEB:
        return FineWebWriters(place, rank, plan.settings)
    return PartWriters(place, rank)


def _hash_path(plan: Plan, language: str, rank: int, run: int) -> Path:
    """Path of a run's hashes; paths sort in the order of the runs."""
    return plan.work / "hashes" / language / f"{rank:05d}-{run:04d}.u64"


def _repeated_of(plan: Plan, language: str, rank: int, run: int) -> UInt64Array:
    """All hashes of a run that an earlier run has, ascending."""
    files = sorted((plan.work / "repeated" / language).glob("*.u64"))
    pieces = [load_piece(path, f"{rank:05d}-{run:04d}") for path in files]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *pieces])
