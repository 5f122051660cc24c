"""A small Slurm: sbatch, squeue, scancel, srun and scontrol, by local processes and a directory.

`install(place)` writes the commands. Every job is a directory in `place/jobs` with a file for the
state of each task: PD, R, done, failed or cancelled. An array runs once the jobs it depends on are
done; with `place/held` it stays as it is, and a test sets the states; with `place/paused` its tasks
are running, and do nothing until the file is removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LIVING = ("PD", "R")
KILL = "#SBATCH --kill-on-invalid-dep=yes"


def install(place: Path) -> Path:
    """Commands in `place/bin`, which is returned."""
    commands = place / "bin"
    commands.mkdir(parents=True)
    (place / "jobs").mkdir()
    for name in ("sbatch", "squeue", "scancel"):
        line = f'exec "{sys.executable}" -S -E "{__file__}" "{place}" {name} "$@"'
        _write(commands / name, line)
    options = 'while [ "${1#-}" != "$1" ]; do [ "$1" = -n ] && shift; shift; done'
    _write(commands / "srun", f'{options}\nexec "$@"')
    _write(commands / "scontrol", "echo here")
    return commands


def _write(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def jobs_of(place: Path) -> list[Path]:
    """Jobs in the order of their submission."""
    return sorted((place / "jobs").iterdir(), key=lambda path: int(path.name))


def states(job: Path) -> list[str]:
    """States of the tasks of a job."""
    tasks = sorted(job.glob("task-*"), key=lambda path: int(path.name[5:]))
    return [path.read_text() for path in tasks]


def set_states(job: Path, *words: str) -> None:
    """Replace the states of the first tasks of a job."""
    with _locked(job):
        for number, state in enumerate(words):
            _write_state(job, number, state)


@contextmanager
def _locked(job: Path) -> Iterator[None]:
    """One process at a time changes states: the job, a cancellation or a test."""
    with (job / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write_state(job: Path, number: int, state: str) -> None:
    beside = job / f"next-{number}"  # a reader sees the old or the new one
    beside.write_text(state)
    beside.rename(job / f"task-{number}")


def _turn(job: Path, number: int, before: str, after: str) -> bool:
    """Replace the state of a task if it is `before`; whether it was."""
    with _locked(job):
        if states(job)[number] != before:
            return False
        _write_state(job, number, after)
    return True


def sbatch(place: Path, words: list[str]) -> None:
    script = Path(words[-1]).read_text()
    number = 1
    while True:
        job = place / "jobs" / str(number)
        try:
            job.mkdir()
            break
        except FileExistsError:
            number += 1
    found = re.search(r"--job-name=(\S+)", script), re.search(r"--array=0-(\d+)", script)
    assert found[0] is not None
    assert found[1] is not None
    (job / "script").write_text(script)
    dependency = next((word.partition("=")[2] for word in words if "dependency" in word), "")
    (job / "after").write_text(" ".join(dependency.split(":")[1:]))
    set_states(job, *["PD"] * (int(found[1][1]) + 1))
    (job / "name").write_text(found[0][1])
    if not (place / "held").exists():
        command = [sys.executable, "-S", "-E", __file__, str(place), "run", str(number)]
        quiet = subprocess.DEVNULL
        subprocess.Popen(command, start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet)
    print(f"Submitted batch job {number}")


def squeue(place: Path, words: list[str]) -> None:
    names = next(word.partition("=")[2] for word in words if word.startswith("--name=")).split(",")
    for job in jobs_of(place):
        name = (job / "name").read_text() if (job / "name").exists() else ""
        if name and has_failed(place, job) and KILL in (job / "script").read_text():
            scancel(place, [job.name])
        for number, state in enumerate(states(job)):
            if name in names and state in LIVING:
                print(f"{name}|{job.name}|{state}|{number}")


def has_failed(place: Path, job: Path) -> bool:
    """Whether a job depends on one that failed, and of which no task lives."""
    before = [place / "jobs" / number for number in (job / "after").read_text().split()]
    found = {state for each in before for state in states(each)}
    return bool(found & {"failed", "cancelled"}) and not found & {*LIVING}


def scancel(place: Path, words: list[str]) -> None:
    for number in words:
        job = place / "jobs" / number
        with _locked(job):
            for task, state in enumerate(states(job)):
                if state in LIVING:
                    _write_state(job, task, "cancelled")
        for path in job.glob("pid-*"):
            with suppress(ProcessLookupError, ValueError):
                os.killpg(int(path.read_text()), signal.SIGKILL)


def run(place: Path, words: list[str]) -> None:
    """Run the tasks of a job, two at a time, once its dependencies are done."""
    job = place / "jobs" / words[0]
    before = [place / "jobs" / number for number in (job / "after").read_text().split()]
    while any(state != "done" for each in before for state in states(each)):
        time.sleep(0.05)
        if "PD" not in states(job):
            return
    running: dict[int, subprocess.Popen[bytes]] = {}
    number, output = 0, re.search(r"--output=(.*)", (job / "script").read_text())
    while number < len(states(job)) or running:
        if number < len(states(job)) and len(running) < 2:
            if states(job)[number] == "PD":
                env = {**os.environ, "SLURM_ARRAY_TASK_ID": str(number), "SLURM_NODELIST": "here"}
                wait = 'while [ -e "$0" ]; do sleep 0.02; done; exec bash "$1"'
                command = ["bash", "-c", wait, str(place / "paused"), str(job / "script")]
                assert output is not None
                log = Path(output[1].replace("%A", words[0]).replace("%a", str(number)))
                with log.open("w") as file:
                    running[number] = subprocess.Popen(
                        command, env=env, start_new_session=True, stdout=file, stderr=file
                    )
                (job / f"pid-{number}").write_text(str(running[number].pid))
                if not _turn(job, number, "PD", "R"):  # cancelled before its number was known
                    os.killpg(running[number].pid, signal.SIGKILL)
            number += 1
            continue
        for each, process in list(running.items()):
            if process.poll() is not None:
                _turn(job, each, "R", "failed" if process.returncode else "done")
                del running[each]
        time.sleep(0.02)


def stop(place: Path) -> None:
    """Cancel all jobs."""
    scancel(place, [job.name for job in jobs_of(place)])


if __name__ == "__main__":
    globals()[sys.argv[2]](Path(sys.argv[1]), sys.argv[3:])
