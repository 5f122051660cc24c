"""Calls of `modtok` forked from a process that has imported everything.

A command of a second is mostly imports; hundreds of them are kills of imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT
from helpers.jobs import environment
from helpers.python_processes import Python, start_server

IMPORTED = (
    "lm_eval.evaluator",
    "sacrebleu",
    "transformers",
    "modtok_cli.construct.bpe_merge",
    "modtok_cli.construct.bpe_seq",
    "modtok_cli.construct.unigram_merge",
    "modtok_cli.evaluate.generation",
    "modtok_cli.evaluate.mcq",
    "modtok_cli.model.export.export",
    "modtok_cli.model.slice.write",
    "modtok_cli.reports.report",
)
# Processes that the call starts are its own, not those of the server of processes.
PROGRAM = """
import resource, runpy, sys
from pathlib import Path
sys.executable, memory = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]
if memory:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = memory + pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
runpy.run_module("modtok_cli", run_name="__main__", alter_sys=True)
"""


def start_launcher() -> None:
    """Start the process that all calls are forked from; it ends with this one."""
    os.environ |= {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    start_server(*IMPORTED)


class Call(Python):
    """A call in a workspace, in a session of its own."""

    def __init__(
        self, words: list[str], place: Path, memory: int = 0, source: Path | None = None
    ) -> None:
        """`memory`: bytes of address space, 0 for no limit; `source`: standard input."""
        # Not in the workspace, whose disk may be full.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (it lasts as long as the call)
        with open(source or os.devnull, "rb") as given:
            super().__init__(
                ["-c", PROGRAM, sys.executable, memory, *words],
                cwd=place, env=environment(place), stdin=given, stdout=subprocess.DEVNULL,
                stderr=self._said, start_new_session=True,
            )  # fmt: skip

    def status(self, seconds: float) -> int | None:
        """Status, as `subprocess` has it; None if not in time."""
        try:
            return self.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def said(self) -> bytes:
        """What it wrote on standard error."""
        self._said.seek(0)
        return self._said.read()


def call(words: list[str], place: Path, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """A call to its end."""
    process = Call(words, place, **options)
    if process.status(600) is None:
        process.kill()
        process.wait()
        raise subprocess.TimeoutExpired(words, 600)
    return subprocess.CompletedProcess(words, process.returncode, b"", process.said())
