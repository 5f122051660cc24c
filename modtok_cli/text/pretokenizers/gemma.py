r"""The pre-tokenizer `gemma`: a word takes all spaces before it, and nothing else splits text.

SentencePiece BPE as in Gemma, Llama 2 and Mistral merges within a whole document. Where no token
has a space after another character, no merge goes beyond such a word, so that words can be counted
and encoded one by one with the same result.
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
    """End of the word that begins at `start` (start < stop).

    For the bytes of "a  b1" the ends are 1 and 5.
    """
    at = start
    while at < stop and data[at] == 0x20:
        at += 1
    while at < stop and data[at] != 0x20:
        at += 1
    return at


PRETOKENIZER = PreTokenizer("gemma", r" *[^ ]+| +", word_end=word_end, table=_no_table)
