"""Naive concatenation of independently trained BPE tokenizers: the baseline of the paper.

The first tokenizer is unchanged; each further tokenizer appends its missing tokens and
merges in order. Early merges of one language then prevent tokens of another from ever being
formed, which is why sequential training exists.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from modtok_cli.base.arrays import Int32Array, flatten, unflatten
from modtok_cli.base.errors import UsageError
from modtok_cli.learn.merges import GlobalMerges


class MergePool:
    """Several tokenizers with common ids, so that any concatenation of them is cheap.

    Ids are in order of first appearance: special tokens, the 256 bytes, then the tokens of
    the first tokenizer, the new ones of the second, and so on.
    """

    def __init__(self, parts: Sequence[GlobalMerges]) -> None:
        if not parts:
            raise UsageError("nothing to concatenate", remedy="give two or more tokenizers")
        first = parts[0]
        self.specials = first.specials
        self._ids: dict[bytes, int] = {}
        self._tokens: list[Int32Array] = []
        self._merges: list[Int32Array] = []
        for part in parts:
            if part.specials != self.specials:
                raise UsageError(
                    "the tokenizers have different special tokens: "
                    f"{', '.join(self.specials) or 'none'}; {', '.join(part.specials) or 'none'}",
                    remedy="build them with the same --special",
                )
            numbers = self._intern(part)
            self._tokens.append(numbers)
            self._merges.append(numbers[part.merges])

    def _intern(self, part: GlobalMerges) -> Int32Array:
        specials = len(self.specials)
        numbers = np.arange(part.tokens, dtype=np.int32)
        tokens = unflatten(part.token_data, part.token_offsets)
        for index, token in enumerate(tokens[specials:], specials):
            numbers[index] = self._ids.setdefault(token, specials + len(self._ids))
        return numbers

    @cached_property
    def everything(self) -> GlobalMerges:
        """All tokens of the pool without merges, for `byte_ids` and lengths."""
        tokens = [text.encode() for text in self.specials] + list(self._ids)
        return GlobalMerges(self.specials, *flatten(tokens), np.empty((0, 3), dtype=np.int32))

    def merges(self, order: Sequence[int]) -> Int32Array:
        """Merges of the concatenation of the tokenizers `order`, in the pool's ids; (M, 3).

        A pair that an earlier tokenizer merges keeps its earlier rank.
        """
        joined = np.concatenate([self._merges[index] for index in order])
        pairs = joined[:, 0].astype(np.int64) << 32 | joined[:, 1]
        _, first = np.unique(pairs, return_index=True)
        return np.ascontiguousarray(joined[np.sort(first)])

    def size(self, order: Sequence[int]) -> int:
        """Tokens of that concatenation, special tokens and bytes included."""
        return len(np.unique(np.concatenate([self._tokens[index] for index in order])))


def concatenate(parts: Sequence[GlobalMerges]) -> GlobalMerges:
    """Concatenate tokenizers.

    With a+b → ab in the first, and b+c → bc, a+bc → abc in the second, "abc" becomes
    [ab, c]: the token abc exists but cannot be formed.
    """
    pool = MergePool(parts)
    whole = pool.everything
    return GlobalMerges(
        whole.specials, whole.token_data, whole.token_offsets, pool.merges(range(len(parts)))
    )
