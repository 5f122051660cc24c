"""Tests of pretraining on a GPU, timings at the paper's sizes, a run.

    python -m benchmarks gpu_check                         # all of it, within nine minutes
    python -m benchmarks gpu_check --parts tests,2.5b      # some of it
    python -m benchmarks gpu_check --cpu                   # a rehearsal, tiny, without a GPU

Each part is a process of its own with a time of its own: what fails or takes too long is
written down, and the others go on. Rows are in the file when a part ends, so that an
interrupted check leaves what it has. Needs the extras [lm] and [dev], and nothing else.
Results: benchmarks/results/pretrain-<GPU>-<date>.jsonl. Exit status 1 if a part failed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TESTS = (
    "test_loss.py",
    "test_rows.py",
    "test_model.py",
    "test_megatron.py",
    "test_megatron_adamw.py",
    "test_execution.py",
    "test_run.py",
    "test_offload.py",
    "test_offload_run.py",
)
SIZES = ("0.5b", "1b", "2.5b")
# Part → the most seconds it may take.
PARTS = {
    "machine": 60,
    "tests": 200,
    "0.5b": 120,
    "1b": 120,
    "2.5b": 200,
    "run": 180,
    "offload": 240,
}
# Bar: a step with rows in host memory against one with resident rows, at sub:5.
OFFLOADED = 1.05
PACKAGES = ("torch", "triton", "megatron-core", "transformer-engine", "flash-attn", "numpy")


class Failed(Exception):
    """A part did not do what it should; the text says what is known of it."""


def machine(options: argparse.Namespace, limit: float) -> Iterator[dict[str, Any]]:
    """What all of this runs on."""
    code = """
import json, torch
p = torch.cuda.get_device_properties(0)
print(json.dumps({"gpu": p.name, "gpus": torch.cuda.device_count(),
    "gpu_bytes": p.total_memory, "multiprocessors": p.multi_processor_count,
    "capability": list(torch.cuda.get_device_capability()), "cuda": torch.version.cuda,
    "nccl": list(torch.cuda.nccl.version())}))
"""
    row: dict[str, Any] = {"python": sys.version.split()[0], "cores": os.cpu_count()}
    row["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in PACKAGES:
        try:
            row[name] = version(name)
        except PackageNotFoundError:
            row[name] = None
    if not options.cpu:
        row.update(json.loads(output([sys.executable, "-c", code], options, limit)))
        smi = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader"]
        if shutil.which(smi[0]):
            row["driver, clock"] = output(smi, options, limit).strip()
    yield row


def tests(options: argparse.Namespace, limit: float) -> Iterator[dict[str, Any]]:
    """The suite's own tests, on the GPU; what failed by name."""
    chosen = ("test_loss.py", "test_megatron.py") if options.cpu else TESTS
    paths = [str(ROOT / "tests" / "training" / name) for name in chosen]
    flags = ["-q", "--tb=short", "-rfE", "-p", "no:cacheprovider", "-o", "addopts="]
    command = [sys.executable, "-m", "pytest", *flags, *paths]
    status, text = run(command, options, limit)
    row = {
        "tests": list(chosen),
        "failed": re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE),
        "said": text.strip().splitlines()[-1] if text.strip() else "",
    }
    for count, what in re.findall(r"(\d+) (passed|failed|errors?|skipped)", row["said"]):
        row[f"{what}_count"] = int(count)
    yield row
    if status:
        sys.stderr.write(text[-6000:])
        raise Failed(f"{row['said']} (exit status {status})")


def timings(size: str, options: argparse.Namespace, limit: float) -> Iterator[dict[str, Any]]:
    """A step's time and memory against |T|, and sliced against masked."""
    command = [sys.executable, "-m", "benchmarks", "training_step"]
    if options.cpu:
        command += ["--model", "tiny", "--scale", "0.005", "--steps", "1", "--length", "16"]
    else:
        # 1,600 rows a language: of 16,000 the moments of 250 languages fit no GPU.
        command += ["--model", size, "--rows", "2", "--length", "2048"]
    status, text = run(command, options, limit)
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)
    if status:
        raise Failed(f"exit status {status}: {last_lines(text)}")


def offload(options: argparse.Namespace, limit: float) -> Iterator[dict[str, Any]]:
    """Rows in host memory: the trip alone, steps with it and without, a profiler's trace."""
    began = time.monotonic()
    benchmark = [sys.executable, "-m", "benchmarks", "offload"]
    shape = ["--models", "1b", "--microbatches", "8", "--rows", "2", "--length", "4096"]
    runs = [["trip"], ["step", *shape, "--turns", "6"], ["trace", *shape, "--turns", "4"]]
    if options.cpu:
        small = ["--models", "1b", "--scale", "0.0005", "--layers", "1", "--turns", "1"]
        runs = [[name, *small, "--length", "16"] for name in ("trip", "step")]
    ratios = []
    for arguments in runs:
        left = limit - (time.monotonic() - began)
        status, text = run([*benchmark, *arguments], options, left)
        for line in text.splitlines():
            if line.startswith("{"):
                yield (row := json.loads(line))
                if row.get("variant") == "offload, delay 1" and row["K"] == 6:
                    ratios.append(row["against_resident"])
        if status:
            raise Failed(f"{arguments[0]}: exit status {status}: {last_lines(text)}")
    if not options.cpu and max(ratios) > OFFLOADED:
        raise Failed(f"a step takes {max(ratios)} times a resident one, the bar is {OFFLOADED}")


def whole_run(options: argparse.Namespace, limit: float) -> Iterator[dict[str, Any]]:
    """`modtok pretrain` on the sample text, and going on with it, and with rows in host memory."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(ROOT / "examples" / "sample" / "data", Path(scratch) / "data")
        modtok = [sys.executable, "-m", "modtok_cli"]
        size = ["--model", "tiny", "--seq-length", "32"] if options.cpu else ["--model", "0.5b"]
        steps = 4 if options.cpu else 20
        common = ["pretrain", "--save-every", str(steps // 2), "--eval-every", str(steps // 2)]
        batch = ["--batch-size", "4", "--micro-batch", "2", "--steps", str(steps)]
        for command in (
            ["bpe-seq", "-k", "1000"],
            [*common, *batch, *size, "--sampling", "sub:2"],
            ["pretrain", "--resume", "--steps", str(steps + 2)],
            [*common, *batch, *size, "--sampling", "sub:2", "--offload", "--name", "offload"],
        ):
            left = limit - (time.monotonic() - began)
            status, text = run([*modtok, *command], options, left, cwd=scratch)
            if status:
                raise Failed(f"{' '.join(command)}: exit status {status}: {last_lines(text)}")
        for metrics in sorted(Path(scratch).glob("runs/[!.]*/metrics.jsonl")):
            if metrics.parent.is_symlink():
                continue
            found = [json.loads(line) for line in metrics.read_text().splitlines()]
            timed = [line["time"] for line in found if "time" in line][steps // 2 : steps]
            keys = ("step_seconds", "wait_share", "mfu")
            yield {
                "run": metrics.parent.name,
                "steps": max(line["step"] for line in found),
                "losses": [round(line["loss"], 4) for line in found if "loss" in line],
                **{key: [line[key] for line in timed] for key in keys},
            }


def output(command: list[str], options: argparse.Namespace, limit: float) -> str:
    status, text = run(command, options, limit)
    if status:
        raise Failed(f"{command[0]}: exit status {status}: {last_lines(text)}")
    return text


def run(
    command: list[str], options: argparse.Namespace, limit: float, cwd: str | None = None
) -> tuple[int, str]:
    """Exit status and output of a command; past its limit it is killed with all it started."""
    environment = {**os.environ, "MODTOK_GPU_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # sums in one order, for the tests
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    if options.cpu:
        environment["MODTOK_DEVICE"] = "cpu"
        del environment["MODTOK_GPU_CHECK"]
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=cwd or ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(max(limit, 1))
        except subprocess.TimeoutExpired:
            status = 124
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        return status, out.read().decode(errors="replace")


def last_lines(text: str) -> str:
    return " | ".join(text.strip().splitlines()[-6:])[-1500:]


def part(name: str, options: argparse.Namespace, limit: float) -> Iterator[dict[str, Any]]:
    if name in SIZES:
        return timings(name, options, limit)
    return {"machine": machine, "tests": tests, "run": whole_run, "offload": offload}[name](
        options, limit
    )


def check(options: argparse.Namespace, target: Path) -> bool:
    """All parts that were asked for, into `target`; whether each did what it should."""
    began = time.monotonic()
    good = True
    with open(target, "a", encoding="utf-8") as out:

        def write(row: dict[str, Any]) -> None:
            line = json.dumps(row)
            print(line, flush=True)
            out.write(line + "\n")
            out.flush()
            os.fsync(out.fileno())

        for name in options.parts:
            left = options.limit - (time.monotonic() - began)
            started = time.monotonic()
            row: dict[str, Any] = {"part": name, "ok": True}
            try:
                if left < 5:
                    raise Failed("no time was left for it")
                most = left if options.cpu else min(left, PARTS[name])
                for found in part(name, options, most):
                    write({"part": name, **found})
            except Failed as error:
                row.update(ok=False, error=str(error))
            except Exception as error:  # whatever it is, the parts after it are to run
                row.update(ok=False, error=f"{type(error).__name__}: {error}")
            good &= row["ok"]
            write({**row, "seconds": round(time.monotonic() - started, 1)})
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cpu", action="store_true", help="rehearse without a GPU, tiny")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--limit", type=float, default=540, help="seconds for all of it")
    parser.add_argument("--out", type=Path, help="where the rows go")
    options = parser.parse_args()
    options.parts = options.parts.split(",")
    strangers = [name for name in options.parts if name not in PARTS]
    if strangers:
        parser.error(f"no part {strangers[0]}; there are {', '.join(PARTS)}")
    import torch

    if not options.cpu and not torch.cuda.is_available():
        print("gpu-check: no GPU here; make test runs the same tests on the CPU", file=sys.stderr)
        return 1
    device = "rehearsal" if options.cpu else torch.cuda.get_device_name()
    name = re.sub(r"[^A-Za-z0-9]+", "-", device).strip("-")
    day = datetime.date.today().isoformat()
    target = options.out or ROOT / "benchmarks" / "results" / f"pretrain-{name}-{day}.jsonl"
    target.parent.mkdir(parents=True, exist_ok=True)
    good = check(options, target)
    print(target)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
