r"""The pre-tokenizer `llama3`: Llama 3 and its descendants: runs of up to three digits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.text.code_points import class_table
from modtok_cli.text.pretokenizer import PreTokenizer, lazy_module

patterns = lazy_module("modtok_cli.text.pattern_kernel")

Bytes = npt.NDArray[np.uint8]


def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word that begins at `start` (start < stop).

    For the bytes of "in 2024" the ends are 2, 3, 6 and 7.
    """
    return patterns.llama3_end(data, start, stop, table, 3)  # type: ignore[no-any-return]


PRETOKENIZER = PreTokenizer(
    "llama3",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    word_end=word_end,
    table=class_table,
    llama_cpp="llama-bpe",
)
