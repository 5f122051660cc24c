"""Build backend: compiles the native core, and leaves the rest to setuptools.

    python modtok_cli/core/backend.py [TARGET | --targets | --tags]

compiles it in place, for this machine or for a target of `zig cc` such as `aarch64-linux-gnu.2.28`;
`--targets` lists the targets of `make wheels`, `--tags` the platforms of these wheels.
As a PEP 517 backend (pyproject.toml) the same happens before a wheel is made; the environment
variable MODTOK_TARGET names another target. The compiler is $CC, else `cc`, else the package
`ziglang`, a C compiler from the package index.

A library is made for each instruction set: `libmodtok.so` runs anywhere, `libmodtok.3.so` needs
AVX2 and `libmodtok.4.so` AVX-512; `core.binding` loads the best one that the processor runs. They
have no tie to a version of Python, so a wheel serves all. `modtok.wasm`, for the page of `modtok
explore`, is in the repository; the first form makes it again where ziglang is installed, and a test
compares both.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

CORE = Path(__file__).resolve().parent
SOURCES = CORE / "src"

ZIG = "ziglang>=0.13,<0.18"
FLAGS = (
    "-std=c11", "-O3", "-g0", "-s", "-shared", "-fPIC", "-fvisibility=hidden",
    "-pthread", "-Wall", "-Wextra", "-Werror",
    "-Wno-psabi",  # vectors are never passed between files
    "-ffp-contract=off",  # results equal NumPy's
    "-fno-math-errno",  # square roots in vectors; same values
)  # fmt: skip
LEVELS = {
    "": ("-msse4.2", "-mpopcnt"),
    ".3": ("-mavx2", "-mbmi", "-mbmi2", "-mfma", "-mlzcnt", "-mpopcnt", "-mmovbe"),
    ".4": (
        "-mavx2", "-mbmi", "-mbmi2", "-mfma", "-mlzcnt", "-mpopcnt", "-mmovbe",
        "-mavx512f", "-mavx512bw", "-mavx512cd", "-mavx512dq", "-mavx512vl",
    ),
}  # fmt: skip
TAGS = {
    "x86_64-linux-gnu.2.28": "manylinux_2_28_x86_64",
    "aarch64-linux-gnu.2.28": "manylinux_2_28_aarch64",
    "x86_64-linux-musl": "musllinux_1_2_x86_64",
    "aarch64-linux-musl": "musllinux_1_2_aarch64",
    "x86_64-macos.11.0": "macosx_11_0_x86_64",
    "aarch64-macos.11.0": "macosx_11_0_arm64",
}
"""Targets of `make wheels`, and the platforms of their wheels."""


WASM = "modtok.wasm"
WASM_FLAGS = (
    "-std=c11", "-Os", "-s", "-mexec-model=reactor", "-fvisibility=hidden", "-ffp-contract=off",
    *(f"-Wl,--export={name}" for name in (
        "malloc", "free", "mt_start", "mt_pretokenizers", "mt_split", "mt_segment",
        "mt_likelihoods", "mt_trie_new", "mt_trie_units", "mt_pairs_new", "mt_pairs_free",
    )),
)  # fmt: skip
"""What the page calls; the linker leaves out all that these do not need."""


def _zig() -> list[str] | None:
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    return ["zig", "cc"] if shutil.which("zig") else None


def _cc() -> list[str] | None:
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    return ["cc"] if shutil.which("cc") else None


def compile_core(target: str | None = None) -> None:
    """Make the libraries of `target`, by default of this machine, beside this file.

    Raises:
        SystemExit: there is no compiler, or it failed.
    """
    compiler = _zig() if target else _cc() or _zig()
    if compiler is None:
        sys.exit(f"modtok: no C compiler; install cc, or: pip install '{ZIG}'")
    machine = (target or platform.machine()).split("-")[0].lower()
    levels = LEVELS if machine in ("x86_64", "amd64") else {"": ()}
    for old in CORE.glob("libmodtok*.so"):
        if old.name not in {f"libmodtok{name}.so" for name in levels}:
            old.unlink()
    if target:
        compiler += ["-target", target]

    def make(name: str) -> None:
        if not _run([*compiler, *FLAGS, *levels[name]], CORE / f"libmodtok{name}.so"):
            sys.exit(f"modtok: {shlex.join(compiler)} could not compile {SOURCES}")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(make, levels))


def compile_wasm(output: Path = CORE / WASM) -> None:
    """Make `modtok.wasm` by the package ziglang: the same bytes with the same version.

    Raises:
        SystemExit: it is not installed, or failed.
    """
    zig = _zig()
    if not zig or not _run([*zig, "-target", "wasm32-wasi", *WASM_FLAGS], output):
        sys.exit(f"modtok: cannot compile {SOURCES} to WebAssembly; pip install '{ZIG}'")


def version() -> int:
    """The result of `mt_version`: a library of another header is refused when it is loaded."""
    return zlib.crc32((SOURCES / "modtok.h").read_bytes()) & 0x7FFFFFFF


def sources() -> list[str]:
    """Arguments for the compiler: the sources, and the pre-tokenizers among them."""
    names = sorted(path.stem for path in (SOURCES / "pretokenizers").glob("*.c"))
    listed = "-DMT_PRETOKENIZERS=" + " ".join(f"X({name})" for name in names)
    return [listed, f"-DMT_VERSION={version()}", *sorted(map(str, SOURCES.rglob("*.c")))]


def _run(command: list[str], output: Path) -> bool:
    """Compile to `output`, which stays whole if it is in use; False: that failed."""
    with tempfile.TemporaryDirectory(dir=CORE, prefix=".build-") as folder:
        made = Path(folder) / output.name
        command = [*command, *sources(), "-lm", "-o", str(made)]
        if subprocess.run(command, check=False).returncode:
            return False
        made.replace(output)
    return True


def _hooks() -> Any:
    from setuptools import build_meta

    return build_meta


def _required() -> list[str]:
    """ziglang, unless this machine has a compiler for itself."""
    return [] if _cc() and not os.environ.get("MODTOK_TARGET") else [ZIG]


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    """The requirements of setuptools, and a compiler if there is none."""
    return [*_hooks().get_requires_for_build_wheel(settings), *_required()]


def get_requires_for_build_editable(settings: Any = None) -> list[str]:
    """As of a wheel."""
    return [*_hooks().get_requires_for_build_editable(settings), *_required()]


def __getattr__(name: str) -> Any:
    """All other hooks are those of setuptools."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(_hooks(), name)


def build_wheel(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    """A wheel for one platform and any Python 3."""
    target = os.environ.get("MODTOK_TARGET")
    compile_core(target)
    tag = TAGS[target] if target else sysconfig.get_platform().replace("-", "_").replace(".", "_")
    settings = dict(settings or {})
    settings["--build-option"] = [f"--plat-name={tag}", "--python-tag=py3"]
    return str(_hooks().build_wheel(directory, settings, metadata))


def build_editable(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    """The core in place, and a wheel that refers to it."""
    compile_core()
    return str(_hooks().build_editable(directory, settings, metadata))


if __name__ == "__main__":
    if sys.argv[1:] == ["--targets"]:
        print(*TAGS)
    elif sys.argv[1:] == ["--tags"]:
        print(*TAGS.values())
    else:
        compile_core(sys.argv[1] if len(sys.argv) > 1 else None)
        if _zig():
            compile_wasm()
