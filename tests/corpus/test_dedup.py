"""Equal paragraphs: what is left is that of an obvious search, whatever the tasks."""

from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.crawl import paragraphs, records_of
from helpers.fasttext_files import write_model
from modtok_cli.base.errors import ModtokError
from modtok_cli.corpus import paragraphs as paragraphs_of_pages
from modtok_cli.corpus.build import corpus_build, stages_of
from modtok_cli.corpus.paragraphs import (
    Seen,
    load_hashes,
    load_piece,
    paragraph_hash,
    repeated,
    save_hashes,
    save_pieces,
    split,
)
from modtok_cli.corpus.plan import BuildSettings, begin, make_plan
from modtok_cli.corpus.tasks import Tasks

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
        save_hashes(tmp_path / "a.npy", {*hashes})
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
    begin(plan)
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
