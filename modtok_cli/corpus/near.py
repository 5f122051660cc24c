"""Near-duplicate pages by MinHash, with datatrove's blocks.

A page is a set of n-grams of words. Each of buckets × hashes random functions gives the smallest
value of the set; two pages agree in one with probability J, the share of n-grams that both have
(Jaccard). Pages that agree in all hashes of a bucket are a pair: 1 - (1 - J^hashes)^buckets. Pairs
that share a page form a cluster, of which one page is kept.

The blocks are datatrove's; what differs here: words of any language, pages of any length in bounded
memory, and ranges of hashes that small files allow as well.

In a build, `SignPages` (one task per shard), `PairPages` (buckets × ranges of hashes) and
`ClusterPages` (languages shared by a few tasks) run them. Later stages read the pages by
`remaining`, which applies the quality cut and then datatrove's filter, in the order of the signing.
"""

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt
import regex
from datatrove.data import Document
from datatrove.pipeline.dedup.minhash import (
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.utils.word_tokenizers import WordTokenizer
from tqdm import tqdm
from xxhash import xxh64_intdigest

from modtok_cli.corpus.blocks import FileStep
from modtok_cli.corpus.parts import SIZE, languages_in, part_path, read_part
from modtok_cli.corpus.plan import BuildPlan
from modtok_cli.corpus.quality import quality_cuts

Record = dict[str, Any]
CONFIG = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
"""FineWeb's, with datatrove's 64-bit hashes and normal form of text."""
SHARDS_PER_RANGE = 64
"""Shards after which one more task compares each bucket."""
MAX_RANGES = 50
CLUSTER_TASKS = 8
"""Maximum number of tasks that share the languages; each holds the pairs of one at a time."""
# Scripts without spaces between words: a character with its marks is a word there.
_UNSPACED = "".join(
    rf"\p{{{name}}}"
    for name in (
        "Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "Tai_Le",
        "New_Tai_Lue", "Tai_Tham", "Tai_Viet",
    )
)  # fmt: skip
_ANY_UNSPACED = regex.compile(rf"[{_UNSPACED}]")
WORD = regex.compile(rf"[{_UNSPACED}]\p{{M}}*|[^\s{_UNSPACED}]+")
_SHINGLES = 4096  # n-grams at a time: 3.6 MB for each copy of their 14 × 8 values
_BUFFERED = 128  # signatures read at a time from each file


class Words(WordTokenizer):
    """Words of any language, so that no segmenter of a language is needed."""

    def __init__(self) -> None:
        super().__init__("all")

    def word_tokenize(self, text: str) -> list[str]:
        """Words between spaces; in scripts without spaces, characters with their marks.

        >>> Words().word_tokenize("two words 日本")
        ['two', 'words', '日', '本']
        """
        if not _ANY_UNSPACED.search(text):
            return text.split()
        words: list[str] = WORD.findall(text)
        return words

    def sent_tokenize(self, text: str) -> list[str]:
        """The text as one sentence."""
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """The text as one span."""
        return [(0, len(text))]


def _hash(text: str) -> int:
    return xxh64_intdigest(text.encode("utf-8", "surrogatepass"))


class Signatures(MinhashDedupSignature):
    """datatrove's signatures of pages in any language, in memory that a page's length bounds."""

    def __init__(self, output: Path) -> None:
        super().__init__(str(output), CONFIG, language=Words())
        self._hash_func = _hash  # datatrove passes text, which xxhash 4 refuses

    def get_signature(self, shingles: npt.NDArray[np.uint64]) -> list[list[int]]:
        """The smallest values, bucket by bucket; `shingles` are taken a part at a time."""
        parts = [
            super(Signatures, self).get_signature(shingles[at : at + _SHINGLES])
            for at in range(0, len(shingles), _SHINGLES)
        ]
        return [
            [min(values) for values in zip(*same, strict=True)] for same in zip(*parts, strict=True)
        ]


class Pairs(MinhashDedupBuckets):
    """datatrove's comparison of a bucket's signatures, in a range of hashes for each task."""

    def __init__(self, signatures: Path, output: Path) -> None:
        super().__init__(str(signatures), str(output), config=CONFIG, lines_to_buffer=_BUFFERED)

    def get_worker_hash_range(self, sig_files: list[str], rank: int, world_size: int) -> Any:
        """Range of first hashes of a task: quantiles of the largest file, which is never empty.

        datatrove takes the first file, and fails if it has fewer pages than there are tasks.
        """
        low, high = super().get_worker_hash_range([], rank, world_size)
        parts = world_size // self.config.num_buckets
        if parts == 1 or not sig_files:
            return low, high
        line = struct.calcsize(f"<{self.config.hashes_per_bucket}QI")
        largest = max(sig_files, key=lambda name: (self.input_folder.size(name), name))
        lines = self.input_folder.size(largest) // line
        part = rank % parts
        with self.input_folder.open(largest, mode="rb") as file:

            def first(number: int) -> int:
                file.seek(line * (lines * number // parts))
                return int.from_bytes(file.read(8), "little")

            return first(part) if part else low, first(part + 1) if part + 1 < parts else high


class Clusters(MinhashDedupCluster):
    """datatrove's clusters, with a list of removed pages for every shard that has sizes.

    Its filter reads sizes only where there is such a list, if an empty one.
    """

    def __init__(self, pairs: Path, output: Path) -> None:
        super().__init__(
            str(pairs),
            str(output),
            config=CONFIG,
            save_cluster_size=True,
            lines_to_buffer=_BUFFERED,
        )
        self._output = output

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
        """Write removed pages and sizes of clusters for each shard."""
        # Its own lock is of processes, and a semaphore would be left when the worker is ended.
        tqdm.set_lock(RLock())
        super().run(data, rank, world_size)
        for path in self._output.glob("*.sizes"):
            path.with_suffix(".remove").touch()


@cache
def raise_open_files() -> None:
    """Raise the soft limit of open files to the hard one: blocks open a file for each shard."""
    if os.name == "posix":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            with suppress(ValueError, OSError):  # macOS has a limit that it does not tell
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _directories(plan: BuildPlan) -> list[Path]:
    """Directories of the languages, whose pages are compared with each other."""
    place = plan.work / "near"
    return sorted(place.iterdir()) if place.is_dir() else []


def pair_tasks(shards: int) -> int:
    """Number of tasks of `PairPages`."""
    return int(CONFIG.num_buckets) * min(MAX_RANGES, 1 + shards // SHARDS_PER_RANGE)


class SignPages(FileStep):
    """Write the MinHash signatures of a shard's pages."""

    name = "sign"

    def _do(self, rank: int, world_size: int) -> None:
        for language, records in _above(self.plan, rank):
            place = self.plan.work / "near" / language / "signatures"
            Signatures(place).run(map(_document, records), rank, world_size)


class PairPages(FileStep):
    """Find the pairs of a bucket in a range of hashes."""

    name = "pair"

    def _do(self, rank: int, world_size: int) -> None:
        raise_open_files()
        for place in _directories(self.plan):
            Pairs(place / "signatures", place / "pairs").run(None, rank, world_size)


class ClusterPages(FileStep):
    """Unite pairs to clusters, for every `world_size`-th language."""

    name = "cluster"

    def _do(self, rank: int, world_size: int) -> None:
        raise_open_files()
        for place in _directories(self.plan)[rank::world_size]:
            Clusters(place / "pairs", place / "removed").run()


def remaining(
    plan: BuildPlan, rank: int, drop: Callable[[Record], None] = lambda record: None
) -> Iterator[tuple[str, Iterator[Record]]]:
    """Languages of a shard and their records, above the quality cut and without near-duplicates.

    The records of a language are to be consumed before the next language. `drop` gets each
    near-duplicate.
    """
    for language, records in _above(plan, rank):
        if plan.settings.near:
            place = plan.work / "near" / language / "removed"
            block = MinhashDedupFilter(
                str(place), exclusion_writer=_Excluded(drop), load_cluster_sizes=True
            )
            records = map(_record, block.run(map(_document, records), rank))
        yield language, records


def _above(plan: BuildPlan, rank: int) -> Iterator[tuple[str, Iterator[Record]]]:
    """Languages of a shard and their records above the quality cut."""
    cuts = quality_cuts(plan)
    for language in languages_in(plan.work / "parts"):
        path = part_path(plan.work / "parts", language, rank)
        if path.exists():
            yield language, _cut(path, cuts, language)


def _cut(path: Path, cuts: Mapping[str, float], language: str) -> Iterator[Record]:
    cut = cuts.get(language, 0.0)
    return (record for record in read_part(path) if (record["quality"] or 0.0) >= cut)


def _document(record: Record) -> Document:
    return Document(record["text"], record["source"], metadata=record)


def _record(document: Document) -> Record:
    # A shard in whose language nothing has a near-duplicate has no sizes.
    record: Record = document.metadata
    record.setdefault(SIZE, 1)
    return record


class _Excluded(nullcontext[Any]):
    """What datatrove's filter takes for a writer of the pages that it removes."""

    def __init__(self, drop: Callable[[Record], None]) -> None:
        super().__init__(self)
        self._drop = drop

    def write(self, document: Document, rank: int = 0) -> None:
        self._drop(document.metadata)
