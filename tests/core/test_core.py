"""The C tests of the native core: every function, random inputs, no memory; and how it is loaded.

`make sanitize` runs them with sanitizers, `make fuzz` runs their harnesses for longer.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.c_programs import FOLDER, compile_core_test
from modtok_cli.core import backend
from modtok_cli.core.backend import SOURCES
from modtok_cli.core.binding import VERSION, native

COMPILER = shlex.split(os.environ.get("CC", "cc"))
needs_compiler = pytest.mark.skipif(not shutil.which(COMPILER[0]), reason="no C compiler")


@needs_compiler
def test_every_function_on_random_inputs_and_without_memory(tmp_path: Path) -> None:
    """Blocks and tables are small, so that random inputs reach their edges."""
    program = tmp_path / "test_core"
    compile_core_test(COMPILER, program, ["-O0", "-DMT_SMALL"])
    subprocess.run([program, "all", "300"], check=True)
    subprocess.run([program, "failing", "5"], check=True)


def test_every_function_of_the_header_is_called_in_c() -> None:
    header = (SOURCES / "modtok.h").read_text()
    names = set(re.findall(r"^MT_API .*?(mt_\w+)\(", header, re.MULTILINE))
    called = "".join(path.read_text() for path in FOLDER.rglob("*.c"))
    assert len(names) > 40
    assert {name for name in names if f"{name}(" not in called} == set()


SHOW = "from modtok_cli.core.binding import native; print(native._name)"


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MODTOK_CORE": str(path)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_variable_names_another_library(tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    shutil.copy(native._name, other)
    assert run(other, "-c", SHOW).stdout.strip() == str(other)
    # Its name is no default of an option.
    done = run(other, "-m", "modtok_cli", "inspect", "--help")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_library_that_is_missing_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path / "none.so", "-c", SHOW)
    assert done.returncode == 1
    assert f"{tmp_path / 'none.so'}: the native core of modtok is not built" in done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_library_of_another_header_is_an_error(tmp_path: Path) -> None:
    """A changed header changes VERSION, and a library that was not compiled since is refused."""
    assert backend.version() == VERSION
    source, other = tmp_path / "old.c", tmp_path / "old.so"
    source.write_text("int mt_version(void) { return 1; }")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(other)], check=True)
    done = run(other, "-c", SHOW)
    assert done.returncode == 1
    assert f"{other} is of another version; run: python" in done.stderr
