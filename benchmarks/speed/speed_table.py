"""One table of speed: encoding, learning and starting, with other programs in turns.

    python -m benchmarks speed_table --run CORPUS [--turns 5] [--rows FILE] [--before DIR]
    python -m benchmarks speed_table ROWS...

CORPUS has <lang>.jsonl.zst of the 21 languages of the paper. `--run` learns the tokenizers that
the others need, T of 69 languages too, some of them invented by `many_languages`, and calls
`encoding_peers`, `encoding_uses`, `learning_peers`, `learning` and `starting`, which say what they
measure; it takes half an hour, and `--rows` keeps their rows. With files of rows, only the table is
printed, in Markdown: median (least to greatest), and the number of turns.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.common import LANGUAGES, describe, parser_of

Row = dict[str, Any]
Line = tuple[str, str, str, str, int]
"""What is measured, the program, its unit, median with range, turns."""

_MODTOK = [sys.executable, "-m", "modtok_cli", "--quiet"]
_BENCHMARK = [sys.executable, "-m", "benchmarks"]


def measured(corpus: Path, turns: int, scratch: Path, checkout: Path | None) -> Iterator[Row]:
    """The rows of all benchmarks."""
    number = str(turns)
    before = ["--before", str(checkout)] if checkout else []

    def learned(name: str, command: str, languages: str, *words: str, data: Path = corpus) -> str:
        output = str(scratch / name)
        words = ("--langs", languages, "-k", "24000", "--data", str(data), "-o", output, *words)
        subprocess.run([*_MODTOK, command, *words], check=True, stdout=subprocess.DEVNULL)
        return output

    def rows(*words: str, runs: str = "--turns") -> Iterator[Row]:
        words = (*_BENCHMARK, *words, runs, number)
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            yield from rows_of(process.stdout)
        if process.returncode:
            raise SystemExit(f"{' '.join(words)}: exit status {process.returncode}")

    texts = {name: str(corpus / f"{name}.jsonl.zst") for name in ("en", "fi", "fr")}
    some = (texts["en"], texts["fr"], "--megabytes", "12")
    pair = learned("pair", "bpe-seq", "en,fr", "--pretokenizer", "gpt2")
    yield from rows("encoding_peers", pair, *some)
    for command in ("bpe-merge", "unigram-merge"):
        tokenizer = learned(command, command, "en,fr")
        without = ("--without", "gigatoken,fastokens,tokenizers")
        yield from rows("encoding_peers", tokenizer, *some, *without)
    yield from rows("encoding_uses", pair, "--data", str(corpus))
    yield from rows("learning_peers", texts["fi"], texts["en"])
    yield from rows("learning", str(corpus), runs="--runs")
    many = scratch / "many"
    make = [*_BENCHMARK, "many_languages", "make", str(corpus), str(many), "--languages", "69"]
    subprocess.run([*make, "--megabytes", "1"], check=True, stdout=subprocess.DEVNULL)
    labels = sorted(path.name.partition(".")[0] for path in (many / "data").iterdir())
    t21 = learned("t21", "bpe-seq", ",".join(LANGUAGES))
    t69 = learned("t69", "bpe-seq", ",".join(labels), data=many / "data")
    yield from rows("starting", t21, t69, *before, runs="--runs")


def rows_of(lines: Iterable[bytes]) -> Iterator[Row]:
    """The JSON objects among lines."""
    for line in lines:
        if line.startswith(b"{"):
            yield orjson.loads(line)


def lines_of(rows: Sequence[Row]) -> Iterator[Line]:
    """Lines of the table."""
    for row in rows:
        match row.get("what"):
            case "encode":
                kind = row.get("segmentation", "merges")
                what = f"encoding, {kind}, {_threads(row)}, {row['pass']} pass"
                name = f"{row['peer']} {row['version']}"
                found = _range(row["mb_s"], row["least"], row["greatest"])
                yield what, name, "MB/s", found, row["turns"]
            case "one language":
                name = f"{row['peer']} {row['version']}"
                found = _range(row["seconds"], row["least"], row["greatest"])
                yield f"learning, {row['file'].split('.')[0]}", name, "s", found, row["turns"]
            case "files" | "stream" as what:
                name = "encoding for pretraining, a worker"
                if what == "files":
                    name = f"encoding, files, {_threads(row)}"
                many = 1e6 if what == "stream" else 1
                found = _range(*(row[key] / many for key in ("median", "least", "greatest")))
                unit = f"million {row['unit']}" if what == "stream" else row["unit"]
                yield name, "modtok", unit, found, row["turns"]
            case "start":
                name = row["command"].removesuffix(" (before)")
                program = "" if name in ("python", "import numpy") else "modtok"
                program += ", before" if row["command"] != name else ""
                for unit, key in (("s", "wall"), ("MB", "mb")):
                    found = _range(row[key], *row[f"{key}_range"])
                    yield f"start: {name}", program, unit, found, row["runs"]
    builds = [row for row in rows if "library_wall" in row]
    for key, name in (("modtok", "modtok"), ("library", "tokenizers")):
        for unit, part in (("s", "wall"), ("processor s", "cpu"), ("MiB", "peak_mib")):
            found = [row[f"{key}_{part}"] for row in builds]
            if found:
                text = _range(statistics.median(found), min(found), max(found))
                yield "learning 21 languages, references included", name, unit, text, len(found)


def _threads(row: Row) -> str:
    return "one thread" if row["threads"] == 1 else f"{row['threads']} threads"


def _range(median: float, least: float, greatest: float) -> str:
    return f"{median:.4g} ({least:.4g} to {greatest:.4g})"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("files", type=Path, nargs="*", metavar="ROWS")
    parser.add_argument("--run", type=Path, metavar="CORPUS", help="measure first")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--before", type=Path, metavar="DIR", help="a checkout to compare starts")
    parser.add_argument("--rows", type=Path, help="where the rows of --run are kept")
    options = parser.parse_args()
    if bool(options.files) == bool(options.run):
        parser.error("give files of rows, or --run")
    rows = [row for file in options.files for row in rows_of(file.read_bytes().splitlines())]
    if options.run:
        with (
            tempfile.TemporaryDirectory() as scratch,
            open(options.rows or os.devnull, "ab") as kept,
        ):
            for row in measured(options.run, options.turns, Path(scratch), options.before):
                rows.append(row)
                kept.write(orjson.dumps(row) + b"\n")
                kept.flush()  # a benchmark that fails leaves the rows of those before
        print(f"{describe()}\n")
    print("| what | program | unit | median (range) | turns |\n|---|---|---|---:|---:|")
    for line in sorted(lines_of(rows)):
        print(f"| {' | '.join(str(cell) for cell in line)} |")
