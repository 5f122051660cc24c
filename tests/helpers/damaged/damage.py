"""Damage a file many times and read it; one process per batch of mutations.

A child that hangs is ended by its alarm; the parent (`run`) goes on behind what killed one.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.damaged import formats
from helpers.damaged.formats import FORMATS, Format, place
from helpers.damaged.samples import know_toy
from helpers.sample import ROOT
from modtok_cli.base.errors import ModtokError
from modtok_cli.cli.output import one_line

SECONDS = 30
"""A mutation that takes longer hangs. Some hundred times of what the slowest takes."""
ROOM = 2 << 30
"""Address space beyond what a reader has after the sound file."""


@dataclass
class Outcome:
    """What became of the mutations of one format."""

    format: str
    tried: int = 0
    refused: int = 0
    loaded: int = 0
    defects: list[dict[str, object]] = field(default_factory=list)
    slowest: float = 0.0
    kinds: dict[str, int] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        """A row of a child."""
        self.tried += 1
        self.slowest = max(self.slowest, row["seconds"])
        if row["end"] == "loaded":
            self.loaded += 1
        elif row["end"] == "refused":
            self.refused += 1
            self.kinds[row["what"]] = self.kinds.get(row["what"], 0) + 1
        else:
            self.defects.append(row)


def run(form: Format, samples: Path, count: int, seed: int = 0) -> Outcome:
    """`count` mutations of one format, in children."""
    outcome = Outcome(form.name)
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    while outcome.tried < count:
        numbers = map(str, (FORMATS.index(form), samples, outcome.tried, count, seed))
        words = [sys.executable, "-m", "helpers.damaged.damage", *numbers]
        done = subprocess.run(words, capture_output=True, env=env)
        tail = done.stderr[-2000:].decode(errors="replace")
        rows = list(map(json.loads, done.stdout.splitlines()))
        if not rows:
            raise RuntimeError(f"{form.name}: the sound file is not read: {tail}")
        for row in rows[1:]:
            outcome.add(row)
        if outcome.tried < count:  # it died of the next one
            hangs = done.returncode == -signal.SIGALRM
            why = "hangs" if hangs else f"dies (status {done.returncode})"
            outcome.defects.append({"mutation": outcome.tried, "what": why, "detail": tail})
            outcome.tried += 1
    return outcome


def damaged(form: Format, data: bytes, seed: int, index: int) -> bytes:
    """The mutation of that number; the same on every machine."""
    return form.damage(data, random.Random(f"{seed}/{form.name}/{index}"))


def main(number: int, samples: Path, first: int, count: int, seed: int) -> None:
    """Child: a JSON line for each mutation on standard output."""
    form = FORMATS[number]
    formats.SAMPLES = samples
    if form.needs == "run":
        know_toy()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries that print
    data = (samples / form.file).read_bytes()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        path = place(form, samples, Path(scratch))
        path.write_bytes(data)
        form.read(path)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
        out.write(json.dumps({"end": "begun"}) + "\n")
        for index in range(first, count):
            if form.repair:  # it changed the files around
                place(form, samples, Path(scratch))
            path.write_bytes(damaged(form, data, seed, index))
            if form.repair:
                form.repair(path)
            began = time.monotonic()
            signal.alarm(SECONDS)
            row = attempt(form, path, index)
            row["seconds"] = round(time.monotonic() - began, 3)
            out.write(json.dumps(row) + "\n")


def attempt(form: Format, path: Path, index: int) -> dict[str, object]:
    """What becomes of one damaged file: "loaded", "refused" with one line, or a "defect"."""
    try:
        form.read(path)
    except ModtokError as error:
        text = one_line(str(error))
        if not error.what or len(text) > 2000:
            what = f"message of {len(text)}"
            return {"mutation": index, "end": "defect", "what": what, "detail": text[:300]}
        return {"mutation": index, "end": "refused", "what": type(error).__name__}
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        detail = "".join(traceback.format_exception(error)[-4:])
        what = f"{type(error).__name__}: {str(error)[:200]}"
        return {"mutation": index, "end": "defect", "what": what, "detail": detail[-1500:]}
    return {"mutation": index, "end": "loaded"}


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:6]))
