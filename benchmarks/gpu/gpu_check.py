"""Pretraining on a GPU, measured in calls of three, eight and nine minutes.

    python -m benchmarks gpu_check 1        # beside a plain decoder; a run with resume
    python -m benchmarks gpu_check 2        # kernels, the profile of a step, offloading, 2.5b
    python -m benchmarks gpu_check 3        # tests of exactness; 0.5b, 1b; links; |T|
    python -m benchmarks gpu_check 1 --tiny # tiny models: a rehearsal, also on a CPU

Each part is a process of its own with a limit of its own: what fails or takes too long is written
down, and the others go on. A row is in the file as soon as it is measured, so an interrupted call
leaves what it has. No network is needed; `gpu_bundle` packs what a machine lacks, with a tokenizer
and text of many languages in gpu-data/, which runs use in place of the sample. README.md says
what the rows show. Results: benchmarks/results/gpu-<GPU>-<date>.jsonl. Exit status 1 if a part
failed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import modtok_cli
from benchmarks.common import ROOT, parser_of
from modtok_cli.model.architecture.sizes import SIZES
from modtok_cli.text.parallel import cores
from modtok_cli.training.recipe import PRESETS

# Call → its parts and the most seconds of each, the most informative first; seconds of all.
CALLS = {
    1: {"machine": 20, "peer": 60, "run": 150},
    2: {"machine": 20, "gemm": 60, "loss": 60, "profile": 90, "attention": 60, "step": 150,
        "2.5b": 75, "2.5b recomputed": 75},
    3: {"machine": 20, "tests": 240, "0.5b": 60, "1b": 90, "offloaded": 90, "link": 20, "trip": 60,
        "languages": 60, "trace": 60},
}  # fmt: skip
LIMITS = {1: 170, 2: 470, 3: 540}
DATA = ROOT / "gpu-data"
# Those that compare numbers of the GPU with other numbers.
TESTS = ("loss", "rows", "model", "megatron_adamw", "megatron", "offload", "run")
PACKAGES = ("torch", "triton", "megatron-core", "transformer-engine", "numpy")
# A line of pytest -v; with several processes the result comes first.
RESULT = re.compile(
    r"(\[gw\d+\] \[ *\d+%\] (?P<early>[A-Z]+) )?(?P<test>tests/.+?)"
    r"( (?P<late>PASSED|FAILED|ERROR|SKIPPED)\b.*| *)$"
)
# Bars: a step with offloaded rows against one with resident rows; the loss of a resumed run.
OFFLOADED, RESUMED = 1.05, 0.02


class Failed(Exception):
    """A part did not do what it should; the text says what is known of it."""


class Part:
    """Commands of a part, until its time is over."""

    def __init__(self, name: str, options: argparse.Namespace, limit: float) -> None:
        self.name, self.tiny, self.gpu = name, options.tiny, options.gpu
        self._ends = time.monotonic() + limit

    def lines(self, command: list[str], cwd: str | Path = ROOT) -> Iterator[str]:
        """Lines of the output of a command as they come; past the limit it is killed.

        Raises:
            Failed: its exit status is not 0, or it was killed.
        """
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        if self.gpu and self.name == "tests":  # there too, and with sums in one order
            variables |= {"MODTOK_GPU_CHECK": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        process = subprocess.Popen(
            command,
            env=variables,
            cwd=cwd,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

        def kill() -> None:
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(max(1, self._ends - time.monotonic()), kill)
        timer.start()
        last: list[str] = []
        assert process.stdout is not None
        try:
            for line in process.stdout:
                last = [*last[-5:], line.strip()]
                yield line.rstrip("\n")
            status = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                kill()
                process.wait()
        if status:
            why = "killed at its limit" if status < 0 else f"exit status {status}"
            raise Failed(f"{why}: {' | '.join(last)[-1500:]}")

    def rows(self, *arguments: str) -> Iterator[dict[str, Any]]:
        """The JSON lines of a benchmark."""
        for line in self.lines([sys.executable, "-m", "benchmarks", *arguments]):
            if line.startswith("{"):
                yield json.loads(line)


def machine(part: Part) -> Iterator[dict[str, Any]]:
    """What all of this runs on."""
    import torch

    row: dict[str, Any] = {"python": sys.version.split()[0], "cores": os.cpu_count()}
    row["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in PACKAGES:
        try:
            row[name] = version(name)
        except PackageNotFoundError:
            row[name] = None
    if part.gpu:
        gpu = torch.cuda.get_device_properties(0)
        row |= {"gpu": gpu.name, "gpus": torch.cuda.device_count(), "gpu_bytes": gpu.total_memory}
        row |= {"capability": [gpu.major, gpu.minor], "cuda": torch.version.cuda}
        row["nccl"] = list(torch.cuda.nccl.version())
    smi = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm", "--format=csv,noheader"]
    if shutil.which(smi[0]):
        row["driver, clock"] = " | ".join(part.lines(smi))
    yield row


class Training:
    """Runs of `modtok pretrain` in a scratch directory: on gpu-data/, else on the sample text."""

    def __init__(self, part: Part, scratch: Path, steps: int) -> None:
        self._part, self.scratch, self.steps = part, scratch, 4 if part.tiny else steps
        self._modtok = [sys.executable, "-m", "modtok_cli"]
        if DATA.exists():
            for name in ("data", "tokenizer"):
                (scratch / name).symlink_to(DATA / name)
        else:
            shutil.copytree(Path(modtok_cli.__file__).parent / "samples" / "data", scratch / "data")
            list(part.lines([*self._modtok, "bpe-seq", "-k", "1000"], scratch))

    def start(self, name: str, *more: str) -> list[dict[str, Any]]:
        """The lines of a new run of 0.5b with `sub:2`."""
        size = ["--model", "tiny", "--seq-length", "32"] if self._part.tiny else ["--model", "0.5b"]
        start = ["--sampling", "sub:2", "--batch-size", "8", "--micro-batch", "2"]
        start += ["--steps", str(self.steps), "--eval-every", str(self.steps)]
        return self._run(name, *size, *start, "--set", "evaluation.eval_bytes=4KB", *more)

    def resume(self, name: str) -> list[dict[str, Any]]:
        """The lines of a run that goes on from its last checkpoint but one."""
        (last,) = self.scratch.glob(f"runs/{name}/checkpoints/*{self.steps}")
        shutil.rmtree(last)
        return self._run(name, "--resume")

    def _run(self, name: str, *options: str) -> list[dict[str, Any]]:
        words = [*self._modtok, "pretrain", *options, "--name", name]
        list(self._part.lines(words, self.scratch))
        text = (self.scratch / "runs" / name / "metrics.jsonl").read_text()
        return [line for line in map(json.loads, text.splitlines()) if "loss" in line]


def whole_run(part: Part) -> Iterator[dict[str, Any]]:
    """`modtok pretrain` on text, and again from its middle."""
    with tempfile.TemporaryDirectory() as scratch:
        training = Training(part, Path(scratch), 30)
        middle = training.steps // 2
        whole = training.start("whole", "--save-every", str(middle))
        yield {"run": "whole", **figures(whole)}
        again = training.resume("whole")
        largest = max(
            abs(b["loss"] - a["loss"]) for a, b in list(zip(whole, again, strict=True))[middle:]
        )
        yield {"run": "resumed", "largest_loss_difference": largest, **figures(again)}
        if largest > RESUMED:
            raise Failed(f"losses of the resumed run differ by {largest}")


def offloaded_run(part: Part) -> Iterator[dict[str, Any]]:
    """`modtok pretrain` with rows in host memory."""
    with tempfile.TemporaryDirectory() as scratch:
        training = Training(part, Path(scratch), 30)
        yield {"run": "offload", **figures(training.start("offload", "--offload"))}


def figures(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Losses, kernels, and medians of times without the first steps."""
    timed = [line["time"] for line in lines[len(lines) // 5 :]]
    keys = ("step_seconds", "tokens_per_second", "mfu")
    medians = {
        key: statistics.median(values) if None not in values else None
        for key in keys
        for values in [[time[key] for time in timed]]
    }
    if medians["mfu"]:  # attention counted whole
        shape = SIZES["0.5b"]
        length = PRESETS["0.5b"]["seq_length"]
        more = 6 * shape.layers * length * shape.heads * shape.head_width
        flops = statistics.median(time["model_flops_per_second"] for time in timed)
        whole = 1 + more * medians["tokens_per_second"] / flops
        medians["mfu_whole_attention"] = round(medians["mfu"] * whole, 4)
    phases = {
        name: round(statistics.fmean(time["phases"][name] for time in timed), 6)
        for name in timed[0]["phases"]
    }
    kernels = lines[0]["time"].get("kernels")
    rest = {**medians, "phases": phases, "peak_bytes": timed[-1]["peak_bytes"], "kernels": kernels}
    return {"losses": [round(line["loss"], 4) for line in lines], **rest}


def tests(part: Part) -> Iterator[dict[str, Any]]:
    """The suite's own tests, on the GPU; each failure is a row."""
    chosen = TESTS if part.gpu else ("loss", "megatron")
    paths = [str(ROOT / "tests" / "training" / f"test_{name}.py") for name in chosen]
    flags = ["-v", "--color=no", "--tb=line", "-p", "no:cacheprovider", "-o", "addopts="]
    if importlib.util.find_spec("xdist"):  # most of their time is the host's
        flags += ["-n", str(min(8, cores()))]
    counts: dict[str, int] = {}
    try:
        for line in part.lines([sys.executable, "-m", "pytest", *flags, *paths]):
            words = RESULT.match(line)
            result = words and (words["early"] or words["late"])
            if words is None or result is None:
                if re.match(r"(/\S+:\d+: (?!\w+Warning)|E  )", line):
                    yield {"said": line[:300]}
                continue
            counts[result] = counts.get(result, 0) + 1
            if result in ("FAILED", "ERROR"):
                yield {"failed": words["test"]}
    finally:
        yield {"tests": list(chosen), **counts}


def steps(part: Part) -> Iterator[dict[str, Any]]:
    """A step of a preset: each sampling and each attention; time, MFU, memory beside the plan."""
    recomputed = part.name.endswith("recomputed")
    model = ["--model", part.name.split()[0], *(["--recompute", "24"] if recomputed else [])]
    if part.name.startswith("2.5b"):
        model += ["--steps", "3", "--attention", "flash"]
    if part.tiny:
        model = ["--model", "tiny", "--scale", "0.005", "--steps", "1", "--length", "16"]
        model += ["--recompute", "1"] if recomputed else []
    for row in part.rows("sampling_step", *model):
        yield row
        if part.tiny and row["error"]:  # of a larger model it may be the memory
            raise Failed(row["error"])


def kernels(part: Part) -> Iterator[dict[str, Any]]:
    """Kernels of a step: see `kernels`."""
    yield from part.rows("kernels", part.name, *(["--tiny"] if part.tiny else []))


def peer(part: Part) -> Iterator[dict[str, Any]]:
    """A plain compiled decoder beside modtok: see `peer`."""
    yield from part.rows("peer", *(["--tiny"] if part.tiny else []))


def offload(part: Part) -> Iterator[dict[str, Any]]:
    """Rows in host memory: see `offload`."""
    size = ["--models", "1b"]
    if part.name in ("step", "trace"):
        size += ["--microbatches", "8", "--rows", "2", "--length", "4096", "--turns", "6"]
    if part.name == "languages":
        size = ["--width", "2048", "--layers", "2", "--rows", "2", "--length", "2048"]
    if part.tiny:
        size = ["--models", "1b", "--scale", "0.0005", "--layers", "1", "--turns", "1"]
        size += ["--length", "16", "--width", "128"]
    ratios = []
    for row in part.rows("offload", part.name, *size):
        yield row
        if row.get("variant") == "offload, delay 1":
            ratios.append(row["against_resident"])
    if ratios and max(ratios) > OFFLOADED and not part.tiny:
        raise Failed(f"a step takes {max(ratios)} times a resident one, the bar is {OFFLOADED}")


MEASURES = {"machine": machine, "run": whole_run, "offloaded": offloaded_run, "tests": tests}
MEASURES |= {"peer": peer} | dict.fromkeys(("gemm", "loss", "attention", "profile"), kernels)
MEASURES |= dict.fromkeys(("0.5b", "1b", "2.5b", "2.5b recomputed"), steps)
MEASURES |= dict.fromkeys(("link", "trip", "step", "languages", "trace"), offload)


def check(options: argparse.Namespace, target: Path) -> bool:
    """All parts of a call, into `target`; whether each did what it should."""
    began = time.monotonic()
    good = True
    with open(target, "a", encoding="utf-8") as out:

        def write(row: dict[str, Any]) -> None:
            line = json.dumps({"call": options.call, **row})
            print(line, flush=True)
            out.write(line + "\n")
            out.flush()
            os.fsync(out.fileno())

        for name, most in CALLS[options.call].items():
            if name not in (options.parts or CALLS[options.call]):
                continue
            left = (options.limit or LIMITS[options.call]) - (time.monotonic() - began)
            started = time.monotonic()
            row: dict[str, Any] = {"part": name, "ok": True}
            try:
                if left < 5:
                    raise Failed("no time was left for it")
                limit = left if options.tiny else min(left, most)
                for measured in MEASURES[name](Part(name, options, limit)):
                    write({"part": name, **measured})
            except Failed as error:
                row.update(ok=False, error=str(error))
            except Exception as error:  # whatever it is, the parts after it are to run
                row.update(ok=False, error=f"{type(error).__name__}: {error}")
            good &= row["ok"]
            write({**row, "seconds": round(time.monotonic() - started, 1)})
    return good


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("call", type=int, choices=CALLS)
    parser.add_argument("--tiny", action="store_true", help="tiny models, also on a CPU")
    parser.add_argument("--parts", type=lambda text: text.split(","), help="some of its parts")
    parser.add_argument("--limit", type=float, help="seconds for all of it")
    parser.add_argument("--out", type=Path, help="where the rows go")
    options = parser.parse_args()
    import torch

    options.gpu = torch.cuda.is_available()
    if not options.gpu and not options.tiny:
        print("gpu-check: no GPU here; make test runs the same tests on the CPU", file=sys.stderr)
        return 1
    device = torch.cuda.get_device_name() if options.gpu else "CPU"
    name = re.sub(r"[^A-Za-z0-9]+", "-", device).strip("-")
    day = datetime.date.today().isoformat()
    target = options.out or ROOT / "benchmarks" / "results" / f"gpu-{name}-{day}.jsonl"
    target.parent.mkdir(parents=True, exist_ok=True)
    good = check(options, target)
    print(target)
    return 0 if good else 1
