"""kill -9 at random moments of every command that writes.

    python -m benchmarks kills [--kills 200] [--only COMMAND,...] [--base DIR] > results.jsonl

Jobs are in tests/helpers/jobs.py, checks in robustness/engine.
"""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path

from benchmarks.common import emit, parser_of
from benchmarks.robustness.engine import kills
from benchmarks.robustness.engine.launcher import start_launcher
from benchmarks.robustness.engine.workspaces import workspaces
from helpers import jobs


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="commands, as: bpe-seq,eval mt")
    parser.add_argument("--part", default="1/1", help="2/3: the second third of the jobs")
    parser.add_argument("--base", type=Path)
    options = parser.parse_args()
    start_launcher()
    with workspaces(options.base) as (base, scratch):
        wanted = tuple(options.only.split(","))
        chosen = [job for job in jobs.JOBS if " ".join(job.words).startswith(wanted)]
        part, parts = map(int, options.part.split("/"))
        for number, job in enumerate(chosen):
            if number % parts != part - 1:
                continue
            rng = random.Random(f"{options.seed}/{number}")
            count = options.kills // len(chosen) + (number < options.kills % len(chosen))
            known = kills.reference(job, base, scratch)
            for _ in range(count):
                verdict = kills.kill(job, base, known, scratch, rng)
                emit(asdict(verdict))
