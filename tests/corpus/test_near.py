"""Near-duplicates: the pages left are those of an obvious search, whatever the tasks."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from datatrove.pipeline.dedup.minhash import MinhashConfig
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from modtok_cli.corpus import near
from modtok_cli.corpus.near import (
    CONFIG,
    SIZE,
    ClusterPages,
    PairPages,
    Signatures,
    SignPages,
    Words,
    remaining,
)
from modtok_cli.corpus.parts import PartWriters
from modtok_cli.corpus.plan import BuildPlan, BuildSettings, begin, make_plan

PRIME = (1 << 61) - 1
Page = tuple[str, int, str]
"""Language, shard and text."""


def signature(words: list[str], chosen: MinhashConfig) -> list[tuple[int, ...]]:
    """The values of each bucket, one number after the other."""
    shingles = [
        xxh64_intdigest(" ".join(words[n : n + chosen.n_grams]).encode())
        for n in range(len(words) - chosen.n_grams + 1)
    ]
    if not shingles:
        return []
    draws = np.random.RandomState(1)
    total = chosen.num_buckets * chosen.hashes_per_bucket
    factors = draws.randint(1, PRIME, dtype=np.uint64, size=total).tolist()
    terms = draws.randint(0, PRIME, dtype=np.uint64, size=total).tolist()
    values = [
        min((one * a + b) % (1 << 64) % PRIME for one in shingles)
        for a, b in zip(factors, terms, strict=True)
    ]
    size = chosen.hashes_per_bucket
    return [tuple(values[n : n + size]) for n in range(0, total, size)]


def clusters_of(pages: list[Page], chosen: MinhashConfig) -> list[set[int]]:
    """Clusters of pages by comparison of each with each."""
    buckets = [signature(text.split(), chosen) for _, _, text in pages]
    clusters = [{n} for n in range(len(pages))]
    for a in range(len(pages)):
        for b in range(a):
            together = pages[a][0] == pages[b][0]
            if together and any(x == y for x, y in zip(buckets[a], buckets[b], strict=False)):
                first, second = (next(each for each in clusters if n in each) for n in (a, b))
                if first is not second:
                    clusters.remove(second)
                    first |= second
    return clusters


def begun(place: Path, pages: list[Page], shards: int) -> BuildPlan:
    """A build whose first stage has written these pages."""
    files = [place / f"{n}.txt" for n in range(shards)]
    for file in files:
        file.write_text("page")
    parts = BuildSettings(None, None, 0.4, 5.0, 1, None, None, None, True)
    plan = make_plan(files, parts, place / "out", shard_bytes=1)
    begin(plan)
    for rank in range(shards):
        with PartWriters(plan.work / "parts", rank) as writers:
            for n, (language, shard, text) in enumerate(pages):
                if shard == rank:
                    record = {"text": text, "lang": language, "quality": None, "source": str(n)}
                    writers.write(language, record)
    return plan


def left(plan: BuildPlan) -> Iterator[tuple[int, int]]:
    """Index and size of cluster of the pages left, after the stages before."""
    shards = len(plan.shards)
    pairs = near.pair_tasks(shards)
    for step, tasks in ((SignPages, shards), (PairPages, pairs), (ClusterPages, 2)):
        for rank in range(tasks):
            assert not list(step(plan.work).run(None, rank, tasks))
    for rank in range(shards):
        for language, records in remaining(plan, rank):
            for record in records:
                assert record["lang"] == language
                yield int(record["source"]), record[SIZE]


words = st.lists(st.sampled_from("abcd"), max_size=7).map(" ".join)
some_pages = st.lists(st.tuples(st.sampled_from(["en", "fi"]), st.integers(0, 2), words))


@settings(max_examples=25)
@given(some_pages, st.integers(1, 2), st.sampled_from([1, 64]))
def test_one_page_of_each_cluster_is_left(
    tmp_path_factory: pytest.TempPathFactory, pages: list[Page], hashes: int, per_range: int
) -> None:
    chosen = MinhashConfig(n_grams=2, num_buckets=2, hashes_per_bucket=hashes)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(near, "SHARDS_PER_RANGE", per_range)
        patched.setattr(near, "CONFIG", chosen)
        plan = begun(tmp_path_factory.mktemp("near"), pages, 3)
        found = dict(left(plan))
    expected = clusters_of(pages, chosen)
    for cluster in expected:
        (survivor,) = cluster & set(found)
        assert found[survivor] == len(cluster)
    assert len(found) == len(expected)


@given(st.lists(st.sampled_from(["word", "日本", "x", "ไทย"]), min_size=5, max_size=40))
def test_signature_does_not_depend_on_the_parts(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(near, "_SHINGLES", 3)
        block = Signatures(Path("unused"))
        split = Words().word_tokenize(" ".join(texts))
        shingles = block.get_shingles(" ".join(texts))
        found = [tuple(values) for values in block.get_signature(shingles)]
    assert found == signature(split, CONFIG)


def test_words_of_scripts_without_spaces() -> None:
    assert Words().word_tokenize("日本の x1 ไทย") == ["日", "本", "の", "x1", "ไ", "ท", "ย"]
    assert Words().word_tokenize("ကို") == ["ကို"]  # a letter with its marks
    assert Words().sent_tokenize("one. two.") == ["one. two."]
    assert Words().span_tokenize("one") == [(0, 3)]
