"""Learning: `modtok bpe-seq` against the `tokenizers` library, whole commands.

python -m benchmarks learning DATA [--runs 3] [-k 24000] [--grow 1,4,16]

A: modtok bpe-seq over all languages, start-up, references and written files included.
B: the library training the same monolingual tokenizers and writing them.
--grow measures A alone on a corpus made larger by repetition with altered words.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson
import zstandard

from benchmarks.common import LANGUAGES, Run, describe, emit, texts, timed

ALL = ",".join(LANGUAGES)


def ours(data: Path, k: int, output: Path, languages: str) -> list[str]:
    return [
        *(sys.executable, "-m", "modtok_cli", "-q", "bpe-seq", "--langs", languages),
        *("-k", str(k), "--data", str(data), "-o", str(output)),
    ]


def compare(data: Path, k: int, runs: int, scratch: Path) -> None:
    a: list[Run] = []
    b: list[Run] = []
    for i in range(runs + 1):
        mine = timed(ours(data, k, scratch / f"a{i}", ALL))
        if i == 0:
            continue  # files come into the caches
        a.append(mine)
        b.append(
            timed(
                [
                    *(sys.executable, "-m", "benchmarks", "library_bpe"),
                    str(data),
                    str(k),
                    str(scratch / "b"),
                    *LANGUAGES,
                ]
            )
        )
        emit(
            {
                "run": i,
                "modtok_wall": round(a[-1].wall, 2),
                "modtok_cpu": round(a[-1].cpu, 2),
                "modtok_peak_mib": round(a[-1].peak),
                "library_wall": round(b[-1].wall, 2),
                "library_cpu": round(b[-1].cpu, 2),
                "library_peak_mib": round(b[-1].peak),
                "ratio": round(b[-1].wall / a[-1].wall, 2),
            }
        )
    ratio = statistics.median(y.wall / x.wall for x, y in zip(a, b, strict=True))
    emit({"median_ratio": round(ratio, 2)})


def altered(text: str, copy: int) -> Iterator[str]:
    """A word in three gets two letters of its own: new words, as new text would bring."""
    for i, word in enumerate(re.split(r"( )", text)):
        if copy and len(word) > 4 and (i + copy) % 3 == 0:
            turn = copy % (len(word) - 2) + 1
            yield word[turn:] + word[:turn]
        else:
            yield word


def grow(data: Path, k: int, factors: list[int], scratch: Path) -> None:
    chosen = ["en", "fi", "fr"]
    for factor in factors:
        larger = scratch / f"x{factor}"
        larger.mkdir()
        size = 0
        for language in chosen:
            with zstandard.open(larger / f"{language}.jsonl.zst", "wb") as handle:
                for copy in range(factor):
                    for text in texts(data / f"{language}.jsonl.zst"):
                        line = "".join(altered(text, copy))
                        size += len(line.encode())
                        handle.write(orjson.dumps({"text": line}) + b"\n")
        run = timed(ours(larger, k, scratch / f"g{factor}", ",".join(chosen)))
        emit(
            {
                "languages": chosen,
                "factor": factor,
                "megabytes": round(size / 1e6, 1),
                "wall": round(run.wall, 2),
                "cpu": round(run.cpu, 2),
                "peak_mib": round(run.peak),
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("-k", type=int, default=24_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--grow", type=lambda text: [int(n) for n in text.split(",")], default=[])
    given = parser.parse_args()
    print(describe())
    with tempfile.TemporaryDirectory() as directory:
        if given.runs:
            compare(given.data, given.k, given.runs, Path(directory))
        grow(given.data, given.k, given.grow, Path(directory))


if __name__ == "__main__":
    main()
