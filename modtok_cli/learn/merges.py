"""The result of BPE learning: tokens, merges, and the languages each belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


def byte_order() -> list[int]:
    """The 256 byte values in the order of GPT-2's byte alphabet.

    Printable bytes come first, then the rest, each ascending. The `tokenizers` library
    numbers its byte alphabet in this order and breaks ties between merges by these ids, so
    equal ids give equal merges.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + [byte for byte in range(256) if byte not in set(printable)]


@dataclass(frozen=True)
class LearnedMerges:
    """A BPE vocabulary with language membership.

    Ids: special tokens 0 … s-1, then the 256 bytes in `byte_order()`, then results of
    merges in order of creation. Merge m joins `merges[m, 0]` and `merges[m, 1]` to
    `merges[m, 2]`; m is its rank. A token can be the result of several merges.

    Shapes: token_data (B,) uint8; token_offsets (V + 1,) int64; merges (M, 3) int32;
    token_membership (V, L) bool; merge_membership (M, L) bool.
    """

    languages: tuple[str, ...]
    specials: tuple[str, ...]
    token_data: npt.NDArray[np.uint8]
    token_offsets: npt.NDArray[np.int64]
    merges: npt.NDArray[np.int32]
    token_membership: npt.NDArray[np.bool_]
    merge_membership: npt.NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Number of tokens, special tokens and bytes included."""
        return len(self.token_offsets) - 1

    def token(self, index: int) -> bytes:
        """Bytes of token `index` (for a special token: its text)."""
        start, stop = self.token_offsets[index], self.token_offsets[index + 1]
        return self.token_data[start:stop].tobytes()
