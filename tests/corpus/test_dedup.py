"""Equal paragraphs: what is left is that of an obvious search, whatever the tasks."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson
import pytest
from datatrove.data import Document
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.crawl import paragraphs, records_of
from helpers.fasttext_files import write_model
from modtok_cli.base.errors import ModtokError
from modtok_cli.corpus import paragraphs as paragraphs_of_pages
from modtok_cli.corpus.build import corpus_build, stages_of
from modtok_cli.corpus.paragraphs import (
    DropRepeated,
    FindRepeated,
    load,
    paragraph_hash,
    save,
    sorted_hashes,
)
from modtok_cli.corpus.plan import BuildSettings, begin, make_plan
from modtok_cli.corpus.tasks import Tasks

# Few different values, so that they repeat; the ends of the range among them.
VALUES = st.sampled_from(
    [0, 1, 2, 5, 1 << 32, (1 << 60) - 1, 1 << 60, (1 << 64) - 2, (1 << 64) - 1]
)
RUNS = st.lists(st.lists(VALUES, max_size=12), min_size=1, max_size=6)


def again(runs: list[list[int]]) -> list[list[int]]:
    """Places in each task of values that occurred before, in one set."""
    seen: set[int] = set()
    answers = []
    for run in runs:
        answers.append([])
        for place, value in enumerate(run):
            if value in seen:
                answers[-1].append(place)
            seen.add(value)
    return answers


@settings(max_examples=100, deadline=None)
@given(runs=RUNS, tasks=st.integers(1, 5), size=st.integers(1, 12), memory=st.integers(80, 999))
def test_range_comparison_equals_one_set(
    runs: list[list[int]], tasks: int, size: int, memory: int
) -> None:
    """Whatever the number of files of a task, of ranges, and of hashes that fit into memory."""
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(paragraphs_of_pages, "MEMORY", memory)
        hashes, found = Path(place, "hashes"), Path(place, "found")
        for rank, run in enumerate(runs):
            for start in range(0, max(1, len(run)), size):
                rows = sorted_hashes(run[start : start + size], start)
                save(hashes / f"{rank:05d}-{start:010d}.npy", rows)
        for rank in range(tasks):
            list(FindRepeated(hashes, found).run(rank=rank, world_size=tasks))
        for rank, run in enumerate(runs):
            values, places = DropRepeated(found)._of_task(rank)
            assert places.tolist() == again(runs)[rank]
            assert values.tolist() == [run[at] for at in places.tolist()]


def test_damaged_files_and_other_documents(tmp_path: Path) -> None:
    path = tmp_path / "a-0.npy"
    save(path, np.array([[0], [1], [paragraph_hash("one")]], np.uint64)[[0, 2, 1]])
    drop = DropRepeated(tmp_path, 1)
    (document,) = drop.run([Document("zero\nONE\ntwo", "x")])
    assert document.text == "zero\ntwo"
    with pytest.raises(ModtokError, match="x: other documents than those that were compared; give"):
        list(drop.run([Document("zero\ntwo", "x")]))
    whole = path.read_bytes()
    for damaged in (b"", whole[:20], whole[:-8] + b"x"):
        path.write_bytes(damaged)
        with pytest.raises(ModtokError, match="damaged hash file; build with --force"):
            load(path)


def test_paragraph_equality() -> None:
    assert paragraph_hash("Hyvää\u00a0 päivää\t!") == paragraph_hash("HYVÄÄ PÄIVÄÄ !")
    assert paragraph_hash("a b") != paragraph_hash("ab")
    assert paragraph_hash("\ud800") != paragraph_hash("?")  # half a surrogate pair is no error
    assert paragraph_hash("a", "en") != paragraph_hash("a", "fi")


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
        monkeypatch.setattr(paragraphs_of_pages, "RUN", run)
        build_here(inputs, out)
        found.append([one["text"] for one in records_of(out / "fi")])
    assert found[0] == found[1]
    every = "\n".join([*pages, text[16]]).split("\n")
    assert "\n".join(found[0]).split("\n") == list(dict.fromkeys(every))


def build_here(inputs: list[Path], output: Path) -> None:
    """A build with its tasks in this process, where things can be patched."""
    chosen = BuildSettings(("fi",), min_characters=1)
    plan = make_plan(inputs, chosen, output, shard_bytes=1)
    begin(plan.work, plan.content)
    for number, stage in enumerate(stages_of(plan)):
        for rank in range(stage.tasks):
            Tasks(stages_of(plan)[number], plan.work / "logs").run_rank(rank)


def test_quality_threshold_and_top_share(tmp_path: Path) -> None:
    text = paragraphs("en")
    menu = "Home login cart menu buy now click here sale share follow subscribe next page. " * 5
    words = dict.fromkeys(["the", "of", "and", "to"], "good")
    words |= dict.fromkeys(("login", "cart", "buy", "sale"), "bad")
    write_model(tmp_path / "q.bin", words, ["good", "bad"])
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
