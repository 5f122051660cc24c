"""Equal and nearly equal pages: what is left is that of an obvious search, whatever the tasks."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from datatrove.pipeline.dedup.minhash import MinhashConfig
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from helpers.crawl import paragraphs, records_of
from modtok_cli.base.errors import ModtokError
from modtok_cli.corpus import dedup_blocks, near
from modtok_cli.corpus.build import corpus_build, stages_of
from modtok_cli.corpus.dedup import (
    Seen,
    load_hashes,
    load_piece,
    paragraph_hash,
    repeated,
    save_hashes,
    save_pieces,
    split,
)
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
from modtok_cli.corpus.quality import corpus_train_quality

# Few different values, so that they repeat; the ends of the range among them.
VALUES = st.sampled_from(
    [0, 1, 2, 5, 1 << 32, (1 << 60) - 1, 1 << 60, (1 << 64) - 2, (1 << 64) - 1]
)
RUNS = st.lists(st.lists(VALUES, max_size=12), max_size=6)


def slow(runs: list[list[int]]) -> list[list[bool]]:
    """Whether each occurred before, in one set."""
    seen: set[int] = set()
    answers = []
    for run in runs:
        answers.append([])
        for value in run:
            answers[-1].append(value in seen)
            seen.add(value)
    return answers


@settings(max_examples=200, deadline=None)
@given(runs=RUNS, tasks=st.integers(1, 5), memory=st.sampled_from([40, 120, 1 << 20]))
def test_range_comparison_equals_one_set(runs: list[list[int]], tasks: int, memory: int) -> None:
    stored = [np.unique(np.array(run, dtype=np.uint64)) for run in runs]
    elsewhere: list[list[np.ndarray]] = [[] for _ in runs]
    for low, high in split(1 << 64, tasks):
        for number, pieces in enumerate(repeated(stored, low, high, memory)):
            elsewhere[number] += pieces
    answers = []
    for run, pieces in zip(runs, elsewhere, strict=True):
        joined = np.concatenate([np.zeros(0, dtype=np.uint64), *pieces])
        assert (np.diff(joined.astype(object)) > 0).all()  # ascending, as `Seen` needs it
        answers.append(Seen(joined).again(run))
    assert answers == slow(runs)


def test_files_of_hashes(tmp_path: Path) -> None:
    for hashes in ([5, 1 << 63, 5, 0], []):
        save_hashes(tmp_path / "a.npy", hashes)
        assert load_hashes(tmp_path / "a.npy").tolist() == sorted({*hashes})
    pieces = {2: [np.array([4], np.uint64)], 0: [], 1: [np.array([3, 9, 11], np.uint64)]}
    save_pieces(tmp_path / "b.npy", pieces)
    found = [load_piece(tmp_path / "b.npy", run).tolist() for run in (0, 1, 2, 9)]
    assert found == [[], [3, 9, 11], [4], []]
    whole = (tmp_path / "b.npy").read_bytes()
    for damaged in (b"", whole[:20], whole[:-8] + b"x"):
        (tmp_path / "b.npy").write_bytes(damaged)
        for load in (load_hashes, lambda path: load_piece(path, 1)):
            with pytest.raises(ModtokError, match="damaged hash file; build with --force"):
                load(tmp_path / "b.npy")


def test_paragraph_equality() -> None:
    assert paragraph_hash("Hyvää\u00a0 päivää\t!") == paragraph_hash("HYVÄÄ PÄIVÄÄ !")
    assert paragraph_hash("a b") != paragraph_hash("ab")
    assert paragraph_hash("\ud800") != paragraph_hash("?")  # half a surrogate pair is no error


def write(path: Path, texts: list[str]) -> None:
    path.write_bytes(b"".join(orjson.dumps({"text": text}) + b"\n" for text in texts))


def test_runs_within_a_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard of many runs gives what one run gives: the bound on memory changes nothing."""
    text = paragraphs("fi")
    pages = ["\n".join([text[n % 17], text[(n * 5 + 3) % 17]]) for n in range(20)]
    write(tmp_path / "a.jsonl", pages[:15])
    write(tmp_path / "b.jsonl", [*pages[15:], text[16]])
    inputs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    found = []
    for run in (2_000_000, 5):
        out = tmp_path / f"out{run}"
        monkeypatch.setattr(dedup_blocks, "RUN", run)
        build_here(inputs, out)
        found.append([one["text"] for one in records_of(out / "fi")])
    assert found[0] == found[1]
    every = "\n".join([*pages, text[16]]).split("\n")
    assert "\n".join(found[0]).split("\n") == list(dict.fromkeys(every))


def test_what_a_site_repeats_is_dropped(tmp_path: Path) -> None:
    """With other numbers too, and also its first copy; a page under many addresses stays once."""
    text = paragraphs("fi")
    footer = "Tämä sivusto käyttää evästeitä, sivu {} kaikkiaan 12 sivusta."
    rows = []
    for n in range(12):
        body = f"{text[n]}\n{footer.format(n)}"
        rows += [(f"http://one.fi/{n}", body), (f"http://two.fi/?s={n}", "\n".join(text[13:16]))]
        if n < 9:  # one page too few
            rows.append((f"http://three.fi/{n}", f"{text[n][::-1]} {text[n]}\n{footer}"))
    lines = [json.dumps({"url": url, "text": page}) + "\n" for url, page in rows]
    # More than one file, and runs of few pages: counts are summed up.
    (tmp_path / "a.jsonl").write_text("".join(lines[:11]), "utf-8")
    (tmp_path / "b.jsonl").write_text("".join(lines[11:]), "utf-8")
    inputs = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    report = corpus_build(inputs, "fi", output=tmp_path / "out", shard_bytes=1, workers=1)
    texts = {one["url"]: one["text"] for one in records_of(tmp_path / "out" / "fi")}
    assert [texts[f"http://one.fi/{n}"] for n in range(12)] == text[:12]
    assert texts["http://two.fi/?s=0"] == "\n".join(text[13:16])
    assert footer in texts["http://three.fi/0"]
    (row,) = [row for row in report.dropped if row["reason"] == "paragraph: of the site"]
    assert row["paragraphs"] == 12


def build_here(inputs: list[Path], output: Path) -> None:
    """A build with its tasks in this process, where things can be patched."""
    from datatrove.executor.local import LocalPipelineExecutor

    chosen = BuildSettings(("fi",), None, 0.4, 5.0, 1, None, None, None)
    plan = make_plan(inputs, chosen, output, shard_bytes=1)
    begin(plan)
    for stage in stages_of(plan):
        for rank in range(stage.tasks):
            fresh = next(each for each in stages_of(plan) if each.name == stage.name)
            LocalPipelineExecutor(
                pipeline=list(fresh.blocks),
                tasks=stage.tasks,
                logging_dir=str(plan.work / "logs" / stage.name),
            )._run_for_rank(rank, 1)


def test_quality_threshold_and_top_share(tmp_path: Path) -> None:
    text = paragraphs("en")
    menu = "Home login cart menu buy now click here sale share follow subscribe next page. " * 5
    write(tmp_path / "good.jsonl", [one[:n] for one in text for n in (200, 300, 400)])
    write(tmp_path / "bad.jsonl", [f"{menu[n:]} {menu[: n % 77]}" for n in range(50)])
    corpus_train_quality(
        [tmp_path / "good.jsonl"], [tmp_path / "bad.jsonl"], output=tmp_path / "q.bin"
    )
    # The menu page comes first and holds a paragraph of the second one, which must not lose it.
    pages = [f"{menu}\n{text[0]}", *("\n".join([one]) for one in text[:9])]
    write(tmp_path / "pages.jsonl", pages)

    def build(name: str, **options: float) -> list[dict]:
        corpus_build(
            [tmp_path / "pages.jsonl"],
            output=tmp_path / name,
            languages=["en"],
            language_threshold=0.1,
            quality_model=tmp_path / "q.bin",
            filters="none",
            **options,
        )
        return records_of(tmp_path / name / "en")

    every = build("every")
    scores = sorted((one["quality"] for one in every), reverse=True)
    assert min(scores) < 0.5 < max(scores)
    above = build("above", quality_threshold=0.5)
    assert [one["text"] for one in above] == text[:9]
    assert all(one["quality"] >= 0.5 for one in above)
    best = build("best", quality_top=0.3)
    cut = sorted((one["quality"] for one in [*every[:1], *above]), reverse=True)[2]
    assert len(best) >= 3
    assert all(one["quality"] >= cut for one in best)
    assert len(best) == sum(one["quality"] >= cut for one in above)


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
