"""Counting in bounded memory gives the same file, by tables that are no larger than allowed."""

from pathlib import Path
from typing import Literal

import pytest

from modtok_cli.base.errors import ModtokError
from modtok_cli.text import corpus as bounded_count
from modtok_cli.text.corpus import LEAST_MEMORY, count_into, write_counts
from modtok_cli.text.counts import WordCounter, WordCounts, merge_counts
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import sources_of

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
