"""Which native library is loaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from modtok_cli.core.binding import native

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
