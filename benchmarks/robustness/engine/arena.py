"""A workspace in which commands are run as whole processes, and what is always required of them.

Required: the command ends in time by itself, with status 0, 1, 2, 130 or 143; an error is one
line on standard error; no traceback, no "internal error"; no control characters of a terminal
other than colors; memory stays below a limit.
"""

from __future__ import annotations

import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT
from helpers.jobs import environment

GIB = 1 << 30
# What a program may send to a terminal: colors and moves of the cursor, as rich does.
ALLOWED = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")


@dataclass
class Done:
    """A command that ended: status as a shell has it (128 + n of a signal), both outputs."""

    status: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def error(self) -> str:
        """The line of the error, "" without one."""
        return error_line(self.err.decode(errors="replace"))


@dataclass
class Arena:
    """A fresh copy of a workspace.

    Attributes:
        place: its directory, the current one of commands.
        wrong: all that was wrong so far.
        ended: of every command, its status and its error.
    """

    place: Path
    wrong: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def modtok(
        self,
        *words: str | bytes,
        stdin: bytes | None = b"",
        closed: Sequence[int] = (),
        env: dict[str, str] | None = None,
        memory: int = 8 * GIB,
        seconds: float = 180,
        terminal: bool = False,
        package: Path = ROOT,
        user: str | None = None,
        without: Sequence[str] = (),
        addresses: int = 0,
    ) -> Done:
        """Run `modtok WORDS…` to its end and check what is always required.

        Args:
            words: the command line; bytes for names that are not UTF-8.
            stdin: what it reads; None for /dev/null.
            closed: descriptors that are closed when it starts.
            env: variables over those of `environment`.
            memory: bytes of resident memory that it may take.
            seconds: it must have ended by then.
            terminal: standard output and error are a terminal, read into `out`.
            package: directory with `modtok_cli`.
            user: whose command it is; this takes root.
            without: variables that it does not have.
            addresses: bytes of address space, as of `ulimit -v`; 0: 10 GiB more than `memory`.
        """
        command = [sys.executable, "-m", "modtok_cli", *words]
        variables = environment(self.place) | {"PYTHONPATH": str(package)}
        variables |= {"PYTHONUNBUFFERED": "1", **(env or {})}
        variables = {k: v for k, v in variables.items() if k not in without}
        (self.place / ".tmp").chmod(0o777)
        space = addresses or memory + 10 * GIB

        def prepare() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # Much more than `memory`, for libraries reserve addresses; less than a machine has.
            resource.setrlimit(resource.RLIMIT_AS, (space, space))
            for number in closed:
                os.close(number)

        began = time.monotonic()
        if terminal:
            done = self._on_terminal(command, variables, seconds)
        else:
            process = subprocess.Popen(
                command, cwd=self.place, env=variables, preexec_fn=prepare,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                user=user, group=user and "nogroup", extra_groups=user and [],
            )  # fmt: skip
            try:
                out, err = process.communicate(stdin, timeout=seconds)
                done = Done(shell_status(process.returncode), out, err, time.monotonic() - began)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                self.wrong.append(f"still running after {seconds:.0f} s")
                done = Done(137, out, err, time.monotonic() - began)
        if "out of memory" in done.err.decode(errors="replace") and memory <= 3 * GIB:
            self.wrong.append(f"took all of its memory: {done.error}")
        self._judge(done, words, terminal or 2 in closed)
        return done

    def line(self, text: str, **options: Any) -> Done:
        """Run `modtok TEXT`, split at spaces."""
        return self.modtok(*text.split(), **options)

    def _judge(self, done: Done, words: Sequence[str | bytes], terminal: bool) -> None:
        """`terminal`: standard error is part of `out`, or closed."""
        text = (done.out if terminal else done.err).decode(errors="replace")
        name = " ".join(map(_word, words))
        wrong = faults(done.status, text, (0, 1, 2, 130, 137, 143), lines=not terminal)
        self.wrong += [f"{name}: {each}" for each in wrong]
        for stream in (done.out, done.err):
            # Tokens and texts on standard output are data; a terminal shows tables.
            if terminal or stream is done.err:
                found = CONTROL.search(ALLOWED.sub(b"", stream.replace(b"\r\n", b"\n")))
                if found and found[0] not in (b"\r", b"\x08"):
                    self.wrong.append(f"{name}: control character {found[0]!r} is written raw")
        self.ended.append(f"{done.status} {done.error}"[:200])

    def _on_terminal(self, command: list[str], env: dict[str, str], seconds: float) -> Done:
        began = time.monotonic()
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command, cwd=self.place, env=env | {"TERM": "xterm", "COLUMNS": "120"},
            stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        out = b""
        while time.monotonic() - began < seconds:
            if not select.select([ours], [], [], 0.2)[0]:
                if process.poll() is not None:
                    break
                continue
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the last process with the terminal ended
                break
            if not piece:
                break
            out += piece
        os.close(ours)
        if process.poll() is None and time.monotonic() - began >= seconds:
            os.killpg(process.pid, signal.SIGKILL)
            self.wrong.append(f"still running after {seconds:.0f} s")
        return Done(shell_status(process.wait()), out, b"", time.monotonic() - began)

    def check(self, good: bool, what: str) -> None:
        """Note `what` as wrong unless `good`."""
        if not good:
            self.wrong.append(what)


def error_line(said: str) -> str:
    """The line of the error, "" without one."""
    lines = said.splitlines()
    return next((line for line in lines if line.startswith("modtok: error:")), "")


def faults(status: int, said: str, allowed: Sequence[int], *, lines: bool = True) -> list[str]:
    """What is wrong about how a command ended; with `lines`, an error is one line."""
    wrong = []
    if any(mark in said for mark in ("Traceback", "internal error", "panicked", "Segmentation")):
        wrong.append(said[-700:])
    if status not in allowed:
        wrong.append(f"status {status}: {said[-300:]}")
    count = said.count("modtok: error:")
    if lines and status in (1, 2) and count != 1:
        wrong.append(f"{count} lines of error: {said[-300:]}")
    return wrong


def shell_status(returncode: int) -> int:
    """128 + n for a process that a signal n ended."""
    return returncode if returncode >= 0 else 128 - returncode


def _word(word: str | bytes) -> str:
    return word if isinstance(word, str) else repr(word)


@dataclass(frozen=True)
class Attack:
    """One attack: its group, what it does, and the function that does it."""

    group: str
    name: str
    run: Callable[[Arena], None]


ATTACKS: list[Attack] = []


def attack(group: str) -> Callable[[Callable[[Arena], None]], Callable[[Arena], None]]:
    """Add a function to the list; its docstring is the name."""

    def add(function: Callable[[Arena], None]) -> Callable[[Arena], None]:
        ATTACKS.append(Attack(group, (function.__doc__ or function.__name__).strip(), function))
        return function

    return add
