r"""The pre-tokenizer `o200k`: GPT-4o, gpt-oss, Phi 4 mini. Words are split where case rises."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.text.code_points import case_table
from modtok_cli.text.pretokenizer import PreTokenizer, lazy_module

patterns = lazy_module("modtok_cli.text.pattern_kernel")

Bytes = npt.NDArray[np.uint8]


def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word that begins at `start` (start < stop); `table` is `case_table()`.

    For the bytes of "HelloWorld's" the ends are 5 and 12.
    """
    return patterns.o200k_end(data, start, stop, table)  # type: ignore[no-any-return]


_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PRETOKENIZER = PreTokenizer(
    "o200k",
    f"{_BEFORE}{_UPPER}*{_LOWER}+{_CONTRACTION}|{_BEFORE}{_UPPER}+{_LOWER}*{_CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    word_end=word_end,
    table=case_table,
    llama_cpp="gpt-4o",
)
