"""SIGTERM, SIGINT and kill -9 at random moments of `pretrain`; Ctrl-C during `encode`.

    python -m benchmarks signals [--moments 100] [--only pretrain|encode] [--seed 0] > results.jsonl

A training run that SIGTERM or SIGINT stops must write a checkpoint of the step it finished, say
how to resume, and exit 143 or 130; of a killed one, the last checkpoint must be sound. Either is
then resumed: its last checkpoint and its metrics (without times) must equal those of a run that
nothing stopped. A JSON line for each moment, then the counts by signal.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, emit, parser_of, timed
from benchmarks.robustness.engine import kills
from benchmarks.robustness.engine.arena import shell_status
from benchmarks.robustness.engine.launcher import Call, call, start_launcher
from benchmarks.robustness.engine.workspaces import fresh, workspaces
from helpers import jobs

STEPS = 16
RUN = jobs.RUN.replace("--workers 1", "--workers 0")
OPTIONS = f"--steps {STEPS} --save-every 6 --eval-every {STEPS} --name stopped"
WORDS = f"pretrain {RUN} {OPTIONS}".split()
RESUME = ["pretrain", "--resume", "--name", "stopped"]
SIGNALS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: 137}
PATIENCE = 120.0


def steps_of(run: Path) -> tuple[int, int]:
    """(last step in the metrics, step of the last checkpoint), 0 where there is none."""
    lines = run / "metrics.jsonl"
    rows = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    saved = [int(path.name.rpartition("-")[2]) for path in run.glob("checkpoints/step-*")]
    return max((row["step"] for row in rows), default=0), max(saved, default=0)


def result_of(run: Path) -> dict[str, Any]:
    """What must not depend on being stopped: weights and optimizer, metrics without times."""
    last = max(run.glob("checkpoints/step-*"))
    files = {path.name: path.read_bytes() for path in last.glob("*.safetensors")}
    rows = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows.append({k: row[k] for k in ("step", "loss", "languages", "bits", "lr") if k in row})
    return {"checkpoint": last.name, "files": files, "metrics": rows}


def stop_once(
    sign: signal.Signals, wait: float, step: int, again: bool, base: Path, scratch: Path,
    whole: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """One run, stopped `wait` seconds after `step` is in its metrics (0: after its start).

    `again`: by two signals. It is then resumed.
    """
    place = fresh(base, scratch / "stopped")
    run = place / "runs" / "stopped"
    began = time.monotonic()
    process = Call(WORDS, place)
    status = None
    while step and status is None and steps_of(run)[0] < step:
        status = process.status(0.01)
    if status is None:
        status = process.status(wait)
    wrong: list[str] = []
    row: dict[str, Any] = {"what": "pretrain", "signal": sign.name + (" twice" if again else "")}
    sent, before = time.monotonic(), steps_of(run)[0]
    if status is None:
        process.send_signal(sign)
        if again:
            time.sleep(0.05)
            process.send_signal(sign)
        status = process.status(PATIENCE)
        if status is None:
            process.kill()
            process.wait()
            wrong.append("it did not stop")
    ended = time.monotonic()
    code = 999 if status is None else shell_status(status)
    message = process.said().decode(errors="replace")
    left = kills._processes_end(process.pid)
    if left:
        wrong.append(f"{len(left)} processes live on")
    done, saved = steps_of(run)
    row |= {"after": round(sent - began, 2), "stopped_in": round(ended - sent, 2), "status": code}
    row |= {"step": done, "checkpoint": saved}
    # The line of a step is written when the next one has been started.
    if code == 0 and ended > sent and before < STEPS - 2 and done > before + 2:
        wrong.append(f"it went on from step {before} to {done}")
    if code not in (0, SIGNALS[sign]):
        wrong.append(f"status {code} for {SIGNALS[sign]}: {message[-200:]}")
    if "Traceback" in message or "internal error" in message:
        wrong.append(message[-300:])
    if code in (130, 143) and not again:
        if done != saved:
            wrong.append(f"{done - saved} steps are lost")
        if saved and done < STEPS and "--resume" not in message:
            wrong.append(f"it does not mention --resume: {message[-200:]}")
    if code != 0:
        words = RESUME if (run / "config.json").is_file() else WORDS
        resumed = call(words, place)
        row["resumed"] = resumed.returncode
        if resumed.returncode:
            wrong.append(f"resume: {resumed.stderr.decode(errors='replace')[-200:]}")
    if not wrong or code == 0:
        found = result_of(run)
        differ = [part for part in whole if found[part] != whole[part]]
        wrong += [f"{part} differ from an unbroken run" for part in differ]
    return row | {"wrong": wrong}


def pretrain(moments: int, seed: int) -> list[dict[str, Any]]:
    """Random moments of a training run."""
    rows: list[dict[str, Any]] = []
    start_launcher()
    with workspaces(corpus=False, runs=False) as (base, scratch):
        seconds = []
        for _ in range(2):  # the first one loads what the others find in memory
            place = fresh(base, scratch / "whole")
            began = time.monotonic()
            done = call(WORDS, place)
            seconds.append(time.monotonic() - began)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace")[-500:])
        whole = result_of(place / "runs" / "stopped")
        rng = random.Random(seed)
        order = list(SIGNALS)
        for number in range(moments):
            sign = order[number % 3]
            again = sign != signal.SIGKILL and rng.random() < 0.15
            # Half over the whole call, half within training, which is a small part of it.
            step = rng.randint(1, STEPS) if rng.random() < 0.5 else 0
            wait = rng.uniform(0.0, min(seconds) / STEPS if step else min(seconds))
            rows.append(stop_once(sign, wait, step, again, base, scratch, whole))
            emit(rows[-1])
    return rows


def encode(moments: int, seed: int) -> list[dict[str, Any]]:
    """Ctrl-C at random moments of `encode`, most of which is starting."""
    rows = []
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        jobs.samples.light_samples(base)
        command = [sys.executable, "-m", "modtok_cli", "encode", "-t", "bpe", "en.jsonl"]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        seconds = [timed(command, cwd=base, env=env).wall for _ in range(2)][-1]
        for _ in range(moments):
            process = subprocess.Popen(
                command, cwd=base, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )  # fmt: skip
            wait = rng.uniform(0.0, seconds)
            time.sleep(wait)
            sent, lived = time.monotonic(), process.poll() is None
            process.send_signal(signal.SIGINT)
            _, err = process.communicate()
            code, took = shell_status(process.returncode), time.monotonic() - sent
            wrong = []
            if lived and code == 0 and took > 0.1:
                wrong.append(f"Ctrl-C was swallowed: it worked on for {took:.2f} s")
            if code not in (0, 130) or b"Traceback" in err or b"internal error" in err:
                wrong.append(f"status {code}: {err[-300:].decode(errors='replace')}")
            row = {"what": "encode", "signal": "SIGINT", "after": round(wait, 2), "status": code}
            rows.append(row | {"stopped_in": round(took, 2), "wrong": wrong})
            emit(rows[-1])
    return rows


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--moments", type=int, default=100, help="of each command")
    parser.add_argument("--only", choices=("pretrain", "encode"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = []
    for name, tried in {"pretrain": pretrain, "encode": encode}.items():
        if options.only in (None, name):
            rows += tried(options.moments, options.seed)
    counts = Counter(f"{row['what']} {row['signal']}: status {row['status']}" for row in rows)
    wrong = sum(bool(row["wrong"]) for row in rows)
    emit({"moments": len(rows), "wrong": wrong, "by signal": dict(sorted(counts.items()))})
    return 1 if wrong else 0
