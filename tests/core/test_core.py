"""The C tests of the native core: every function, on random inputs, and without memory.

`make sanitize` runs them with sanitizers, `make fuzz` runs their harnesses for longer.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.c_programs import FOLDER, compile_core_test
from modtok_cli.core.backend import SOURCES

COMPILER = shlex.split(os.environ.get("CC", "cc"))
needs_compiler = pytest.mark.skipif(not shutil.which(COMPILER[0]), reason="no C compiler")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Blocks and tables are small, so that random inputs reach their edges."""
    path = tmp_path_factory.mktemp("core") / "test_core"
    compile_core_test(COMPILER, path, ["-O0", "-DMT_SMALL"])
    return path


@needs_compiler
def test_every_function_on_random_inputs(program: Path) -> None:
    subprocess.run([program, "all", "300"], check=True)


@needs_compiler
def test_every_allocation_may_fail(program: Path) -> None:
    subprocess.run([program, "failing", "5"], check=True)


def test_every_function_of_the_header_is_called_in_c() -> None:
    header = (SOURCES / "modtok.h").read_text()
    names = set(re.findall(r"^MT_API .*?(mt_\w+)\(", header, re.MULTILINE))
    called = "".join(path.read_text() for path in FOLDER.rglob("*.c"))
    assert len(names) > 40
    assert {name for name in names if f"{name}(" not in called} == set()
