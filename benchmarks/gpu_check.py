"""`make gpu-check`: the tests of pretraining on a GPU, then timings at the paper's sizes.

Writes benchmarks/results/pretrain-<GPU>-<date>.jsonl. Without a GPU it says so and fails.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
TESTS = ["test_loss.py", "test_rows.py", "test_model.py", "test_run.py"]
SIZES = ["0.5b", "1b", "2.5b"]


def main() -> int:
    if not torch.cuda.is_available():
        print("gpu-check: no GPU here; make test runs the same tests on the CPU", file=sys.stderr)
        return 1
    tests = [str(ROOT / "tests" / "pretrain" / name) for name in TESTS]
    environment = {**os.environ, "MODTOK_GPU_CHECK": "1"}
    done = subprocess.run([sys.executable, "-m", "pytest", *tests], env=environment, check=False)
    if done.returncode:
        return done.returncode
    name = re.sub(r"[^A-Za-z0-9]+", "-", torch.cuda.get_device_name()).strip("-")
    day = datetime.date.today().isoformat()
    target = ROOT / "benchmarks" / "results" / f"pretrain-{name}-{day}.jsonl"
    target.parent.mkdir(exist_ok=True)
    with open(target, "wb") as out:
        for size in SIZES:
            # 1,600 rows a language: of 16,000 the moments of 250 languages fit no GPU.
            command = [sys.executable, str(ROOT / "benchmarks" / "pretrain.py")]
            command += ["--model", size, "--rows", "2", "--length", "2048"]
            done = subprocess.run(command, stdout=out, check=False)
            if done.returncode:
                return done.returncode
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
