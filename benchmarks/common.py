"""What benchmarks share: machine, corpora, times, processes, and rows as JSON lines."""

from __future__ import annotations

import argparse
import io
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import zstandard

from modtok_cli.base.version import __version__

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "modtok_cli" / "samples"


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """A parser of options; its help begins with the text, the docstring of a module."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=text, formatter_class=form)


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


def timed(command: Sequence[str], text: bytes = b"", **options: Any) -> Run:
    """Run a command as a process of its own, which reads a text; its output is thrown away."""
    began = time.perf_counter()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, **options)
    process.stdin.write(text)
    process.stdin.close()
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: {said.decode(errors='replace')}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def in_a_process(*words: object, **options: Any) -> Any:
    """The last row that a benchmark prints, as a process of its own."""
    command = [sys.executable, "-m", "benchmarks", *map(str, words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, **options)
    return orjson.loads(done.stdout.splitlines()[-1])


def release(package: str) -> str:
    """Version of an installed package, or of this code."""
    return __version__ if package == "modtok" else version(package)


def spread(values: Sequence[float], digits: int, median: str = "median") -> dict[str, float]:
    """Median, least and greatest of the turns, and their number."""
    return {
        median: round(statistics.median(values), digits),
        "least": round(min(values), digits),
        "greatest": round(max(values), digits),
        "turns": len(values),
    }


def peak_of_self() -> float:
    """Largest resident size of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# The languages of the paper.
LANGUAGES = (
    "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "hu", "it", "lt", "lv", "nl", "pl",
    "pt", "ro", "sk", "sl", "sv",
)  # fmt: skip


def texts(path: Path) -> Iterator[str]:
    """The documents of a `.jsonl.zst` file, read without modtok."""
    with open(path, "rb") as handle:
        stream = zstandard.ZstdDecompressor().stream_reader(handle)
        for line in io.TextIOWrapper(stream, encoding="utf-8", newline="\n"):
            yield orjson.loads(line)["text"]


OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def emit(row: Mapping[str, Any]) -> None:
    """Print one row at once, so that an interrupted benchmark leaves what it measured."""
    print(orjson.dumps(row, option=OPTIONS).decode(), flush=True)
