"""Runs repeated in plain torch with a full softmax; all cases: `python -m benchmarks replay`."""

from __future__ import annotations

import shutil
from itertools import groupby
from pathlib import Path

import pytest

from helpers.replay import TOLERANCE, Case, compare, train

from .conftest import LANGUAGES, SAMPLE

STEPS = 20
CASES = (
    Case(1, 1, "joint", "step", update="dense"),
    Case(2, 2, "sub:2", "micro", tied=True, staged=True),
    Case(2, 1, "full", "rank", staged=True),
    Case(2, 1, "none", "step", update="dense"),
)


@pytest.fixture(scope="module")
def runs(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a trained run of each case."""
    place = tmp_path_factory.mktemp("replay")
    shutil.copytree(tokenizer, place / "tokenizer")
    (place / "data").mkdir()
    for language in LANGUAGES:
        shutil.copy(SAMPLE / f"{language}.jsonl", place / "data")
    for _, cases in groupby(CASES, lambda case: case.world):
        train([*cases], place, STEPS)
    return place


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_losses_are_those_of_the_masked_softmax(case: Case, runs: Path) -> None:
    row = compare(case, runs)
    assert row["steps"] == STEPS
    assert row["largest_relative_error"] < TOLERANCE
    assert row["last_loss"] < row["first_loss"] - 0.05
