"""Directories of compiled kernels, for installations that cannot be written to.

numba stores compiled kernels beside their sources. Where that is read-only (a container image, a
system package), it looks in the user's cache only, and stops if that cannot be written either.
modtok takes what was compiled at installation, stores new kernels in the user's cache, and
compiles without storing if there is no place. numba is not imported here.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import modtok_cli

PACKAGE = Path(modtok_cli.__file__).parent
# Imported at the top or when first used: `modtok_cli.a.b`, `from modtok_cli.a import b`.
_MODULES = re.compile(rf"\b{PACKAGE.name}\.((?!base\b)[\w.]+)(?: import (\w+))?")


def is_ours(function: Any) -> bool:
    """Whether a Python function is a kernel of this package."""
    return PACKAGE in Path(function.__code__.co_filename).parents


def installed_directory(source: Path) -> Path:
    """Directory of the kernels of `source` that are compiled beside it."""
    return source.parent / "__pycache__"


@cache
def is_writable(directory: Path) -> bool:
    """Whether files can be created in `directory`, which is created if necessary."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


@cache
def user_directory() -> Path | None:
    """The user's cache of kernels; None without a home directory."""
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "modtok" / "kernels"
    try:
        return Path.home() / ".cache" / "modtok" / "kernels"
    except RuntimeError:
        return None


@cache
def chosen_directory() -> Path | None:
    """NUMBA_CACHE_DIR; None if it is not set or cannot be written to: numba would stop then."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return Path(chosen) if chosen and is_writable(Path(chosen)) else None


@cache
def _temporary_directory() -> Path | None:
    try:
        directory = tempfile.mkdtemp(prefix="modtok-kernels-")
    except OSError:
        return None
    atexit.register(_remove, directory, os.getpid())
    return Path(directory)


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked process
        shutil.rmtree(directory, ignore_errors=True)


@cache
def source_stamp(source: Path) -> bytes:
    """SHA-256 of a source and of the modules that it imports, directly or not, `base` apart.

    A kernel contains the compiled code of the kernels that it calls. numba compares the kernel's
    own file only, and would run old code after an upgrade that changed another file.
    """
    digest = hashlib.sha256()
    for file in sorted(_with_imports(source)):
        digest.update(file.read_bytes())
    return digest.digest()


def _with_imports(source: Path) -> set[Path]:
    found, waiting = {source}, [source]
    while waiting:
        text = waiting.pop().read_text(encoding="utf-8")
        for module, name in _MODULES.findall(text):
            place = PACKAGE.joinpath(*module.split("."))
            for file in (place.with_suffix(".py"), place / f"{name}.py"):
                if file not in found and file.is_file():
                    found.add(file)
                    waiting.append(file)
    return found


def subdirectory(source: Path) -> str:
    """Name of the directory of the kernels of `source` below the user's cache.

    It depends on the source, its place, and the versions that compiled it.
    """
    versions = f"{modtok_cli.__version__} {version('numba')} {version('llvmlite')}"
    head = f"{source.resolve()}\0{versions}\0".encode()
    return f"{source.stem}-{hashlib.sha256(head + source_stamp(source)).hexdigest()[:16]}"


def writable_directory(source: Path) -> Path | None:
    """Directory for the kernels of a read-only `source`; None if nothing is writable.

    The user's cache, else a directory of this process. It holds at least the kernels that were
    compiled at installation.
    """
    user = user_directory()
    root = user if user is not None and is_writable(user) else _temporary_directory()
    if root is None:
        return None
    directory = root / subdirectory(source)
    if not directory.exists():
        _seed(directory, source)
    return directory


def _seed(directory: Path, source: Path) -> None:
    """Create `directory` with the installed kernels of `source`, whole or not at all."""
    beside = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}-"))
    try:
        for file in sorted(installed_directory(source).glob(f"{source.stem}.*.nb[ic]")):
            with suppress(OSError):
                shutil.copyfile(file, beside / file.name)
        beside.rename(directory)
    except OSError:  # another process was faster
        shutil.rmtree(beside, ignore_errors=True)


def index_directories(source: Path) -> list[Path]:
    """Directories where compiled kernels of `source` are looked for, first match first."""
    if chosen := chosen_directory():
        return sorted(chosen.glob(f"{source.parent.name}_*"))
    directories = [installed_directory(source)]
    user = user_directory()
    if user is not None and not is_writable(directories[0]):
        directories.append(user / subdirectory(source))
    return directories


def storage() -> tuple[Path | None, str]:
    """Where compiled kernels are stored, None for nowhere, and what that is, for a report."""
    if chosen := chosen_directory():
        return chosen, "NUMBA_CACHE_DIR"
    if is_writable(installed_directory(PACKAGE / "__init__.py")):
        return PACKAGE, "the installation"
    user = user_directory()
    if user is not None and is_writable(user):
        return user, "the user's cache"
    return None, "the installation and the user's cache are read-only"
