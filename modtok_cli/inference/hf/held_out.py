"""How much of a text that a slice was not made from gets other ids by it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array
from modtok_cli.modular.adopted.adopt import members
from modtok_cli.modular.adopted.segmenter import Library
from modtok_cli.modular.adopted.tokenizer_file import TokenizerFile
from modtok_cli.modular.subtokenizer import Subtokenizer

_EVERY, _MOST = 10, 2000  # one document of so many is held out, at most so many


class OtherIds(NamedTuple):
    """Shares of held-out documents with another id, and of their tokens that have one."""

    lines: float
    tokens: float


def other_ids(
    file: TokenizerFile,
    counts: Int64Array,
    documents: Iterable[bytes],
    needed: Int32Array,
    k: int | None,
    coverage: float | None,
) -> OtherIds | None:
    """What a slice by the other documents would change in a tenth of them; None of few documents.

    counts (V,) int64 are of the tokens of all documents; `needed` tokens are kept anyway.
    """
    encoder = Subtokenizer(Library(file))
    held = [
        encoder.encode(text.decode(errors="replace"))
        for text in islice(documents, _EVERY - 1, _EVERY * _MOST, _EVERY)
    ]
    ids = np.concatenate([np.zeros(0, np.int32), *held])
    if not len(ids):
        return None
    rest = np.maximum(counts - np.bincount(ids, minlength=len(counts)), 0)
    kept: BoolArray = members(file, rest, k, coverage)
    kept[needed] = True
    return OtherIds(
        float(np.mean([not kept[each].all() for each in held])), float(np.mean(~kept[ids]))
    )
