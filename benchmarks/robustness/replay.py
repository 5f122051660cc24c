"""Replay runs in plain torch with a masked full softmax, from the draws in their metrics.

    python -m benchmarks replay [--world 1,2,4] [--steps 50] [--seed 0] > results.jsonl

Every sampling regime with every --draw, by one process, two shards (tensor parallel) and two
replicas (data parallel); dense updates, tied embeddings, and two replicas of two shards
(`tests/helpers/replay.py`). Prints a JSON object a run, with the largest difference of a step's
loss.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common import ROOT, SAMPLE, emit, parser_of
from helpers.replay import Case, compare, train

LANGUAGES = ("el", "en", "fi", "fr")
REGIMES = ("joint", "none", "full", "sub:1", "sub:2")
DRAWS = ("step", "micro")
# Processes, and tensor-parallel shards: one process, two shards, two replicas.
LAYOUTS = ((1, 1), (2, 2), (2, 1))


def grid() -> Iterator[Case]:
    """All cases of the benchmark."""
    for (world, tp), sampling, draw in itertools.product(LAYOUTS, REGIMES, DRAWS):
        yield Case(world, tp, sampling, draw)
    for (world, tp), sampling in itertools.product(LAYOUTS, REGIMES):
        yield Case(world, tp, sampling, "step", update="dense")
        yield Case(world, tp, sampling, "micro", tied=True)
    for sampling in REGIMES:
        yield Case(4, 2, sampling, "micro")


def prepare(place: Path) -> None:
    """Text and a tokenizer of four languages."""
    from modtok_cli.construct.bpe_seq import bpe_seq

    (place / "data").mkdir(parents=True)
    for language in LANGUAGES:
        shutil.copy(SAMPLE / "data" / f"{language}.jsonl", place / "data")
    bpe_seq(LANGUAGES, data=place / "data", output=place / "tokenizer", k=600, references=False)


def main() -> int:
    """0 if all runs and their replays are equal."""
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", default="1,2,4", help="numbers of processes")
    options = parser.parse_args()
    os.environ |= {"MODTOK_DEVICE": "cpu", "PYTHONPATH": str(ROOT / "tests")}
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        prepare(place)
        for world in map(int, options.world.split(",")):
            cases = [case for case in grid() if case.world == world]
            train(cases, place, options.steps, options.seed)
            for case in cases:
                row = compare(case, place)
                different += not row["equal"]
                emit(row)
    return int(different > 0)
