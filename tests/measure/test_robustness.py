"""`check --robust`: properties of each change, and ratios against changed files."""

from __future__ import annotations

import random
import unicodedata
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.measure.check import check
from modtok_cli.measure.robustness import FIELDS, half, with_errors, without_diacritics

LINES = st.text(alphabet="abcdxyzäöñ ΑΒγό йё1,. ", max_size=60)


def edits(one: str, two: str) -> int:
    """Damerau's distance, with transpositions of neighbours (optimal string alignment)."""
    rows = [list(range(len(two) + 1))]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(two, 1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b)))
            if i > 1 and j > 1 and (a, one[i - 2]) == (two[j - 2], b):
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


@given(LINES, st.floats(0, 1), st.integers(0, 9))
def test_errors_change_that_share_of_letters_and_nothing_else(
    line: str, share: float, seed: int
) -> None:
    changed = with_errors(line, share, "qw", random.Random(seed))
    letters = sum(map(str.isalpha, line))
    assert edits(line, changed) <= int(share * letters) + 1

    def others(text: str) -> list[str]:
        return [character for character in text if not character.isalpha()]

    assert others(changed) == others(line)
    assert changed == with_errors(line, share, "qw", random.Random(seed))
    if share == 0:
        assert changed == line


def test_errors_are_of_four_kinds_and_as_many_as_asked() -> None:
    line, chance = "abc" * 200, random.Random(5)
    changed = with_errors(line, 0.1, "x", chance)
    # Places are distinct; a new letter x is never the old one, and neighbours always differ.
    new = changed.count("x")
    assert 0 < len(changed) < 1.05 * len(line)
    assert 20 < new < 40  # replaced or followed, half of 60
    assert 45 <= edits(line, changed) <= 60
    swapped = sum(pair in changed for pair in ("acb", "bac", "cba"))
    assert swapped


@given(LINES)
def test_diacritics_are_removed_once_and_letters_stay(line: str) -> None:
    plain = without_diacritics(line)
    assert without_diacritics(plain) == plain
    assert len(plain) == len(unicodedata.normalize("NFC", line))
    assert not any("\u0300" <= each <= "\u036f" for each in unicodedata.normalize("NFD", plain))


@given(LINES)
def test_halves_make_up_the_line(line: str) -> None:
    assert 0 <= half(line) <= len(line) / 2


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("robust")
    bpe_seq(("en", "fi"), data=SAMPLE / "data", output=place / "tok", k=900)
    return place


def test_ratios_are_those_of_the_changed_files(place: Path, tmp_path: Path) -> None:
    parallel = SAMPLE / "parallel"
    names = [f"{place / 'tok'}", f"{place / 'tok'}@each"]
    rows = check(names, [parallel / "fi.txt", parallel / "en.txt"], robust=True)
    assert rows == check(names, [parallel / "fi.txt", parallel / "en.txt"], robust=True)
    finnish = (parallel / "fi.txt").read_text("utf-8").splitlines()
    english = (parallel / "en.txt").read_text("utf-8").splitlines()
    changes = {
        "upper_case": [line.upper() for line in finnish],
        "no_diacritics": [without_diacritics(line) for line in finnish],
        "mixed_with_english": [
            a[: half(a)] + b[half(b) :] for a, b in zip(finnish, english, strict=True)
        ],
    }
    before = {(row["tokenizer"], row["language"]): row["tokens"] for row in rows}
    for field, lines in changes.items():
        (tmp_path / field).mkdir()
        (tmp_path / field / "fi.txt").write_text("\n".join(lines) + "\n", "utf-8")
        for name, row in zip(names, check(names, [tmp_path / field / "fi.txt"]), strict=True):
            expected = before[name, "fi"]
            if field == "mixed_with_english":
                own = sum(half(line) for line in finnish) / sum(map(len, finnish))
                other = sum(len(a) - half(a) for a in english) / sum(map(len, english))
                expected = own * before[name, "fi"] + other * before[name, "en"]
            (mine,) = (r for r in rows if r["tokenizer"] == name and r["language"] == "fi")
            assert mine[field] == pytest.approx(row["tokens"] / expected), field
    for row in rows:
        assert 1 < row["errors_5"] < row["errors_10"]
        assert (row["mixed_with_english"] is None) == (row["language"] == "en")
    for _, group in groupby(rows, key=lambda row: row["language"]):
        assert len({row["errors_10"] for row in group}) == 2


def test_without_english_or_text(place: Path, tmp_path: Path) -> None:
    (row,) = check(place / "tok", SAMPLE / "parallel" / "fi.txt", robust=True)
    assert row["mixed_with_english"] is None
    assert not set(FIELDS) & check(place / "tok", SAMPLE / "parallel" / "fi.txt")[0].keys()
    (tmp_path / "fi.counts.tsv").write_text("talo\t3\n")
    with pytest.raises(ModtokError, match=r"fi\.counts\.tsv: is a table of word counts; this"):
        check(place / "tok", tmp_path / "fi.counts.tsv", robust=True)
