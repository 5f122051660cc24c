"""Attacks by sizes, names, descriptors, a read-only installation, and two commands at once."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.common import ROOT
from benchmarks.robustness.engine.arena import GIB, Arena, attack
from benchmarks.robustness.engine.attacks_by_input import PRETRAIN

GENERATE = "generate runs/tiny --tokenizer bpe --langs en --max-tokens 2"

# Sizes


@attack("sizes")
def endless_and_sparse_files(arena: Arena) -> None:
    """/dev/zero, and sparse files of 12 GiB, as tokenizers and manifests"""
    for name in ("huge.json", "huge.model", "huge.tiktoken"):
        sparse(arena.place / name)
    for name in ("/dev/zero", "huge.json", "huge.model", "huge.tiktoken"):
        done = arena.modtok("encode", "-t", name, stdin=b"a text\n", memory=2 * GIB, seconds=60)
        arena.check(done.status in (1, 2), f"-t {name}: status {done.status}")
    for part in ("manifest.json", "tokenizer.json", "arrays.safetensors"):
        shutil.rmtree(arena.place / "copy", ignore_errors=True)
        shutil.copytree(arena.place / "bpe", arena.place / "copy")
        sparse(arena.place / "copy" / part)
        done = arena.modtok("inspect", "-t", "copy", memory=2 * GIB, seconds=60)
        arena.check(done.status in (1, 2), f"{part}: status {done.status}")
    sparse(arena.place / "modtok.toml")
    arena.modtok("inspect", "-t", "bpe", memory=2 * GIB, seconds=60)
    (arena.place / "modtok.toml").unlink()
    for part in ("config.json", "checkpoints/step-00000002/state.json"):
        path = arena.place / "runs" / "tiny" / part
        if path.exists():
            sparse(path)
            done = arena.line(f"{GENERATE} x", memory=3 * GIB, seconds=120)
            arena.check(done.status in (1, 2), f"{part}: status {done.status}")


def sparse(path: Path) -> None:
    with open(path, "wb") as handle:
        handle.truncate(12 * GIB)


@attack("sizes")
def huge_numbers(arena: Arena) -> None:
    """Batch sizes and contexts of 10^9, integers of 20 digits, with and without --dry-run"""
    for option in ("--batch-size", "--seq-length", "--micro-batch"):
        for number in ("1000000000", "99999999999999999999"):
            for dry in ([], ["--dry-run"]):
                words = [*PRETRAIN, option, number, *dry, "--name", "huge", "--force"]
                arena.modtok(*words, memory=6 * GIB, seconds=240)
    big = "99999999999999999999"
    for words in (
        f"bpe --langs en -k {big} -o t",
        f"bpe-seq --langs en -k {big} -o t",
        f"bpe --langs en -k 300 --threads {big} -o t",
        f"extract unigram.json --top {big} --text parallel/en.txt -o t.json",
        f"{GENERATE} --seed {big} x",
        f"generate runs/tiny --tokenizer bpe --langs en --max-tokens {big} x",
        f"{GENERATE} --batch-size {big} x",
        f"corpus stats parallel/en.txt --samples {big}",
        f"eval mcq runs/tiny --tokenizer bpe --langs en --shots {big} --limit 2",
    ):
        arena.line(words, memory=6 * GIB, seconds=240)


# Names, descriptors, places


@attack("names and descriptors")
def names_that_are_not_utf8(arena: Arena) -> None:
    """Texts, tokenizers, outputs, runs and directories of data with names that are not UTF-8"""
    place = os.fsencode(arena.place)
    os.mkdir(place + b"/d\xff")  # noqa: PTH102 (a name that is not UTF-8)
    shutil.copy(place + b"/parallel/en.txt", place + b"/d\xff/en.txt")
    shutil.copy(place + b"/parallel/en.txt", place + b"/\xff.txt")
    shutil.copytree(place + b"/bpe", place + b"/t\xff")
    for words in (
        [b"nsl", b"-t", b"bpe", b"\xff.txt", b"--lang", b"en"],
        [b"nsl", b"-t", b"t\xff", b"parallel/en.txt", b"--json"],
        [b"encode", b"-t", b"t\xff", b"parallel/en.txt"],
        [b"encode", b"-t", b"bpe", b"\xff.txt"],
        [b"corpus", b"stats", b"\xff.txt", b"--lang", b"en"],
        [b"bpe-seq", b"--data", b"d\xff", b"-k", b"300", b"-o", b"o\xff"],
        [b"bpe", b"--langs", b"\xff", b"-o", b"x"],
        [b"extract", b"-t", b"t\xff", b"--langs", b"en", b"-o", b"e\xff.json"],
        [b"inspect", b"-t", b"bpe", b"--find", b"\xff"],
        [*map(str.encode, PRETRAIN), b"--name", b"r\xff"],
        [b"report", b"-o", b"p\xff.html"],
    ):
        for terminal in (False, True):
            arena.modtok(*words, terminal=terminal)


@attack("names and descriptors")
def closed_descriptors(arena: Arena) -> None:
    """Standard input, output or error closed when the command starts"""
    for words in (
        "encode -t bpe", "decode -t bpe", "nsl -t bpe parallel/en.txt",
        "bpe --langs en -k 300 -o t",
        "inspect -t bpe", "corpus stats parallel/en.txt", "extract -t bpe --langs en",
        GENERATE,
    ):  # fmt: skip
        for closed in ((0,), (1,), (2,), (0, 1), (0, 1, 2)):
            arena.modtok(*words.split(), "--force" if " -o t" in words else "-q", closed=closed)


@attack("names and descriptors")
def output_dash(arena: Arena) -> None:
    """-o - is standard output or refused, and never a file called -"""
    for words in (
        "extract -t bpe --langs en -o -", "bpe --langs en -k 300 -o -", "report -o -",
        "nsl -t bpe parallel/en.txt --plot -", "corpus count --langs en -o -",
        "unigram --langs en -k 300 -o -", "bpe-seq --langs en -k 300 -o -",
    ):  # fmt: skip
        arena.line(words)
        arena.check(not (arena.place / "-").exists(), f"{words}: a file called -")
        if (arena.place / "-").is_dir():
            shutil.rmtree(arena.place / "-")
        (arena.place / "-").unlink(missing_ok=True)


@attack("names and descriptors")
def languages_given_twice(arena: Arena) -> None:
    """--langs given twice, and two files of one language, are errors"""
    done = arena.modtok("bpe", "--langs", "fi", "--langs", "en", "-k", "300", "-o", "t")
    both = all((arena.place / "t" / f"{name}.json").exists() for name in ("en", "fi"))
    arena.check(done.status == 2 or both, "the last --langs was kept silently")
    # Two scripts of a language are kept apart.
    pairs = (("en.txt", "eng.txt"), ("zho_Hans.txt", "zho_Hant.txt"), ("pt.txt", "por.jsonl"))
    for one, other in pairs:
        data = arena.place / "twice"
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        (data / one).write_text("a text\n" * 30)
        (data / other).write_text('{"text": "another"}\n' * 30)
        done = arena.modtok("bpe", "--data", "twice", "-k", "300", "-o", "t2", "--force")
        right = (0,) if one.startswith("zho") else (1, 2)
        arena.check(done.status in right, f"{one} and {other}: status {done.status}")
    data = arena.place / "mix"
    data.mkdir()
    (data / "en.txt").write_text("a text\n")
    words = [*PRETRAIN, "--mix", "en=0.3,EN=0.4", "--dry-run"]
    arena.check(arena.modtok(*words).status == 2, "--mix en=…,EN=…: accepted")


@attack("names and descriptors")
def removed_special_tokens(arena: Arena) -> None:
    """--special adds to the special tokens that training needs"""
    arena.line("bpe-seq --langs en,fi -k 300 --special <|user|> -o special")
    words = [word if word != "bpe" else "special" for word in PRETRAIN]
    done = arena.modtok(*words, "--name", "special")
    arena.check(done.status == 0, f"pretrain: status {done.status} {done.error}")


# A read-only installation


@attack("installation")
def read_only_without_home(arena: Arena) -> None:
    """A read-only installation, and no home that can be written to"""
    package = arena.place.parent / "installed"
    package.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(package)], check=True)
    try:
        shutil.copytree(ROOT / "modtok_cli", package / "modtok_cli")
        subprocess.run(["mount", "-o", "remount,ro", str(package)], check=True)
        env = {"HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "USERPROFILE": "/proc/none"}
        done = arena.line("encode -t bpe", stdin=b"a text\n", env=env, package=package, seconds=400)
        arena.check(done.status == 0, f"encode: status {done.status} {done.error}")
        found = arena.modtok("doctor", env=env, package=package, seconds=400)
        arena.check(found.status in (0, 1), f"doctor: status {found.status}")
    finally:
        subprocess.run(["umount", "--lazy", str(package)], check=True)


# Work that two do at once


@attack("concurrency")
def append_to_a_tokenizer_in_use(arena: Arena) -> None:
    """A run stays usable after a language is appended to its tokenizer"""
    shutil.copy(arena.place / "data" / "en.jsonl", arena.place / "data" / "sw.jsonl")
    arena.line("bpe-seq --append sw -o bpe")
    done = arena.line(f"{GENERATE} The")
    arena.check(done.status == 0, f"generate: status {done.status} {done.error}")
