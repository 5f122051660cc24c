"""How merges build each token of a vocabulary: the kernel of `modular.derivation`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_types import I32, I64, U64
from modtok_cli.learn.merge_kernel import LAST, RANK, RESULT, find_merge, pair_of

Ids = npt.NDArray[np.int32]

_RESULT = types.Tuple((types.int32[::1], types.int32[::1]))  # type: ignore[no-untyped-call]


@njit([_RESULT(I32, I64, U64)], cache=True, nogil=True)
def last_merges(
    symbols: Ids,
    offsets: npt.NDArray[np.int64],
    pairs: npt.NDArray[np.uint64],
) -> tuple[Ids, Ids]:
    """What each sequence of symbols merges to, and the merge that is applied last.

    Shapes: symbols (N,) int32, -1 where no token spells a character; offsets (S + 1,) int64;
    pairs a `learn.merge_kernel.pair_table`. Returns results and last, (S,) int32: the result is -1
    if more than one symbol is left; last is -1 if no merge was applied.

    With merges a+b → ab and ab+c → abc, [a, b, c] gives abc, and rank 1.
    """
    count = len(offsets) - 1
    results = np.full(count, -1, dtype=np.int32)
    last = np.full(count, -1, dtype=np.int32)
    mask = np.uint64((len(pairs) >> 3) - 1)
    longest = 1
    for i in range(count):
        longest = max(longest, offsets[i + 1] - offsets[i])
    work = np.empty(longest, dtype=np.int32)
    for i in range(count):
        size = offsets[i + 1] - offsets[i]
        known = size > 0
        for j in range(size):
            work[j] = symbols[offsets[i] + j]
            known = known and work[j] >= 0
        while known and size > 1:
            best = np.uint64(0)
            at = 0
            for j in range(size - 1):
                found = find_merge(pairs, mask, pair_of(work[j], work[j + 1]))
                if (found >> RANK) > (best >> RANK):
                    best = found
                    at = j
            if best == np.uint64(0):
                break
            work[at] = np.int32(best & RESULT)
            last[i] = np.int32(LAST - (best >> RANK))
            size -= 1
            for j in range(at + 1, size):
                work[j] = work[j + 1]
        if known and size == 1:
            results[i] = work[0]
    return results, last
