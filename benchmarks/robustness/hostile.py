"""Full disks, no memory, hostile text, Ctrl-C: no traceback, no partial output.

    python -m benchmarks hostile [--only KIND] [--jobs WORD] [--base DIR] > results.jsonl

Every call must end by itself, without a traceback and with one line where it fails, with
outputs absent or whole. Full and read-only places are file systems of their own in memory:
it takes root. A JSON line for each call.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import emit, parser_of
from benchmarks.robustness.engine import kills
from benchmarks.robustness.engine.arena import error_line, faults, shell_status
from benchmarks.robustness.engine.launcher import Call, call, start_launcher
from benchmarks.robustness.engine.workspaces import fresh, small, workspaces
from helpers.jobs import JOBS, Job

MIB = 1 << 20
# Commands that read text, with {} for the file; data/ is a directory with that file alone.
READERS = (
    "corpus count --data hostile -o t",
    "corpus stats {}",
    "bpe --data hostile -k 300 -o t",
    "bpe-seq --data hostile -k 300 -o t",
    "bpe-merge --data hostile -k 300 -o t",
    "unigram --data hostile -k 300 -o t",
    "unigram-merge --data hostile -k 300 -o t",
    "extract -t unigram --langs en --top 300 --text {} -o t.json",
    "encode -t bpe {}",
    "encode -t external.json {}",
    "encode -t external.model {}",
    "encode -t ranks.tiktoken {}",
    "decode -t bpe {}",
    "nsl -t bpe {}",
    "fairness -t bpe {} parallel/fi.txt",
    "origin -t bpe {}",
    "cost -t bpe {}",
    "corpus build {} -o t --workers 1",
    "cost --time -t bpe --limit 2 --model tiny {}",
    "pretrain -t bpe --data hostile --sampling none --steps 2 --batch-size 2 --seq-length 32 "
    "--micro-batch 1 --workers 0 --name t",
    "generate runs/tiny -t bpe --langs en --max-tokens 4",
)


def hostile_texts() -> dict[str, bytes]:
    rng = random.Random(5)
    return {
        "random bytes": rng.randbytes(10_000),
        "control characters": bytes(rng.choices([*range(32), 127], k=10_000)),
        "zeros": bytes(10_000),
        "private use and no characters": "".join(
            chr(rng.choice((rng.randrange(0xE000, 0xF8FF), 0xFFFE, 0x10FFFF, 0x200B)))
            for _ in range(3_000)
        ).encode(),
        "marks without letters": ("\u0301\u0489\u200d" * 1_200).encode(),
        "one line of a letter": b"a" * 10_000,
        "line ends": b"\n" * 10_000,
    }


def judge(done: subprocess.CompletedProcess[bytes], seconds: float) -> dict[str, object]:
    """What a call ended in, and what is wrong about it."""
    said = done.stderr.decode(errors="replace")
    # Python ends itself by the signal where Ctrl-C came within exec(); a shell says 130 of both.
    wrong = faults(shell_status(done.returncode), said, (0, 1, 2, 130))
    if seconds > 300:
        wrong.append("took too long")
    return {"status": done.returncode, "said": error_line(said)[:300], "wrong": wrong}


def timed(words: list[str], place: Path, **options: Any) -> dict[str, object]:
    began = time.monotonic()
    try:
        done = call(words, place, **options)
    except subprocess.TimeoutExpired:
        return {"status": None, "said": "", "wrong": ["hangs"]}
    return judge(done, time.monotonic() - began)


def places(job: Job, base: Path, scratch: Path, rng: random.Random) -> Iterator[dict[str, object]]:
    """A full and a read-only disk."""
    place = scratch / "disk"
    for spare in (0, 12 * 1024, 100 * 1024):
        with small(place, spare, base):
            before = kills.paths_of(place)
            row = timed(job.words, place)
            left = kills.paths_of(place) - before
            if row["status"] == 0:
                row["said"] = "it fitted"
            elif not job.grows and left:
                row["wrong"] += [f"left: {sorted(left)[:4]}"]  # type: ignore[operator]
            yield {"kind": f"{spare // 1024} KiB free", **row}
    with small(place, MIB, base):
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        row = timed(job.words, place)
        if row["status"] == 0:
            row["wrong"] += ["it says that all is well"]  # type: ignore[operator]
        yield {"kind": "read-only", **row}


def memory(job: Job, base: Path, scratch: Path, rng: random.Random) -> Iterator[dict[str, object]]:
    for limit in (32, 128, 512):
        place = fresh(base, scratch / "memory")
        row = timed(job.words, place, memory=limit * MIB)
        yield {"kind": f"{limit} MiB of address space more", **row}


def interrupts(
    job: Job, base: Path, scratch: Path, rng: random.Random
) -> Iterator[dict[str, object]]:
    place = fresh(base, scratch / "interrupted")
    before = kills.paths_of(place)
    process = Call(job.words, place)
    status = process.status(rng.uniform(0.0, 2.0))
    if status is None:
        process.send_signal(signal.SIGINT)
        status = process.status(300)
    ended = 999 if status is None else status
    row = judge(subprocess.CompletedProcess([], ended, b"", process.said()), 0)
    left = {name for name in kills.paths_of(place) - before if ".resume" not in name}
    if status == 130 and left and not job.grows:
        row["wrong"] += [f"left: {sorted(left)[:4]}"]  # type: ignore[operator]
    alive = kills._processes_end(process.pid)
    if alive:
        row["wrong"] += [f"processes live on: {alive}"]  # type: ignore[operator]
    yield {"kind": "Ctrl-C", **row}


def readers(base: Path, scratch: Path, only: str) -> Iterator[dict[str, object]]:
    for name, text in hostile_texts().items():
        for line in READERS:
            if only not in line:
                continue
            place = fresh(base, scratch / "read")
            (place / "hostile").mkdir()
            (place / "hostile" / "en.txt").write_bytes(text)
            words = line.format("hostile/en.txt").split()
            options: dict[str, Any] = {}
            if words[0] == "generate":
                options = {"source": place / "hostile" / "en.txt"}
            row = timed(words, place, **options)
            yield {"job": line, "kind": name, **row}
            if row["status"] == 1 and "--errors" in str(row["said"]):
                yield {
                    "job": f"{line} --errors replace",
                    "kind": name,
                    **timed([*words, "--errors", "replace"], place, **options),
                }


KINDS: dict[str, Callable[..., Iterator[dict[str, object]]]] = {
    "places": places,
    "memory": memory,
    "interrupts": interrupts,
}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", default="", help="places, memory, interrupts or readers")
    parser.add_argument("--jobs", default="")
    parser.add_argument("--base", type=Path)
    options = parser.parse_args()
    start_launcher()
    with workspaces(options.base) as (base, scratch):
        for kind, tried in KINDS.items():
            for number, job in enumerate(JOBS):
                if options.only in ("", kind) and options.jobs in " ".join(job.words):
                    rng = random.Random(number)
                    for row in tried(job, base, scratch, rng):
                        emit({"job": " ".join(job.words), **row})
        if options.only in ("", "readers"):
            for row in readers(base, scratch, options.jobs):
                emit(row)
