"""Checks of the native core that need more than a C compiler: sanitizers and fuzzing.

    python .ci/core_checks.py sanitize          what `make sanitize` runs (gcc, Linux)
    python .ci/core_checks.py fuzz [SECONDS]    what `make fuzz` runs: each harness so long (clang)

The compiler is $CC. Everything goes into build/sanitize and build/fuzz. The C tests are in
tests/core; `tests/core/test_core.py` runs them without sanitizers.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from helpers.c_programs import HARNESSES, compile_core_test, compile_program, flags  # noqa: E402
from modtok_cli.core.backend import sources  # noqa: E402

CHECKED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all")
SMALL = "-DMT_SMALL"
PROPERTIES = ("tests/text", "tests/learn", "tests/tokenizer", "tests/training/test_rows_kernel.py")


def run(*command: str | Path, **environment: str) -> None:
    """Run a command; end with its status if it fails."""
    print("+", *command, flush=True)
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env={**os.environ, **environment}, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)


def runtime(compiler: list[str], name: str) -> str:
    """The library of a sanitizer, which must be loaded before Python."""
    command = [*compiler, f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        sys.exit(f"{compiler[0]} has no {name}; install gcc with its sanitizers")
    return found


def sanitize(compiler: list[str]) -> None:
    """C tests with the address, leak, undefined and thread sanitizers; then the property tests."""
    folder = ROOT / "build" / "sanitize"
    folder.mkdir(parents=True, exist_ok=True)
    memory = (*CHECKED, "-fsanitize=address,undefined")
    for name, sizes in (("usual", ()), ("small", (SMALL,))):
        program, threads = folder / f"test_core-{name}", folder / f"test_threads-{name}"
        compile_core_test(compiler, program, (*memory, *sizes))
        run(program, "all", "1000")
        run(program, "failing", "30")
        options = (*CHECKED, "-fsanitize=thread", *sizes)
        compile_program(compiler, threads, ["test_threads.c"], options)
        run(threads)
    library = folder / "libmodtok.so"
    run(
        *compiler, *flags(), *memory, "-shared", "-DMT_EXACT_BLOCKS", *sources(), "-lm",
        "-o", library,
    )  # fmt: skip
    run(
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--capture=sys", *PROPERTIES,
        MODTOK_CORE=str(library),
        LD_PRELOAD=f"{runtime(compiler, 'libasan.so')} {runtime(compiler, 'libubsan.so')}",
        ASAN_OPTIONS="detect_leaks=0",  # of Python; those of the core are found by its C tests
        UBSAN_OPTIONS="print_stacktrace=1",
    )  # fmt: skip


def fuzz(compiler: list[str], seconds: int) -> None:
    """Each harness under libFuzzer; inputs that fail are in build/fuzz."""
    if shutil.which(compiler[0]) is None:
        sys.exit(f"no {compiler[0]}; libFuzzer is part of clang: apt-get install clang")
    options = (*CHECKED, "-fsanitize=fuzzer,address,undefined", "-DMT_EXACT_BLOCKS", SMALL)
    for name in HARNESSES:
        folder = ROOT / "build" / "fuzz" / name
        corpus, log = folder / "corpus", folder / "log"
        corpus.mkdir(parents=True, exist_ok=True)
        program = folder / "fuzz"
        names = ["fuzz/fuzz.c", f"fuzz/{name}.c"]
        compile_program(compiler, program, names, (*options, f"-DTARGET=fuzz_{name}"))
        command = [
            program, f"-max_total_time={seconds}", "-max_len=2000", "-print_final_stats=1",
            f"-artifact_prefix={folder}/", corpus,
        ]  # fmt: skip
        with log.open("w") as output:
            done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
        runs = re.findall(r"number_of_executed_units: (\d+)", log.read_text(errors="replace"))
        print(f"{name}: {runs[-1] if runs else 0} runs in {seconds} s", flush=True)
        if done.returncode:
            sys.exit(f"{name} failed: see {log} and the input beside it")


if __name__ == "__main__":
    if sys.argv[1:] == ["sanitize"]:
        sanitize(shlex.split(os.environ.get("CC", "gcc")))
    elif sys.argv[1:2] == ["fuzz"]:
        seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 300
        fuzz(shlex.split(os.environ.get("CC", "clang")), seconds)
    else:
        sys.exit(__doc__)
