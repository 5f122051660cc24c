"""Parallel text in its layouts, and what is wrong with it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.evaluate.parallel import Parallel, find_parallel
from modtok_cli.evaluate.task_files import Example


def lines(path: Path, *texts: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def numbered(path: Path, name: str, count: int) -> None:
    lines(path, *(f"{name} {number}" for number in range(1, count + 1)))


def told(found: Parallel, shots: int) -> tuple[Sequence[Example], Sequence[Example]]:
    return found.pair("en", "fr", shots)


@pytest.mark.parametrize("place", ["", "mt", "mt/flores200_dataset"])
def test_flores(tmp_path: Path, place: str) -> None:
    for part, count in (("dev", 7), ("devtest", 3)):
        for code in ("eng_Latn", "fra_Latn", "npi_Deva"):
            numbered(tmp_path / place / part / f"{code}.{part}", f"{code[:2]} {part}", count)
    found = find_parallel(tmp_path)
    assert found.languages == ["en", "fr", "ne"]
    shots, tests = told(found, 2)
    assert shots == [Example("1", "en dev 1", "fr dev 1"), Example("2", "en dev 2", "fr dev 2")]
    assert [test.target for test in tests] == [f"fr devtest {n}" for n in (1, 2, 3)]


def test_line_by_line_keeps_the_first_lines_for_shots(tmp_path: Path) -> None:
    for name in ("en", "fr"):
        numbered(tmp_path / f"{name}.txt", name, 9)
    (tmp_path / "README.md").write_text("not text")
    found = find_parallel(tmp_path)
    for shots in (0, 3, 5):  # whatever is shown, the same are scored
        shown, tests = told(found, shots)
        assert len(shown) == shots
        assert [test.name for test in tests] == ["6", "7", "8", "9"]
    assert [test.name for test in told(found, 7)[1]] == ["8", "9"]


def test_tables(tmp_path: Path) -> None:
    rows = ["eng_Latn\tfr\tfi", *(f"en {n}\tfr {n}\t" for n in range(8))]
    for place in ("one.tsv", "mt/test.tsv", "other/any.tsv"):
        lines(tmp_path / place, *rows)
    for place in ("one.tsv", "mt", "", "other"):
        found = find_parallel(tmp_path / place)
        assert found.languages == ["en", "fi", "fr"]
        assert told(found, 1)[1][0] == Example("6", "en 5", "fr 5")
    lines(tmp_path / "mt" / "dev.tsv", "en\tfr", "en dev\tfr dev")
    assert told(find_parallel(tmp_path), 1)[0] == [Example("1", "en dev", "fr dev")]
    heard = Silent()
    with pytest.raises(ModtokError, match="too few lines"):
        find_parallel(tmp_path / "one.tsv").pair("en", "fi", 1, heard)
    assert "skipped 8 lines of en-fi that are empty on one side" in heard.warnings[0]


def test_json_lines(tmp_path: Path) -> None:
    """The same sentences as in a table, plain or as the datasets of the hub have them."""
    rows = [{"eng_Latn": f"en {n}", "fr": f"fr\n {n}", "n": n} for n in range(8)]
    lines(tmp_path / "one.jsonl", *map(json.dumps, rows))
    nested = [{"id": str(row["n"]), "translation": row} for row in rows]
    lines(tmp_path / "mt" / "test.jsonl", *map(json.dumps, nested))
    lines(tmp_path / "mt" / "dev.jsonl", json.dumps({"en": "en dev", "fr": "fr dev", "fi": "fi"}))
    for place in ("one.jsonl", "mt"):
        found = find_parallel(tmp_path / place)
        assert found.languages == ["en", "fr"]
        shown, tests = told(found, 1)
        assert tests[-1] == Example("8", "en 7", "fr 7")
    assert shown == [Example("1", "en dev", "fr dev")]
    packed = tmp_path / "packed" / "any.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress((tmp_path / "one.jsonl").read_bytes()))
    assert len(told(find_parallel(packed.parent), 0)[1]) == 3
    for wrong in ('{"en": "one"}', '["en", "fr"]', '{"translation": "one"}', '{"en": 1, "fr": 2}'):
        lines(tmp_path / "wrong.jsonl", json.dumps(rows[0]), wrong)
        with pytest.raises(ModtokError, match=r"wrong\.jsonl:2: has no sentences in two languages"):
            assert find_parallel(tmp_path / "wrong.jsonl").languages
    lines(tmp_path / "twice.jsonl", json.dumps({"en": "a", "fr": "b", "fra": "c"}))
    with pytest.raises(ModtokError, match="has fr as fr and fra"):
        assert find_parallel(tmp_path / "twice.jsonl").languages


def test_compressed_and_duplicate_languages(tmp_path: Path) -> None:
    (tmp_path / "en.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfa\r\nb\n" * 4))
    numbered(tmp_path / "zho_Hans.txt", "hans", 8)
    numbered(tmp_path / "zho_Hant.txt", "hant", 8)
    shown, _ = find_parallel(tmp_path).pair("en", "zh", 2)
    assert [(pair.source.lstrip("\ufeff"), pair.target) for pair in shown] == [
        ("a", "hans 1"),
        ("b", "hans 2"),
    ]


def test_files_of_different_length_name_the_line(tmp_path: Path) -> None:
    texts = ["short", "a rather long line of text", "x", "a line of middling length"] * 6
    lines(tmp_path / "en.txt", *texts)
    lines(tmp_path / "fr.txt", *texts[:9], *texts[10:])
    lines(tmp_path / "fi.txt", *texts)
    with pytest.raises(ModtokError, match=r"fr\.txt:10: has 23 lines, .*en\.txt has 24"):
        told(find_parallel(tmp_path), 2)
    assert len(find_parallel(tmp_path).pair("en", "fi", 2)[1]) == 19  # others are not disturbed


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"en\tfr\na\tb\tc\n", "expected 2 columns, got 3"),
        (b"en\tfr\na\n", "expected 2 columns, got 1"),
        (b"hello\tworld one\n", "expected two or more languages in the first line"),
        (b"en\n", "expected two or more languages in the first line"),
        (b"en\teng_Latn\n", "expected two or more languages in the first line"),
        (b"", "expected two or more languages in the first line"),
        (b"en\tfr\na\xff\tb\n", "t.tsv:2: not UTF-8"),
    ],
)
def test_damaged_tables(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(content)
    with pytest.raises(ModtokError, match=said) as error:
        assert find_parallel(path).languages == []
    assert error.value.exit_code == 1


def test_missing_parallel_text_lists_the_layouts(tmp_path: Path) -> None:
    lines(tmp_path / "en.txt", "alone")
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModtokError, match=r"FLORES.*test\.tsv.*DIR/mt/en\.txt.*fetch"):
            find_parallel(place)
