"""The units of a double array, a trie over byte strings; see `trie`.

A unit is one 64-bit number, so that a step of a walk is one load:

    bits  0 to 8   label: the byte that leads here, 256 in units that no byte leads to
    bits  9 to 35  value: 0 none, else 1 + the id of the piece that ends here
    bits 36 to 63  base: the child for byte c is at `base ^ c`; 0 without children

No two nodes share a base, so the label alone decides whether a unit is a node's child.
Children of a node are within 256 units; the first 256 contain only the root, so base 0 means
no child.
"""

from __future__ import annotations

import numpy as np

from modtok_cli.base.jit import njit

LABEL_BITS = 9
BASE_SHIFT = 36
NO_LABEL = 256


@njit(cache=True, nogil=True, inline="always")
def label_of(unit):  # type: ignore[no-untyped-def]
    """Label of a unit."""
    return unit & np.uint64(0x1FF)


@njit(cache=True, nogil=True, inline="always")
def value_of(unit):  # type: ignore[no-untyped-def]
    """Id of the piece that ends at a unit, -1 if none does."""
    return np.int64((unit >> np.uint64(9)) & np.uint64(0x7FFFFFF)) - 1


@njit(cache=True, nogil=True, inline="always")
def base_of(unit):  # type: ignore[no-untyped-def]
    """Base of a unit."""
    return np.int64(unit >> np.uint64(36))
