r"""The pre-tokenizer `none`: a document is one word.

For tokenizers that do not split text before merging, or split it in a way that no kernel here
knows. Word counts are then counts of documents.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from modtok_cli.text.pretokenizer import PreTokenizer

Bytes = npt.NDArray[np.uint8]


@cache
def _no_table() -> Bytes:
    table = np.zeros(1, dtype=np.uint8)
    table.setflags(write=False)
    return table


def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """`stop`: the word that begins at `start` ends with the text."""
    return stop


PRETOKENIZER = PreTokenizer("none", r"[\s\S]+", word_end=word_end, table=_no_table)
