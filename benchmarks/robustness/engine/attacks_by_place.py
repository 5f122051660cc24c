"""Commands as another user, in another locale, with little memory or disk, in an odd directory."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from pwd import getpwnam
from typing import Any

from benchmarks.common import ROOT
from benchmarks.robustness.engine.arena import Arena, attack
from benchmarks.robustness.engine.workspaces import small

NOBODY = "nobody"
KNOWN: dict[str, str] = {}
RUN = "runs/tiny -t bpe --langs en"
# What is called, and what it writes; "" where that is standard output.
COMMANDS = (
    ("check bpe parallel/fi.txt --lang fi --json", ""),
    ("nsl -t bpe parallel/fi.txt --json", ""),
    ("encode -t bpe --langs fi parallel/fi.txt", ""),
    ("inspect -t bpe --check --json", ""),
    ("bpe-seq --langs en,fi -k 300 -o made", "made"),
    ("bpe-merge --langs en,fi -k 300 -o made", "made"),
    ("unigram-merge --langs en,fi -k 400 -o made", "made"),
    ("extract -t bpe --langs fi -o fi.json", "fi.json"),
    ("explore -t bpe -o made.html", "made.html"),
    ("corpus count --langs en,fi -o made", "made"),
    ("corpus build crawl.warc -o made --workers 1", "made"),
    (f"generate {RUN} --max-tokens 2 The", ""),
    (f"slice {RUN} -o made", "made"),
    (
        "pretrain --langs en,fi --model tiny --sampling sub:1 --batch-size 2 --micro-batch 1 "
        "--seq-length 32 --workers 1 -t bpe --steps 2 --name made",
        "runs/made/tokenizer",
    ),
)
_CLOCKED = (".corpus-build", ".corpus-count")


def known(arena: Arena) -> dict[str, str]:
    """What every command gives where nothing is unusual."""
    if not KNOWN:
        KNOWN.update((line, ended(arena, line, output)) for line, output in COMMANDS)
        failed = [found for found in KNOWN.values() if len(found) != 64]
        arena.check(not failed, f"nothing is unusual: {failed}")
    return KNOWN


def ended(arena: Arena, line: str, output: str, **options: Any) -> str:
    """A digest of what a command gave; its status and error where it failed."""
    done = arena.line(line, seconds=300, **options)
    target = arena.place / (output.split("/tokenizer")[0] if output else "nothing")
    found = digest(arena.place / output) if output else hashlib.sha256(done.out).hexdigest()
    left = output and target.exists()
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    if done.status:
        return f"{done.status}{', and left its output' if left else ''}: {done.error}"
    return found


def digest(path: Path) -> str:
    """Of all bytes of a file or directory, but for notes of when something was done."""
    total = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and not set(_CLOCKED) & set(file.parts):
            total.update(str(file.relative_to(path)).encode() + file.read_bytes())
    return total.hexdigest()


def same(arena: Arena, **options: Any) -> None:
    """Every command gives what it gives where nothing is unusual."""
    expected = known(arena)
    for line, output in COMMANDS:
        found = ended(arena, line, output, **options)
        arena.check(found == expected[line], f"{line}: {found[:300]}")


@attack("places")
def another_user(arena: Arena) -> None:
    """As nobody, with a HOME that cannot be written to"""
    home = arena.place.parent / "home"
    home.mkdir(exist_ok=True)
    owned(arena.place)
    same(arena, user=NOBODY, env={"HOME": str(home)})


@attack("places")
def without_home(arena: Arena) -> None:
    """As nobody without HOME"""
    owned(arena.place)
    same(arena, user=NOBODY, without=("HOME", "XDG_CACHE_HOME", "USER", "LOGNAME"))


def owned(place: Path) -> None:
    """Give a workspace to nobody."""
    (place / ".tmp").mkdir(exist_ok=True)
    user = getpwnam(NOBODY)
    for path in (place, *place.rglob("*")):
        os.lchown(path, user.pw_uid, user.pw_gid)
    place.parent.chmod(0o755)
    place.parents[1].chmod(0o755)


@attack("places")
def turkish(arena: Arena) -> None:
    """LC_ALL and LANG tr_TR, where i is not the small letter of I"""
    same(arena, env={"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "LANGUAGE": "tr"})


@attack("places")
def little_memory(arena: Arena) -> None:
    """ulimit -v 1500000: the right result, or one line and no output"""
    expected = known(arena)
    for line, output in COMMANDS:
        found = ended(arena, line, output, addresses=1_500_000 << 10)
        good = found == expected[line] or found.startswith(("1: ", "2: "))
        arena.check(good, f"{line}: {found[:300]}")


@attack("places")
def full_disk(arena: Arena) -> None:
    """The workspace on a disk with 8 KiB to spare: the right result, or one line and no output"""
    expected = known(arena)
    there, disk = arena.place, arena.place.parent / "disk"
    for line, output in COMMANDS:
        with small(disk, 8192, there):
            arena.place = disk
            found = ended(arena, line, output)
        good = found == expected[line] or found.startswith("1: ")
        # What grows by its design keeps what it has.
        grows = line.startswith(("pretrain", "corpus")) and found[:2] == "1,"
        arena.check(good or grows, f"{line}: {found[:300]}")
    arena.place = there


@attack("places")
def odd_directory(arena: Arena) -> None:
    """A working path with spaces and a line end"""
    same_place = arena.place
    known(arena)
    arena.place = arena.place.parent / "two  words\nand a line"
    shutil.copytree(same_place, arena.place, symlinks=True)
    same(arena)
    shutil.rmtree(arena.place)
    arena.place = same_place


@attack("concurrency")
def pairs_of_appends(arena: Arena) -> None:
    """Ten pairs of --append to one tokenizer at once: both are in it, or one is refused"""
    rng = random.Random(34)
    for code in ("fr", "sw"):
        shutil.copy(arena.place / "data" / "en.jsonl", arena.place / "data" / f"{code}.jsonl")
    for learner in ("bpe-seq", "bpe-merge") * 5:
        arena.line(f"{learner} --langs en,fi -k 400 -o both --force")
        command = [sys.executable, "-m", "modtok_cli", learner, "-o", "both", "--append"]
        both = {}
        for code in ("fr", "sw"):
            both[code] = subprocess.Popen(
                [*command, code], cwd=arena.place, env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            time.sleep(rng.choice((0, 0, 0.05, 0.5)))
        said = {code: process.communicate()[1] for code, process in both.items()}
        done = arena.line("inspect -t both --check --json")
        arena.check(done.status == 0, f"{learner}: the directory is damaged: {done.error}")
        manifest = json.loads((arena.place / "both" / "manifest.json").read_bytes())
        inside = {entry["language"] for entry in manifest["languages"]}
        for code, process in both.items():
            there = code in inside
            arena.check(there == (process.returncode == 0), f"{learner}: {code} is lost")
            errors = said[code].count(b"modtok: error:")
            arena.check(errors == (process.returncode != 0), f"{learner}: {said[code][-200:]!r}")
        arena.ended.append(f"{learner}: {[each.returncode for each in both.values()]}")
        left = [path.name for path in arena.place.iterdir() if ".partial-" in path.name]
        arena.check(not left, f"{learner}: left {left}")
