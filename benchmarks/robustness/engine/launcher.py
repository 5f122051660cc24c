"""Calls of `modtok` forked from a process that has imported everything.

A command of a second is mostly imports; hundreds of them are kills of imports. Requests
are JSON lines on standard input, answers on standard output: first the number of the
process, which leads a session of its own, then its status.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.common import ROOT
from helpers.jobs import environment


class Launcher:
    """Starts calls one after the other; a context manager."""

    def __enter__(self) -> Launcher:
        # Not in the workspace, whose disk may be full.
        self._folder = tempfile.TemporaryDirectory()
        self._said = Path(self._folder.name) / "stderr"
        self._server = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.robustness.engine.launcher"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # what is read ahead, select does not see
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.kill()
        self._server.wait()
        self._folder.cleanup()

    def start(
        self, words: list[str], place: Path, memory: int = 0, source: Path | None = None
    ) -> int:
        """Begin a call in a workspace; the number of its process.

        `memory`: bytes of address space, 0 for no limit; `source`: standard input.
        """
        request = {
            "words": words,
            "place": str(place),
            "env": environment(place),
            "memory": memory,
            "source": str(source or os.devnull),
            "said": str(self._said),
        }
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        return int(self._answer(600)["pid"])

    def status(self, seconds: float) -> int | None:
        """Status of the call that was started, as `subprocess` has it; None if not in time."""
        try:
            return int(self._answer(seconds)["status"])
        except TimeoutError:
            return None

    def call(
        self, words: list[str], place: Path, **options: Any
    ) -> subprocess.CompletedProcess[bytes]:
        """A call to its end."""
        pid = self.start(words, place, **options)
        status = self.status(600)
        if status is None:
            os.killpg(pid, signal.SIGKILL)
            self.status(60)
            raise subprocess.TimeoutExpired(words, 600)
        return subprocess.CompletedProcess(words, status, b"", self.said())

    def said(self) -> bytes:
        """What the last call wrote on standard error."""
        return self._said.read_bytes()

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._server.stdout is not None
        ready, _, _ = select.select([self._server.stdout], [], [], seconds)
        if not ready:
            raise TimeoutError
        found: dict[str, Any] = json.loads(self._server.stdout.readline())
        return found


def child(request: dict[str, Any]) -> None:
    """Become the call; never returns."""
    from modtok_cli.base.interrupts import install
    from modtok_cli.cli.main import command_tree
    from modtok_cli.cli.run import run

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    install()
    os.chdir(request["place"])
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None
    for stream, path, flags in (
        (0, request["source"], os.O_RDONLY),
        (1, os.devnull, os.O_WRONLY),
        (2, request["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        os.dup2(os.open(path, flags, 0o644), stream)
    if request["memory"]:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = request["memory"] + pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        status = run(command_tree(), request["words"])
    except KeyboardInterrupt:  # as `__main__` does
        os._exit(130)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as `main` does
    sys.exit(status)


def serve() -> None:
    """Answer requests until standard input ends."""
    import lm_eval.evaluator  # noqa: F401
    import sacrebleu  # noqa: F401
    import transformers  # noqa: F401

    import modtok_cli.cli.main
    import modtok_cli.construct.bpe_merge
    import modtok_cli.construct.bpe_seq
    import modtok_cli.construct.unigram_merge
    import modtok_cli.corpus.build
    import modtok_cli.evaluate.generation
    import modtok_cli.evaluate.mcq
    import modtok_cli.inference.export.export
    import modtok_cli.inference.slice.write
    import modtok_cli.reports.report
    import modtok_cli.training.loop  # noqa: F401

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin.buffer:
        process = os.fork()
        if process == 0:
            child(json.loads(line))
        answers.write(json.dumps({"pid": process}) + "\n")
        _, status = os.waitpid(process, 0)
        answers.write(json.dumps({"status": os.waitstatus_to_exitcode(status)}) + "\n")


if __name__ == "__main__":
    serve()
