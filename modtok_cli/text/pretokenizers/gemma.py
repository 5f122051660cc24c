r"""The pre-tokenizer `gemma`: a word takes all spaces before it, and nothing else splits text.

SentencePiece BPE as in Gemma, Llama 2 and Mistral merges within a whole document. Where no token
has a space after another character, no merge goes beyond such a word, so that words can be counted
and encoded one by one with the same result. The models write a space as "▁", so a "▁" in the text
is a space too. Gemma has a token ">▁</": spaces after ">" end no word.
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

    For the bytes of "a  b1> c" the ends are 1 and 8.
    """
    at = start
    begun = False
    after_mark = False
    while at < stop:
        size = 0
        if data[at] == 0x20:
            size = 1
        elif data[at] == 0xE2 and at + 2 < stop and data[at + 1] == 0x96 and data[at + 2] == 0x81:
            size = 3
        if size == 0:
            begun = True
            after_mark = data[at] == 0x3E
            at += 1
        elif begun and not after_mark:
            break
        else:
            at += size
    return at


PRETOKENIZER = PreTokenizer(
    "gemma", r"[ ▁]*(?:>[ ▁]*|[^ ▁>])+|[ ▁]+", word_end=word_end, table=_no_table
)
