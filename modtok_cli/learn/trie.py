"""A trie over pieces (byte strings): all pieces that begin at a position of a text, in one walk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from modtok_cli.learn.unit_kernel import BASE_SHIFT, LABEL_BITS, NO_LABEL
from modtok_cli.text.count_kernel import copy_in_order

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Units = npt.NDArray[np.uint64]


def build_trie(data: Bytes, offsets: Ints, ids: npt.NDArray[np.integer] | None = None) -> Units:
    """The double array (`unit_kernel`) of pieces data[offsets[i]:offsets[i + 1]], in any order.

    `ids`: the id of each piece; by default its index.

    Shapes: data (B,) uint8; offsets (P + 1,) int64; ids (P,), 0 to 2^27 - 2.
    Gives (U,) uint64; about 8 bytes for every different prefix of a piece.

    Raises:
        ValueError: a piece is empty or occurs twice.

    >>> trie = trie_of([b"a", b"ab", b"b"])
    >>> prefixes(trie, b"abc"), prefixes(trie, b"c")
    ([(1, 0), (2, 1)], [])
    """
    from modtok_cli.learn.trie_kernel import build_units  # compiled on import

    pieces = len(offsets) - 1
    numbers = np.arange(pieces) if ids is None else np.asarray(ids, dtype=np.int64)
    data = np.ascontiguousarray(data, dtype=np.uint8)
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    lengths = np.diff(offsets)
    if pieces == 0:
        return build_units(np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64), numbers)[0]
    if int(lengths.min()) < 1:
        raise ValueError(f"piece {int(lengths.argmin())} is empty")
    first, room = int(offsets[0]), int(offsets[-1] - offsets[0])
    padded = np.zeros(room + 8, dtype=np.uint8)
    padded[:room] = data[first : first + room]
    starts = offsets - first
    prefixes = np.zeros(pieces, dtype=np.uint64)
    for i in range(8):
        byte = np.where(lengths > i, padded[starts[:-1] + i], 0).astype(np.uint64)
        prefixes |= byte << np.uint64(56 - 8 * i)
    order = np.argsort(prefixes, kind="stable").astype(np.int64)
    sorted_data = np.empty(room, dtype=np.uint8)
    sorted_offsets, sorted_ids = np.empty_like(starts), np.empty_like(numbers)
    copy_in_order(padded, starts, numbers, prefixes, order, sorted_data, sorted_offsets, sorted_ids)
    units, wrong = build_units(sorted_data, sorted_offsets, sorted_ids)
    if wrong >= 0:
        piece = sorted_data[sorted_offsets[wrong] : sorted_offsets[wrong + 1]].tobytes()
        raise ValueError(f"the piece {piece!r} occurs twice")
    return units


def trie_of(pieces: Sequence[bytes]) -> Units:
    """The double array of a list of pieces; piece i is found as i."""
    offsets = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    return build_trie(np.frombuffer(b"".join(pieces), dtype=np.uint8), offsets)


def prefixes(units: Units, text: bytes) -> list[tuple[int, int]]:
    """(length, id) of every piece that `text` begins with, shortest first.

    The reference for the walks in kernels.
    """
    found = []
    node = int(units[0])
    for length, byte in enumerate(text, 1):
        base = node >> BASE_SHIFT
        if not base:
            break
        node = int(units[base ^ byte])
        if node & (2 * NO_LABEL - 1) != byte:
            break
        value = (node & ((1 << BASE_SHIFT) - 1)) >> LABEL_BITS
        if value:
            found.append((length, value - 1))
    return found
