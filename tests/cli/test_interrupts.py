"""Ctrl-C arrives also where libraries drop KeyboardInterrupt."""

import subprocess

from helpers.processes import hear_ctrl_c, python

_HEAD = """
import ctypes, signal, sys, time, weakref
from modtok_cli.base.interrupts import acknowledge, install

install()

def ctrl_c():
    signal.raise_signal(signal.SIGINT)
"""
_LOSSES = """
class Thing:
    pass

class Doomed:
    def __del__(self):
        ctrl_c()

def in_a_callback_of_weakref():
    thing = Thing()
    watcher = weakref.ref(thing, lambda _: ctrl_c())
    del thing

def in_a_callback_of_ctypes():
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(
        lambda a, b: ctrl_c() or 0
    )
    ctypes.CDLL(None).qsort((ctypes.c_int * 2)(2, 1), 2, 4, compare)

def silently():
    try:
        ctrl_c()
    except KeyboardInterrupt:
        pass

for lose in (in_a_callback_of_weakref, Doomed, in_a_callback_of_ctypes, silently):
    try:
        lose()
        while True:
            pass
    except KeyboardInterrupt:
        print(acknowledge(), acknowledge())
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return python("-c", program, preexec_fn=hear_ctrl_c)


def test_a_lost_ctrl_c_arrives() -> None:
    done = run(_HEAD + _LOSSES)
    assert (done.returncode, done.stdout) == (0, "True False\n" * 4), done.stderr


def test_cleanup_is_not_interrupted() -> None:
    done = run(
        _HEAD
        + """
try:
    try:
        ctrl_c()
    finally:
        time.sleep(1)
        print("cleaned")
except KeyboardInterrupt:
    acknowledge()
    time.sleep(1)
    print("arrived")
"""
    )
    assert (done.returncode, done.stdout) == (0, "cleaned\narrived\n"), done.stderr


def test_ignored_signals_and_other_handlers_are_kept() -> None:
    for handler in ("signal.SIG_IGN", "print"):
        program = (
            "import signal; from modtok_cli.base.interrupts import install\n"
            f"signal.signal(signal.SIGINT, {handler}); install()\n"
            f"assert signal.getsignal(signal.SIGINT) is {handler}"
        )
        assert run(program).returncode == 0


def test_a_swallowed_ctrl_c_is_no_success() -> None:
    program = """
import sys
from modtok_cli.base import interrupts
from modtok_cli.cli.execute import run

class Root:
    def main(self, **_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pass

import signal
interrupts._PERIOD = 1e6
interrupts.install()
sys.exit(run(Root(), []))
"""
    done = run(program)
    assert done.returncode == 130
    assert done.stderr == "modtok: interrupted; no partial output remains\n"


def test_ctrl_c_is_deferred_while_processes_start() -> None:
    """Also if a thread of a library receives it; a process that starts meanwhile has it blocked."""
    done = run(
        "import os, signal, subprocess, sys, threading, time\n"
        "from modtok_cli.base.interrupts import deferred\n"
        "end = threading.Event()\n"
        "threading.Thread(target=end.wait, daemon=True).start()\n"
        "child = 'import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))'\n"
        "try:\n"
        "    with deferred():\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0.1)\n"
        "        subprocess.run([sys.executable, '-c', child])\n"
        "        print('went on', flush=True)\n"
        "except KeyboardInterrupt:\n"
        "    print('arrived', signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
    )
    blocked = "{<Signals.SIGINT: 2>}"
    assert done.stdout == f"{blocked}\nwent on\narrived set()\n", done.stderr
