"""Seconds and memory until a command has its result, on little text; two checkouts in turns.

    python -m benchmarks starting t21 t69 --runs 9
    python -m benchmarks starting --runs 9 --before DIR

`t21` and `t69` are modular directories with English and French: a line is encoded by both
languages and by all of T, and both are extracted. The other commands run on the sample. Commands
take turns with the interpreter, and with an import of numpy, which tell how fast the machine is at
the moment. With `--before`, each command runs with the code of that checkout too, in turns. Seconds
of the clock and of the processors and peak memory, medians and ranges. Prints a JSON object a line.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import ROOT, SAMPLE, Run, describe, emit, parser_of, timed

MODTOK = [sys.executable, "-m", "modtok_cli"]
LINE = "Un très long mot, and a short one\n"


def run(words: Sequence[str], cwd: Path, code: Path = ROOT) -> Run:
    # An installation has bytecode, so the commands may write and use it here as well.
    env = {**os.environ, "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": ""}
    return timed(words, LINE.encode(), cwd=cwd, env=env)


def commands_of(tokenizers: Sequence[Path], place: Path) -> dict[str, list[str]]:
    """What is run, by name, in a workspace with the sample and a tokenizer."""
    shutil.copytree(SAMPLE / "data", place / "data")
    text = place / "three.txt"
    lines = (SAMPLE / "parallel" / "fr.txt").read_text("utf-8").splitlines()[:3]
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run([*MODTOK, "bpe-seq", "-k", "2000"], place)
    named = ["--lang", "fr", str(text)]
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "modtok --version": [*MODTOK, "--version"],
        "encode a line": [*MODTOK, "encode", "-t", "tokenizer@fr,en"],
        "encode a file": [*MODTOK, "encode", "--langs", "en,fr", "data/fi.jsonl"],
        "nsl": [*MODTOK, "nsl", "-t", "tokenizer", *named],
        "check": [*MODTOK, "check", "-t", "tokenizer", *named],
        "bpe-seq": [*MODTOK, "bpe-seq", "--langs", "en,fi", "-k", "1000", "-o", "a", "--force"],
        "bpe-merge": [*MODTOK, "bpe-merge", "--langs", "en,fi", "-k", "1000", "-o", "b", "--force"],
    }
    for path in tokenizers:
        commands[f"encode, {path.name}@en,fr"] = [*MODTOK, "encode", "-t", f"{path}@en,fr"]
        commands[f"encode, {path.name}"] = [*MODTOK, "encode", "-t", str(path)]
        extract = [*MODTOK, "extract", "-t", str(path), "--langs", "fr,en"]
        commands[f"extract fr,en, {path.name}"] = extract
    return commands


def starts(tokenizers: Sequence[Path], runs: int, before: Path | None) -> None:
    """Commands in turns, so that all see the same machine."""
    checkouts = {"": ROOT} if before is None else {"": ROOT, " (before)": before}
    found: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as directory:
        commands = commands_of(tokenizers, Path(directory))
        for turn in range(runs + 1):
            for name, words in commands.items():
                for which, code in checkouts.items():
                    took = run(words, Path(directory), code)
                    if turn:  # the first one reads files and writes bytecode
                        found.setdefault(name + which, []).append(took)
    for name, rows in found.items():
        row: dict[str, object] = {"what": "start", "command": name, "runs": runs}
        memory = [each.peak * 2**20 / 1e6 for each in rows]
        for key, values in {
            "wall": [each.wall for each in rows], "cpu": [each.cpu for each in rows], "mb": memory
        }.items():  # fmt: skip
            row[key] = round(statistics.median(values), 3)
            row[f"{key}_range"] = [round(min(values), 3), round(max(values), 3)]
        emit(row)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("tokenizers", nargs="*", help="modular directories with en and fr")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--before", type=Path, metavar="DIR", help="another checkout")
    options = parser.parse_args()
    emit({"what": "machine", "machine": describe(), "load": os.getloadavg()})
    before = options.before.resolve() if options.before else None
    starts([Path(path).resolve() for path in options.tokenizers], options.runs, before)
    emit({"what": "load after", "load": os.getloadavg()})
    return 0
