"""How merges build each token of a vocabulary: the kernel of `modular.derivation`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_types import I32, I64, MERGES, U64
from modtok_cli.learn.word_kernel import find_rank

Ids = npt.NDArray[np.int32]

_RESULT = types.Tuple((types.int32[::1], types.int32[::1]))  # type: ignore[no-untyped-call]


@njit([_RESULT(I32, I64, MERGES, U64, I32)], cache=True, nogil=True)
def last_merges(
    symbols: Ids,
    offsets: npt.NDArray[np.int64],
    merges: Ids,
    keys: npt.NDArray[np.uint64],
    ranks: Ids,
) -> tuple[Ids, Ids]:
    """What each sequence of symbols merges to, and the merge that is applied last.

    Shapes: symbols (N,) int32, -1 where no token spells a character; offsets (S + 1,) int64;
    merges (M, 3), keys, ranks from `learn.word_kernel.build_pair_table`. Returns results and
    last, (S,) int32: the result is -1 if more than one symbol is left; last is -1 if no merge
    was applied.

    With merges a+b → ab and ab+c → abc, [a, b, c] gives abc, and rank 1.
    """
    count = len(offsets) - 1
    results = np.full(count, -1, dtype=np.int32)
    last = np.full(count, -1, dtype=np.int32)
    active = np.ones(len(merges), dtype=np.uint8)
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
            best = np.int64(-1)
            at = 0
            for j in range(size - 1):
                rank = find_rank(keys, ranks, active, work[j], work[j + 1])
                if rank >= 0 and (best < 0 or rank < best):
                    best = rank
                    at = j
            if best < 0:
                break
            work[at] = merges[best, 2]
            last[i] = best
            size -= 1
            for j in range(at + 1, size):
                work[j] = work[j + 1]
        if known and size == 1:
            results[i] = work[0]
    return results, last
