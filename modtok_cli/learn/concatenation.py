"""Naive concatenation of independently trained BPE tokenizers: the baseline of the paper.

The first tokenizer is unchanged; each further tokenizer appends its missing tokens and
merges in order. Early merges of one language then prevent tokens of another from ever being
formed, which is why sequential training exists.
"""

from collections.abc import Sequence

import numpy as np

from modtok_cli.base.arrays import Int32Array, flatten, unflatten
from modtok_cli.base.errors import UsageError
from modtok_cli.learn.merges import GlobalMerges


def concatenate(parts: Sequence[GlobalMerges]) -> GlobalMerges:
    """Concatenate tokenizers.

    With a+b → ab in the first, and b+c → bc, a+bc → abc in the second, "abc" becomes
    [ab, c]: the token abc exists but cannot be formed. A pair that an earlier tokenizer merges
    keeps its earlier rank.

    Returns:
        Tokens in order of first appearance: special tokens, the 256 bytes, the tokens of the first
        tokenizer, the new ones of the second, and so on.
    """
    if not parts:
        raise UsageError("nothing to concatenate", remedy="give two or more tokenizers")
    specials = parts[0].specials
    ids: dict[bytes, int] = {}
    renumbered: list[Int32Array] = []
    for part in parts:
        if part.specials != specials:
            raise UsageError(
                "the tokenizers have different special tokens: "
                f"{', '.join(specials) or 'none'}; {', '.join(part.specials) or 'none'}",
                remedy="build them with the same --special",
            )
        numbers = np.arange(part.tokens, dtype=np.int32)
        tokens = unflatten(part.token_data, part.token_offsets)
        for index, token in enumerate(tokens[len(specials) :], len(specials)):
            numbers[index] = ids.setdefault(token, len(specials) + len(ids))
        renumbered.append(numbers[part.merges])
    joined = np.concatenate(renumbered)
    pairs = joined[:, 0].astype(np.int64) << 32 | joined[:, 1]
    _, first = np.unique(pairs, return_index=True)
    merges = np.ascontiguousarray(joined[np.sort(first)])
    every = [text.encode() for text in specials] + list(ids)
    return GlobalMerges(specials, *flatten(every), merges)
