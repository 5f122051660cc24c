"""Text of a page, parsed in a separate process that a malicious page can crash without harm.

A page nested 100,000 levels deep keeps the parser busy for hours, one with as many attributes for
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
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, NamedTuple

import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import die_with_parent, environment
from modtok_cli.corpus.content import Dropped, Found
from modtok_cli.corpus.elements import BREAK
from modtok_cli.corpus.extractors import EXTRACTORS, extract
from modtok_cli.corpus.repair import repair

SECONDS = 5.0
MEMORY = 2 << 30
_WALL = 60.0  # for a child that neither works nor answers, such as one that is swapped out
_REQUEST = struct.Struct("<IBB")  # size of the page, is HTML, length of the charset's name
_ANSWER = struct.Struct("<BI")  # 0 text or 1 error, size
_READY = b"r"


class PageText(NamedTuple):
    """Text of a page, a unit per line (`content`); lines and characters left out by reason.

    `repaired`: lines and characters of the text that `repair` changed.
    """

    text: str
    dropped: Dropped
    repaired: list[int]


class Failed(Exception):
    """No text could be extracted: "timeout", "crash" or "parser error"."""


class Sandbox:
    """`page_text` in a child process, started on demand and stopped by `close` or `with`."""

    def __init__(
        self,
        seconds: float = SECONDS,
        memory: int = MEMORY,
        extractor: str = EXTRACTORS[0],
        repairs: bool = True,
    ) -> None:
        self._arguments = (str(seconds), str(memory), extractor, str(int(repairs)))
        self._child: subprocess.Popen[bytes] | None = None

    def page_text(self, data: bytes, is_html: bool, charset: str | None) -> PageText:
        """Text of a page, as the function `page_text`.

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

    def _ask(self, request: bytes) -> PageText:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(request)
        child.stdin.flush()
        status, size = _ANSWER.unpack(_read(child.stdout, _ANSWER.size))
        answer = _read(child.stdout, size)
        if status:
            raise Failed(f"parser error: {answer.decode()}")
        return PageText(*orjson.loads(answer))

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


def serve(seconds: float, memory: int, extractor: str, repairs: bool) -> None:
    """Main loop of the child: answer requests on standard input."""
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
            found = page_text(data, bool(is_html), charset, extractor, repairs)
            status, answer = 0, orjson.dumps([*found])
        except Exception as error:
            status, answer = 1, f"{type(error).__name__}: {error}".encode(errors="replace")[:500]
        signal.setitimer(signal.ITIMER_PROF, 0)
        sink.write(_ANSWER.pack(status, len(answer)) + answer)
        sink.flush()


_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{2,40})", re.I)
_HEAD = 2048
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# Declared by default. Not believed if the bytes look like another script.
_DEFAULTS = frozenset({"windows-1252", "cp1252", "iso-8859-1", "latin-1", "us-ascii", "utf-8"})
_LINE_END = re.compile("\r\n|[\n\r\x85]")
_FENCE = re.compile("```|~~~")
_SIGNS = re.compile(r"[;:(\[]\s*$|[={}<>|\\]|\w\(|^\s*([#$)\]]|//|--)")
_CONTROL = re.compile("[\x00-\x08\n-\x1f\x7f-\x9f]")  # except tab


def decode(data: bytes, declared: str | None, is_html: bool) -> str:
    """Decode `data`; bytes that fit no encoding become U+FFFD.

    In this order: a byte order mark; UTF-8, if the bytes are valid; the charset declared by server
    or page, if the bytes are valid and it is not a default Latin-1 over what looks like another
    script; the detected charset.

    >>> decode("ääni".encode("latin-1"), "utf-8", False), decode(b"\\xef\\xbb\\xbfa", None, False)
    ('ääni', 'a')
    """
    from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

    for mark, name in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, errors="replace")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(data) - error.start < 4:
            return data[: error.start].decode()  # truncated by the crawler within a character
    meta = _META.search(data, 0, _HEAD) if is_html else None
    declarations = [declared, meta[1].decode("ascii") if meta else None]
    known = [map_encoding_to_html5(name, fallback_utf8=False) for name in declarations if name]
    guessed = detect_encoding(data)
    candidates = [name for name in known if name and name.lower() not in _DEFAULTS]
    if guessed:
        candidates.append(guessed)
    candidates += [name for name in known if name]
    for name in candidates:
        try:
            text = data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
        return text
    return data.decode(errors="replace")


def clean(unit: str) -> str:
    """Remove control characters, and white space around a line.

    >>> clean("  two \\x00\\u00a0 "), clean("\\x0bif x:\\r\\x0b\\ty()")
    ('two', '\\x0bif x:\\x0b\\ty()')
    """
    if not unit.startswith(BREAK):
        return _CONTROL.sub("", unit).strip()
    lines = (_CONTROL.sub("", line) for line in unit[1:].split(BREAK))
    text = BREAK.join(lines).strip(BREAK)
    return BREAK + text if text else ""


def text_units(lines: Sequence[str]) -> list[str]:
    """Units of plain text: its lines, but a preformatted block for code.

    Code is between Markdown's fences, or a paragraph with an indented line and signs of code in
    half of its lines; paragraphs with such signs after it too.

    >>> text_units(["So:", "", "if x:", "    y(1)", "", "z = 1", "", "Then."])
    ['So:', '\\x0bif x:\\x0b    y(1)\\x0b\\x0bz = 1', 'Then.']
    """
    units: list[str] = []
    at, after_code = 0, False
    while at < len(lines):
        end = _fenced(lines, at)
        is_code = end > at
        while not is_code and end < len(lines) and lines[end].strip():
            end += 1
        paragraph = lines[at : max(end, at + 1)]
        at += len(paragraph)
        if is_code or _is_code(paragraph, after_code):
            code = BREAK + BREAK.join(paragraph)
            if after_code and not is_code:
                units[-1] += BREAK + code
            else:
                units.append(code)
            after_code = not is_code
        elif paragraph[0].strip():
            units += paragraph
            after_code = False
    return units


def _fenced(lines: Sequence[str], at: int) -> int:
    """Place after the code whose fence is a line; the line's place if there is none."""
    fence = _FENCE.match(lines[at])
    ends = (n + 1 for n in range(at + 1, len(lines)) if fence and lines[n].strip() == fence[0])
    return next(ends, at)


def _is_code(paragraph: Sequence[str], after_code: bool) -> bool:
    is_set = after_code or any(line.startswith(("\t", "  ")) for line in paragraph)
    return is_set and 2 * sum(map(bool, map(_SIGNS.search, paragraph))) >= len(paragraph)


def page_text(
    data: bytes,
    is_html: bool,
    charset: str | None,
    extractor: str = EXTRACTORS[0],
    repairs: bool = True,
) -> PageText:
    """Text of a page, a unit per line, and what was left out.

    Of HTML the main text (`content`). Of plain text each line is a unit, except in code.
    """
    text = decode(data, charset, is_html)
    if is_html:
        found = extract(text, extractor, repairs)
    else:
        lines = _LINE_END.split(text)
        fixed = list(map(repair, lines)) if repairs else lines
        changed = [len(now) for now, before in zip(fixed, lines, strict=True) if now != before]
        found = Found(text_units(fixed), {}, [len(changed), sum(changed)])
    whole = "\n".join(filter(None, map(clean, found.units)))
    return PageText(whole.encode(errors="replace").decode(), found.dropped, found.repaired)


if __name__ == "__main__":
    serve(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "1")
