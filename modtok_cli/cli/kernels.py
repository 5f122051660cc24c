"""Find compiled kernels on disk without compiling or loading any.

numba stores an index file per kernel, named after module, function and line. It is valid while
modification time and size of the source are unchanged. Index files are never unpickled here:
a file that exists, is newer than its source and names this numba version counts as valid.
"""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import modtok_cli

PACKAGE = Path(modtok_cli.__file__).parent
# Functions of a pre-tokenizer, compiled on first use; see `text.pretokenizer`.
_SPLITTING = ("word_end", "split_block")
_HEAD = 64  # bytes of an index that contain the version of numba


@dataclass(frozen=True)
class Kernel:
    """A kernel: its package, file, name, and the line of its first decorator."""

    package: str
    file: Path
    name: str
    line: int

    @property
    def index(self) -> str:
        """Name of the index file, up to the Python version; numba may append ABI flags."""
        python = f"py{sys.version_info.major}{sys.version_info.minor}"
        return f"{self.file.stem}.{self.name}-{self.line}.{python}"


def kernels(package: Path = PACKAGE) -> list[Kernel]:
    """Every cached kernel, found by parsing the sources."""
    found = []
    for file in sorted(package.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        splits = file.parent.name == "pretokenizers"
        if "njit" not in text and not splits:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef):
                continue
            if any(map(_is_cached, node.decorator_list)) or (splits and node.name in _SPLITTING):
                line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                found.append(Kernel(file.relative_to(package).parts[0], file, node.name, line))
    return found


def _is_cached(decorator: ast.expr) -> bool:
    """Whether it is `njit(…, cache=True)` without `inline="always"`."""
    if not (isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "njit"):
        return False
    keywords = {word.arg: getattr(word.value, "value", None) for word in decorator.keywords}
    return keywords.get("cache") is True and keywords.get("inline") != "always"


def is_warm(kernel: Kernel) -> bool:
    """Whether a compiled kernel is stored that matches the source and this numba."""
    source = kernel.file.stat().st_mtime
    release = version("numba").encode()
    for index in _indexes(kernel):
        try:
            with index.open("rb") as stream:
                head = stream.read(_HEAD)
            if index.stat().st_mtime >= source and release in head:
                return True
        except OSError:
            continue
    return False


def _indexes(kernel: Kernel) -> list[Path]:
    """Possible index files: in NUMBA_CACHE_DIR, beside the source, in the user's cache."""
    pattern = f"{kernel.index}*.nbi"
    beside = kernel.file.parent / "__pycache__"
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return list(Path(chosen).glob(f"*/{pattern}"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    return [*beside.glob(pattern), *cache.glob(f"*/{pattern}")]
