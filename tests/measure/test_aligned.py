"""Finding where parallel texts part."""

from __future__ import annotations

import random

import numpy as np
import pytest

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.measure.aligned import check_aligned, first_odd_window, parting
from modtok_cli.measure.texts import Text
from modtok_cli.text.counts import count_documents


def pair(lines: int = 300, seed: int = 1) -> tuple[list[str], list[str]]:
    """Lines whose lengths go together as those of translations do."""
    rng = random.Random(seed)
    sizes = [rng.randint(5, 200) for _ in range(lines)]
    return ["a" * n for n in sizes], ["b" * max(1, int(n * rng.uniform(1.0, 1.3))) for n in sizes]


def text(language: str, lines: list[str]) -> Text:
    documents = [line.encode() for line in lines]
    return Text(f"{language}.txt", language, count_documents([documents]), documents)


def check(base: list[str], other: list[str]) -> list[str]:
    said = Silent()
    check_aligned({"en": text("en", base), "fi": text("fi", other)}, "en", said)
    return said.warnings


def test_aligned_text_passes() -> None:
    assert check(*pair()) == []


@pytest.mark.parametrize("where", [0, 17, 150, 299])
def test_missing_or_additional_line_is_located(where: int) -> None:
    base, other = pair()
    lengths = [np.array([len(line) for line in lines], dtype=float) for lines in (base, other)]
    missing = np.delete(lengths[1], where)
    assert abs(parting(lengths[0], missing) - where) <= 2
    more = np.insert(lengths[1], where, 90.0)
    assert abs(parting(lengths[0], more) - where) <= 2
    with pytest.raises(ModtokError, match=r"fi.txt:\d+: not line-aligned: 299 lines in fi, 300"):
        check(base, other[:where] + other[where + 1 :])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("of", "to"), [(0, 3), (3, 0), (0, 0)])
def test_a_text_without_lines_parts_at_the_first(of: int, to: int) -> None:
    assert parting(np.full(of, 9.0), np.full(to, 9.0)) == (0 if of != to else -1)


def test_shifted_lines_are_reported() -> None:
    base, other = pair()
    shifted = [*other[:130], *other[131:], "x" * 80]  # one lost, one added at the end
    (warning,) = check(base, shifted)
    assert warning.startswith("fi.txt:129: from this line on")
    assert first_odd_window(np.ones(10), np.ones(10)) is None  # too few to say


def test_empty_line_is_reported() -> None:
    base, other = pair()
    (warning,) = check(base, [*other[:40], "", *other[41:]])
    assert warning.startswith("fi.txt:41: this line or the line of en.txt is empty")
