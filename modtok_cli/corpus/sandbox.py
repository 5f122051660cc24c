"""Parsing in a process of its own, which a hostile page may take down without harm.

A page nested 100,000 deep keeps the parser busy for hours, one with as many attributes for
a minute, a third may exhaust the memory; none of that can be stopped from within. The
child works under limits of the kernel: seconds of processor time for each page (not of the
clock, so that a busy machine drops no more pages than an idle one) and bytes of memory. If
it dies the page is to blame, and the next one gets a new child.
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

from modtok_cli.base.processes import die_with_parent

SECONDS = 5.0
MEMORY = 2 << 30
_WALL = 60.0  # a child that neither works nor answers: swapped out, stopped from outside
_REQUEST = struct.Struct("<IBB")  # bytes of the page, is HTML, bytes of the charset's name
_ANSWER = struct.Struct("<BI")  # 0 text or 1 error, bytes of it


class Failed(Exception):
    """The page has no text: "timeout", "crash" or "parser error"."""


class Sandbox:
    """`page_text` in a child that is made when it is needed; `close` or `with` ends it."""

    def __init__(self, seconds: float = SECONDS, memory: int = MEMORY) -> None:
        self._limits = (seconds, memory)
        self._child: subprocess.Popen[bytes] | None = None

    def page_text(self, data: bytes, is_html: bool, charset: str | None) -> str:
        """The text of a page, as `html.page_text` gives it.

        Raises:
            Failed: the page took too long or too much, or the parser refused it.
        """
        name = (charset or "").encode()[:40]
        try:
            return self._ask(_REQUEST.pack(len(data), is_html, len(name)) + name + data)
        except (BrokenPipeError, EOFError):
            status = self._end()
            # SIGXCPU would count the whole life of the child, SIGPROF is for this page.
            raise Failed("timeout" if status == -signal.SIGPROF else "crash") from None
        except TimeoutError:
            self._end()
            raise Failed("timeout") from None

    def _ask(self, request: bytes) -> str:
        if self._child is None or self._child.poll() is not None:
            self._child = self._start()
        child = self._child
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
        return subprocess.Popen(
            [sys.executable, "-m", "modtok_cli.corpus.sandbox", str(seconds), str(memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )

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
        """End the child."""
        if self._child and self._child.stdin:
            self._child.stdin.close()
        self._end()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _read(pipe: IO[bytes], size: int) -> bytes:
    """Exactly `size` bytes of a child's answer.

    Raises:
        EOFError: it died.
        TimeoutError: it says nothing.
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
    """Answer requests on standard input until it ends; what the child runs."""
    from modtok_cli.corpus.html import page_text

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which ends us
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while header := source.read(_REQUEST.size):
        size, is_html, name = _REQUEST.unpack(header)
        charset = source.read(name).decode(errors="replace") or None
        data = source.read(size)
        signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal is not handled: it kills
        try:
            status, answer = 0, page_text(data, bool(is_html), charset).encode(errors="replace")
        except Exception as error:
            status, answer = 1, f"{type(error).__name__}: {error}".encode(errors="replace")[:500]
        signal.setitimer(signal.ITIMER_PROF, 0)
        sink.write(_ANSWER.pack(status, len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    serve(float(sys.argv[1]), int(sys.argv[2]))
