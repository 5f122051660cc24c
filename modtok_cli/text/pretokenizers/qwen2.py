r"""The pre-tokenizer `qwen2`: Qwen 2, 2.5 and 3: as `llama3`, with each digit apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.text.code_points import class_table
from modtok_cli.text.pretokenizer import PreTokenizer, lazy_module

patterns = lazy_module("modtok_cli.text.pattern_kernel")

Bytes = npt.NDArray[np.uint8]


def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word that begins at `start` (start < stop).

    For the bytes of "in 24" the ends are 2, 3, 4 and 5.
    """
    return patterns.llama3_end(data, start, stop, table, 1)  # type: ignore[no-any-return]


PRETOKENIZER = PreTokenizer(
    "qwen2",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    word_end=word_end,
    table=class_table,
    llama_cpp="qwen2",
)
