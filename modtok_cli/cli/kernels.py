"""Find compiled kernels on disk without compiling or loading any.

numba stores an index file per kernel, named after module, function and line. It is valid for one
version of numba and one `kernel_cache.source_stamp`. Index files are never unpickled here: one
that contains both counts as valid.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from modtok_cli.base.kernel_cache import PACKAGE, index_directories, source_stamp

# Functions of a pre-tokenizer, compiled on first use; see `text.pretokenizer`.
_SPLITTING = ("word_end", "split_block")


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
    """Whether a compiled kernel is stored that this numba would load."""
    release = version("numba").encode()
    for directory in index_directories(kernel.file):
        for index in directory.glob(f"{kernel.index}*.nbi"):
            try:
                data = index.read_bytes()
            except OSError:
                continue
            if release in data and source_stamp(kernel.file) in data:
                return True
    return False
