"""The merge loop of BPE and of sequential BPE (Algorithm 2 of the paper), compiled.

Plain BPE is the case in which the global tokenizer holds only bytes: there is never a token
to adopt, and every step merges the most frequent pair.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from modtok_cli.base.jit import in_place, njit
from modtok_cli.learn.ancestry_kernel import ancestry, append_merge, merges_to_derive
from modtok_cli.learn.array_kernel import grown, resized, resized_rows
from modtok_cli.learn.heap_kernel import drop_top, heapify, sift_down
from modtok_cli.learn.join_kernel import (
    LOOKED,
    add_rows,
    count_pairs,
    join_places,
    lay_out,
    new_neighbours,
    queue_all,
    write_lists,
)
from modtok_cli.learn.pair_kernel import (
    COUNT,
    KEY,
    LIST,
    QUEUED,
    find,
    is_full,
    rehash,
    with_room,
)
from modtok_cli.learn.string_kernel import find_string, index_strings


class Words(NamedTuple):
    """The unique words of a language.

    symbols: (N,) int32, the words as token ids, concatenated; offsets: (W + 1,) int64, the
    start of each word in `symbols`; counts: (W,) int64, how often each word occurs.
    """

    symbols: Any
    offsets: Any
    counts: Any


class Growing(NamedTuple):
    """T with capacity for what the language adds, and its membership.

    token_data: (capacity,) uint8; token_offsets: (capacity + 1,) int64; tokens: number of
    tokens, of which the first `specials` are never the result of a merge; merges:
    (capacity, 3) int32 (left, right, result) and merge_total, their number; member,
    merge_member: (capacity,) uint8, whether the language has the token or merge. There is room for
    all new tokens; token_data, merges and merge_member grow. slots: (2^n,) int32, the index of the
    tokens' strings (`string_kernel`), which is made if it has too little room.
    """

    token_data: Any
    token_offsets: Any
    tokens: Any
    specials: Any
    merges: Any
    merge_total: Any
    member: Any
    merge_member: Any
    slots: Any


@njit()
def _occurrences(symbols, word_offsets, word_counts, room, whole_words_only):  # type: ignore[no-untyped-def]
    """How often each token occurs, or occurs as a whole word; (room,) int64."""
    frequency = np.zeros(room, dtype=np.int64)
    for word in range(len(word_counts)):
        start, stop = word_offsets[word], word_offsets[word + 1]
        if whole_words_only and stop - start != 1:
            continue
        for place in range(start, stop):
            frequency[symbols[place]] += word_counts[word]
    return frequency


@in_place
def _best_pair(table, bits, heap_counts, heap_keys, queued, work):  # type: ignore[no-untyped-def]
    """Bring the most frequent pair to the top of the heap: (its count, heap size).

    A count on the heap may be outdated, but never too low: `QUEUED` marks the current entry
    of a pair, and all others are dropped when they reach the top.
    """
    while queued > 0:
        work[LOOKED] += 1
        row = find(table, bits, heap_keys[0])
        count = heap_counts[0]
        if table[row, KEY] == -1 or table[row, QUEUED] != count:
            queued = drop_top(heap_counts, heap_keys, queued)
            continue
        current = table[row, COUNT]
        if current == count:
            return count, queued
        table[row, QUEUED] = current
        if current > 0:
            heap_counts[0] = current
            sift_down(heap_counts, heap_keys, queued, 0)
        else:
            queued = drop_top(heap_counts, heap_keys, queued)
    return np.int64(0), queued


@in_place
def _shelve(table, bits, heap_counts, heap_keys, queued):  # type: ignore[no-untyped-def]
    """Remove the pair at the top until it becomes more frequent; the heap size."""
    table[find(table, bits, heap_keys[0]), QUEUED] = heap_counts[0]
    return drop_top(heap_counts, heap_keys, queued)


@in_place
def _best_unit(frequency, member, unit_counts, unit_keys, units):  # type: ignore[no-untyped-def]
    """Bring the most frequent token outside V_i to the top: (its count, heap size)."""
    while units > 0:
        token = unit_keys[0]
        current = frequency[token]
        if member[token] or current <= 0:
            units = drop_top(unit_counts, unit_keys, units)
        elif current == unit_counts[0]:
            return current, units
        else:
            unit_counts[0] = current
            sift_down(unit_counts, unit_keys, units, 0)
    return np.int64(0), units


@in_place
def _write_joined(token_data, token_offsets, tokens, left, right):  # type: ignore[no-untyped-def]
    """Append the bytes of left + right to the token bytes, which have room."""
    stop = token_offsets[tokens]
    for part in (left, right):
        for place in range(token_offsets[part], token_offsets[part + 1]):
            token_data[stop] = token_data[place]
            stop += 1


@njit(cache=True, nogil=True)
def learn_language(  # type: ignore[no-untyped-def]
    words, vocabulary, budget, whole_words_only, floor, signal, work
):
    """Run the loop of Algorithm 2 for one language.

    Args:
        words: a `Words`; its symbols are consumed.
        vocabulary: a `Growing`; the tokens and merges that the language already has are
            bytes and special tokens, and on a later pass those it adopted.
        budget: |V_i| to reach.
        whole_words_only: count a token only where it is a whole word (the authors' release).
        floor: least count of a pair that is kept track of; when that was too high, all are counted
            again. Affects time and memory only.
        signal: (2,) int64; [0] is set to |V_i| as it grows, a non-zero [1] stops the loop.
        work: (5,) int64, added to; see `join_kernel`.

    Returns:
        (vocabulary, adopted, frequency): T with the new tokens and merges, the number of
        tokens adopted from T, and how often each token occurs in the final segmentation.
    """
    symbols, word_offsets, word_counts = words
    token_data, token_offsets, tokens, specials = vocabulary[:4]
    merges, merge_total, member, merge_member, slots = vocabulary[4:]
    lengths = np.empty(len(member), dtype=np.int32)
    for token in range(tokens):
        lengths[token] = token_offsets[token + 1] - token_offsets[token]
    cells, longest = lay_out(symbols, word_offsets, word_counts, lengths)
    frequency = _occurrences(symbols, word_offsets, word_counts, len(member), False)
    found, sums, touched = new_neighbours(len(member))
    family = np.empty(2 * longest, dtype=np.int64)

    # Tokens of T that occur and are not in V_i yet. Their counts as whole words never change:
    # a merge never turns a word into an older token.
    worth = frequency
    if whole_words_only:
        worth = _occurrences(symbols, word_offsets, word_counts, len(member), True)
    unit_counts = np.empty(tokens + 1, dtype=np.int64)
    unit_keys = np.empty(tokens + 1, dtype=np.int64)
    units = 0
    members = 0
    for token in range(tokens):
        if member[token]:
            members += 1
        elif worth[token] > 0:
            unit_counts[units] = worth[token]
            unit_keys[units] = token
            units += 1
    heapify(unit_counts, unit_keys, units)

    capacity = tokens + max(0, budget - members) + 512
    if len(slots) < 2 * capacity:
        slots = index_strings(token_data, token_offsets, specials, tokens, capacity)

    # The first merge that gives a token is the one with which T encodes the token's own
    # string, so it is the one to adopt with it.
    derivation = np.full(len(member), -1, dtype=np.int32)
    later_merge = np.full(len(merge_member), -1, dtype=np.int32)
    for rank in range(merge_total - 1, -1, -1):
        later_merge[rank] = derivation[merges[rank, 2]]
        derivation[merges[rank, 2]] = rank

    adopted = 0
    signal[0] = members
    # This loop makes room, the inner one does all the rest: numba counts a reference for each array
    # that a loop replaces or that a call returns, each time.
    pairs = count_pairs(cells, lengths, word_counts, floor, merge_total > 0, work)
    table, bits, used, places, placed = pairs
    heap_counts, heap_keys, queued = queue_all(table, used)
    is_counted = True
    is_done = False
    text_end = listed = room = np.int64(0)
    # The merge in progress; both sides of none are done.
    left = right = result = np.int64(0)
    joined = before = after = step = 0
    twins = np.int64(0)
    side = 2
    is_mixed = False
    while not is_done:
        if not is_counted:
            pairs = count_pairs(cells, lengths, word_counts, floor, True, work)
            table, bits, used, places, placed = pairs
            heap_counts, heap_keys, queued = queue_all(table, used)
            is_counted = True
        if is_full(table, used):
            table, bits, used = rehash(table, floor)
        if queued == len(heap_counts):
            heap_counts = grown(heap_counts, queued)
            heap_keys = grown(heap_keys, queued)
        if placed + room > len(places):
            if step == 0:
                places, placed = with_room(table, places, floor, room)
            else:  # `sums` has places in the lists
                places = resized(places, placed, 2 * (placed + room))
        if listed > len(found):
            found = resized_rows(found, 0, 2 * listed)
        if text_end > len(token_data):
            token_data = resized(token_data, token_offsets[tokens], 2 * text_end)
        if merge_total == len(merges):
            capacity = 2 * merge_total + 16
            merges = resized_rows(merges, merge_total, capacity)
            merge_member = resized(merge_member, merge_total, capacity)
            later_merge = resized(later_merge, merge_total, capacity)
        while True:
            if side < 2:
                touches = before if side == 0 else after
                step, used, placed, queued, is_more, room = add_rows(
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
                )
                is_mixed = is_mixed or is_more
                if step < touches:
                    break
                write_lists(
                    result,
                    side,
                    joined,
                    touches,
                    is_mixed,
                    table,
                    bits,
                    places,
                    lengths,
                    found,
                    sums,
                    touched,
                )
                side += 1
                step = 0
                is_mixed = False
                continue
            is_done = members >= budget or signal[1] != 0
            if is_done:
                break
            pair_count, queued = _best_pair(table, bits, heap_counts, heap_keys, queued, work)
            unit_count, units = _best_unit(worth, member, unit_counts, unit_keys, units)
            if pair_count < floor and unit_count < floor and floor > 1:
                floor = max(np.int64(1), floor // 8)  # a pair without a row may be the best one
                is_counted = False
                break
            is_done = pair_count <= 0 and unit_count <= 0
            if is_done:
                break  # no pair and no token is left
            adopting = unit_count >= pair_count
            if adopting:
                related = ancestry(unit_keys[0], -1, merges, derivation, member, family)
            else:
                left = heap_keys[0] >> 32
                right = heap_keys[0] & 0xFFFFFFFF
                row = find(table, bits, heap_keys[0])
                listed = np.int64(places[table[row, LIST]])
                text_end = token_offsets[tokens] + lengths[left] + lengths[right]
                if listed > len(found) or text_end > len(token_data) or merge_total == len(merges):
                    break
                related = ancestry(left, right, merges, derivation, member, family)
                # Only with whole-word counts can the parts of a merge be missing. If they fill
                # the budget, only they are adopted: T gets no token that no language has.
                adopting = related > 0 and members + related >= budget
            for place in range(min(related, budget - members)):
                token = family[place]
                member[token] = 1
                members += 1
                adopted += 1
                if derivation[token] >= 0:
                    merge_member[derivation[token]] = 1
            if adopting:
                signal[0] = members
                continue

            # Append the token and the merge to T unless they exist, and adopt them.
            _write_joined(token_data, token_offsets, tokens, left, right)
            slot = find_string(token_data, token_offsets, slots, token_offsets[tokens], text_end)
            result = np.int64(slots[slot])
            merge = np.int64(-1)
            if result >= 0 and floor > 1:
                # Pairs of a token that exists become more frequent: from now on, all have a row.
                floor = np.int64(1)
                is_counted = False
                break
            if result >= 0:
                merge = np.int64(derivation[result])
                while merge >= 0 and (merges[merge, 0] != left or merges[merge, 1] != right):
                    merge = np.int64(later_merge[merge])
                if merge >= 0:
                    # On a second pass: a merge of T that the language did not adopt. It keeps its
                    # rank, so its parts must be derived by merges of lower rank.
                    needed = merges_to_derive(merge, merges, derivation, later_merge, merge_member)
                    lacking = 0
                    for rank in needed:
                        lacking += member[merges[rank, 2]] == 0
                    if members + lacking + (member[result] == 0) > budget:
                        queued = _shelve(table, bits, heap_counts, heap_keys, queued)
                        continue
                    for rank in needed:
                        merge_member[rank] = 1
                        members += member[merges[rank, 2]] == 0
                        member[merges[rank, 2]] = 1
            else:
                result = np.int64(tokens)
                token_offsets[tokens + 1] = text_end
                lengths[tokens] = lengths[left] + lengths[right]
                slots[slot] = result
                tokens += 1
            if merge < 0:
                merge = np.int64(merge_total)
                append_merge(merge, left, right, result, merges, derivation, later_merge)
                merge_total += 1
            merge_member[merge] = 1
            if not member[result]:
                member[result] = 1
                members += 1
            signal[0] = members

            queued = drop_top(heap_counts, heap_keys, queued)
            joined, before, after, twins = join_places(
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
            )
            side = 0
            room = 2 * joined + before + after
            if placed + room > len(places):
                break

    grown_vocabulary = Growing(
        token_data,
        token_offsets,
        tokens,
        specials,
        merges,
        merge_total,
        member,
        merge_member,
        slots,
    )
    return grown_vocabulary, adopted, frequency
