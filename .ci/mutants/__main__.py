"""Plant faults in the package, run the tests that cover them, print what survives.

    python .ci/mutants contexts              which test runs which line (ten minutes or more)
    python .ci/mutants plant PACKAGE... [--count N] [--seed S]
    python .ci/mutants again FILE...         the survivors of earlier runs, with the tests of now
    python .ci/mutants rows FILE...          a row for each package, and one for each survivor

PACKAGE is a folder of modtok_cli, or core.c. Faults are drawn by a seed, each kind of operator
alike. Everything is under build/mutants; the tree itself is never changed. `plant` and `again`
write a JSON line for each fault. Whoever reads a survivor and finds that no result, file or message
changes adds `"equivalent": "the reason"` to its line.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import NoReturn

import coverage
import pytest
from hypothesis import Phase, settings
from operators import Mutant, c_mutants, candidates, mutant, operators

from modtok_cli.core.backend import SOURCES, sources

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "mutants"
DATA, CONTEXTS, DURATIONS = WORK / "contexts", WORK / "contexts.db", WORK / "durations.jsonl"
COPIED = (
    "modtok_cli", "tests", "examples", "benchmarks", "docs", "man", "pyproject.toml", "README.md",
    "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "mkdocs.yml", ".ci", "conda", ".github",
)  # fmt: skip
SECONDS = 60.0
"""Most seconds of tests for a fault: the tests of its own package first, then the quickest."""
FIRST = 25
"""Tests that run first: few, so that other files of tests need not be imported."""
SLOW_IMPORTS = (
    "numpy", "hypothesis", "tokenizers", "sentencepiece", "torch", "transformers", "scipy.stats",
    "transformers.models.llama.modeling_llama", "megatron.core", "lm_eval",
    "datatrove.executor.local",
)  # fmt: skip
OF_THE_CORE = {
    "tests/learn": (
        "learn",
        "learner",
        "join",
        "pair_index",
        "heap",
        "sort",
        "em",
        "prune",
        "trie",
    ),
    "tests/tokenizer": ("encode", "merge", "search", "cache", "pairs", "chunks", "version"),
    "tests/training/test_rows_kernel.py": ("rows",),
    "tests/text": (),
}
"""Tests beside tests/core for the files of the core; the last entry is for all others."""


def contexts() -> None:
    """Run all tests once with coverage, and combine what their processes measured."""
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir(parents=True)
    DURATIONS.unlink(missing_ok=True)
    here = ROOT / ".ci" / "mutants"
    env = os.environ | {
        "MODTOK_CONTEXTS": str(DATA),
        "MODTOK_DURATIONS": str(DURATIONS),
        "COVERAGE_PROCESS_START": str(here / "contexts.toml"),
        "PYTHONPATH": str(here),
    }
    command = ["-m", "pytest", "-p", "coverage_contexts", "-p", "no:cacheprovider", "-n", "2"]
    subprocess.run([sys.executable, *command], cwd=ROOT, env=env, check=False)
    combine()


def combine() -> None:
    CONTEXTS.unlink(missing_ok=True)
    measured = coverage.Coverage(data_file=CONTEXTS, config_file=False)
    measured.combine([str(each) for each in DATA.glob("data.*")], keep=True)
    measured.save()


class Covering:
    """Which tests run a line, from the quickest to the slowest, and their seconds."""

    def __init__(self) -> None:
        self.data = coverage.CoverageData(CONTEXTS)
        self.data.read()
        self.seconds: dict[str, float] = defaultdict(float)
        with DURATIONS.open() as file:
            for line in file:
                test, seconds, _ = json.loads(line)
                self.seconds[test] += seconds
        self.lines: dict[str, dict[int, list[str]]] = {}
        self.passes: dict[str, bool] = {}
        """Of tests that failed with a fault: whether they pass without one."""

    def tests(self, fault: Mutant) -> tuple[list[str], float]:
        """Tests for a fault, and the seconds that they take."""
        path = str(ROOT / fault.path)
        if path not in self.lines:
            self.lines[path] = self.data.contexts_by_lineno(path)
        by_line = self.lines[path]
        span = range(fault.line, fault.line + fault.before.count("\n") + 1)
        found = {each for line in span for each in by_line.get(line, ())} - {""}
        if not any(first <= fault.line <= last for first, last in bodies(ROOT / fault.path)):
            # Run at import, in whichever test came first: any test of the file may find it.
            found = {each for every in by_line.values() for each in every} - {""}
        package = fault.path.split("/")[1]
        ordered = sorted(
            (test for test in found & set(self.seconds) if self.passes.get(test, True)),
            key=lambda test: (not test.startswith(f"tests/{package}/"), self.seconds[test]),
        )
        chosen, spent = [], 0.0
        for test in ordered:
            spent += self.seconds[test]
            if chosen and spent > SECONDS:
                break
            chosen.append(test)
        return chosen, min(spent, SECONDS + self.seconds[chosen[0]] if chosen else 0)


@cache
def bodies(path: Path) -> list[tuple[int, int]]:
    """First and last line of the body of each function of a file."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    functions = [each for each in nodes if isinstance(each, ast.FunctionDef)]
    return [(each.body[0].lineno, each.end_lineno or 0) for each in functions]


def drawn(packages: list[str], count: int, seed: int) -> Iterator[Mutant]:
    """Faults of packages, `count` of each."""
    known = operators()
    for package in packages:
        chance = random.Random(f"{seed} {package}")
        if package == "core.c":
            paths = sorted((ROOT / "modtok_cli/core/src").rglob("*.c"))
            every = [x for path in paths for x in c_mutants(ROOT, str(path.relative_to(ROOT)))]
            yield from chance.sample(every, min(count, len(every)))
            continue
        kinds: dict[str, list[tuple[str, str, int, int]]] = defaultdict(list)
        for path in sorted((ROOT / "modtok_cli" / package).rglob("*.py")):
            relative = str(path.relative_to(ROOT))
            for name, occurrence, line in candidates(path, known):
                kinds[name.split("_")[0]].append((relative, name, occurrence, line))
        seen: set[tuple[str, int]] = set()
        while count > len(seen) and any(kinds.values()):
            kind = chance.choice(sorted(name for name in kinds if kinds[name]))
            place = kinds[kind].pop(chance.randrange(len(kinds[kind])))
            fault = mutant(ROOT, *place)
            if fault is not None and (fault.path, fault.line) not in seen:
                seen.add((fault.path, fault.line))
                yield fault


def copy_of_tree(number: int) -> Path:
    """A tree of its own for a worker."""
    tree = WORK / f"tree{number}"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, tree / name)
    # Faults are run without writing bytecode: all of it is there before.
    env = os.environ | {"PYTHONPATH": str(tree)}
    subprocess.run([sys.executable, "-m", "compileall", "-q", "modtok_cli"], cwd=tree, check=False)
    collect = ["-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    subprocess.run([sys.executable, *collect], cwd=tree, env=env, capture_output=True, check=False)
    return tree


def outcome(tree: Path, fault: Mutant, covering: Covering) -> dict[str, object]:
    """Plant a fault in a tree, run its tests, take it out again."""
    path = tree / fault.path
    code = path.read_text(encoding="utf-8")
    planted = fault.planted(code)
    row: dict[str, object] = asdict(fault)
    if planted is None:
        return row | {"outcome": "gone"}
    of_core = fault.path.endswith(".c")
    tests, seconds = (of_the_core(fault), 60.0) if of_core else covering.tests(fault)
    row["tests"] = len(tests)
    if not tests:
        return row | {"outcome": "uncovered"}
    times = path.stat()
    path.write_text(planted, encoding="utf-8")
    try:
        if of_core and (failed := compiled(tree)) is not None:
            return row | {"outcome": failed}
        started = time.monotonic()
        result, last = run(tree, tests, 120 + 6 * seconds)
        row["seconds"] = round(time.monotonic() - started, 1)
    finally:
        path.write_text(code, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if of_core:
            compiled(tree)
    if result == "found" and last != "time limit":
        named = [test for test in tests if last.split(" ", 1)[-1].startswith(test)]
        test = max(named, key=len) if named else tests[0]  # not named: a file was not imported
        if test not in covering.passes:
            covering.passes[test] = run(tree, [test], 300)[0] == "survived"
        if not covering.passes[test]:
            print(f"fails without a fault: {test}", flush=True)
            return outcome(tree, fault, covering) if not of_core else row | {"outcome": "error"}
    return row | {"outcome": result, "by": last[:160]}


def of_the_core(fault: Mutant) -> list[str]:
    """Tests of a file of the core."""
    stem = Path(fault.path).stem
    return [
        "tests/core",
        next((name for name in OF_THE_CORE if stem in OF_THE_CORE[name]), "tests/text"),
    ]


def compiled(tree: Path) -> str | None:
    """Make the tree's core, for the oldest processor; the reason where that fails."""
    core = tree / "modtok_cli/core"
    for old in core.glob("libmodtok*.so"):
        old.unlink()
    flags = "-std=c11 -O1 -shared -fPIC -fvisibility=hidden -msse4.2 -mpopcnt -ffp-contract=off -w"
    of_tree = [each.replace(str(SOURCES), str(core / "src")) for each in sources()]
    command = ["cc", *flags.split(), *of_tree, "-lm", "-o", core / "libmodtok.so"]
    made = subprocess.run(command, capture_output=True, check=False)
    return None if made.returncode == 0 else "does not compile"


def run(tree: Path, tests: list[str], limit: float) -> tuple[str, str]:
    """Outcome of tests, and the line of the test that found the fault; the quickest come first."""
    for some in (tests[:FIRST], tests[FIRST:]):
        found = run_some(tree, some, limit) if some else ("survived", "")
        if found[0] != "survived":
            break
    return found


def run_some(tree: Path, tests: list[str], limit: float) -> tuple[str, str]:
    """`run` in a fork of this process, which has imported what is slow to import."""
    (tree / "tests.txt").write_text("\n".join(tests))
    child = os.fork()
    if child == 0:
        _test(tree)
    end = time.monotonic() + limit
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "found", "time limit"
        time.sleep(0.05)
    code = os.waitstatus_to_exitcode(done[1])
    out = (tree / "out.txt").read_text(errors="replace")
    found = [line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if code in (0, 5):
        return "survived", ""
    if code == 4 and "not found: " in out:  # a test that is no longer there
        lines = [line for line in out.splitlines() if "not found: " in line]
        gone = [line.split("not found: ")[1].split(" ")[0].strip() for line in lines]
        rest = [test for test in tests if not any(each.endswith(test) for each in gone)]
        if 0 < len(rest) < len(tests):
            return run_some(tree, rest, limit)
        return "error", out[-300:]
    return "found", (found or [out[-200:]])[0]


class _Unshrunk:
    """A property test ends at its first example that fails: which one it is does not matter."""

    def pytest_sessionstart(self) -> None:
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("unshrunk", settings.get_profile("modtok"), phases=phases)
        settings.load_profile("unshrunk")


def _test(tree: Path) -> NoReturn:
    """Run the tests of a tree in this process, which ends."""
    os.setsid()
    output = os.open(tree / "out.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(tree)
    for name in [name for name in os.environ if name.startswith("MODTOK")]:
        del os.environ[name]
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(tree)]
    sys.argv = ["pytest"]
    quiet = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore"]
    try:
        code = int(pytest.main([*quiet, f"@{tree / 'tests.txt'}"], plugins=[_Unshrunk()]))
        sys.stdout.flush()
    except BaseException:
        code = 1
    os._exit(code)


def plant(faults: Iterable[Mutant], output: Path) -> None:
    """Write a row for each fault that `output` has not yet."""
    covering = Covering()
    done = set()
    if output.exists():
        rows = map(json.loads, output.read_text().splitlines())
        done = {(row["path"], row["before"], row["after"]) for row in rows}
    tree = copy_of_tree(os.getpid())
    for name in SLOW_IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    with output.open("a") as file:
        for fault in faults:
            if (fault.path, fault.before, fault.after) in done:
                continue
            row = outcome(tree, fault, covering)
            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
            if row["outcome"] != "found":
                print(f"{row['outcome']}: {row['path']}:{row['line']}")
                print(f"-{row['before']}\n+{row['after']}")
    shutil.rmtree(tree)


def rows(files: Iterable[str]) -> Iterator[dict[str, object]]:
    """Planted, found and equivalent by package, then the survivors; a later file replaces rows."""
    last: dict[tuple[str, str, str], dict[str, str]] = {}
    for name in files:
        for row in map(json.loads, Path(name).read_text().splitlines()):
            last[row["path"], row["before"], row["after"]] = row
    kept = [row for row in last.values() if row["outcome"] not in ("gone", "does not compile")]
    packages = defaultdict(list)
    for row in kept:
        name = row["path"].split("/")[1]
        packages["core.c" if row["path"].endswith(".c") else name].append(row)
    for name, of_package in sorted(packages.items()):
        yield {
            "package": name,
            "planted": len(of_package),
            "found": sum(row["outcome"] == "found" for row in of_package),
            "equivalent": sum("equivalent" in row for row in of_package),
        }
    for row in kept:
        if row["outcome"] != "found":
            names = ("path", "line", "outcome", "before", "after", "equivalent")
            yield {name: row[name] for name in names if name in row}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("task", choices=("contexts", "combine", "plant", "again", "rows"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="one of several processes")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if given.task == "contexts":
        contexts()
    elif given.task == "combine":
        combine()
    elif given.task == "plant":
        known = [
            *sorted(path.parent.name for path in ROOT.glob("modtok_cli/*/__init__.py")),
            "core.c",
        ]
        unknown = [name for name in given.names if name not in known]
        if unknown or not given.names:
            parser.error(f"no package {', '.join(unknown)}: choose from {', '.join(known)}")
        if not CONTEXTS.is_file():
            contexts()
        part, parts = map(int, given.part.split("/"))
        faults = itertools.islice(drawn(given.names, given.count, given.seed), part, None, parts)
        plant(faults, given.output or WORK / f"planted-{given.seed}.jsonl")
    elif given.task == "again":
        fields = Mutant.__dataclass_fields__
        faults = (
            Mutant(**{name: row[name] for name in fields})
            for name in given.names
            for row in map(json.loads, Path(name).read_text().splitlines())
            if row["outcome"] != "found"
        )
        plant(faults, given.output or WORK / "again.jsonl")
    else:
        for row in rows(given.names):
            print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
