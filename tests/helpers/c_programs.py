"""Compiles the C programs of tests/core together with the sources of the native core."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

from modtok_cli.core.backend import FLAGS, LEVELS, SOURCES, sources

FOLDER = Path(__file__).parents[1] / "core"
HARNESSES = sorted(path.stem for path in (FOLDER / "fuzz").glob("*.c") if path.stem != "fuzz")
FAILING = ("-DMT_FAIL_ALLOCATIONS", "-DMT_EXACT_BLOCKS")
"""The program decides which allocations fail, and blocks have no room to spare."""


def flags() -> tuple[str, ...]:
    """Of the core for any processor of this kind, without optimization."""
    level = LEVELS[""] if platform.machine().lower() in ("x86_64", "amd64") else ()
    return tuple(flag for flag in FLAGS if flag not in ("-O3", "-shared")) + level


def compile_program(
    compiler: Sequence[str], program: Path, names: Sequence[str], options: Sequence[str]
) -> None:
    """Make `program` from `names`, relative to tests/core, and the core."""
    own = [str(FOLDER / name) for name in names]
    command = [
        *compiler, *flags(), *options, f"-I{SOURCES}", *own, *sources(), "-lm", "-pthread",
        "-o", str(program),
    ]  # fmt: skip
    subprocess.run(command, check=True)


def compile_core_test(compiler: Sequence[str], program: Path, options: Sequence[str]) -> None:
    """Make test_core.c with all harnesses."""
    names = ["test_core.c", *(f"fuzz/{name}.c" for name in HARNESSES)]
    compile_program(compiler, program, names, (*FAILING, *options))
