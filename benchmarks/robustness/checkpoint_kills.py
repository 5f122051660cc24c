"""kill -9 of two processes that train and write checkpoints in the background, and resume.

    python -m benchmarks checkpoint_kills --data DIR -t TOKENIZER --work DIR [--kills 6]

All processes of a run of two ranks (gloo) are killed at random moments, while it saves every second
step; each time it is resumed. The files of its last checkpoint must equal those of a run that
nothing killed. Prints a JSON object a line: what the directory of checkpoints held after each kill.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import ROOT, emit, parser_of

STEPS = 30
OPTIONS = (
    "--sampling sub:1 --set architecture.layers=2 --set architecture.hidden_size=64 "
    "--set architecture.heads=4 --set architecture.kv_heads=4 --set architecture.ffn=128 "
    "--seq-length 64 "
    f"--batch-size 4 --steps {STEPS} --save-every 2 --eval-every {STEPS} "
    "--set evaluation.eval_bytes=2000 "
    "--workers 0 --warmup 2 --gpus 2"
)


class Run:
    """A run of two processes."""

    def __init__(self, name: str, given: argparse.Namespace) -> None:
        self._given, self._runs = given, given.work / name
        self.checkpoints = self._runs / "r" / "checkpoints"

    def start(self, *, resume: bool) -> subprocess.Popen[bytes]:
        """Start or resume it."""
        words = f"pretrain -q --runs {self._runs} --name r".split()
        if resume:
            words.append("--resume")
        else:
            words += f"{OPTIONS} -t {self._given.tokenizer} --data {self._given.data}".split()
        env = os.environ | {
            "PYTHONPATH": str(ROOT), "MODTOK_DEVICE": "cpu", "OMP_NUM_THREADS": "1"
        }  # fmt: skip
        command = [sys.executable, "-m", "modtok_cli", *words]
        return subprocess.Popen(command, env=env, start_new_session=True, stdout=subprocess.DEVNULL)

    @property
    def steps(self) -> int:
        """Lines of its metrics."""
        metrics = self._runs / "r" / "metrics.jsonl"
        return len(metrics.read_text().splitlines()) if metrics.exists() else 0

    @property
    def exists(self) -> bool:
        """Whether it can be resumed."""
        return (self._runs / "r" / "config.json").exists()

    def held(self) -> list[str]:
        """Names in its directory of checkpoints."""
        return sorted(path.name for path in self.checkpoints.glob("*"))

    def result(self) -> dict[str, bytes]:
        """The tensors of the last checkpoint."""
        last = max(self.checkpoints.glob("step-*"))
        return {
            f"{last.name}/{path.name}": path.read_bytes() for path in last.glob("*.safetensors")
        }


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-t", "--tokenizer", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    whole, killed = Run("whole", given), Run("killed", given)
    if whole.start(resume=False).wait():
        return 1
    process = killed.start(resume=False)
    for number in range(given.kills):
        before = killed.steps
        while process.poll() is None and killed.steps < before + 2:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.4))
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        emit({"kill": number, "after_steps": killed.steps, "checkpoints": killed.held()})
        process = killed.start(resume=killed.exists)
    status = process.wait()
    equal = killed.result() == whole.result()
    emit({"status": status, "files": len(whole.result()), "equal": equal, "left": killed.held()})
    return 0 if equal and not status else 1
