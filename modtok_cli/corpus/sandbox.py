"""Main text of pages, found in a separate process that a malicious page can crash without harm.

A page nested 100,000 levels deep keeps a parser busy for hours, one with as many attributes for
a minute, and another exhausts the memory. The child runs under kernel limits: processor seconds
per page (not wall time, so that a busy machine drops no more pages than an idle one) and bytes of
memory. If it dies, the page is dropped and the next one gets a new child.
"""

from __future__ import annotations

import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from html import unescape
from multiprocessing.connection import Connection
from typing import Any, Literal
from unicodedata import category

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import die_with_parent, environment

SECONDS = 5.0
MEMORY = 2 << 30
_WALL = 60.0  # for a child that neither works nor answers, such as one that is swapped out
_TEXT = "text "  # the begin of an answer that is no error
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
        self._pipe: Any = None

    def main_text(self, html: str) -> str:
        """Main text of a page, as `clean` gives it.

        Raises:
            Failed: the page exceeded a limit, or the extractor raised an error.
            ModtokError: the child does not start, which is no fault of the page.
        """
        if self._child is None or self._child.poll() is not None:
            self._start()
        try:
            self._pipe.send_bytes(html.encode(errors="replace"))
            answer = self._receive().decode()
        except TimeoutError:
            self.close()
            raise Failed("timeout") from None
        except (OSError, EOFError):  # the child died
            # SIGPROF is the limit of one page; SIGXCPU would count the lifetime of the child.
            is_late = self.close() == -signal.SIGPROF
            raise Failed("timeout" if is_late else "crash") from None
        if not answer.startswith(_TEXT):
            raise Failed(f"parser error: {answer}")
        return answer.removeprefix(_TEXT)

    def _receive(self) -> bytes:
        if not self._pipe.poll(_WALL):
            raise TimeoutError
        message: bytes = self._pipe.recv_bytes()
        return message

    def _start(self) -> None:
        self.close()
        here, there = socket.socketpair()
        with there:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "modtok_cli.corpus.sandbox", *self._arguments],
                stdin=there.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment(),
            )
        self._pipe = Connection(here.detach())
        try:
            self._receive()
        except (OSError, EOFError) as error:
            raise ModtokError(
                f"the process that parses pages does not start (status {self.close()})",
                remedy="free memory, or raise the limit of ulimit -v",
            ) from error

    def close(self) -> int:
        """Stop the child; its exit status."""
        child, self._child = self._child, None
        if child is None:
            return 0
        self._pipe.close()  # a child that waits for a page ends
        try:
            return child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def serve(seconds: float, memory: int, extractor: str) -> None:
    """Main loop of the child: answer pages that come through the socket at standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent stops the child
    die_with_parent()
    highest = resource.getrlimit(resource.RLIMIT_AS)[1]  # `ulimit -v`, which cannot be raised
    if highest != resource.RLIM_INFINITY:
        memory = min(memory, highest)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    extract = EXTRACTORS[extractor]
    extract("<p>imports the library</p>")  # which does not count as time of a page
    pipe = Connection(sys.stdin.fileno())
    pipe.send_bytes(b"ready")
    with suppress(EOFError, OSError):  # the parent has closed its end
        while True:
            html = pipe.recv_bytes().decode()
            signal.setitimer(signal.ITIMER_PROF, seconds)  # the signal has no handler and kills
            try:
                answer = _TEXT + clean(extract(html))
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"[:500]
            signal.setitimer(signal.ITIMER_PROF, 0)
            pipe.send_bytes(answer.encode(errors="replace"))


if __name__ == "__main__":
    serve(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
