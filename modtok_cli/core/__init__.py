"""The native core: C in `src/`, loaded by ctypes; bytes and counts in; ids, merges, counts out.

`src/modtok.h` documents it. `reference/` has the algorithms in plain Python.
"""

from __future__ import annotations

from pathlib import Path

_NOT_CHOSEN = {"gemma", "none", "phrases", "unigram"}
"""Pre-tokenizers that belong to a segmentation or to adopted tokenizers."""


def pretokenizer_names() -> list[str]:
    """Names of the core's pre-tokenizers that a learner may use; nothing is loaded."""
    files = (Path(__file__).parent / "src" / "pretokenizers").glob("*.c")
    return sorted({file.stem for file in files} - _NOT_CHOSEN)
