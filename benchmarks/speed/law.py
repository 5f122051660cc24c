"""Time and memory of counting, learning, extracting and opening: rows, and constants of a law.

    python -m benchmarks law text WORK [--megabytes 1,4,16,64,256,1024] [-k 24000]
    python -m benchmarks law budgets WORK [--megabytes 64] [--budgets 1000,10000,100000]
    python -m benchmarks law languages WORKSPACE WORK [--languages 1,3,10,30,100,200] [-k 8000]
    python -m benchmarks law bounded WORK [--memory 4GB] [-k 24000]
    python -m benchmarks law words CORPUS [--langs fi,en,de,fr]
    python -m benchmarks law fit ROWS

WORK/data/fi is of `left_out invented`: real and invented words. `text` counts parts of it by
`modtok corpus count`, and learns from these tables by `bpe-seq` and `bpe-merge` without references;
`budgets` learns with several k. `languages` counts, learns, cuts and opens the first languages of
WORKSPACE, which `many_languages make` writes. Each command is a process of its own with one thread:
processor seconds, seconds and peak memory.

`bounded`: all of WORK/data/fi, by two threads and within a limit of memory.

`words`: unique words of every 32nd, 16th, ... document of a real corpus, and of 20 GB if they grow
on as a power of the text.

`fit` fits time and memory of all rows by least squares of relative errors, and prints constants,
errors, and the size of text that one machine of 24 GB ends at.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import emit, parser_of, texts, timed
from modtok_cli.text.counts import count_documents
from modtok_cli.text.table_files import open_counts
from modtok_cli.tokenizer.manifest import read_manifest

MACHINE = 24e9
Row = dict[str, Any]

# What is fitted: rows → name and unit of each constant, and what it is multiplied by.
Terms = dict[str, Callable[[Row], float]]
START: Terms = {"s": lambda row: 1}
WORDS: Terms = {"s per GB of unique words": lambda row: row["word_bytes"] / 1e9}
LEARNED: Terms = {"s per million tokens": lambda row: row["languages"] * row["k"] / 1e6}
ROWS: Terms = {
    "s per billion languages × tokens of T": lambda row: row["languages"] * row["t"] / 1e9
}
LARGEST: Terms = {"per byte of unique words of a language": lambda row: row["largest"]}
MEMORY: Terms = {"MB": lambda row: 1e6}
TOKENS: Terms = {
    "per token of T": lambda row: row["t"],
    "per token of T and language": lambda row: row["languages"] * row["t"],
}
OPENED: Terms = {**START, "s per million tokens of T": lambda row: row["t"] / 1e6, **ROWS}
TERMS: dict[str, Terms] = {
    "count: seconds": {**START, "s per GB of text": lambda row: row["text"] / 1e9, **WORDS},
    "count: bytes": {**MEMORY, **LARGEST},
    "bpe-seq: seconds": START | WORDS | LEARNED | ROWS,
    "bpe-seq: bytes": MEMORY | LARGEST | TOKENS,
    "bpe-merge: seconds": START | WORDS | LEARNED,
    "bpe-merge: bytes": MEMORY | LARGEST | TOKENS,
    "extract: seconds": OPENED,
    "extract: bytes": MEMORY | TOKENS,
    "open: seconds": OPENED,
    "open: bytes": MEMORY | TOKENS,
}
OPEN = "import sys, modtok_cli; modtok_cli.open_tokenizer(sys.argv[1])"


def spent(command: Iterable[object]) -> Row:
    """Run a process; what it took."""
    run = timed([sys.executable, *map(str, command)])
    return {
        "seconds": round(run.cpu, 2), "wall": round(run.wall, 2), "bytes": int(run.peak * 2**20)
    }  # fmt: skip


def modtok(*words: object) -> list[object]:
    return ["-m", "modtok_cli", *words, "--force", "-q"]


ONE: tuple[object, ...] = ("--threads", 1)


def counted(data: Path, languages: list[str], tables: Path, how: Iterable[object] = ONE) -> Row:
    """Count languages; what is known of their text."""
    words = ["corpus", "count", "--data", data, "--langs", ",".join(languages), *how]
    took = spent(modtok(*words, "-o", tables))
    opened = [open_counts(path) for path in sorted(tables.glob("*.counts"))]
    sizes = [places["data"].shape[0] for _, places in opened]
    facts = {
        "languages": len(languages),
        "text": sum(header.size.bytes for header, _ in opened),
        "words": sum(header.unique for header, _ in opened),
        "word_bytes": sum(sizes),
        "largest": max(sizes),
    }
    emit({"what": "count", "options": " ".join(map(str, how)), **facts, **took})
    return facts


def learned(
    command: str, tables: Path, k: int, facts: Row, output: Path, how: Iterable[object] = ONE
) -> Row:
    """Learn from tables; what is known of the tokenizer too."""
    words = [command, "--data", tables, "-k", k, "-o", output, "--no-references", *how]
    took = spent(modtok(*words))
    row = {**facts, "k": k, "t": read_manifest(output).tokens}
    emit({"what": command, "options": " ".join(map(str, how)), **row, **took})
    return row


def text(args: argparse.Namespace, budgets: list[int] | None = None) -> None:
    for size in map(float, args.megabytes.split(",")):
        with tempfile.TemporaryDirectory(dir=args.work) as scratch:
            place = Path(scratch) / "data" / "fi"
            place.mkdir(parents=True)
            if size * 1e6 > 30e6:
                shutil.copy(args.work / "data" / "fi" / "fi.jsonl.zst", place)
            with (args.work / "data" / "fi" / "invented.txt").open("rb") as file:
                part = file.read(int(size * 1e6))
            (place / "invented.txt").write_bytes(part[: part.rfind(b"\n") + 1])
            del part
            facts = counted(place.parent, ["fi"], Path(scratch) / "counts")
            for command in args.commands.split(","):
                for k in budgets or [args.k]:
                    learned(command, Path(scratch) / "counts", k, facts, Path(scratch) / "t")


def languages(args: argparse.Namespace) -> None:
    labels = sorted(path.name.partition(".")[0] for path in (args.workspace / "data").iterdir())
    for number in map(int, args.languages.split(",")):
        with tempfile.TemporaryDirectory(dir=args.work) as scratch:
            tables, output = Path(scratch) / "counts", Path(scratch) / "t"
            chosen = labels[:: max(1, len(labels) // number)][:number]
            facts = counted(args.workspace / "data", chosen, tables)
            for command in args.commands.split(","):
                row = learned(command, tables, args.k, facts, output)
            some = ",".join(chosen[:3])
            cut = ["extract", "-t", output, "--langs", some, "-o", Path(scratch) / "three.json"]
            emit({"what": "extract", **row, **spent(modtok(*cut))})
            emit({"what": "open", **row, **spent(["-c", OPEN, f"{output}@{some}"])})


def bounded(args: argparse.Namespace) -> None:
    how = ("--threads", 2, "--memory", args.memory)
    tables, output = args.work / "counts", args.work / "t"
    facts = counted(args.work / "data", ["fi"], tables, how)
    for command in args.commands.split(","):
        learned(command, tables, args.k, facts, output, how)
        manifest = json.loads((output / "manifest.json").read_bytes())
        emit({"left_out": manifest["languages"][0]["corpus"].get("left_out")})


def words(args: argparse.Namespace) -> None:
    for language in args.langs.split(","):
        found = [text.encode() for text in texts(args.corpus / f"{language}.jsonl.zst")]
        tables = [count_documents([found[::share]]) for share in (32, 16, 8, 4, 2, 1)]
        sizes = np.log([table.size.bytes for table in tables])
        power, at_one = np.polyfit(sizes, np.log([len(table) for table in tables]), 1)
        row = {"what": "words", "language": language, "text": tables[-1].size.bytes}
        row |= {"words": len(tables[-1]), "power": round(float(power), 3)}
        emit({**row, "words_of_20_gb": float(f"{np.exp(at_one) * 20e9**power:.3g}")})


def fit(args: argparse.Namespace) -> None:
    rows = [json.loads(line) for line in args.rows.read_text("utf-8").splitlines()]
    for name, terms in TERMS.items():
        what, unit = name.split(": ")
        here = [row for row in rows if row.get("what") == what]
        here = [row for row in here if "--memory" not in row.get("options", "")]
        if not here:
            continue
        found = np.array([row[unit] for row in here], dtype=np.float64)
        matrix = np.array([[term(row) for term in terms.values()] for row in here])
        constants = least(matrix / found[:, None])
        errors = np.abs(matrix @ constants / found - 1)
        emit(
            {
                "law": name,
                "rows": len(here),
                "constants": {
                    each: float(f"{value:.3g}")
                    for each, value in zip(terms, constants.tolist(), strict=True)
                },
                "error_median": round(float(np.median(errors)), 3),
                "error_most": round(float(errors.max()), 3),
            }
        )
        if unit == "bytes" and what in ("count", "bpe-seq", "bpe-merge"):
            last = max(here, key=lambda row: row["largest"])
            rest = matrix[here.index(last)] @ constants - constants[1] * last["largest"]
            most = (MACHINE - rest) / constants[1]
            emit(
                {
                    "end": what,
                    "bytes_of_unique_words": float(f"{most:.3g}"),
                    "unique_words": float(f"{most * last['words'] / last['word_bytes']:.3g}"),
                }
            )
        if unit == "bytes" and what.startswith("bpe-"):
            last = max(here, key=lambda row: row["languages"])
            each = constants[-1] * last["t"] / last["languages"]
            rest = matrix[here.index(last)] @ constants - each * last["languages"] ** 2
            most = ((MACHINE - rest) / each) ** 0.5
            emit({"end": what, "k": last["k"], "languages": round(most, -1)})


def least(matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Constants, none negative, for which the rows sum to 1, by least squares."""
    kept = np.ones(matrix.shape[1], dtype=np.bool_)
    constants = np.zeros(matrix.shape[1])
    while kept.any():
        scale = np.linalg.norm(matrix[:, kept], axis=0)
        solved, *_ = np.linalg.lstsq(matrix[:, kept] / scale, np.ones(len(matrix)), rcond=None)
        if solved.min() >= 0:
            constants[kept] = solved / scale
            break
        kept[np.flatnonzero(kept)[np.argmin(solved)]] = False
    return constants


def main() -> None:
    parser = parser_of(__doc__)
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("text")
    one.set_defaults(call=text)
    two = parts.add_parser("budgets")
    two.add_argument("--budgets", default="1000,10000,100000")
    two.set_defaults(call=lambda args: text(args, [int(k) for k in args.budgets.split(",")]))
    five = parts.add_parser("words")
    five.add_argument("corpus", type=Path)
    five.add_argument("--langs", default="fi,en,de,fr,hu,ne")
    five.set_defaults(call=words)
    three = parts.add_parser("languages")
    three.add_argument("workspace", type=Path)
    three.add_argument("--languages", default="1,3,10,30,100,200")
    three.set_defaults(call=languages)
    six = parts.add_parser("bounded")
    six.add_argument("--memory", default="4GB")
    six.set_defaults(call=bounded)
    sizes = "1,4,16,64,256,1024"
    for part, megabytes, k in (
        (one, sizes, 24000),
        (two, "64", 0),
        (three, "", 8000),
        (six, "", 24000),
    ):
        part.add_argument("work", type=Path)
        part.add_argument("--megabytes", default=megabytes)
        part.add_argument("-k", type=int, default=k)
        part.add_argument("--commands", default="bpe-seq,bpe-merge")
    four = parts.add_parser("fit")
    four.add_argument("rows", type=Path)
    four.set_defaults(call=fit)
    args = parser.parse_args()
    args.call(args)
