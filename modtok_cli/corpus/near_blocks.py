"""Near-duplicates as steps of a build: sign pages, pair them, make clusters; and the pages left.

`SignPages` (one task per shard), `PairPages` (buckets × ranges of hashes), `ClusterPages` (groups
shared by a few tasks). A group is a language, or all of them. Later stages read the pages by
`remaining`, which applies the quality cut and then datatrove's filter, in the order of the signing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.dedup.minhash import MinhashDedupFilter

from modtok_cli.corpus.blocks import Documents, Step
from modtok_cli.corpus.cut import quality_cuts
from modtok_cli.corpus.near import Clusters, Pairs, Signatures, groups_in, raise_open_files
from modtok_cli.corpus.parts import languages_in, part_path, read_part
from modtok_cli.corpus.plan import Near, Plan

Record = dict[str, Any]
SIZE = "minhash_cluster_size"
"""Field of a record: number of pages in its cluster; the name is that of FineWeb-2."""
SHARDS_PER_RANGE = 64
"""Shards after which one more task compares each bucket."""
MAX_RANGES = 50
CLUSTER_TASKS = 8
"""Maximum number of tasks that share the groups; each holds the pairs of one at a time."""


def pair_tasks(near: Near, shards: int) -> int:
    """Number of tasks of `PairPages`."""
    return near.buckets * min(MAX_RANGES, 1 + shards // SHARDS_PER_RANGE)


class SignPages(Step):
    """Write the MinHash signatures of a shard's pages."""

    name = "sign"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Write signatures; yields no documents."""
        plan, near = self.plan, _near_of(self.plan)
        with self.track_time():
            for group, records in _groups(plan, near, _above(plan, rank)):
                place = plan.work / "near" / group / "signatures"
                Signatures(place, near).run(map(_document, records), rank, world_size)
        yield from ()


class PairPages(Step):
    """Find the pairs of a bucket in a range of hashes."""

    name = "pair"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Write pairs; yields no documents."""
        raise_open_files()
        near = _near_of(self.plan)
        with self.track_time():
            for _, place in groups_in(self.plan.work / "near"):
                Pairs(place / "signatures", place / "pairs", near).run(None, rank, world_size)
        yield from ()


class ClusterPages(Step):
    """Unite pairs to clusters, for every `world_size`-th group."""

    name = "cluster"

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> Documents:
        """Write the pages to remove; yields no documents."""
        raise_open_files()
        near = _near_of(self.plan)
        with self.track_time():
            for _, place in list(groups_in(self.plan.work / "near"))[rank::world_size]:
                Clusters(place / "pairs", place / "removed", near).run()
        yield from ()


def remaining(
    plan: Plan, rank: int, drop: Callable[[Record], None] = lambda record: None
) -> Iterator[tuple[str, Iterator[Record]]]:
    """Languages of a shard and their records, above the quality cut and without near-duplicates.

    The records of a language are to be consumed before the next language. `drop` gets each
    near-duplicate.
    """
    above = _above(plan, rank)
    near = plan.settings.near
    if near is None:
        yield from above
        return
    for group, records in _groups(plan, near, above):
        place = plan.work / "near" / group / "removed"
        block = MinhashDedupFilter(
            str(place), exclusion_writer=_Excluded(drop), load_cluster_sizes=True
        )
        left = map(_record, block.run(map(_document, records), rank))
        yield from groupby(left, key=itemgetter("lang"))


def _near_of(plan: Plan) -> Near:
    assert plan.settings.near is not None  # the stages of these steps are only there with it
    return plan.settings.near


def _above(plan: Plan, rank: int) -> Iterator[tuple[str, Iterator[Record]]]:
    """Languages of a shard and their records above the quality cut."""
    cuts = quality_cuts(plan)
    for language in languages_in(plan.work / "parts"):
        path = part_path(plan.work / "parts", language, rank)
        if path.exists():
            yield language, _cut(path, cuts, language)


def _cut(path: Path, cuts: Mapping[str, float], language: str) -> Iterator[Record]:
    cut = cuts.get(language, 0.0)
    return (record for record in read_part(path) if (record["quality"] or 0.0) >= cut)


def _groups(
    plan: Plan, near: Near, above: Iterable[tuple[str, Iterator[Record]]]
) -> Iterator[tuple[str, Iterator[Record]]]:
    """Records of a shard by group."""
    if near.scope == "language":
        yield from above
    else:
        yield "all", chain.from_iterable(records for _, records in above)


def _document(record: Record) -> Document:
    return Document(record["text"], record["source"], metadata=record)


def _record(document: Document) -> Record:
    # A shard in whose group nothing has a near-duplicate has no sizes.
    record: Record = document.metadata
    record.setdefault(SIZE, 1)
    return record


class _Excluded:
    """What datatrove's filter takes for a writer of the pages that it removes."""

    def __init__(self, drop: Callable[[Record], None]) -> None:
        self._drop = drop

    def write(self, document: Document, rank: int = 0) -> None:
        self._drop(document.metadata)

    def __enter__(self) -> _Excluded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
