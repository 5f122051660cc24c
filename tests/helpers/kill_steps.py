"""kill -9 just before every single change that a command makes to files, one after the other.

    python -m helpers.kill_steps WORKSPACE STRIDE WORDS…

Not by the clock: an audit hook counts what is opened for writing, renamed, removed and made
in the workspace, and at the n-th such event the process kills itself. Processes are forked
from one that has imported everything, so that each costs a part of a second. Prints a JSON
line for each kill, the last for the call that came through.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from modtok_cli.cli.execute import run
from modtok_cli.cli.main import command_tree

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.symlink"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def die_at(step: int, place: str, counted: list[int]) -> None:
    """Kill this process at the event of that number (1 …)."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if not (isinstance(flags, int) and flags & WRITING):
                return
        elif event in CHANGES:
            path = args[0]
        elif event == "ctypes.dlsym":  # how two entries change places
            path = f"{place}/" if args[1] == "renameat2" else ""
        else:
            return
        if isinstance(path, str | os.PathLike) and os.path.abspath(path).startswith(place):  # noqa: PTH100
            counted[0] += 1
            if counted[0] == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def child(step: int, place: Path, words: list[str]) -> None:
    """Run the command; never returns."""
    os.chdir(place)
    counted = [0]
    die_at(step, f"{place}/", counted)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    status = run(command_tree(), words)
    os._exit(status)


def call(step: int, place: Path, words: list[str]) -> int:
    """Status of a call in a process of its own; -9 if it was killed at `step` (0: never)."""
    process = os.fork()
    if process == 0:
        try:
            child(step, place, words)
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def contents(place: Path) -> dict[str, bytes]:
    """Path → content of every file; "/" of a directory."""
    return {
        str(path.relative_to(place)): path.read_bytes() if path.is_file() else b"/"
        for path in place.rglob("*")
    }


def shown(found: dict[str, bytes]) -> dict[str, bytes]:
    """What is not hidden."""
    return {name: data for name, data in found.items() if "/." not in f"/{name}"}


def main(base: Path, stride: int, words: list[str]) -> None:
    scratch = base.parent / "scratch"
    before = contents(base)

    def fresh() -> Path:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(base, scratch)
        return scratch

    # Once in this process: forked ones find everything loaded.
    os.chdir(fresh())
    with open(os.devnull, "w") as nothing:
        kept_output = os.dup(1)
        os.dup2(nothing.fileno(), 1)
        run(command_tree(), words)
        sys.stdout.flush()
        os.dup2(kept_output, 1)
    os.chdir("/")
    place = fresh()
    status = call(0, place, words)
    whole = contents(place)
    for step in itertools.count(1, stride):
        place = fresh()
        ended = call(step, place, words)
        if ended != -signal.SIGKILL:
            break
        seen, kept, done = map(shown, (contents(place), before, whole))
        again = call(0, place, words)
        after = contents(place)
        row = {
            "step": step,
            # Nothing there but what was there before, or what an unbroken call leaves.
            "state": "old" if seen == kept else "new" if seen == done else "between",
            "between": sorted(n for n in seen if seen[n] not in (kept.get(n), done.get(n))),
            "again": again,
            "same": after == whole,
            "left": sorted(after.keys() - whole.keys()),
        }
        print(json.dumps(row), flush=True)
    print(json.dumps({"step": step, "status": status}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
