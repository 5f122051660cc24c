"""Kill tasks, node daemons, callers and jobs of builds and counts on Slurm or Ray.

    python -m benchmarks cluster_kills --work DIR --option partition=all --option time=1:00:00
        [--executor slurm|ray] [--runs 5] [--each 1] [--only build|count]
        [--files 240] [--kilobytes 5] [--text CORPUS]

The call is repeated at random intervals while the jobs run, sometimes by two processes at once,
until it returns the result. In between, `--each` victims of each kind are killed at random moments.
The text is of `--files` files of some `--kilobytes`, from the sample or from CORPUS, which has
<lang>.jsonl.zst. Files must equal those of the local executor, every call must end with 0 or 75
(Slurm) or one line (Ray), and no stage may have two living arrays at any time. Prints a JSON object
per run.

Slurm needs a running controller, and `slurmd` on this machine with the right to restart it.
`AuthInfo=cred_expire=10` and `BatchStartTimeout=1` in slurm.conf make it repeat lost jobs soon, by
default after two minutes. A daemon restarts after 12 seconds: jobs that it lost in their first ten
seconds are noticed by the controller when it registers later than that.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from benchmarks.common import ROOT, emit, parser_of, texts
from helpers.contents import contents
from helpers.crawl import DATA, LANGUAGES

PROGRAM = """
import sys
from modtok_cli import ModtokError, corpus_build, corpus_count
command, output, executor, shard_bytes, *options = sys.argv[1:]
chosen = {"output": output, "executor": executor}
chosen["executor_options"] = dict(each.split("=") for each in options)
try:
    if command == "build":
        corpus_build(["crawl"], shard_bytes=int(shard_bytes), **chosen)
    else:
        corpus_count(data="text", tasks=6, **chosen)
except ModtokError as error:
    print(error)
    sys.exit(error.exit_code)
"""
VICTIMS = {"slurm": ("task", "slurmd", "caller", "job"), "ray": ("task", "raylet", "caller")}


def write_text(given: argparse.Namespace) -> None:
    """Files of six languages, as pages for a build and, linked, as text for a count."""
    lines = []
    for name in LANGUAGES:
        if given.text:
            found = texts(given.text / f"{name}.jsonl.zst")
            lines.append([json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in found])
        else:
            sample = (DATA / f"{name}.jsonl").read_text("utf-8")
            lines.append(sample.splitlines(keepends=True))
    for number in range(given.files):
        rng, mine, chosen, size = random.Random(number), lines[number % len(lines)], [], 0
        while size < 1000 * given.kilobytes:
            chosen.append(rng.choice(mine))
            size += len(chosen[-1].encode())
        crawl = given.work / f"crawl/{number:05d}.jsonl"
        text = given.work / f"text/{LANGUAGES[number % len(lines)]}/{number:05d}.jsonl"
        for path in (crawl, text):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
        crawl.write_text("".join(chosen), encoding="utf-8")
        text.hardlink_to(crawl)


def processes(word: str) -> list[int]:
    """Processes with a word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it ended
            continue
    return [pid for pid in found if pid != os.getpid()]


def squeue(form: str) -> list[str]:
    """Living jobs of builds and counts in a format."""
    command = ["squeue", "--noheader", "--array", f"--format=%j|{form}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line.split("|") for line in done.stdout.splitlines()]
    return ["|".join(line) for line in lines if line[0].startswith("modtok-")]


class Trial:
    """A build or count that is killed."""

    def __init__(self, command: str, given: argparse.Namespace, rng: random.Random) -> None:
        self._command, self._given, self._rng = command, given, rng
        self._place = given.work / f"{command}-{given.executor}"
        self.calls: Counter[int] = Counter()
        self.kills: Counter[str] = Counter()
        self.arrays: set[str] = set()
        self.twice: set[str] = set()
        self.said: list[str] = []
        self._over = threading.Event()

    def start(self) -> subprocess.Popen[str]:
        """One more caller."""
        command = [sys.executable, "-c", PROGRAM, self._command, self._place.name]
        shard = max(60_000, int(20 * self._given.files * self._given.kilobytes))
        command += [self._given.executor, str(shard), *self._given.option]
        return subprocess.Popen(
            command, cwd=self._given.work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip

    def _end(self, caller: subprocess.Popen[str]) -> int:
        said, _ = caller.communicate()
        self.calls[caller.returncode] += 1
        if caller.returncode not in (0, 75, -signal.SIGKILL):  # of Ray, 1 and one line
            self.said.append(said[-300:])
        return caller.returncode

    def run(self) -> dict[str, object]:
        """Until a call returns the result; how it went."""
        shutil.rmtree(self._place, ignore_errors=True)
        began = time.monotonic()
        watching = threading.Thread(target=self._watch)
        watching.start()
        kills = [*VICTIMS[self._given.executor]] * self._given.each
        self._rng.shuffle(kills)
        try:
            while True:
                callers = [self.start() for _ in range(self._rng.choice((1, 1, 1, 2)))]
                if kills and (self._given.executor == "ray" or self._rng.random() < 0.7):
                    self._kill(kills.pop(), callers)
                if 0 in [self._end(caller) for caller in callers]:
                    break
                time.sleep(self._rng.uniform(0, 2))
        finally:
            self._over.set()
            watching.join()
        return {
            "command": self._command, "executor": self._given.executor,
            "seconds": time.monotonic() - began, "kills": self.kills, "calls": self.calls,
            "arrays": len(self.arrays), "twice": sorted(self.twice), "said": self.said,
        }  # fmt: skip

    def _kill(self, kind: str, callers: list[subprocess.Popen[str]]) -> None:
        if kind == "caller":
            time.sleep(self._rng.uniform(0, 1.5 if self._given.executor == "slurm" else 30))
            if callers[0].poll() is None:
                os.kill(callers[0].pid, signal.SIGKILL)
                self.kills[kind] += 1
        elif kind in ("task", "raylet"):
            until = time.monotonic() + 60
            word = "launch_pickled_pipeline" if self._given.executor == "slurm" else "ray::run_rank"
            if kind == "raylet":
                word = "raylet/raylet"
            while not (found := processes(word)) and time.monotonic() < until:
                time.sleep(0.1)
            time.sleep(self._rng.uniform(0, 1.5))
            if found := processes(word):
                os.kill(self._rng.choice(found), signal.SIGKILL)
                self.kills[kind] += 1
        elif kind == "slurmd":
            for pid in processes("slurmd"):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "slurmd":
                    os.kill(pid, signal.SIGKILL)
                    self.kills[kind] += 1
            time.sleep(self._rng.uniform(12, 15))
            subprocess.run(["slurmd"], check=True)
        elif jobs := squeue("%i"):
            subprocess.run(["scancel", self._rng.choice(jobs).split("|")[1]], check=True)
            self.kills[kind] += 1

    def _watch(self) -> None:
        while self._given.executor == "slurm" and not self._over.wait(0.3):
            living: dict[str, set[str]] = {}
            for line in squeue("%F"):
                name, number = line.split("|")
                living.setdefault(name, set()).add(number)
                self.arrays.add(number)
            self.twice |= {name for name, numbers in living.items() if len(numbers) > 1}

    def files(self) -> dict[str, bytes]:
        """The files of the output, without logs."""
        found = contents(self._place)
        return {name: data for name, data in found.items() if not name.startswith(".")}


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--executor", choices=VICTIMS, default="slurm")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--each", type=int, default=1, help="kills of each kind in a run")
    parser.add_argument("--files", type=int, default=240)
    parser.add_argument("--kilobytes", type=float, default=5, help="of each file")
    parser.add_argument("--text", type=Path, metavar="CORPUS")
    parser.add_argument("--only", choices=("build", "count"))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.work = given.work.absolute()
    given.work.mkdir(parents=True, exist_ok=True)
    write_text(given)
    wrong = 0
    for command in [given.only] if given.only else ("count", "build"):
        local = argparse.Namespace(**{**vars(given), "executor": "local", "option": []})
        reference = Trial(command, local, random.Random())
        if reference.start().wait():
            return 1
        for number in range(given.runs):
            trial = Trial(command, given, random.Random(f"{given.seed}/{command}/{number}"))
            row = trial.run()
            expected = reference.files()
            row |= {"files": len(expected), "equal": trial.files() == expected}
            bad = [said for said in trial.said if given.executor == "slurm" or "\n" in said.strip()]
            wrong += bool(not row["equal"] or row["twice"] or bad)
            emit(row)
    return 1 if wrong else 0
