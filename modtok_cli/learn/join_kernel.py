"""Words as symbols laid out by bytes, their pairs, and the step that joins one pair everywhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from modtok_cli.base.jit import in_place, njit
from modtok_cli.learn.heap_kernel import Heap, heapify, push
from modtok_cli.learn.hugepages import advise_huge_pages, with_edge
from modtok_cli.learn.pair_kernel import (
    COUNT,
    KEY,
    LIST,
    QUEUED,
    PairIndex,
    find,
    home,
    is_full,
    list_length,
    new_list,
    new_table,
    rehash,
    sort_list,
)
from modtok_cli.text.bits import prefetch

# A word takes a cell for each byte, and another one ends it. The first cell of a symbol has the
# symbol and the count of its word; the last cell has the symbol, too. So both neighbours of a
# symbol are found by lengths of symbols, and they are mostly in the same cache line.
SYMBOL = 0
WEIGHT = 1
END = -1  # symbol of a cell between words
INSIDE = -2  # symbol of a cell where a symbol started that is part of another now

_LARGEST = (1 << 31) - 1

# A merge visits positions that are known in advance: they are prefetched so many steps ahead.
_AHEAD = 12
_ROWS_AHEAD = 4

_SKETCH_BITS = 17

# What a language costs, in `work`, (5,) int64: positions of words that were counted, positions of
# lists that were visited, pairs that were joined, rows of the table that were looked up for them,
# and entries of the heap that were looked at.
SCANNED, VISITED, JOINED, ROWS, LOOKED = range(5)


class Neighbours(NamedTuple):
    """Scratch of `join_places`, `add_rows` and `write_lists`.

    found: (n, 3) int32, of each joined pair the symbols before and after it and its position;
    sums: (2, capacity, 2) int64, zero between calls: per symbol before or after the joined pairs,
    its occurrences there, and the number of positions; touched: (2, capacity) int32, those
    symbols.
    """

    found: Any
    sums: Any
    touched: Any


@njit()
def new_neighbours(capacity):  # type: ignore[no-untyped-def]
    """Scratch for symbols below `capacity`."""
    sums = np.empty((2, capacity, 2), dtype=np.int64)
    advise_huge_pages(sums)
    sums[:] = 0
    return Neighbours(
        np.empty((1024, 3), dtype=np.int32),
        sums,
        np.empty((2, capacity), dtype=np.int32),
    )


@njit()
def lay_out(symbols, word_offsets, word_counts, lengths):  # type: ignore[no-untyped-def]
    """Cells (bytes + words + 1, 2) int32 of the words that are concatenated in `symbols`.

    A count that needs more than 31 bits is stored as -1 - word. lengths: bytes of each symbol.
    Returns (cells, bytes of the longest word).
    """
    words = len(word_counts)
    total = words + 1
    for place in range(word_offsets[words]):
        total += lengths[symbols[place]]
    room = np.empty((with_edge(total, 8), 2), dtype=np.int32)
    edge = advise_huge_pages(room)
    cells = room[edge : edge + total]
    cells[0, SYMBOL] = END
    at = np.int64(1)
    longest = np.int64(0)
    for word in range(words):
        first = at
        weight = word_counts[word]
        if weight > _LARGEST:
            weight = np.int64(-1 - word)
        for place in range(word_offsets[word], word_offsets[word + 1]):
            symbol = symbols[place]
            cells[at, SYMBOL] = symbol
            cells[at, WEIGHT] = weight
            at += lengths[symbol]
            cells[at - 1, SYMBOL] = symbol
        cells[at, SYMBOL] = END
        longest = max(longest, at - first)
        at += 1
    return cells, longest


@in_place
def _sketch(cells, lengths, word_counts, sums):  # type: ignore[no-untyped-def]
    """Add up counts of pairs by a short hash: no pair occurs more often than its sum."""
    at = np.int64(1)
    while at < len(cells):
        symbol = np.int64(cells[at, SYMBOL])
        if symbol < 0:
            at += 1
            continue
        weight = np.int64(cells[at, WEIGHT])
        if weight < 0:
            weight = word_counts[-1 - weight]
        at += lengths[symbol]
        follower = np.int64(cells[at, SYMBOL])
        if follower >= 0:
            sums[home((symbol << 32) | follower, _SKETCH_BITS)] += weight


@in_place
def _number_pairs(  # type: ignore[no-untyped-def]
    at, seen, used, cells, lengths, word_counts, floor, sketch, table, bits, numbers
):
    """Count the pairs from cell `at` on in rows of the table, until it is half full.

    `numbers` receives the number of each pair, in order, -1 for one that is too rare by the sketch.
    Returns (next cell, pairs seen, used rows).
    """
    while at < len(cells) and used * 2 <= len(table):
        symbol = np.int64(cells[at, SYMBOL])
        if symbol < 0:
            at += 1
            continue
        weight = np.int64(cells[at, WEIGHT])
        if weight < 0:
            weight = word_counts[-1 - weight]
        at += lengths[symbol]
        follower = np.int64(cells[at, SYMBOL])
        if follower < 0:
            continue
        key = (symbol << 32) | follower
        numbers[seen] = -1
        if len(sketch) == 0 or sketch[home(key, _SKETCH_BITS)] >= floor:
            row = find(table, bits, key)
            if table[row, KEY] == -1:
                table[row, KEY] = key
                table[row, LIST] = used  # for now, its number
                used += 1
            numbers[seen] = table[row, LIST]
            table[row, COUNT] += weight
            table[row, QUEUED] += 1  # for now, the length of its list
        seen += 1
    return at, seen, used


@njit()
def count_pairs(cells, lengths, word_counts, floor, has_many, work):  # type: ignore[no-untyped-def]
    """Every adjacent pair that occurs `floor` times with its count and positions: a `PairIndex`.

    With `has_many` pairs, most of those that are too rare are sorted out before they come into
    the table.
    """
    total = len(cells)
    sketch = np.zeros((1 << _SKETCH_BITS) if has_many and floor > 1 else 0, dtype=np.int64)
    if len(sketch) > 0:
        _sketch(cells, lengths, word_counts, sketch)
    bits = 12
    table = new_table(bits)
    used = seen = 0
    room = np.empty(with_edge(total, 4), dtype=np.int32)
    edge = advise_huge_pages(room)
    numbers = room[edge : edge + total]
    at = np.int64(1)
    while at < total:
        at, seen, used = _number_pairs(
            at, seen, used, cells, lengths, word_counts, floor, sketch, table, bits, numbers
        )
        if at < total:
            table, bits, used = rehash(table, 1)
    work[SCANNED] += seen
    ends = np.full(used, -1, dtype=np.int64)
    table, bits, used = rehash(table, floor)
    placed = 0
    for row in range(len(table)):
        if table[row, KEY] >= 0:
            placed += 1 + table[row, QUEUED]
    size = placed + placed // 4 + 1024
    block = np.empty(with_edge(size, 4), dtype=np.int32)
    edge = advise_huge_pages(block)
    places = block[edge : edge + size]
    placed = 0
    for row in range(len(table)):
        if table[row, KEY] >= 0:
            ends[table[row, LIST]] = placed + 1
            table[row, LIST] = placed
            places[placed] = table[row, QUEUED]
            placed += 1 + table[row, QUEUED]
            table[row, QUEUED] = 0
    at = np.int64(1)
    seen = 0
    while at < total:
        symbol = np.int64(cells[at, SYMBOL])
        if symbol < 0:
            at += 1
            continue
        place = at
        at += lengths[symbol]
        if cells[at, SYMBOL] >= 0:
            number = np.int64(numbers[seen])
            seen += 1
            if number >= 0 and ends[number] >= 0:
                places[ends[number]] = place
                ends[number] += 1
    return PairIndex(table, bits, used, places, placed)


@in_place
def join_places(  # type: ignore[no-untyped-def]
    left,
    right,
    result,
    cells,
    lengths,
    word_counts,
    frequency,
    table,
    row,
    places,
    found,
    sums,
    touched,
    work,
):
    """Replace every (left, right), the pair of a row, by `result`, and add up the neighbours.

    Runs of one symbol go from left to right. Counts of symbols (`frequency`) are updated, and those
    of pairs by `add_rows`. `found` has room for the list of the pair. Returns (joined pairs,
    symbols before, symbols after, and occurrences that follow another one of this call).
    """
    first = table[row, LIST]
    table[row, COUNT] = 0
    table[row, QUEUED] = 0
    table[row, LIST] = -1
    left_size = np.int64(lengths[left])
    size = left_size + lengths[right]
    is_long = lengths[right] > 1
    flat = cells.reshape(-1)
    joined = before = after = 0
    occurrences = twins = np.int64(0)
    last = np.int64(-1)
    stop = first + 1 + np.int64(places[first])
    for step in range(first + 1, stop):
        if step + _AHEAD < stop:
            prefetch(flat, 2 * np.int64(places[step + _AHEAD]))
        place = np.int64(places[step])
        if cells[place, SYMBOL] != left or cells[place + left_size, SYMBOL] != right:
            continue
        weight = np.int64(cells[place, WEIGHT])
        if weight < 0:
            weight = word_counts[-1 - weight]
        leader = np.int64(cells[place - 1, SYMBOL])
        follower = np.int64(cells[place + size, SYMBOL])
        cells[place, SYMBOL] = result
        if is_long:
            cells[place + left_size, SYMBOL] = INSIDE
        cells[place + size - 1, SYMBOL] = result
        found[joined, 0] = leader
        found[joined, 1] = follower
        found[joined, 2] = place
        joined += 1
        occurrences += weight
        if last >= 0 and last + size == place:
            twins += weight
        last = place
        if leader >= 0:
            if sums[0, leader, 1] == 0:
                touched[0, before] = leader
                before += 1
            sums[0, leader, 0] += weight
            sums[0, leader, 1] += 1
        if follower >= 0:
            if sums[1, follower, 1] == 0:
                touched[1, after] = follower
                after += 1
            sums[1, follower, 0] += weight
            sums[1, follower, 1] += 1
    frequency[left] -= occurrences
    frequency[right] -= occurrences
    frequency[result] += occurrences
    work[VISITED] += places[first]
    work[JOINED] += joined
    work[ROWS] += 2 * (before + after)
    return joined, before, after, twins


@in_place
def add_rows(  # type: ignore[no-untyped-def]
    left,
    right,
    result,
    side,
    step,
    touches,
    twins,
    floor,
    table,
    bits,
    used,
    places,
    placed,
    heap_counts,
    heap_keys,
    queued,
    sums,
    touched,
):
    """Update the rows of the pairs on one side, from neighbour number `step` on.

    `sums` then has the place for positions of each new pair, or -1 without a row. Stops where the
    table, the lists or the heap lack room, before it changes anything there. Returns (next step,
    used rows, used length of lists, size of the heap, whether a list continues another one, and
    the room that lists need, if they lack it).
    """
    key = (left << 32) | right
    flat_table = table.reshape(-1)
    is_mixed = False
    while step < touches and queued < len(heap_counts) and not is_full(table, used):
        if step + _ROWS_AHEAD < touches:
            symbol = np.int64(touched[side, step + _ROWS_AHEAD])
            if side == 0:
                prefetch(flat_table, 4 * home((symbol << 32) | left, bits))
                prefetch(flat_table, 4 * home((symbol << 32) | result, bits))
            else:
                prefetch(flat_table, 4 * home((right << 32) | symbol, bits))
                prefetch(flat_table, 4 * home((result << 32) | symbol, bits))
        symbol = np.int64(touched[side, step])
        total = sums[side, symbol, 0]
        if side == 0:
            old_key = (symbol << 32) | left
            new_key = (symbol << 32) | result
        else:
            old_key = (right << 32) | symbol
            new_key = (result << 32) | symbol
        # Of two pairs in succession, the second one followed a `right`, of which the first one
        # has taken the count already, and the first one is not followed by `left` any more.
        lost = total
        if side == 0 and symbol == result:
            lost -= twins
        if side == 1 and symbol == left:
            total -= twins
        row = find(table, bits, new_key)
        is_new = table[row, KEY] == -1
        has_row = total > 0 and not (is_new and total < floor)
        number = sums[side, symbol, 1]
        if has_row:
            room = 1 + list_length(table, row, places) + number
            if placed + room > len(places):
                return step, used, placed, queued, is_mixed, room
        if lost > 0 and old_key != key:
            old_row = find(table, bits, old_key)
            if table[old_row, KEY] == old_key:
                table[old_row, COUNT] -= lost
        step += 1
        if not has_row:
            sums[side, symbol, 1] = -1
            continue
        if is_new:
            table[row, KEY] = new_key
            used += 1
        is_mixed = is_mixed or table[row, LIST] >= 0
        start = new_list(table, row, places, placed, number)
        placed = start + number
        sums[side, symbol, 1] = start
        table[row, COUNT] += total
        if table[row, COUNT] > table[row, QUEUED]:
            table[row, QUEUED] = table[row, COUNT]
            queued = push(heap_counts, heap_keys, queued, table[row, COUNT], new_key)
    return step, used, placed, queued, is_mixed, np.int64(0)


@in_place
def write_lists(  # type: ignore[no-untyped-def]
    result, side, joined, touches, is_mixed, table, bits, places, lengths, found, sums, touched
):
    """Write the positions of the new pairs on one side to their lists; clears `sums`."""
    for step in range(joined):
        symbol = np.int64(found[step, side])
        if symbol < 0:
            continue
        at = sums[side, symbol, 1]
        if at >= 0:
            place = found[step, 2]
            places[at] = place if side == 1 else place - lengths[symbol]
            sums[side, symbol, 1] = at + 1
    for step in range(touches):
        symbol = np.int64(touched[side, step])
        sums[side, symbol, 0] = 0
        sums[side, symbol, 1] = 0
        if is_mixed:
            new_key = (symbol << 32) | result if side == 0 else (result << 32) | symbol
            row = find(table, bits, new_key)
            if table[row, KEY] == new_key and table[row, LIST] >= 0:
                sort_list(places, table[row, LIST])


@njit()
def queue_all(table, used):  # type: ignore[no-untyped-def]
    """The heap of all pairs of the table, with capacity for more: a `Heap`."""
    heap_counts = np.empty(2 * used + 1024, dtype=np.int64)
    heap_keys = np.empty(2 * used + 1024, dtype=np.int64)
    queued = 0
    for row in range(len(table)):
        if table[row, KEY] >= 0:
            heap_counts[queued] = table[row, COUNT]
            heap_keys[queued] = table[row, KEY]
            table[row, QUEUED] = table[row, COUNT]
            queued += 1
    heapify(heap_counts, heap_keys, queued)
    return Heap(heap_counts, heap_keys, queued)
