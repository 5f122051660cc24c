"""Checkpoints on 1, 2 and 4 processes: bytes, seconds, memory, and reading them on others.

    python -m benchmarks checkpoints [--hidden-size 512] [--layers 8] [--rows 60000]

A model of the given size is trained for a step and saved in the background by 1, 2 and 4 processes
(gloo; two of them tensor-parallel, or not). A row has, of the slowest process: seconds that `save`
blocks training, seconds until the checkpoint is complete, of checking all files (each process its
share) and of loading; memory of a process beyond the model while it is saved, and what it writes.
Then a run of four steps on 2 processes is continued on 1 and on 4, over tensor and data
parallelism: the losses must equal those of the uninterrupted one. Prints a JSON object a line.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from benchmarks.common import emit
from benchmarks.speed.sharded_rows import SLOTS, batches
from benchmarks.speed.step_memory import ALLOCATOR

# (processes, tensor-parallel size)
LAYOUTS = ((1, 1), (2, 1), (2, 2), (4, 1), (4, 2))
STEPS = 4


def anonymous() -> int:
    """Anonymous memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


class Peak:
    """Largest anonymous memory within the block, beyond that at its beginning."""

    def __enter__(self) -> Peak:
        self.before = self.most = anonymous()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._end.wait(0.005):
            self.most = max(self.most, anonymous())

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    @property
    def megabytes(self) -> int:
        """What it was."""
        return (self.most - self.before) // 1_000_000


def losses(model: Any, steps: range, size: int) -> list[float]:
    """Losses of some steps, over all slots."""
    import torch

    from modtok_cli.training.distributed.ranks import summed
    from modtok_cli.training.step import optimizer_step

    found = []
    for step in steps:
        nll, _ = optimizer_step(model, batches(torch, model.ranks, step, size=size), 3e-3)
        total = torch.stack([one.mean() for one in nll]).sum().double()
        found.append(float(summed(total, model.ranks.replica_group)) / SLOTS)
    return found


def one(job: dict[str, Any]) -> dict[str, Any]:
    """One process: save, check and load; or, with `first`, train and perhaps save."""
    import torch

    from modtok_cli.architectures.families.llama import llama
    from modtok_cli.base.progress import SILENT
    from modtok_cli.training import checkpoint
    from modtok_cli.training.distributed.ranks import gather_json, start_ranks
    from modtok_cli.training.model.model import Model

    torch.set_num_threads(1)
    ranks = start_ranks(job["tp"])
    directory, size = Path(job["directory"]), job["rows"]
    model = Model(llama(job["layers"], job["hidden"], 8, 4 * job["hidden"]), size, ranks, seed=3)
    if "first" in job:
        if job["first"] > 1:
            found = checkpoint.newest(directory, SILENT, ranks)
            assert found is not None
            checkpoint.load(*found, model)
        values = losses(model, range(job["first"], job["last"] + 1), size)
        if job["save"]:
            checkpoint.save(directory, model, job["last"], {})
        return {"losses": values}
    losses(model, range(1, 2), size)
    saver = checkpoint.Checkpointer(directory, ranks)
    gather_json(ranks, 0)
    began = time.perf_counter()
    with Peak() as peak:
        saver.save(model, 1, {})
        blocked = time.perf_counter() - began
        saver.wait()
    complete = time.perf_counter() - began
    written = sum(p.stat().st_size for p in directory.rglob("*.safetensors"))
    began = time.perf_counter()
    found = checkpoint.newest(directory, SILENT, ranks)
    checked = time.perf_counter() - began
    assert found is not None
    with Peak() as reading:
        checkpoint.load(*found, model)
    return {
        "blocked_s": blocked, "complete_s": complete, "check_s": checked,
        "load_s": time.perf_counter() - began - checked, "peak_mb": peak.megabytes,
        "load_peak_mb": reading.megabytes, "total_mb": written // 1_000_000,
    }  # fmt: skip


def together(processes: int, job: dict[str, Any]) -> list[dict[str, Any]]:
    """The result of each of some processes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks", "checkpoints", "--job", orjson.dumps(job)],
            env=os.environ | ALLOCATOR | {
                "RANK": str(rank), "WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1", "MODTOK_DEVICE": "cpu",
            },
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )
        for rank in range(processes)
    ]  # fmt: skip
    said = [rank.communicate()[0] for rank in ranks]
    return [orjson.loads(each) for each in said]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden-size", type=int, default=512)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--work", type=Path, help="directory on the disk to measure")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        print(orjson.dumps(one(orjson.loads(given.job))).decode())
        return 0
    for processes, tp in LAYOUTS:
        with TemporaryDirectory(dir=given.work) as place:
            job = {"directory": place, "tp": tp, "rows": given.rows}
            job |= {"layers": given.layers, "hidden": given.hidden_size}
            found = together(processes, job)
            worst = {name: round(max(each[name] for each in found), 2) for name in found[0]}
            own = worst["total_mb"] // processes
            emit({"processes": processes, "tp": tp, **worst, "mb_per_process": own})
    wrong = False
    job = {"layers": 2, "hidden": 64, "rows": 2000}
    with TemporaryDirectory(dir=given.work) as place:
        whole = together(
            2, job | {"tp": 1, "directory": place, "first": 1, "last": STEPS, "save": 0}
        )
        half = {"first": 1, "last": STEPS // 2, "save": 1}
        for written, wrote in ((2, 1), (2, 2)):
            for processes, tp in LAYOUTS:
                path = f"{place}/{wrote}-{processes}-{tp}"
                together(written, job | {"tp": wrote, "directory": path, **half})
                then = {"first": STEPS // 2 + 1, "last": STEPS, "save": 0}
                end = together(processes, job | {"tp": tp, "directory": path, **then})
                expected = whole[0]["losses"][STEPS // 2 :]
                pairs = zip(end[0]["losses"], expected, strict=True)
                most = max(abs(a - b) for a, b in pairs)
                row = {"written_by": f"{written} processes, tp {wrote}"}
                emit(row | {"read_by": f"{processes} processes, tp {tp}", "difference": most})
                wrong |= most > 1e-5
    return 1 if wrong else 0
