"""Compiled kernels in installations that cannot be written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import modtok_cli
from helpers.python_processes import run_python
from modtok_cli.base.numba_internals import COMPILING, STORING, differences

_KERNEL = """
from modtok_cli.base.jit import njit
from modtok_cli.text.sum_kernel import add

@njit(cache=True)
def double(x):
    return add(x, x)
"""
_CALLED = """
from modtok_cli.base.jit import njit

@njit
def add(x, y):
    return x + y
"""
# Permissions do not stop root, who may run the tests: what cannot be written is named.
_PROGRAM = """
import sys, tempfile
from pathlib import Path
from modtok_cli.base import kernel_cache

blocked = [Path(path) for path in sys.argv[1].split(":") if path]
writable = kernel_cache.is_writable

def is_writable(directory):
    is_blocked = any(path == directory or path in directory.parents for path in blocked)
    return not is_blocked and writable(directory)

kernel_cache.is_writable = is_writable
if Path("/") in blocked:
    def mkdtemp(**_):
        raise OSError("read-only")
    tempfile.mkdtemp = mkdtemp
from modtok_cli.base import kernel_storage
if blocked:  # what numba itself would find out
    def ensure(self):
        if not is_writable(Path(self.get_cache_path())):
            raise OSError("read-only")
    kernel_storage.KernelLocator.ensure_cache_path = ensure
from modtok_cli.text.toy_kernel import double
assert double(3) == 6
if "float" in sys.argv:
    assert double(1.5) == 3.0
print(sum(double.stats.cache_hits.values()), sum(double.stats.cache_misses.values()))
"""


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """A copy of what kernels need, with one small kernel that is not compiled yet."""
    source = Path(modtok_cli.__file__).parent
    package = tmp_path / "site" / "modtok_cli"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source / "base", package / "base", ignore=ignore)
    shutil.copy(source / "__init__.py", package)
    (package / "text").mkdir()
    (package / "text" / "__init__.py").touch()
    (package / "text" / "toy_kernel.py").write_text(_KERNEL)
    (package / "text" / "sum_kernel.py").write_text(_CALLED)
    return package


# In a forked process (see `helpers.python_processes`) numba is imported, and this checkout is.
_FORGET = """
import sys
from numba.core import config
for name in [name for name in sys.modules if name.split(".")[0] == "modtok_cli"]:
    del sys.modules[name]
sys.path.insert(0, SITE)
config.reload_config()
"""


def run(
    package: Path, *arguments: str, blocked: str = "", fork: bool = True, **environment: str
) -> str:
    """What the program prints, in a process that is new or `fork`ed."""
    environment = {"HOME": "/proc/none", "TMPDIR": str(package.parents[1]), **environment}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPATH")
    }
    options: dict[str, Any] = {
        "cwd": package.parents[1],
        "env": {**kept, "PYTHONPATH": str(package.parent), **environment},
        "capture_output": True,
        "text": True,
        "timeout": 300,
    }
    words = [blocked, *arguments]
    if fork:
        forget = _FORGET.replace("SITE", repr(str(package.parent)))
        done = run_python(["-c", forget + _PROGRAM, *words], **options)
    else:
        done = subprocess.run([sys.executable, "-c", _PROGRAM, *words], check=False, **options)
    assert done.returncode == 0, done.stderr
    return str(done.stdout.strip())


def kernels_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("toy_kernel*.nb?"))


def test_installed_kernels_are_loaded_without_a_home(installation: Path) -> None:
    assert run(installation, fork=False) == "0 1"
    assert run(installation, fork=False) == "1 0"
    compiled = kernels_in(installation)
    assert len(compiled) == 2
    assert run(installation, "float", blocked=str(installation)) == "1 1"
    assert kernels_in(installation) == compiled
    assert list(installation.parents[1].glob("modtok-kernels-*")) == []  # removed at exit


def test_new_kernels_go_to_the_users_cache(installation: Path, tmp_path: Path) -> None:
    assert run(installation) == "0 1"
    compiled = kernels_in(installation)
    home = tmp_path / "home"
    for hits in ("1 1", "2 0"):
        found = run(installation, "float", blocked=str(installation), HOME=str(home))
        assert found == hits
    assert len(kernels_in(home / ".cache" / "modtok" / "kernels")) == 3
    assert kernels_in(installation) == compiled
    cache = str(tmp_path / "cache")
    found = run(installation, "float", blocked=str(installation), XDG_CACHE_HOME=cache)
    assert found == "1 1"


def test_nothing_can_be_written(installation: Path) -> None:
    for _ in range(2):
        assert run(installation, "float", blocked="/") == "0 2"
    assert kernels_in(installation) == []
    assert run(installation) == "0 1"
    assert run(installation, "float", blocked="/") == "1 1"


def test_a_chosen_directory_is_left_to_numba(installation: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    assert run(installation, NUMBA_CACHE_DIR=str(chosen)) == "0 1"
    assert len(kernels_in(chosen)) == 2
    assert kernels_in(installation) == []
    # One that cannot be written to does not stop the program, as it stops numba.
    found = run(installation, blocked=f"{installation}:{chosen}", NUMBA_CACHE_DIR=str(chosen))
    assert found == "0 1"
    assert len(kernels_in(chosen)) == 2


@pytest.mark.parametrize("way", ["function", "module"])
def test_a_kernel_is_compiled_again_if_a_kernel_that_it_calls_has_changed(
    installation: Path, way: str
) -> None:
    called = installation / "text" / "sum_kernel.py"
    if way == "module":
        kernel = installation / "text" / "toy_kernel.py"
        changed = _KERNEL.replace("text.sum_kernel import add", "text import sum_kernel")
        kernel.write_text(changed.replace("add(x, x)", "sum_kernel.add(x, x)"))
    assert run(installation) == "0 1"
    called.write_text(_CALLED.replace("x + y", "2 * y"))
    assert run(installation) == "0 1"
    assert run(installation) == "1 0"


_LOOP = """
from modtok_cli.base.jit import njit

@njit(cache=True)
def step(x, y):
    return x + y

@njit(cache=True)
def total(n):
    at = 0
    while at < n:
        at = step(at, 2)
    return at
"""
_PREPARED = """
import subprocess, sys
from modtok_cli.base.compiling import compiling
from modtok_cli.base.progress import Silent

class Recorder(Silent):
    def note(self, text):
        print("note", text)

prepared = []

def prepare():
    prepared.append(1)
    program = "from modtok_cli.text.toy_kernel import total; total(5)"
    return subprocess.run([sys.executable, "-c", program]).returncode == 0

with compiling(Recorder(), prepare) as outer, compiling(Recorder()) as compilation:
    from modtok_cli.text.toy_kernel import step, total
    assert compilation is outer
    assert (total(7), len(step.signatures)) == (8, 0)  # it was not even typed here
    print(len(prepared), compilation.kernels, sum(total.stats.cache_hits.values()))
    assert total(7.0) == 8  # another type of `total`, after all that can be prepared
    print(len(prepared), compilation.kernels)
"""


def programs_output(package: Path, program: str, kernels: str = _LOOP) -> list[str]:
    (package / "text" / "toy_kernel.py").write_text(kernels)
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=package.parents[1],
        env={**kept, "PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_kernels_that_others_compiled_are_loaded(installation: Path) -> None:
    # Nobody is told twice: what prepares the kernels says so.
    assert programs_output(installation, _PREPARED) == ["1 0 1", "1 1"]


def test_a_constant_is_no_type_of_its_own(installation: Path) -> None:
    program = (
        "from modtok_cli.text.toy_kernel import step, total\n"
        "assert total(5) == 6\n"
        "print(len(total.signatures), *step.signatures)\n"
    )
    assert programs_output(installation, program) == ["1 (int64, int64)"]


_PARTS = """
import numpy as np

from modtok_cli.base.jit import cfunc, njit
from numba import types

@njit
def checked(x):
    if x < 0:
        raise ValueError("negative")
    return x + 1

@njit
def filled(n):
    array = np.empty(n, dtype=np.int64)
    for i in range(n):
        array[i] = checked(i)
    return array

@njit(cache=True)
def total(n):
    return checked(n) + filled(n).sum()

@njit(cache=True)
def last(n):
    return checked(n) + filled(n)[-1]

call = cfunc(types.int64(types.int64), cache=True)(lambda n: checked(n) + 1)
"""
_USE_PARTS = """
from operator import attrgetter
import numba
import numpy as np
from modtok_cli.base.parts import PartLibrary
from modtok_cli.text.toy_kernel import call, checked, filled, last, total

def kinds(function):
    libraries = map(attrgetter("library"), function.overloads.values())
    return [isinstance(library, PartLibrary) for library in libraries]

assert (total(4), last(4), call.ctypes(4)) == (15, 9, 6)
for kernel in (total, last):
    try:
        kernel(-1)
    except ValueError as error:
        print(error, end=" ")
print(kinds(total), kinds(filled), kinds(checked))
assert (filled(3).tolist(), checked(7)) == ([1, 2, 3], 8)
try:
    checked(-1)
except ValueError as error:
    print(error, kinds(filled), kinds(checked))

@numba.njit
def inner(n):
    return np.ones(n, dtype=np.int64).sum() + n

@numba.njit
def outer(n):
    return inner(n) + 1

@numba.cfunc(numba.types.int64(numba.types.int64))
def callback(n):
    return inner(n) + 2

print(outer(3), callback.ctypes(3), kinds(inner))
"""


def test_parts_have_machine_code_within_kernels_only(installation: Path) -> None:
    found = programs_output(installation, _USE_PARTS, _PARTS)
    # Python calls them at last: then they are kernels.
    assert found == [
        "negative negative [False] [True] [True]",
        "negative [False] [False]",
        "7 8 [False]",  # those of other packages are none
    ]
    stored = {name.split("-")[0] for name in kernels_in(installation)}
    assert stored == {"toy_kernel.total", "toy_kernel.last", "toy_kernel.lambda"}
    # From disk, parts are not even typed.
    assert programs_output(installation, _USE_PARTS, _PARTS) == [
        "negative negative [False] [] []",
        "negative [False] [False]",
        "7 8 [False]",  # those of other packages are none
    ]


_OTHER_NUMBA = {
    # What the hooks replace is elsewhere; numba itself finds it.
    "missing": """
from types import MethodType
set_env = codegen.JITCPUCodegen.set_env
del codegen.JITCPUCodegen.set_env
codegen.JITCPUCodegen.__getattr__ = lambda self, name: {"set_env": MethodType(set_env, self)}[name]
""",
    "parameters": """
finalize = codegen.CPUCodeLibrary.finalize
codegen.CPUCodeLibrary.finalize = lambda self, more=0: finalize(self)
""",
    "cache": """
load = caching.Cache.load_overload
caching.Cache.load_overload = lambda self, sig, target, more=0: load(self, sig, target)
""",
}
_USE_OTHER_NUMBA = """
from numba.core import caching, codegen
CHANGE
from modtok_cli.base.numba_internals import COMPILING, STORING, differences
from modtok_cli.text.toy_kernel import call, checked, last, total

assert (total(4), last(4), call.ctypes(4), checked(7)) == (15, 9, 6, 8)
try:
    total(-1)
except ValueError as error:
    assert str(error) == "negative"
print(*differences(COMPILING), *differences(STORING))
"""


@pytest.mark.parametrize("change", _OTHER_NUMBA)
def test_another_numba_is_left_as_it_is(installation: Path, change: str) -> None:
    program = _USE_OTHER_NUMBA.replace("CHANGE", _OTHER_NUMBA[change])
    found = programs_output(installation, program, _PARTS)
    assert found == [
        {
            "missing": "codegen.JITCPUCodegen.set_env",
            "parameters": "codegen.JITCodeLibrary.finalize",
            "cache": "caching.Cache.load_overload",
        }[change]
    ]
    assert (kernels_in(installation) == []) == (change == "cache")


def test_this_numba_is_known() -> None:
    assert differences(COMPILING) == []
    assert differences(STORING) == []
