"""Seconds until a command has its result: with kernels on disk, and at first use.

    python -m benchmarks starting t21 t69 --runs 9
    python -m benchmarks starting --first-use 5

`t21` and `t69` are modular directories with English and French: a line is encoded by both
languages and by all of T, and both are extracted. Commands take turns with the interpreter, and
with an import of numpy, which tell how fast the machine is at the moment. `--first-use N` runs
commands on the sample, each with an empty directory of kernels (NUMBA_CACHE_DIR), then again, and
all of them N times. Seconds of the clock and of the processors, medians and ranges. Prints a JSON
object a line.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.common.machine import ROOT, SAMPLE, describe
from benchmarks.common.rows import emit

MODTOK = [sys.executable, "-m", "modtok_cli"]
LINE = "Un très long mot, and a short one\n"


def run(words: Sequence[str], environment: Mapping[str, str], cwd: Path) -> tuple[float, float]:
    """Seconds of the clock and of the processors, children included."""
    began = time.perf_counter()
    process = subprocess.Popen(
        words,
        cwd=cwd,
        # An installation has bytecode, so the commands may write and use it here as well.
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "",
            **environment,
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(LINE.encode())
    process.stdin.close()
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: {said.decode()}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def starts(tokenizers: Sequence[str], runs: int) -> None:
    """Commands in turns, so that all see the same machine."""
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "modtok --version": [*MODTOK, "--version"],
    }
    for path in tokenizers:
        name = Path(path).name
        commands[f"encode, {name}@en,fr"] = [*MODTOK, "encode", "-t", f"{path}@en,fr"]
        commands[f"encode, {name}"] = [*MODTOK, "encode", "-t", path]
        commands[f"extract fr,en, {name}"] = [*MODTOK, "extract", "-t", path, "--langs", "fr,en"]
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, words in commands.items():
            took = run(words, {}, ROOT)
            if turn:  # the first one reads files and writes bytecode
                seconds[name].append(took)
    for name, found in seconds.items():
        wall, cpu = zip(*found, strict=True)
        emit({"what": "start", "command": name, "runs": runs, **_summary(wall, cpu)})


def _summary(wall: Sequence[float], cpu: Sequence[float]) -> dict[str, object]:
    return {
        "wall": round(statistics.median(wall), 3),
        "wall_range": [round(min(wall), 3), round(max(wall), 3)],
        "cpu": round(statistics.median(cpu), 3),
        "cpu_range": [round(min(cpu), 3), round(max(cpu), 3)],
    }


def first_uses(names: Sequence[str], runs: int) -> None:
    """Each command twice, with kernels of its own; commands take turns."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        shutil.copytree(SAMPLE / "data", place / "data")
        text = str(SAMPLE / "parallel" / "en.txt")
        run([*MODTOK, "bpe-seq", "-k", "400"], {}, place)
        commands = {
            "bpe-seq": ["bpe-seq", "-k", "400", "-o", "a", "--force"],
            "bpe-merge": ["bpe-merge", "-k", "400", "-o", "b", "--force"],
            "extract": ["extract", "--langs", "en,fr"],
            "encode a line": ["encode", "--langs", "en,fr"],
            "encode a file": ["encode", "--langs", "en,fr", "data/fi.jsonl"],
            "nsl": ["nsl", "-t", "tokenizer", text],
            "fairness": ["fairness", "-t", "tokenizer", str(SAMPLE / "parallel")],
            "check": ["check", "-t", "tokenizer", str(SAMPLE / "parallel")],
            "pretrain": ["pretrain", "--model", "tiny", "--steps", "1", "--force"],
        }
        found: dict[str, list[tuple[float, float]]] = {}
        stored: dict[str, int] = {}
        for _ in range(runs):
            for name in names or commands:
                kernels = place / "kernels"
                words = [*MODTOK, *commands[name]]
                for which in ("first use", "second start"):
                    took = run(words, {"NUMBA_CACHE_DIR": str(kernels)}, place)
                    found.setdefault(f"{which}: {name}", []).append(took)
                stored[name] = len(list(kernels.rglob("*.nbc")))
                shutil.rmtree(kernels, ignore_errors=True)
        for key, took_all in found.items():
            which, name = key.split(": ")
            wall, cpu = zip(*took_all, strict=True)
            row = {"what": which, "command": name, "runs": runs, **_summary(wall, cpu)}
            emit({**row, "kernels": stored[name]})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizers", nargs="*", help="modular directories with en and fr")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--first-use", type=int, default=0, metavar="N")
    parser.add_argument("--commands", nargs="*", default=(), help="of the first uses; all")
    options = parser.parse_args()
    emit({"what": "machine", "machine": describe(), "load": os.getloadavg()})
    if options.tokenizers:
        starts([str(Path(path).resolve()) for path in options.tokenizers], options.runs)
    if options.first_use:
        first_uses(options.commands, options.first_use)
    emit({"what": "load after", "load": os.getloadavg()})
    return 0
