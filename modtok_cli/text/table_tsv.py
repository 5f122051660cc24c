r"""Word counts as text: a line `word<TAB>count`, for lists from other sources.

A word is taken with its spaces (" the" and "the" are two). Tab, newline, carriage return
and backslash inside a word are written `\t`, `\n`, `\r` and `\\`; any other backslash
is literal. A line of more than one word of the pre-tokenizer is split, and each word
gets the line's count.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.text.counter import WordCounter
from modtok_cli.text.counts import WordCounts, size_of
from modtok_cli.text.pretokenizer import BPE, PreTokenizer
from modtok_cli.text.readers import read_line_batches
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance, display

_PLAIN = {rb"\t": b"\t", rb"\n": b"\n", rb"\r": b"\r", rb"\\": b"\\"}
_UNESCAPE = re.compile(rb"\\[tnr\\]")
_LARGEST = 1 << 53
"""Larger counts could overflow 64 bits when added; no corpus has them."""


def read_tsv(
    path: str | Path,
    pretokenizer: PreTokenizer = BPE,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
    advance: Advance | None = None,
) -> WordCounts:
    """The table in a `.tsv` file (or .zst, .gz). Lines of one word add up.

    Documents are 0, unknown; characters and bytes are those of the words.
    """
    counter = WordCounter(pretokenizer)
    for documents in read_line_batches(path, reading, progress=progress, advance=advance):
        words, weights = [], []
        for document in documents:
            if document.text:
                word, count = _line(document.text, f"{display(path)}:{document.line}")
                words.append(word)
                weights.append(count)
        counter.add_documents(words, np.array(weights, dtype=np.int64))
    table = counter.result()
    size = size_of(table.data, table.offsets, table.counts)
    return WordCounts(table.data, table.offsets, table.counts, pretokenizer, size)


def _line(line: bytes, where: str) -> tuple[bytes, int]:
    word, tab, number = line.removesuffix(b"\r").rpartition(b"\t")
    remedy = "a line is a word, a tab and a count of at least 1"
    if not tab:
        raise ModtokError("no tab in this line", where=where, remedy=remedy)
    if not word:
        raise ModtokError("no word before the tab", where=where, remedy=remedy)
    if not re.fullmatch(rb"[0-9]{1,16}", number) or not 1 <= int(number) <= _LARGEST:
        shown = number[:20].decode(errors="replace")
        raise ModtokError(f"'{shown}' is not a count", where=where, remedy=remedy)
    return _UNESCAPE.sub(lambda match: _PLAIN[match[0]], word), int(number)
