"""Tables merged from files are those merged in memory, whatever the windows."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.text.counts import CorpusSize, WordCounts, merge_counts
from modtok_cli.text.pretokenizer import NONE
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import (
    TableSource,
    load_counts,
    merge_files,
    merge_tables,
    open_table,
    save_counts,
)

WORDS = ["a", "ab", " b", "ä", "日本", "zz" * 40, *(f" w{n}" for n in range(9))]
counted = st.dictionaries(st.sampled_from(WORDS), st.integers(1, 1 << 40), min_size=1)
tables_of = st.lists(counted, min_size=1, max_size=5)


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
