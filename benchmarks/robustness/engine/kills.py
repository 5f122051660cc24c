"""kill -9 at some moment of a command: is anything half-written, lost, left behind?

What is promised: an output is absent or whole; the same call (for a run in pretraining:
with --resume) then succeeds and leaves the very bytes of an unbroken call, no temporary
files and no processes.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.robustness.engine.launcher import Call, call
from benchmarks.robustness.engine.workspaces import fresh
from helpers.jobs import Job
from helpers.processes import alive_in_session

MARKS = (".partial-", ".resume")
# Notes of executors of when and how long; they are no part of the output.
PASSING = (".corpus-build", ".corpus-count", ".text")
PATIENCE = 120.0


@dataclass
class Reference:
    """Of unbroken calls: files of the outputs with their hashes, all paths, how long it took.

    Files in which two unbroken calls differ (metrics hold times) have no hash: None.
    """

    files: dict[str, str | None]
    paths: set[str]
    seconds: float


@dataclass
class Verdict:
    """Of one kill: when it came, what was there then, and all that is wrong."""

    job: str
    after: float
    ended: str
    found: str
    wrong: list[str] = field(default_factory=list)


def files_of(job: Job, place: Path) -> dict[str, str]:
    """Path → SHA-256 of every file of the outputs."""
    found = {}
    for name in job.outputs:
        top = place / name
        inner = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in inner:
            parts = path.relative_to(place).parts
            if path.is_file() and not any(part in PASSING for part in parts):
                key = str(path.relative_to(place))
                found[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def paths_of(place: Path) -> set[str]:
    """All that is in a workspace but for notes of executors."""
    found = set()
    for top, directories, files in os.walk(place):  # which bears with what goes meanwhile
        directories[:] = [name for name in directories if name not in (*PASSING, ".tmp")]
        found.update(str(Path(top, name).relative_to(place)) for name in directories + files)
    return found


def reference(job: Job, base: Path, scratch: Path) -> Reference:
    """Two unbroken calls.

    Raises:
        RuntimeError: one fails.
    """
    found: list[dict[str, str]] = []
    seconds = 0.0
    for _ in range(2):
        place = fresh(base, scratch / "workspace")
        began = time.monotonic()
        done = call(job.words, place)
        seconds = time.monotonic() - began
        if done.returncode:
            raise RuntimeError(f"{job.words}: {done.stderr.decode(errors='replace')[-500:]}")
        found.append(files_of(job, place))
    first, second = found
    files = {name: (mark if second.get(name) == mark else None) for name, mark in first.items()}
    return Reference(files, paths_of(place), seconds)


def kill(job: Job, base: Path, known: Reference, scratch: Path, rng: random.Random) -> Verdict:
    """One kill -9 and all that is to hold after it.

    Half of the moments are random over the time that the call takes, half come a little
    after something is being written.
    """
    place = fresh(base, scratch / "workspace")
    before = paths_of(place)
    at_writing = rng.random() < 0.5 and bool(job.outputs)
    wait = rng.uniform(0.0, 1.0) * known.seconds
    extra = rng.choice((0.0, 0.001, 0.01, 0.1))
    began = time.monotonic()
    process = Call(job.words, place)
    status = None
    while status is None and time.monotonic() - began < PATIENCE:
        if at_writing and _is_writing(place, before):
            time.sleep(extra)
            break
        if not at_writing and time.monotonic() - began >= wait:
            break
        status = process.status(0.0005 if at_writing else 0.005)
    if status is None:
        process.kill()
        status = process.status(PATIENCE)
    verdict = Verdict(
        " ".join(job.words),
        round(time.monotonic() - began, 3),
        "killed" if status == -signal.SIGKILL else f"had ended ({status})",
        "",
    )
    left = _processes_end(process.pid)
    if left:
        verdict.wrong.append(f"processes live on: {left}")
    _check_after_kill(job, place, known, verdict)
    _check_again(job, place, known, verdict)
    return verdict


def _is_writing(place: Path, before: set[str]) -> bool:
    return any(any(mark in path for mark in MARKS) for path in paths_of(place) - before)


def _processes_end(session: int) -> list[int]:
    """Wait for all processes of a session to end; those that do not."""
    deadline = time.monotonic() + 60
    while alive := alive_in_session(session):
        if time.monotonic() > deadline:
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
            return alive
        time.sleep(0.02)
    return []


def _check_after_kill(job: Job, place: Path, known: Reference, verdict: Verdict) -> None:
    """Nothing half-written: every file there is, is one of the whole output."""
    there = files_of(job, place)
    visible = {
        name: mark
        for name, mark in there.items()
        if not any(part.startswith(".") for part in Path(name).parts)
    }
    verdict.found = "nothing" if not visible else f"{len(visible)} of {len(known.files)} files"
    for name, mark in visible.items():
        if name not in known.files:
            if not job.grows:
                verdict.wrong.append(f"after the kill: {name} is no file of the output")
        elif known.files[name] not in (None, mark):
            verdict.wrong.append(f"after the kill: {name} is not whole")
    if job.grows:
        return
    for top in job.outputs:
        inner = {name for name in known.files if Path(name).is_relative_to(top)}
        if (place / top).exists() and not inner <= visible.keys():
            verdict.wrong.append(f"after the kill: {top} is there without all of its files")


def _check_again(job: Job, place: Path, known: Reference, verdict: Verdict) -> None:
    """The call succeeds and gives what an unbroken one does."""
    words = job.words
    if job.again is not None and (place / job.outputs[0] / "config.json").is_file():
        words = [*job.command.split(), *job.again.split()]
    whole = files_of(job, place).keys() >= known.files.keys()
    done = call(words, place)
    said = done.stderr.decode(errors="replace").strip()
    # A command that keeps no settings beside its output does not replace it unasked.
    if done.returncode and not (whole and done.returncode == 2 and "--force" in said):
        tail = said.splitlines()[-1:]
        verdict.wrong.append(f"again: status {done.returncode} {tail}")
        return
    there = files_of(job, place)
    for name in sorted(there.keys() | known.files.keys()):
        if name not in there or name not in known.files:
            verdict.wrong.append(f"again: {name} is {'missing' if name not in there else 'extra'}")
        elif known.files[name] not in (None, there[name]):
            verdict.wrong.append(f"again: {name} differs from that of an unbroken call")
    stray = paths_of(place) - known.paths
    if stray:
        verdict.wrong.append(f"again: left behind: {sorted(stray)[:3]}")
    found = (path.name for path in (place / ".tmp").iterdir())
    # A cache of torch; directories that wandb makes when lm-eval imports it.
    temporary = [name for name in found if "torchinductor_" not in name and "wandb-" not in name]
    if temporary:
        verdict.wrong.append(f"temporary files left: {temporary[:3]}")
