"""Parse pages in a separate process, which a malicious page can crash without harm.

A page nested 100,000 levels deep keeps the parser busy for hours, one with as many attributes for
a minute, and another exhausts the memory. The child runs under kernel limits: processor seconds
per page (not wall time, so that a busy machine drops no more pages than an idle one) and bytes of
memory. If it dies, the page is dropped and the next one gets a new child.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from typing import IO

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import die_with_parent

SECONDS = 5.0
MEMORY = 2 << 30
_WALL = 60.0  # for a child that neither works nor answers, such as one that is swapped out
_REQUEST = struct.Struct("<IBB")  # size of the page, is HTML, length of the charset's name
_ANSWER = struct.Struct("<BI")  # 0 text or 1 error, size
_READY = b"r"


class Failed(Exception):
    """No text could be extracted: "timeout", "crash" or "parser error"."""


class Sandbox:
    """`page_text` in a child process, started on demand and stopped by `close` or `with`."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._limits = (seconds, memory)
        self._child: subprocess.Popen[bytes] | None = None

    def page_text(self, data: bytes, is_html: bool, charset: str | None) -> str:
        """Text of a page, as `html.page_text`.

        Raises:
            Failed: the page exceeded a limit, or the parser raised an error.
            ModtokError: the child does not start, which is no fault of the page.
        """
        if self._child is None or self._child.poll() is not None:
            self._child = self._start()
        name = (charset or "").encode()[:40]
        try:
            return self._ask(_REQUEST.pack(len(data), is_html, len(name)) + name + data)
        except (BrokenPipeError, EOFError):
            status = self._end()
            # SIGPROF is the limit of one page; SIGXCPU would count the lifetime of the child.
            raise Failed("timeout" if status == -signal.SIGPROF else "crash") from None
        except TimeoutError:
            self._end()
            raise Failed("timeout") from None

    def _ask(self, request: bytes) -> str:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(request)
        child.stdin.flush()
        status, size = _ANSWER.unpack(_read(child.stdout, _ANSWER.size))
        answer = _read(child.stdout, size).decode()
        if status:
            raise Failed(f"parser error: {answer}")
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        seconds, memory = self._limits
        child = subprocess.Popen(
            [sys.executable, "-m", "modtok_cli.corpus.sandbox", str(seconds), str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        assert child.stdout is not None
        try:
            _read(child.stdout, len(_READY))
        except (EOFError, TimeoutError) as error:
            child.kill()
            raise ModtokError(
                f"the process that parses pages does not start (status {child.wait()})",
                remedy="free memory, or raise the limit of ulimit -v",
            ) from error
        return child

    def _end(self) -> int | None:
        child, self._child = self._child, None
        if child is None:
            return None
        try:
            status = child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            child.kill()
            status = child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()
        return status

    def close(self) -> None:
        """Stop the child."""
        if self._child and self._child.stdin:
            self._child.stdin.close()
        self._end()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _read(pipe: IO[bytes], size: int) -> bytes:
    """Read exactly `size` bytes of a child's answer.

    Raises:
        EOFError: the child died.
        TimeoutError: the child does not answer.
    """
    handle = pipe.fileno()
    pieces = []
    deadline = time.monotonic() + _WALL
    while size:
        ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        piece = os.read(handle, min(size, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def serve(seconds: float, memory: int) -> None:
    """Main loop of the child: answer requests on standard input."""
    from modtok_cli.corpus.html import page_text

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent stops the child
    die_with_parent()
    highest = resource.getrlimit(resource.RLIMIT_AS)[1]  # `ulimit -v`, which cannot be raised
    if highest != resource.RLIM_INFINITY:
        memory = min(memory, highest)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sink.write(_READY)
    sink.flush()
    while header := source.read(_REQUEST.size):
        size, is_html, name = _REQUEST.unpack(header)
        charset = source.read(name).decode(errors="replace") or None
        data = source.read(size)
        signal.setitimer(signal.ITIMER_PROF, seconds)  # the signal has no handler and kills
        try:
            status, answer = 0, page_text(data, bool(is_html), charset).encode(errors="replace")
        except Exception as error:
            status, answer = 1, f"{type(error).__name__}: {error}".encode(errors="replace")[:500]
        signal.setitimer(signal.ITIMER_PROF, 0)
        sink.write(_ANSWER.pack(status, len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    serve(float(sys.argv[1]), int(sys.argv[2]))
