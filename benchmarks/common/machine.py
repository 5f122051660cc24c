"""Facts of the machine, and time and memory of processes."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "sample"


def describe() -> str:
    """Processor, cores, memory, Python and the libraries that matter."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    libraries = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "tokenizers", "sentencepiece")
    )
    return (
        f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, "
        f"{libraries}"
    )


@dataclass(frozen=True)
class Run:
    """Wall and processor seconds, and the largest resident size in MiB."""

    wall: float
    cpu: float
    peak: float


def timed(command: list[str], cwd: Path | None = None) -> Run:
    """Run a command as a process of its own; its output is thrown away."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {process.returncode}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def peak_of_self() -> float:
    """Largest resident size of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
