"""Text preparation at size: memory at one and two times the text, kills, processes that share it.

    python -m benchmarks preparation --data data -t tokenizer --work DIR [--gigabytes 2.5]

Shards of JSON lines (zstd) are made from the texts of `--data`, repeated with a number before
every document. `modtok pretrain --prepare` unpacks one and two times as many. The larger text is
unpacked again by a process that is killed (SIGKILL, at random times), and by two processes of
which one is killed; the files must equal those of the uninterrupted one. Peak memory is that of all
processes of a call, every 20 ms (anonymous memory: without the page cache). Prints a JSON object a
line.

    python -m benchmarks preparation … --links 200 --kills 8 --kill-every 40

With `--links`, one shard of each language stands for many: it is linked as often, so that only the
result needs disk space. It is unpacked by a process that is killed every so many seconds and
started again. The result must be that of one shard, repeated.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import zstandard

from benchmarks.common import ROOT, emit, parser_of
from helpers.processes import alive_in_session

LANGUAGES = ("en", "fi")
SHARD = 250_000_000


def shards(data: Path, target: Path, size: int) -> tuple[int, int]:
    """Write shards with about `size` bytes of JSON lines; returns bytes of these and on disk."""
    text = disk = 0
    for language in LANGUAGES:
        (target / language).mkdir(parents=True)
        packed = (data / f"{language}.jsonl.zst").read_bytes()
        lines = zstandard.ZstdDecompressor().stream_reader(packed).read()
        written = number = 0
        while written < size // len(LANGUAGES):
            path = target / language / f"{number:03d}.jsonl.zst"
            begun = written
            with zstandard.ZstdCompressor(level=1).stream_writer(open(path, "wb")) as out:
                while written - begun < SHARD and written < size // len(LANGUAGES):
                    changed = lines.replace(b'{"text": "', b'{"text": "%d ' % written)
                    out.write(changed)
                    written += len(changed)
            number += 1
            disk += path.stat().st_size
        text += written
    return text, disk


def memory(session: int) -> int:
    """Anonymous memory of all processes of a session."""
    total = 0
    for process in alive_in_session(session):
        try:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))
    return total


class Call:
    """`modtok pretrain --prepare` in a session of its own."""

    def __init__(self, tokenizer: Path, data: Path, runs: Path) -> None:
        words = f"pretrain --prepare --sampling sub:1 -t {tokenizer} --data {data} --runs {runs}"
        env = os.environ | {"PYTHONPATH": str(ROOT), "MODTOK_DEVICE": "cpu"}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "modtok_cli", *words.split(), "-q", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, start_new_session=True,
        )  # fmt: skip

    def wait(self, seconds: float | None = None) -> dict[str, Any]:
        """Wait for the end, or kill it after some seconds."""
        samples = []
        while self.process.poll() is None:
            if seconds is not None and time.monotonic() - self.began > seconds:
                self.process.kill()
                break
            samples.append(memory(self.process.pid))
            time.sleep(0.02)
        _, err = self.process.communicate()
        if self.process.returncode not in (0, -9):
            raise RuntimeError(err.decode()[-500:])
        quarters = [samples[len(samples) * i // 4 : len(samples) * (i + 1) // 4] for i in range(4)]
        return {
            "seconds": round(time.monotonic() - self.began, 1),
            "status": self.process.returncode,
            "peak_mb": max(samples, default=0) // 1_000_000,
            "peak_mb_by_quarter": [max(part, default=0) // 1_000_000 for part in quarters],
        }


def compare(first: Path, second: Path) -> dict[str, Any]:
    """Whether two directories of stores are equal byte for byte."""
    names = sorted(str(p.relative_to(first)) for p in first.rglob("*") if p.is_file())
    others = sorted(str(p.relative_to(second)) for p in second.rglob("*") if p.is_file())
    equal = all(filecmp.cmp(first / name, second / name, shallow=False) for name in names)
    return {"files": len(names), "equal": equal and names == others}


def repeats(one: Path, many: Path, times: int) -> bool:
    """Whether each part of a store is the only one of another store, so many times."""
    return all(
        len(paths) == times
        and all(filecmp.cmp(one / f"000000.{kind}", path, shallow=False) for path in paths)
        for kind, paths in ((kind, [*many.glob(f"*.{kind}")]) for kind in ("text", "ends"))
    )


def linked(given: argparse.Namespace) -> bool:
    """Unpack one shard, linked many times, with kills; whether all is right."""
    work, one, many = given.work, given.work / "data-one", given.work / "data-many"
    size = given.links * shards(given.data, one, len(LANGUAGES) * SHARD)[0]
    Call(given.tokenizer, one, work / "runs-one").wait()
    for language in LANGUAGES:
        (many / language).mkdir(parents=True)
        for number in range(given.links):
            os.link(one / language / "000.jsonl.zst", many / language / f"{number:04d}.jsonl.zst")
    pauses = [given.kill_every] * given.kills + [None]
    calls = [Call(given.tokenizer, many, work / "runs-many").wait(pause) for pause in pauses]
    stores = [
        {store.name.split("-")[0]: store for store in (work / name / ".text").iterdir()}
        for name in ("runs-one", "runs-many")
    ]
    equal = all(
        repeats(stores[0][language], stores[1][language], given.links) for language in LANGUAGES
    )
    seconds = sum(call["seconds"] for call in calls)
    row = {
        "what": "one shard linked, killed", "text_gb": round(size / 1e9, 2), "links": given.links,
        "kills": sum(call["status"] == -9 for call in calls), "seconds": round(seconds, 1),
        "mb_per_second": round(size / 1e6 / seconds),
        "peak_mb": [call["peak_mb"] for call in calls],
        "last_peak_mb_by_quarter": calls[-1]["peak_mb_by_quarter"], "equal": equal,
    }  # fmt: skip
    emit(row)
    for path in (one, many, work / "runs-one", work / "runs-many"):
        shutil.rmtree(path)
    return equal


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-t", "--tokenizer", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--gigabytes", type=float, default=2.5)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--links", type=int, default=0)
    parser.add_argument("--kill-every", type=float, default=40.0)
    given = parser.parse_args()
    if given.links:
        return 0 if linked(given) else 1
    rng, work = random.Random(given.seed), given.work
    whole = work / "runs-2"
    wrong = False
    for times in (1, 2):
        size = int(times * given.gigabytes * 1e9)
        _, disk = shards(given.data, work / f"data-{times}", size)
        found = Call(given.tokenizer, work / f"data-{times}", work / f"runs-{times}").wait()
        rate = round(size / 1e6 / found["seconds"])
        row = {"what": "unpack", "text_gb": round(size / 1e9, 2), "shards_gb": round(disk / 1e9, 2)}
        emit(row | found | {"mb_per_second": rate})
        if times == 1:
            shutil.rmtree(work / "data-1")
            shutil.rmtree(work / "runs-1")
    seconds = found["seconds"]
    moments = sorted(rng.uniform(0.05, 0.6) * seconds for _ in range(given.kills))
    calls = [
        Call(given.tokenizer, work / "data-2", work / "killed").wait(moment) for moment in moments
    ]
    calls.append(Call(given.tokenizer, work / "data-2", work / "killed").wait())
    row = {"what": "killed", "after": [round(moment, 1) for moment in moments]}
    row |= {"statuses": [call["status"] for call in calls], "last": calls[-1]}
    row |= compare(whole / ".text", work / "killed" / ".text")
    emit(row)
    wrong |= not row["equal"]
    shutil.rmtree(work / "killed")
    two = [Call(given.tokenizer, work / "data-2", work / "two") for _ in range(2)]
    killed = two[0].wait(0.3 * seconds)
    row = {"what": "two processes, one killed", "killed": killed, "other": two[1].wait()}
    row |= compare(whole / ".text", work / "two" / ".text")
    emit(row)
    wrong |= not row["equal"]
    for name in ("data-2", "runs-2", "two"):
        shutil.rmtree(work / name)
    return 1 if wrong else 0
