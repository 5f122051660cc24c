"""Counting in bounded memory, and merging tables of files, give the same file as in memory."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.text import corpus as bounded_count
from modtok_cli.text.corpus import LEAST_MEMORY, count_into, write_counts
from modtok_cli.text.counts import CorpusSize, WordCounter, WordCounts, merge_counts
from modtok_cli.text.pretokenizer import NONE
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import (
    TableSource,
    load_counts,
    merge_files,
    merge_tables,
    open_table,
    save_counts,
    sources_of,
)

MEMORY = 24 << 20
"""For tables of 6 MiB: the first size of a table, which is 5 MiB, cannot double."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """250,000 different words, more than such a table holds, in two files; few in a third."""
    place = tmp_path_factory.mktemp("data") / "fi"
    place.mkdir()
    words = [f"w{number * 7919 % 250_000}" for number in range(250_000)]
    lines = [" ".join(words[at : at + 1000]) for at in range(0, len(words), 1000)]
    (place / "a.txt").write_text("\n".join([*lines[:150], lines[0]]) + "\n")
    (place / "b.txt").write_text("\n".join([*lines[150:], lines[160]]) + "\n")
    (place / "c.txt").write_text("w1 w2 w1\n")
    return place.parent


def counted(output: Path, files: list[Path], memory: int | None) -> bytes | None:
    header = count_into(output, "fi", files, Reading(), sources_of(files), memory=memory)
    return None if header is None else output.read_bytes()


def test_tables_stay_below_the_bound_and_add_up(data: Path) -> None:
    documents = (data / "fi" / "a.txt").read_bytes().split(b"\n")
    spilled: list[WordCounts] = []
    sizes = []
    most = MEMORY // 4

    def spill(table: WordCounts) -> None:
        spilled.append(table)
        sizes.append(counter.held)

    counter = WordCounter(most=most, spill=spill)
    whole = WordCounter()
    for document in documents:
        counter.add_documents([document])
        whole.add_documents([document])
        sizes.append(counter.held)
    assert len(spilled) == 1
    assert max(sizes) <= most < whole.held
    together = merge_counts([*spilled, counter.result()])
    assert together.fingerprint() == whole.result().fingerprint()
    assert together.size == whole.result().size


def test_the_file_does_not_depend_on_memory(data: Path, tmp_path: Path) -> None:
    files = sorted((data / "fi").iterdir())
    whole = counted(tmp_path / "whole.counts", files, None)
    assert counted(tmp_path / "less.counts", files, MEMORY) == whole
    counted(tmp_path / "a.counts", files[:1], None)
    mixed = [tmp_path / "a.counts", *files[1:]]
    expected = counted(tmp_path / "mixed.counts", mixed, None)
    assert counted(tmp_path / "mixed-less.counts", mixed, MEMORY) == expected
    alone = counted(tmp_path / "alone.counts", mixed[:1], None)
    assert counted(tmp_path / "alone-less.counts", mixed[:1], MEMORY) == alone
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "empty2.txt").write_text("")
    empty = [tmp_path / "empty.txt", tmp_path / "empty2.txt"]
    assert counted(tmp_path / "empty.counts", empty, MEMORY) is None
    assert not (tmp_path / "empty.counts").exists()


def test_failure_leaves_nothing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted((data / "fi").iterdir())

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    left = tmp_path / ".fi.counts.parts.partial-99999999"  # of a run that was killed
    left.mkdir()
    (left / "00000.counts").write_text("")
    with monkeypatch.context() as patched:
        patched.setattr(bounded_count, "merge_files", stop)
        with pytest.raises(KeyboardInterrupt):
            counted(tmp_path / "fi.counts", files, MEMORY)
    assert list(tmp_path.iterdir()) == []


def test_threads_share_the_memory(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    real = bounded_count.count_files

    def noted(*arguments: object, **options: object) -> WordCounts:
        given.append(options["most"])
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(bounded_count, "count_files", noted)
    few = tmp_path / "data"
    few.mkdir()
    for language in ("en", "fr", "sv"):
        (few / f"{language}.txt").write_text("a b\n")
    write_counts(data=few, output=tmp_path / "counts", threads=8, memory=2 * LEAST_MEMORY)
    assert given == [LEAST_MEMORY * 3 // 16] * 3


def test_what_memory_leaves_out_is_counted_again_with_more(tmp_path: Path) -> None:
    (tmp_path / "fi.txt").write_text("a b\n" + "word " * 2_000_000 + "\nc\n")
    out = tmp_path / "counts"

    def row(errors: Literal["strict", "skip"], memory: int | None) -> tuple[object, object]:
        (row,) = write_counts(
            data=tmp_path / "fi.txt", output=out, reading=Reading(errors), memory=memory
        )
        return row["documents"], row["unchanged"]

    with pytest.raises(ModtokError, match=r"fi.txt:2: more than .*; raise --memory, break"):
        row("strict", LEAST_MEMORY)
    assert row("skip", LEAST_MEMORY) == (2, False)
    assert row("skip", LEAST_MEMORY) == (2, True)
    assert row("skip", 3 * LEAST_MEMORY) == (3, False)
    assert row("strict", 3 * LEAST_MEMORY) == (3, False)
    assert row("strict", None) == (3, True)


WORDS = ["a", "ab", " b", "ä", "日本", "zz" * 40, *(f" w{n}" for n in range(9))]


table_of_words = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 1 << 40), min_size=1)


tables_of = st.lists(table_of_words, min_size=1, max_size=5)


def save_all(place: Path, tables: list[dict[str, int]]) -> list[Path]:
    paths = []
    for n, table in enumerate(tables):
        pairs = [(word.encode(), number) for word, number in table.items()]
        size = CorpusSize(n + 1, 10 * n, 11 * n)
        paths.append(place / f"{n}.counts")
        save_counts(WordCounts.from_pairs(pairs, size=size), paths[-1], "fi")
    return paths


@settings(max_examples=30)
@given(tables_of, st.sampled_from([1, 100, 1 << 20]))
def test_merged_file_is_that_of_memory(
    tmp_path_factory: pytest.TempPathFactory, tables: list[dict[str, int]], memory: int
) -> None:
    place = tmp_path_factory.mktemp("tables")
    paths = save_all(place, tables)
    reading, sources = Reading("skip", "a.b"), [TableSource("ä.txt", 3, 4)]
    header = merge_files(
        paths, place / "merged.counts", "fi", place / "scratch", sources, reading, memory
    )
    expected = merge_counts([load_counts(path) for path in paths])
    save_counts(expected, place / "expected.counts", "fi", sources, reading)
    assert (place / "merged.counts").read_bytes() == (place / "expected.counts").read_bytes()
    assert (header.unique, header.size) == (len(expected), expected.size)
    assert not list((place / "scratch").iterdir())


def test_parts_are_bounded(tmp_path: Path) -> None:
    """Windows share the memory, also where the tables have no word in common."""
    many = [{f" {letter}{n:04}": 1 for n in range(500)} for letter in "abc"]
    tables = [open_table(path) for path in save_all(tmp_path, many)]
    parts = list(merge_tables(tables, 3000))
    assert sum(map(len, parts)) == 1500
    assert max(part.data.nbytes + part.offsets.nbytes + part.counts.nbytes for part in parts) < 4500


def test_empty_tables_merge(tmp_path: Path) -> None:
    for n in range(2):
        save_counts(WordCounts.from_pairs([]), tmp_path / f"{n}.counts", "fi")
    paths = [tmp_path / "0.counts", tmp_path / "1.counts"]
    header = merge_files(paths, tmp_path / "both.counts", "fi", tmp_path / "scratch")
    assert (header.unique, header.words, len(load_counts(paths[0]))) == (0, 0, 0)
    assert (tmp_path / "both.counts").read_bytes() == paths[0].read_bytes()


def test_damaged_or_foreign_table_is_an_error(tmp_path: Path) -> None:
    first, second = save_all(tmp_path, [{"a": 1}, {"b": 2}])
    content = bytearray(second.read_bytes())
    content[-1] ^= 1
    second.write_bytes(content)
    with pytest.raises(ModtokError, match=r"1\.counts: damaged count table: field 'fingerprint'"):
        merge_files([first, second], tmp_path / "out.counts", "fi", tmp_path / "scratch")
    other = WordCounts.from_pairs([(b"b", 2)])
    arrays = (np.array(other.data), np.array(other.offsets), np.array(other.counts))
    save_counts(WordCounts(*arrays, NONE, other.size), second, "fi")
    with pytest.raises(UsageError, match="do not add up"):
        merge_files([first, second], tmp_path / "out.counts", "fi", tmp_path / "scratch")
    assert not (tmp_path / "out.counts").exists()
