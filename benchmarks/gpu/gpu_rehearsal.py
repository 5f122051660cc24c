"""Pretraining as on 1, 2 and 4 GPUs, on a machine without one.

    make gpu-rehearsal                                          # its environment, then all of it
    python -m benchmarks gpu_rehearsal --only 2-2-delay         # names that contain this text

Needs the CUDA build of torch, cc and nm. The driver is a stub, and tensors on "cuda" are those of
`rehearsal/device.py`. Each combination must end, continue after a stop with the same metrics and
checkpoint as without one, and agree with the CPU. Planted mistakes must be found, and the calls of
`gpu_check` end with tiny models. A row each; what has passed by a row in --out is not
repeated.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, emit, parser_of
from benchmarks.gpu.gpu_check import CALLS
from benchmarks.gpu.rehearsal.combinations import STEPS, Combination, combinations
from benchmarks.gpu.rehearsal.driver import environment
from benchmarks.gpu.rehearsal.mistakes import MISTAKES
from modtok_cli.training.distributed.launch import free_port

# Largest relative difference from the CPU, of loss and gradient norm of each step, and of bits per
# byte: attention and norms are computed in float32 there.
AGREES = {"float32": 1e-6, "bfloat16": 5e-3}
# Seconds after which a combination hangs; its own watchdog reports after a minute.
LIMIT = 240


def ranks(
    names: Sequence[str], world: int, work: Path, *options: str
) -> Iterator[tuple[dict[str, Any] | None, str]]:
    """Rows of combinations from `world` processes; at the end None, with what a failure said."""
    port = str(free_port())
    command = [sys.executable, "-m", "benchmarks.gpu.rehearsal.rank", str(work), *options]
    processes: list[subprocess.Popen[str]] = []

    def kill() -> None:
        for process in processes:
            process.kill()

    logs = [work / f"rank{rank}.log" for rank in range(world)]
    for rank, log in enumerate(logs):
        variables = environment(work, rank, world, port)
        if "--cpu" in options:
            variables["MODTOK_DEVICE"] = "cpu"
            del variables["LD_PRELOAD"], variables["PYTHONPATH"]
        with open(log, "w") as errors:
            processes.append(
                subprocess.Popen(
                    command,
                    env=variables,
                    cwd=ROOT,
                    text=True,
                    stdin=subprocess.PIPE,
                    stdout=None if rank else subprocess.PIPE,
                    stderr=errors,
                )
            )
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n".join(names))
        process.stdin.close()
    assert processes[0].stdout is not None
    timer = threading.Timer(LIMIT, kill)
    timer.start()
    for line in processes[0].stdout:
        timer.cancel()
        yield json.loads(line), ""
        timer = threading.Timer(LIMIT, kill)
        timer.start()
    for process in processes:  # one has ended; the others notice, or wait for it
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            kill()
            process.wait()
    timer.cancel()
    if any(process.returncode for process in processes):
        yield None, reason(log.read_text(errors="replace") for log in logs)


def reason(logs: Iterator[str]) -> str:
    """The error of the rank that failed first: others say that a connection was closed."""
    errors = []
    for log in logs:
        lines = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception|error)\b.*", log, re.MULTILINE)
        places = re.findall(r"/((?:modtok_cli|megatron)/\S+)\", line (\d+)", log)
        errors += [f"{line} at {':'.join(places[-1])}" if places else line for line in lines[-1:]]
    consequences = ("onnection", "has ended", "Broken pipe")
    first = [each for each in errors if not any(part in each for part in consequences)]
    return (first or errors or ["killed after no progress"])[0][:400]


def compared(one: Combination, work: Path) -> dict[str, Any]:
    """Whether a resumed run equals the whole one, and the difference of that from the CPU's."""
    runs = work / "runs" / one.name
    whole, stopped = metrics(runs / "whole"), metrics(runs / "stopped")
    files = [
        {path.name: path.read_bytes() for path in checkpoint(runs / name).iterdir()}
        for name in ("whole", "stopped")
    ]
    different = [name for name, data in files[0].items() if files[1].get(name) != data]
    weights = [name for name in different if name.endswith(".safetensors")]
    row: dict[str, Any] = {"resumed": whole == stopped and not weights}
    if not row["resumed"]:
        row["resumed_differs"] = weights or "metrics"
    twin = metrics(work / "twins" / one.twin.name / "whole")
    row["difference"] = max(
        abs(a - b) / abs(b)
        for here, there in zip(whole, twin, strict=True)
        for a, b in zip(numbers(here), numbers(there), strict=True)
    )
    row["agrees"] = row["difference"] <= AGREES[one.dtype]
    return row


def metrics(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "time"} for line in lines]


def numbers(line: dict[str, Any]) -> list[float]:
    return [line[key] for key in ("loss", "grad_norm", "bits_per_byte") if key in line]


def checkpoint(run: Path) -> Path:
    (last,) = (run / "checkpoints").glob(f"*{STEPS}")
    return last


def rehearsed(chosen: Sequence[Combination], work: Path) -> Iterator[dict[str, Any]]:
    """Rows of combinations of the same ranks; after a failure, other processes go on."""
    left = {one.name: one for one in chosen}
    world = chosen[0].world
    while left:
        for result, why in ranks(list(left), world, work):
            one = left.pop(result["name"] if result else next(iter(left)))
            row: dict[str, Any] = {**asdict(one), "ended": result is not None}
            if result is None:
                row["error"] = why
            elif "refused" in result:
                row = {**asdict(one), "refused": result["refused"]}
            else:
                row |= result
                row |= compared(one, work)
            shutil.rmtree(work / "runs" / one.name, ignore_errors=True)
            yield {**row, "name": one.name}


def fine(row: dict[str, Any]) -> bool:
    return all(row.get(key, True) for key in ("ended", "resumed", "agrees", "discovered"))


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--only", default="", help="combinations whose name matches, and nothing else"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "gpu-rehearsal")
    parser.add_argument("--out", type=Path, help="rows; default: WORK/rows.jsonl")
    options = parser.parse_args()
    work: Path = options.work.resolve()
    out: Path = options.out or work / "rows.jsonl"
    work.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    names = {row["name"] for row in done if fine(row)}
    if not done:
        for old in ("runs", "twins", "first", "tokenizer"):
            shutil.rmtree(work / old, ignore_errors=True)
        list(ranks([], 1, work, "--cpu"))  # prepares them
    good = True

    def write(row: dict[str, Any]) -> None:
        nonlocal good
        good &= fine(row)
        emit({key: value for key, value in row.items() if key != "lines"})
        with open(out, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    chosen = [one for one in combinations() if re.search(options.only, one.name)]
    chosen = [one for one in chosen if one.name not in names]
    for world, group in groupby(chosen, lambda one: (one.world, one.tp)):
        together = list(group)
        twins = dict.fromkeys(one.twin.name for one in together)
        made = {path.parent.name for path in work.glob("twins/*/whole")}
        for result, why in ranks([n for n in twins if n not in made], world[0], work, "--cpu"):
            if result is None:
                raise SystemExit(f"gpu-rehearsal: on the CPU: {why}")
        began = time.monotonic()
        for row in rehearsed(together, work):
            write({**row, "seconds": round(time.monotonic() - began, 1)})
            began = time.monotonic()
    for name, (_, one, said) in MISTAKES.items():
        if options.only or name in names:
            continue
        *_, (_, why) = ranks([one.name], one.world, work, "--mistake", name)
        write({"name": name, "discovered": said in why, "said": why})
    for call in CALLS:
        name, rows = f"gpu_check {call}", work / f"call{call}.jsonl"
        if name in names or options.only:
            continue
        rows.unlink(missing_ok=True)
        command = [sys.executable, "-m", "benchmarks", "gpu_check", str(call), "--tiny"]
        command += ["--limit", "1800", "--out", str(rows)]
        subprocess.run(command, env=environment(work, 0, 1, "0"), cwd=ROOT, stdout=sys.stderr)
        measured = [json.loads(line) for line in rows.read_text().splitlines()]
        errors = [f"{row['part']}: {row['error']}" for row in measured if row.get("ok") is False]
        write({"name": name, "ended": not errors, "rows": len(measured), "errors": errors})
    print(out)
    return 0 if good else 1
