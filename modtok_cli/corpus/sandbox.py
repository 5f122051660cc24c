"""Main text of pages, found in a separate process that a malicious page can crash without harm.

A page nested 100,000 levels deep keeps a parser busy for hours, one with as many attributes for
a minute, and another exhausts the memory. The child runs under kernel limits: processor seconds
per page (not wall time, so that a busy machine drops no more pages than an idle one) and bytes of
memory. If it dies, the page is dropped and the next one gets a new child.
"""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from html import unescape
from typing import IO, Literal
from unicodedata import category

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import die_with_parent, environment

SECONDS = 5.0
MEMORY = 2 << 30
_WALL = 60.0  # for a child that neither works nor answers, such as one that is swapped out
_REQUEST = struct.Struct("<I")  # size of the page
_ANSWER = struct.Struct("<BI")  # 0 text or 1 error, size
_READY = b"r"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # except tab and line feed
_JOINER = re.compile("&(?:zwn?j|[lr]rm|#820[4-7]|#[xX]200[c-fC-F]);")
_INVISIBLE = "\xad\ufeff"  # of no word: a place to break it, a byte order mark
_LINE_END = re.compile("\r\n|[\r\x85]")

Extractor = Literal["trafilatura", "resiliparse"]


def trafilatura(html: str) -> str:
    """Main text by trafilatura, which compares pages of a process by default: not here."""
    from trafilatura import extract

    if "html" not in html[:50].lower():  # it takes a page without the optional tag for a fragment
        html = f"<html>{html}"
    # It removes joiners, without which words of Persian or Nepali are others: letters of a script
    # without text (Carian) stand for them meanwhile.
    html = _JOINER.sub(lambda found: unescape(found[0]), html)
    joiners = sorted(one for one in {*html} if category(one) == "Cf" and one not in _INVISIBLE)
    free = [one for one in map(chr, range(0x102A0, 0x102D1)) if one not in html]
    text = extract(
        html.translate(str.maketrans(dict(zip(joiners, free, strict=False)))),
        include_comments=False,
        deduplicate=False,
    )
    return (text or "").translate(str.maketrans(dict(zip(free, joiners, strict=False))))


def resiliparse(html: str) -> str:
    """Main text by resiliparse."""
    from resiliparse.extract.html2text import extract_plain_text

    return extract_plain_text(
        html,
        main_content=True,
        preserve_formatting=True,
        list_bullets=False,
        alt_texts=False,
        comments=False,
    )


EXTRACTORS: dict[str, Callable[[str], str]] = {
    "trafilatura": trafilatura,
    "resiliparse": resiliparse,
}


def clean(text: str) -> str:
    """Lines without control characters, white space at their ends, and empty ones.

    >>> clean("one \\x00\\r\\n\\n  two\\u00a0"), clean("\\ud800")
    ('one\\n  two', '?')
    """
    lines = _CONTROL.sub("", _LINE_END.sub("\n", text)).split("\n")
    whole = "\n".join(filter(None, map(str.rstrip, lines)))
    return whole.encode(errors="replace").decode()


class Failed(Exception):
    """No text could be extracted: "timeout", "crash" or "parser error"."""


class Sandbox:
    """Extractors in a child process, started on demand and stopped by `close` or `with`."""

    def __init__(
        self,
        extractor: Extractor = "trafilatura",
        seconds: float = SECONDS,
        memory: int = MEMORY,
    ) -> None:
        self._arguments = (str(seconds), str(memory), extractor)
        self._child: subprocess.Popen[bytes] | None = None

    def main_text(self, html: str) -> str:
        """Main text of a page, as `clean` gives it.

        Raises:
            Failed: the page exceeded a limit, or the extractor raised an error.
            ModtokError: the child does not start, which is no fault of the page.
        """
        if self._child is None or self._child.poll() is not None:
            self._child = self._start()
        data = html.encode(errors="replace")
        try:
            return self._ask(_REQUEST.pack(len(data)) + data)
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
        child = subprocess.Popen(
            [sys.executable, "-m", "modtok_cli.corpus.sandbox", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
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


def serve(seconds: float, memory: int, extractor: str) -> None:
    """Main loop of the child: answer requests on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent stops the child
    die_with_parent()
    highest = resource.getrlimit(resource.RLIMIT_AS)[1]  # `ulimit -v`, which cannot be raised
    if highest != resource.RLIM_INFINITY:
        memory = min(memory, highest)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    extract = EXTRACTORS[extractor]
    extract("<p>imports the library</p>")  # which does not count as time of a page
    sink.write(_READY)
    sink.flush()
    while header := source.read(_REQUEST.size):
        html = source.read(*_REQUEST.unpack(header)).decode()
        signal.setitimer(signal.ITIMER_PROF, seconds)  # the signal has no handler and kills
        try:
            status, answer = 0, clean(extract(html)).encode()
        except Exception as error:
            status, answer = 1, f"{type(error).__name__}: {error}".encode(errors="replace")[:500]
        signal.setitimer(signal.ITIMER_PROF, 0)
        sink.write(_ANSWER.pack(status, len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    serve(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
