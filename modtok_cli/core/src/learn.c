// The merge loop of BPE and of sequential BPE (Algorithm 2 of the paper);
// reference/sequential_bpe.py says the same slowly.
//
// Plain BPE is the case in which the global tokenizer T holds only bytes: there is never a token to
// adopt, and every step merges the most frequent pair.
#include "learner.h"

// Brings the most frequent pair to the top of the heap: its count, 0 if none is left. `queued` of a
// row marks the current item of its pair; all others are dropped when they reach the top.
static int64_t best_pair(pair_index *index) {
    while (index->queued > 0) {
        index->work[LOOKED]++;
        heap_item *top = index->heap;
        pair_row *row = find_row(index->rows, index->bits, top->key);
        if (row->key == -1 || row->queued != top->count) {
            index->queued = heap_drop(top, index->queued);
            continue;
        }
        if (row->count == top->count) return top->count;
        row->queued = row->count;
        if (row->count > 0) {
            top->count = row->count;
            heap_sink(top, index->queued, 0);
        } else {
            index->queued = heap_drop(top, index->queued);
        }
    }
    return 0;
}

// Brings the most frequent token outside V_i to the top: its count, 0 if none is left.
static int64_t best_unit(const int64_t *worth, const uint8_t *member, heap_item *units,
                         int64_t *size) {
    while (*size > 0) {
        int64_t current = worth[units->key];
        if (member[units->key] || current <= 0) {
            *size = heap_drop(units, *size);
        } else if (current == units->count) {
            return current;
        } else {
            units->count = current;
            heap_sink(units, *size, 0);
        }
    }
    return 0;
}

// How often each token occurs.
static int64_t *occurrences(const int32_t *symbols, const int64_t *offsets, const int64_t *counts,
                            int64_t words, int64_t room) {
    int64_t *found = new_zeros(room, sizeof(int64_t));
    for (int64_t word = 0; found && word < words; word++) {
        for (int64_t place = offsets[word]; place < offsets[word + 1]; place++)
            found[symbols[place]] += counts[word];
    }
    return found;
}

// The rest of T's merges that the language takes with one of T that it had not adopted; it keeps
// its rank, so its parts must be derived by merges of lower rank. Gives the new number of members,
// -1 if that is more than the budget, or MT_NO_MEMORY - 1.
static int64_t adopt_merge(mt_learner *l, int64_t merge, int64_t result, int64_t members,
                           int64_t budget) {
    int64_t *needed;
    int64_t total = merges_to_derive(l, merge, &needed), lacking = 0;
    for (int64_t i = 0; i < total; i++) lacking += !l->member[l->merges[3 * needed[i] + 2]];
    int64_t after = members + lacking + !l->member[result];
    if (total < 0) {
        after = MT_NO_MEMORY - 1;
    } else if (after > budget) {
        after = -1;
    } else {
        after = members;
        for (int64_t i = 0; i < total; i++) {
            int32_t part = l->merges[3 * needed[i] + 2];
            l->merge_member[needed[i]] = 1;
            after += !l->member[part];
            l->member[part] = 1;
        }
    }
    free_block(needed);
    return after;
}

// Sets the length and the characters of a token that T has already.
static void measure(pair_index *index, const mt_learner *l, int64_t token) {
    const uint8_t *bytes = l->token_data + l->token_offsets[token];
    int64_t size = l->token_offsets[token + 1] - l->token_offsets[token];
    unspaced found = {0, bytes[0], bytes[0]};
    for (int64_t at = 1; at < size; at++)
        found = join_unspaced(found, (unspaced){0, bytes[at], bytes[at]});
    index->lengths[token] = (int32_t)size;
    index->characters[token] = found;
}

static void adopt_tokens(mt_learner *l, const int64_t *family, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int64_t token = family[i];
        l->member[token] = 1;
        l->adopted++;
        if (l->derivation[token] >= 0) l->merge_member[l->derivation[token]] = 1;
    }
}

// The loop, after everything has its place.
static int run(join *j, heap_item *units, int64_t unit_total, int64_t *family, int64_t members,
               int64_t budget, volatile int64_t *signal) {
    mt_learner *l = j->l;
    pair_index *index = &j->index;
    bool is_counted = false;
    bool has_many = l->merge_total > 0;
    for (signal[0] = members; members < budget && !signal[1]; signal[0] = members) {
        if (!is_counted && !count_pairs(index, has_many)) return MT_NO_MEMORY;
        is_counted = has_many = true;
        int64_t pair_count = best_pair(index);
        int64_t unit_count = best_unit(l->frequency, l->member, units, &unit_total);
        if (pair_count < index->floor && unit_count < index->floor && index->floor > 1) {
            index->floor = max64(1, index->floor / 8);  // a pair without a row may be the best one
            is_counted = false;
            continue;
        }
        if (pair_count <= 0 && unit_count <= 0) break;  // no pair and no token is left
        if (unit_count >= pair_count) {
            int64_t taken = min64(ancestry(l, units->key, family), budget - members);
            adopt_tokens(l, family, taken);
            members += taken;
            continue;
        }
        // The parts of a pair occur as often as it does, so they have been adopted before.
        int64_t left = index->heap->key >> 32, right = index->heap->key & 0xFFFFFFFF;

        // Append the token and the merge to T unless they exist, and adopt them.
        int64_t start = l->token_offsets[l->tokens];
        int64_t size = index->lengths[left] + (int64_t)index->lengths[right];
        if (!room_for_merge(l, start + size)) return MT_NO_MEMORY;
        uint8_t *bytes = l->token_data + start;
        memcpy(bytes, l->token_data + l->token_offsets[left], (size_t)index->lengths[left]);
        memcpy(bytes + index->lengths[left], l->token_data + l->token_offsets[right],
               (size_t)index->lengths[right]);
        int32_t *slot = find_string(l, bytes, size);
        int64_t result = *slot, merge = -1;
        if (result >= 0 && index->floor > 1) {
            // Pairs of a token that exists become more frequent: from now on, all have a row.
            index->floor = 1;
            is_counted = false;
            continue;
        }
        if (result >= 0) {
            merge = l->derivation[result];
            while (merge >= 0 &&
                   (l->merges[3 * merge] != left || l->merges[3 * merge + 1] != right))
                merge = l->later_merge[merge];
            if (merge >= 0) {
                int64_t after = adopt_merge(l, merge, result, members, budget);
                if (after < -1) return MT_NO_MEMORY;
                if (after < 0) {  // no room: leave the pair until it becomes more frequent
                    find_row(index->rows, index->bits, index->heap->key)->queued =
                        index->heap->count;
                    index->queued = heap_drop(index->heap, index->queued);
                    continue;
                }
                members = after;
            }
        } else {
            result = l->tokens++;
            l->token_offsets[result + 1] = start + size;
            index->lengths[result] = (int32_t)size;
            index->characters[result] =
                join_unspaced(index->characters[left], index->characters[right]);
            *slot = (int32_t)result;
        }
        if (merge < 0) merge = append_merge(l, left, right, result);
        l->merge_member[merge] = 1;
        members += !l->member[result];
        l->member[result] = 1;

        pair_row *row = find_row(index->rows, index->bits, index->heap->key);
        index->queued = heap_drop(index->heap, index->queued);
        j->left = left;
        j->right = right;
        j->result = result;
        if (!apply_merge(j, row)) return MT_NO_MEMORY;
    }
    return MT_OK;
}

int mt_learn(mt_learner *l, const int32_t *symbols, const int64_t *word_offsets,
             const int64_t *word_counts, int64_t words, int64_t budget, int64_t floor,
             int64_t most_unspaced, int64_t *signal) {
    int64_t members = 0, longest = 0, total = word_offsets[words];
    for (int64_t token = 0; token < l->tokens; token++) members += l->member[token];
    // Every merge removes a symbol, so a small text cannot need the whole budget.
    int64_t first = l->tokens, extra = max64(0, min64(budget - members, total)) + MT_SIZE(16, 1);
    budget = min64(budget, first + total + 1);
    if (!reserve(l, extra)) return MT_NO_MEMORY;
    int64_t room = l->token_room, unit_total = 0;
    l->adopted = 0;
    memset(l->work, 0, sizeof(l->work));
    free_block(l->frequency);
    l->frequency = occurrences(symbols, word_offsets, word_counts, words, room);
    join j = {.l = l, .found_room = MT_SIZE(1024, 1)};
    j.index = (pair_index){.word_counts = word_counts,
                           .most_unspaced = most_unspaced,
                           .floor = floor,
                           .work = l->work};
    j.index.lengths = new_zeros(room, sizeof(int32_t));
    j.index.characters = new_block(room, sizeof(unspaced));
    j.found = new_block(j.found_room, sizeof(joined_pair));
    for (int side = 0; side < 2; side++) {
        j.sums[side] = new_zeros(room, sizeof(neighbour));
        j.touched[side] = new_block(room, sizeof(int32_t));
    }
    heap_item *units = new_block(first + 1, sizeof(heap_item));
    int64_t *family = NULL;
    int status = MT_NO_MEMORY;
    if (!l->frequency || !j.index.lengths || !j.index.characters || !j.found || !units ||
        !j.sums[0] || !j.sums[1] || !j.touched[0] || !j.touched[1])
        goto end;
    for (int64_t token = 0; token < first; token++) measure(&j.index, l, token);
    if (!lay_out(&j.index, symbols, word_offsets, words, &longest)) goto end;
    family = new_block(2 * longest + 2, sizeof(int64_t));
    if (!family) goto end;
    for (int64_t token = 0; token < first; token++)
        if (!l->member[token] && l->frequency[token] > 0)  // of T, and not in V_i yet
            units[unit_total++] = (heap_item){l->frequency[token], token};
    heap_make(units, unit_total);
    status = run(&j, units, unit_total, family, members, budget, signal);
end:
    free_block(units);
    free_block(family);
    free_block(j.found);
    for (int side = 0; side < 2; side++) {
        free_block(j.sums[side]);
        free_block(j.touched[side]);
    }
    free_index(&j.index);
    return status;
}
