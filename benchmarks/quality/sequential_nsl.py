"""NSL of sequential BPE with one pass and two, beside the paper's.

python -m benchmarks sequential_nsl CORPUS PARALLEL [-k 24000]

Runs the commands that a user would type and prints the Markdown table of docs/results.md.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson

from benchmarks.common import LANGUAGES, describe

# Table "BPE NSL" of the paper: extracted 24k, and the sequential tokenizer of 24k a language.
PAPER_EXTRACTED = (
    "bg 1.00 cs 1.00 da 1.01 de 1.02 el 0.99 en 1.01 es 1.01 et 1.02 fi 1.05 fr 1.01 hu 1.04 "
    "it 1.02 lt 1.04 lv 1.03 nl 1.03 pl 1.03 pt 1.01 ro 1.02 sk 1.04 sl 1.04 sv 1.03"
)
PAPER_FULL = (
    "bg 1.00 cs 0.95 da 0.96 de 0.97 el 0.98 en 0.97 es 0.97 et 0.96 fi 0.97 fr 0.97 hu 0.98 "
    "it 0.97 lt 0.97 lv 0.97 nl 0.97 pl 0.96 pt 0.96 ro 0.96 sk 0.94 sl 0.96 sv 0.95"
)


def modtok(*arguments: str, cwd: Path) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "modtok_cli", "-q", *arguments]
    done = subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE)
    return [orjson.loads(line) for line in done.stdout.splitlines()]


def paper(table: str) -> dict[str, float]:
    cells = table.split()
    return dict(zip(cells[::2], map(float, cells[1::2]), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("-k", type=int, default=24_000)
    given = parser.parse_args()
    languages = LANGUAGES
    columns: dict[str, dict[str, float]] = {}
    sizes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "text").mkdir()
        for language in languages:
            shutil.copy(given.parallel / f"{language}.txt", place / "text")
        for passes in (1, 2):
            name = f"passes{passes}"
            options = ["--langs", ",".join(LANGUAGES), "-k", str(given.k), "--passes", str(passes)]
            data = ["--data", str(given.corpus.resolve()), "-o", name]
            sizes[passes] = int(str(modtok("bpe-seq", *options, *data, cwd=place)[-1]["total"]))
            for row in modtok("nsl", "-t", f"{name}@each", "-t", name, "text", cwd=place):
                kind = "extracted" if str(row["tokenizer"]).endswith("@each") else "T"
                column = columns.setdefault(f"{kind}, {passes} pass", {})
                column[str(row["language"])] = float(str(row["nsl"]))
    columns["paper extracted"] = paper(PAPER_EXTRACTED)
    columns["paper T"] = paper(PAPER_FULL)
    print(f"{describe()}\n\n|T| = {sizes[1]:,} with one pass, {sizes[2]:,} with two.\n")
    print("| language | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for language in languages:
        cells = [
            f"{column[language]:.2f}" if name.startswith("paper") else f"{column[language]:.4f}"
            for name, column in columns.items()
        ]
        print(f"| {language} | " + " | ".join(cells) + " |")
    for name, summary in (("mean", statistics.mean), ("max", max)):
        cells = [f"{summary(column.values()):.4f}" for column in columns.values()]  # type: ignore[operator]
        print(f"| **{name}** | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
