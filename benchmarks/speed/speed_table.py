"""One table of speed: encoding, learning, starting and first use, with other programs in turns.

    python -m benchmarks speed_table --run CORPUS [--turns 5] [--rows FILE]
    python -m benchmarks speed_table ROWS...

CORPUS has <lang>.jsonl.zst of the 21 languages of the paper. `--run` learns the tokenizers that
the others need and calls `encoding_peers`, `learning_peers`, `learning` and `starting`, which say
what they measure; it takes about an hour, and `--rows` keeps their rows. With files of rows, only
the table is printed, in Markdown: median (least to greatest), and the number of turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.common.corpora import LANGUAGES
from benchmarks.common.machine import describe

Row = dict[str, Any]
Line = tuple[str, str, str, str, int]
"""What is measured, the program, its unit, median with range, turns."""

_MODTOK = [sys.executable, "-m", "modtok_cli", "--quiet"]
_BENCHMARK = [sys.executable, "-m", "benchmarks"]


def measured(corpus: Path, turns: int, scratch: Path) -> Iterator[Row]:
    """The rows of all benchmarks."""

    def learned(command: str, languages: str, *words: str) -> str:
        output = str(scratch / f"{command} {languages}")
        words = ("--langs", languages, "-k", "24000", "--data", str(corpus), "-o", output, *words)
        subprocess.run([*_MODTOK, command, *words], check=True, stdout=subprocess.DEVNULL)
        return output

    pair = learned("bpe-seq", "en,fr", "--pretokenizer", "gpt2")
    fewest, unigram = learned("bpe-merge", "en,fr"), learned("unigram-merge", "en,fr")
    all_ = learned("bpe-seq", ",".join(LANGUAGES))
    texts = {name: str(corpus / f"{name}.jsonl.zst") for name in ("en", "fi", "fr")}
    some = [texts["en"], texts["fr"], "--megabytes", "12"]
    alone = ["--without", "gigatoken,fastokens,tokenizers"]
    number = str(turns)
    for words in (
        ["encoding_peers", pair, *some],
        ["encoding_peers", fewest, *some, *alone],
        ["encoding_peers", unigram, *some, *alone],
        ["learning_peers", texts["fi"], texts["en"]],
        ["learning", str(corpus)],
        ["starting", all_, "--first-use"],
    ):
        runs = "--turns" if words[0].endswith("peers") else "--runs"
        done = subprocess.run(
            [*_BENCHMARK, *words, runs, number], check=True, stdout=subprocess.PIPE
        )
        yield from rows_of(done.stdout)


def rows_of(content: bytes) -> Iterator[Row]:
    """The JSON objects among lines."""
    for line in content.splitlines():
        if line.startswith(b"{"):
            yield orjson.loads(line)


def lines_of(rows: Sequence[Row]) -> Iterator[Line]:
    """Lines of the table."""
    for row in rows:
        match row.get("what"):
            case "encode":
                kind = row.get("segmentation", "merges")
                what = f"encoding, {kind}, {row['threads']} thread(s), {row['pass']} pass"
                name = f"{row['peer']} {row['version']}"
                found = _range(row["mb_s"], row["least"], row["greatest"])
                yield what, name, "MB/s", found, row["turns"]
            case "one language":
                name = f"{row['peer']} {row['version']}"
                found = _range(row["seconds"], row["least"], row["greatest"])
                yield f"learning, {row['file'].split('.')[0]}", name, "s", found, row["turns"]
            case "start":
                found = _range(row["wall"], *row["wall_range"])
                yield f"starting: {row['command']}", "modtok", "s", found, row["runs"]
            case "first use":
                yield f"first use: {row['command']}", "modtok", "s", str(row["first_wall"]), 1
    builds = [row for row in rows if "library_wall" in row]
    for key, name in (("modtok", "modtok"), ("library", "tokenizers")):
        for unit, part in (("s", "wall"), ("processor s", "cpu"), ("MiB", "peak_mib")):
            found = [row[f"{key}_{part}"] for row in builds]
            if found:
                text = _range(statistics.median(found), min(found), max(found))
                yield "learning 21 languages, references included", name, unit, text, len(found)


def _range(median: float, least: float, greatest: float) -> str:
    return f"{median:g}" if least == greatest else f"{median:g} ({least:g} to {greatest:g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", type=Path, nargs="*", metavar="ROWS")
    parser.add_argument("--run", type=Path, metavar="CORPUS", help="measure first")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=Path, help="where the rows of --run are kept")
    options = parser.parse_args()
    if bool(options.files) == bool(options.run):
        parser.error("give files of rows, or --run")
    rows = [row for file in options.files for row in rows_of(file.read_bytes())]
    if options.run:
        with tempfile.TemporaryDirectory() as scratch:
            rows = [*measured(options.run, options.turns, Path(scratch))]
        if options.rows:
            options.rows.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
        print(f"{describe()}\n")
    print("| what | program | unit | median (range) | turns |\n|---|---|---|---:|---:|")
    for line in sorted(lines_of(rows)):
        print(f"| {' | '.join(str(cell) for cell in line)} |")


if __name__ == "__main__":
    main()
