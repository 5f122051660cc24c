"""kill -9 at random moments of every command that writes.

    python -m benchmarks kills [--kills 200] [--only COMMAND,...] [--base DIR] > results.jsonl

Jobs and checks are in robustness/engine.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.common import emit
from benchmarks.robustness.engine import kills
from benchmarks.robustness.engine.launcher import start_launcher
from helpers import jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="commands, as: bpe-seq,eval mt")
    parser.add_argument("--skip", type=int, default=0, help="so many jobs at the beginning")
    parser.add_argument("--part", default="1/1", help="2/3: the second third of the jobs")
    parser.add_argument("--base", type=Path)
    options = parser.parse_args()
    start_launcher()
    with tempfile.TemporaryDirectory() as scratch:
        base = options.base or Path(scratch) / "base"
        if not base.exists():
            base.mkdir(parents=True)
            jobs.workspace(base)
        wanted = tuple(options.only.split(","))
        chosen = [job for job in jobs.JOBS if " ".join(job.words).startswith(wanted)]
        part, parts = map(int, options.part.split("/"))
        for number, job in enumerate(chosen):
            if number < options.skip or number % parts != part - 1:
                continue
            rng = random.Random(f"{options.seed}/{number}")
            count = options.kills // len(chosen) + (number < options.kills % len(chosen))
            known = kills.reference(job, base.absolute(), Path(scratch))
            for _ in range(count):
                verdict = kills.kill(job, base.absolute(), known, Path(scratch), rng)
                emit(asdict(verdict))
