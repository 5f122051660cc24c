"""Derivations of tokens: the merges that give a token, and the parts that it requires."""

from __future__ import annotations

import numpy as np

from modtok_cli.base.jit import in_place, njit
from modtok_cli.learn.array_kernel import grown, sort_few


@in_place
def ancestry(first, second, merges, derivation, member, family):  # type: ignore[no-untyped-def]
    """`first` and `second` (or -1), and all their parts, as far as V_i lacks them: their number.

    They are written to `family`, which has room for twice the bytes of both, in T's order, so that
    every prefix contains the parts of its tokens.
    """
    found = 0
    if first >= 0 and not member[first]:
        family[found] = first
        found += 1
    if second >= 0 and second != first and not member[second]:
        family[found] = second
        found += 1
    looked = 0
    while looked < found:
        origin = derivation[family[looked]]
        looked += 1
        if origin < 0:
            continue
        for side in range(2):
            part = np.int64(merges[origin, side])
            known = member[part] != 0
            for step in range(found):
                known = known or family[step] == part
            if not known:
                family[found] = part
                found += 1
    sort_few(family, found)
    return found


@in_place
def append_merge(merge, left, right, result, merges, derivation, later_merge):  # type: ignore[no-untyped-def]
    """Write a merge at rank `merge`, last in the chain of merges that give `result`."""
    merges[merge, 0] = left
    merges[merge, 1] = right
    merges[merge, 2] = result
    later_merge[merge] = -1
    if derivation[result] < 0:
        derivation[result] = merge
        return
    last = derivation[result]
    while later_merge[last] >= 0:
        last = later_merge[last]
    later_merge[last] = merge


@njit()
def merges_to_derive(merge, merges, derivation, later_merge, merge_member):  # type: ignore[no-untyped-def]
    """Merges that M_i must add so that the parts of `merge` are derived before its rank.

    A part that M_i derives only at a later rank requires T's first merge for it, and so do
    that merge's parts. Ascending; empty if nothing is missing.
    """
    found = np.empty(16, dtype=np.int64)
    total = 0
    looked = -1
    while looked < total:
        below = merge if looked < 0 else found[looked]
        looked += 1
        for side in range(2):
            part = merges[below, side]
            origin = np.int64(derivation[part])
            if origin < 0:
                continue  # a byte
            there = False
            other = origin
            while other >= 0 and other < below:
                there = there or merge_member[other] != 0
                other = np.int64(later_merge[other])
            for step in range(total):
                there = there or found[step] == origin
            if not there:
                if total == len(found):
                    found = grown(found, total)
                found[total] = origin
                total += 1
    sort_few(found, total)
    return found[:total]
