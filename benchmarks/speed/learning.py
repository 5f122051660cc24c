"""Learning: `modtok bpe-seq` against the `tokenizers` library, whole commands.

python -m benchmarks learning DATA [--runs 3] [-k 24000]

A: modtok bpe-seq over all languages, start-up, references and written files included.
B: the library training the same monolingual tokenizers and writing them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.common import LANGUAGES, Run, describe, emit, timed


def ours(data: Path, k: int, output: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "modtok_cli", "-q", "bpe-seq", "--langs", ",".join(LANGUAGES)),
        *("-k", str(k), "--data", str(data), "-o", str(output)),
    ]


def compare(data: Path, k: int, runs: int, scratch: Path) -> None:
    a: list[Run] = []
    b: list[Run] = []
    for i in range(runs + 1):
        mine = timed(ours(data, k, scratch / f"a{i}"))
        if i == 0:
            continue  # files come into the caches
        a.append(mine)
        words = ["library_bpe", str(data), str(k), str(scratch / "b"), *LANGUAGES]
        b.append(timed([sys.executable, "-m", "benchmarks", *words]))
        row: dict[str, float] = {"run": i}
        for name, took in (("modtok", a[-1]), ("library", b[-1])):
            row |= {f"{name}_wall": round(took.wall, 2), f"{name}_cpu": round(took.cpu, 2)}
            row[f"{name}_peak_mib"] = round(took.peak)
        emit({**row, "ratio": round(b[-1].wall / a[-1].wall, 2)})
    ratio = statistics.median(y.wall / x.wall for x, y in zip(a, b, strict=True))
    emit({"median_ratio": round(ratio, 2)})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("-k", type=int, default=24_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as directory:
        compare(given.data, given.k, given.runs, Path(directory))


if __name__ == "__main__":
    main()
