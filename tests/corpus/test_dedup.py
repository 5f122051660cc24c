"""Equal paragraphs: what is left is that of an obvious search, whatever the tasks."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.paragraphs import (
    DropRepeated,
    FindRepeated,
    HashParagraphs,
    load,
    paragraph_hash,
    save,
)

# Few different ones, so that they repeat, some of them equal but for capitals and white space.
PARAGRAPHS = st.sampled_from(
    ["a", "A", " a\u00a0", "b", "b b", "B  b", "c", "d", "e", "f", "g", "h"]
)
PAGES = st.tuples(st.sampled_from(["en", "fi"]), st.lists(PARAGRAPHS, min_size=1, max_size=6))
TASKS = st.lists(st.lists(PAGES, max_size=6), min_size=1, max_size=4)


def first_ones(tasks: list[list[tuple[str, list[str]]]]) -> list[list[str]]:
    """Texts of each task, of the paragraphs that no page before has, by one set."""
    seen: set[tuple[str, ...]] = set()
    answers = []
    for pages in tasks:
        answers.append([])
        for language, texts in pages:
            left = []
            for text in texts:
                key = (language, *text.lower().split())
                left += [text] if key not in seen else []
                seen.add(key)
            answers[-1] += ["\n".join(left)] if left else []
    return answers


@settings(max_examples=100, deadline=None)
@given(tasks=TASKS, ranges=st.integers(1, 5), run=st.integers(1, 12), memory=st.integers(80, 999))
def test_what_is_left_is_that_of_one_set(tasks: Any, ranges: int, run: int, memory: int) -> None:
    """Whatever the number of files of a task, of ranges, and of hashes that fit into memory."""
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(paragraphs_of_pages, "MEMORY", memory)
        patch.setattr(paragraphs_of_pages, "RUN", run)
        hashes, found = Path(place, "hashes"), Path(place, "found")

        def pages(rank: int) -> Iterator[Document]:
            for language, texts in tasks[rank]:
                yield Document("\n".join(texts), "x", [], {"lang": language})

        for rank in range(len(tasks)):
            list(HashParagraphs(hashes).run(pages(rank), rank))
        for rank in range(ranges):
            list(FindRepeated(hashes, found).run(rank=rank, world_size=ranges))
        for rank, expected in enumerate(first_ones(tasks)):
            left = DropRepeated(found, 1).run(pages(rank), rank)
            assert [document.text for document in left] == expected


def test_damaged_files_and_other_documents(tmp_path: Path) -> None:
    for block in (FindRepeated(tmp_path, tmp_path), DropRepeated(tmp_path)):
        with pytest.raises(ModtokError, match="has no hashes; run HashParagraphs, then FindRepeat"):
            list(block.run([]))
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


def test_half_a_surrogate_pair_is_no_error() -> None:
    assert paragraph_hash("\ud800") != paragraph_hash("?")


def test_quality_threshold_and_top_share(tmp_path: Path) -> None:
    text = paragraphs("en")
    menu = "Home login cart menu buy now click here sale share follow subscribe next page. " * 5
    words = dict.fromkeys(["the", "of", "and", "to"], "good")
    words |= dict.fromkeys(("login", "cart", "buy", "sale"), "bad")
    write_model(tmp_path / "q.bin", words, ["good", "bad"])
    # The menu page comes first and holds a paragraph of the second one, which must not lose it.
    pages = [f"{menu}\n{text[0]}", *("\n".join([one]) for one in text[:9])]
    lines = b"".join(orjson.dumps({"text": text}) + b"\n" for text in pages)
    (tmp_path / "pages.jsonl").write_bytes(lines)

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
