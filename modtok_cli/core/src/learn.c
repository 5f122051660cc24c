// The merge loop of BPE and of sequential BPE (Algorithm 2 of the paper); reference/bpe.py says the
// same slowly.
//
// Plain BPE is the case in which the global tokenizer T holds only bytes: there is never a token to
// adopt, and every step merges the most frequent pair.
#include <stdatomic.h>

#include "pair_index.h"

// A merge visits positions that are known in advance: they are prefetched so many steps ahead.
enum { AHEAD = 12, ROWS_AHEAD = 4 };

struct mt_learner {
    // T, with room for what the language adds.
    uint8_t *token_data;
    int64_t *token_offsets;
    int32_t *merges;
    uint8_t *member, *merge_member;
    int64_t data_room, token_room, merge_room;
    int64_t tokens, specials, merge_total;
    int32_t *slots;  // index of T's strings
    int64_t slot_count;
    // The first merge that gives a token is the one with which T encodes the token's own string, so
    // it is the one to adopt with it; later_merge chains the others.
    int32_t *derivation, *later_merge;
    int64_t *frequency;
    int64_t adopted;
    int64_t work[5];
};

// --- strings of tokens ---

static int64_t string_home(const uint8_t *bytes, int64_t size) {
    uint64_t value = UINT64_C(0xCBF29CE484222325);
    for (int64_t i = 0; i < size; i++) value = (value ^ bytes[i]) * UINT64_C(0x100000001B3);
    value ^= value >> 29;
    return (int64_t)((value * MIX_A) >> 32);
}

// The slot of the token of these bytes, or the empty slot for it.
static int32_t *find_string(const mt_learner *l, const uint8_t *bytes, int64_t size) {
    int64_t mask = l->slot_count - 1;
    for (int64_t slot = string_home(bytes, size) & mask;; slot = (slot + 1) & mask) {
        int32_t token = l->slots[slot];
        if (token < 0) return l->slots + slot;
        int64_t first = l->token_offsets[token];
        if (l->token_offsets[token + 1] - first == size &&
            memcmp(l->token_data + first, bytes, (size_t)size) == 0)
            return l->slots + slot;
    }
}

static bool index_strings(mt_learner *l) {
    if (l->slot_count >= 2 * l->token_room) return true;
    int64_t size = 1024;
    while (size < 2 * l->token_room) size *= 2;
    int32_t *slots = new_block(size, sizeof(int32_t));
    if (!slots) return false;
    free_block(l->slots);
    l->slots = slots;
    l->slot_count = size;
    memset(l->slots, 0xFF, (size_t)size * sizeof(int32_t));
    for (int64_t token = l->specials; token < l->tokens; token++) {
        int64_t start = l->token_offsets[token];
        *find_string(l, l->token_data + start, l->token_offsets[token + 1] - start) =
            (int32_t)token;
    }
    return true;
}

// --- the learner ---

static void *copy_of(const void *from, int64_t used, int64_t room, int64_t item) {
    uint8_t *block = new_block(room, item);
    if (!block) return NULL;
    if (used) memcpy(block, from, (size_t)(used * item));
    memset(block + used * item, 0, (size_t)((room - used) * item));
    return block;
}

mt_learner *mt_learner_new(const uint8_t *token_data, const int64_t *token_offsets, int64_t tokens,
                           int64_t specials, const int32_t *merges, int64_t merge_total,
                           const uint8_t *member, const uint8_t *merge_member, const int32_t *slots,
                           int64_t slot_count) {
    mt_learner *l = calloc(1, sizeof(mt_learner));
    if (!l) return NULL;
    l->tokens = l->token_room = tokens;
    l->specials = specials;
    l->merge_total = l->merge_room = merge_total;
    l->data_room = token_offsets[tokens];
    l->token_data = copy_of(token_data, l->data_room, l->data_room, 1);
    l->token_offsets = copy_of(token_offsets, tokens + 1, tokens + 1, sizeof(int64_t));
    l->merges = copy_of(merges, merge_total, merge_total, 3 * sizeof(int32_t));
    l->member = copy_of(member, tokens, tokens, 1);
    l->merge_member = copy_of(merge_member, merge_total, merge_total, 1);
    l->slots = copy_of(slots, slot_count, slot_count, sizeof(int32_t));
    l->slot_count = slot_count;
    if (l->token_data && l->token_offsets && l->merges && l->member && l->merge_member && l->slots)
        return l;
    mt_learner_free(l);
    return NULL;
}

void mt_learner_free(mt_learner *l) {
    if (!l) return;
    free_block(l->token_data);
    free_block(l->token_offsets);
    free_block(l->merges);
    free_block(l->member);
    free_block(l->merge_member);
    free_block(l->slots);
    free_block(l->derivation);
    free_block(l->later_merge);
    free_block(l->frequency);
    free(l);
}

mt_learner_contents mt_learner_view(const mt_learner *l) {
    mt_learner_contents contents = {l->token_data,   l->token_offsets, l->merges,  l->member,
                                    l->merge_member, l->frequency,     l->slots,   l->tokens,
                                    l->merge_total,  l->slot_count,    l->adopted, {0}};
    memcpy(contents.work, l->work, sizeof(l->work));
    return contents;
}

// Room for `extra` more tokens and merges.
static bool reserve(mt_learner *l, int64_t extra) {
    int64_t tokens = l->tokens + extra, merges = l->merge_total + extra;
    int64_t bytes = l->token_offsets[l->tokens] + MT_SIZE(16, 1) * extra;
    bool done =
        grow_block((void **)&l->token_data, l->token_offsets[l->tokens], bytes, 1) &&
        grow_block((void **)&l->token_offsets, l->tokens + 1, tokens + 1, sizeof(int64_t)) &&
        grow_block((void **)&l->member, l->tokens, tokens, 1) &&
        grow_block((void **)&l->merges, l->merge_total, merges, 3 * sizeof(int32_t)) &&
        grow_block((void **)&l->merge_member, l->merge_total, merges, 1);
    if (!done) return false;
    memset(l->member + l->tokens, 0, (size_t)extra);
    memset(l->merge_member + l->merge_total, 0, (size_t)extra);
    l->data_room = bytes;
    l->token_room = tokens;
    l->merge_room = merges;
    free_block(l->derivation);
    free_block(l->later_merge);
    l->derivation = new_block(tokens, sizeof(int32_t));
    l->later_merge = new_block(merges, sizeof(int32_t));
    if (!l->derivation || !l->later_merge) return false;
    memset(l->derivation, 0xFF, (size_t)tokens * sizeof(int32_t));
    memset(l->later_merge, 0xFF, (size_t)merges * sizeof(int32_t));
    for (int64_t rank = l->merge_total - 1; rank >= 0; rank--) {
        int32_t result = l->merges[3 * rank + 2];
        l->later_merge[rank] = l->derivation[result];
        l->derivation[result] = (int32_t)rank;
    }
    return index_strings(l);
}

static bool room_for_merge(mt_learner *l, int64_t text_end) {
    if (text_end > l->data_room) {
        if (!grow_block((void **)&l->token_data, l->token_offsets[l->tokens], 2 * text_end, 1))
            return false;
        l->data_room = 2 * text_end;
    }
    if (l->merge_total < l->merge_room) return true;
    int64_t total = l->merge_total, room = 2 * total + MT_SIZE(16, 1);
    if (!grow_block((void **)&l->merges, total, room, 3 * sizeof(int32_t)) ||
        !grow_block((void **)&l->merge_member, total, room, 1) ||
        !grow_block((void **)&l->later_merge, total, room, sizeof(int32_t)))
        return false;
    memset(l->merge_member + total, 0, (size_t)(room - total));
    l->merge_room = room;
    return true;
}

// Writes a merge at rank `merge_total`, last in the chain of merges that give `result`.
static int64_t append_merge(mt_learner *l, int64_t left, int64_t right, int64_t result) {
    int64_t merge = l->merge_total++;
    l->merges[3 * merge] = (int32_t)left;
    l->merges[3 * merge + 1] = (int32_t)right;
    l->merges[3 * merge + 2] = (int32_t)result;
    l->later_merge[merge] = -1;
    int32_t *last = l->derivation + result;
    while (*last >= 0) last = l->later_merge + *last;
    *last = (int32_t)merge;
    return merge;
}

static void sort_few(int64_t *numbers, int64_t size) {
    for (int64_t end = 1; end < size; end++) {
        int64_t value = numbers[end], place = end;
        for (; place > 0 && numbers[place - 1] > value; place--)
            numbers[place] = numbers[place - 1];
        numbers[place] = value;
    }
}

static bool contains(const int64_t *numbers, int64_t size, int64_t value) {
    for (int64_t i = 0; i < size; i++)
        if (numbers[i] == value) return true;
    return false;
}

// `first` and `second` (or -1), and all their parts, as far as V_i lacks them: their number. They
// are written to `family`, which has room for twice the bytes of both, in T's order, so that every
// prefix contains the parts of its tokens.
static int64_t ancestry(const mt_learner *l, int64_t first, int64_t second, int64_t *family) {
    int64_t found = 0;
    if (first >= 0 && !l->member[first]) family[found++] = first;
    if (second >= 0 && second != first && !l->member[second]) family[found++] = second;
    for (int64_t looked = 0; looked < found; looked++) {
        int32_t origin = l->derivation[family[looked]];
        if (origin < 0) continue;
        for (int side = 0; side < 2; side++) {
            int64_t part = l->merges[3 * origin + side];
            if (!l->member[part] && !contains(family, found, part)) family[found++] = part;
        }
    }
    sort_few(family, found);
    return found;
}

// Merges that M_i must add so that the parts of `merge` are derived before its rank, ascending:
// their number, or MT_NO_MEMORY. A part that M_i derives only at a later rank requires T's first
// merge for it, and so do that merge's parts.
static int64_t merges_to_derive(const mt_learner *l, int64_t merge, int64_t **needed) {
    int64_t total = 0, room = MT_SIZE(16, 1);
    *needed = new_block(room, sizeof(int64_t));
    if (!*needed) return MT_NO_MEMORY;
    for (int64_t looked = -1; looked < total; looked++) {
        int64_t below = looked < 0 ? merge : (*needed)[looked];
        for (int side = 0; side < 2; side++) {
            int64_t origin = l->derivation[l->merges[3 * below + side]];
            if (origin < 0) continue;  // a byte
            bool there = contains(*needed, total, origin);
            for (int64_t other = origin; !there && other >= 0 && other < below;
                 other = l->later_merge[other])
                there = l->merge_member[other] != 0;
            if (there) continue;
            if (total == room) {
                if (!grow_block((void **)needed, total, 2 * room, sizeof(int64_t)))
                    return MT_NO_MEMORY;
                room *= 2;
            }
            (*needed)[total++] = origin;
        }
    }
    sort_few(*needed, total);
    return total;
}

// --- joining ---

// Of the symbols before (side 0) or after (1) the joined pairs: occurrences there, and the number
// of positions, then where those are written, or -1 without a row. Zero between merges.
typedef struct {
    int64_t total, places;
} neighbour;

typedef struct {
    int32_t symbols[2];  // before and after
    int32_t place;
} joined_pair;

typedef struct {
    mt_learner *l;
    pair_index index;
    neighbour *sums[2];   // by symbol
    int32_t *touched[2];  // those symbols
    int64_t touches[2];
    joined_pair *found;
    int64_t found_room, joined;
    int64_t left, right, result;
    int64_t twins;  // occurrences that follow another one of this merge
} join;

// Replaces every (left, right), the pair of a row, by `result`, and adds up the neighbours. Runs of
// one symbol go from left to right. Counts of symbols are updated, and those of pairs by
// `add_rows`.
static void join_places(join *j, pair_row *row) {
    pair_index *index = &j->index;
    cell *cells = index->cells;
    const int32_t *lengths = index->lengths, *places = index->places + row->list;
    int32_t left = (int32_t)j->left, right = (int32_t)j->right, result = (int32_t)j->result;
    int64_t left_size = lengths[left], size = left_size + lengths[right], last = -1;
    int64_t occurrences = 0;
    bool is_long = lengths[right] > 1;
    row->count = row->queued = 0;
    row->list = -1;
    j->joined = j->touches[0] = j->touches[1] = j->twins = 0;
    int64_t stop = 1 + places[0];
    for (int64_t step = 1; step < stop; step++) {
        if (step + AHEAD < stop) PREFETCH(cells + places[step + AHEAD]);
        int64_t place = places[step];
        cell *first = cells + place;
        if (first->symbol != left || first[left_size].symbol != right) continue;
        int64_t weight = weight_of(index, first);
        int32_t around[2] = {first[-1].symbol, first[size].symbol};
        first->symbol = result;
        if (is_long) first[left_size].symbol = INSIDE;
        first[size - 1].symbol = result;
        j->found[j->joined++] = (joined_pair){{around[0], around[1]}, (int32_t)place};
        occurrences += weight;
        if (last >= 0 && last + size == place) j->twins += weight;
        last = place;
        for (int side = 0; side < 2; side++) {
            if (around[side] < 0) continue;
            neighbour *sum = j->sums[side] + around[side];
            if (!sum->places) j->touched[side][j->touches[side]++] = around[side];
            sum->total += weight;
            sum->places++;
        }
    }
    int64_t *frequency = j->l->frequency;
    frequency[left] -= occurrences;
    frequency[right] -= occurrences;
    frequency[result] += occurrences;
    index->work[VISITED] += places[0];
    index->work[JOINED] += j->joined;
    index->work[ROWS] += 2 * (j->touches[0] + j->touches[1]);
}

// Starts a list of a pair's positions with `more` of them; gives where to write those.
static int64_t new_list(pair_index *index, pair_row *row, int64_t more) {
    int32_t *places = index->places + index->placed;
    int64_t old = row->list >= 0 ? index->places[row->list] : 0;
    if (old) memcpy(places + 1, index->places + row->list + 1, (size_t)old * sizeof(int32_t));
    places[0] = (int32_t)(old + more);
    row->list = index->placed;
    index->placed += 1 + old + more;
    return row->list + 1 + old;
}

// Sorts the list at `first`: Shell's method, for few changes of order.
static void sort_list(int32_t *list) {
    int64_t size = list[0], gap = 1;
    while (gap < size / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3) {
        for (int64_t end = 1 + gap; end < 1 + size; end++) {
            int32_t value = list[end];
            int64_t place = end;
            for (; place - gap > 0 && list[place - gap] > value; place -= gap)
                list[place] = list[place - gap];
            list[place] = value;
        }
    }
}

INLINE int64_t old_key(const join *j, int side, int64_t symbol) {
    return side ? row_key(j->right, symbol) : row_key(symbol, j->left);
}

INLINE int64_t new_key(const join *j, int side, int64_t symbol) {
    return side ? row_key(j->result, symbol) : row_key(symbol, j->result);
}

// Updates the rows of the pairs on one side. `sums` then has the place for positions of each new
// pair. Sets *mixed where a list continues another one.
static bool add_rows(join *j, int side, bool *mixed) {
    pair_index *index = &j->index;
    int64_t key = row_key(j->left, j->right), touches = j->touches[side];
    const int32_t *touched = j->touched[side];
    *mixed = false;
    for (int64_t step = 0; step < touches; step++) {
        if (step + ROWS_AHEAD < touches) {
            int64_t symbol = touched[step + ROWS_AHEAD];
            PREFETCH(index->rows + row_home(old_key(j, side, symbol), index->bits));
            PREFETCH(index->rows + row_home(new_key(j, side, symbol), index->bits));
        }
        int64_t symbol = touched[step], replaced = old_key(j, side, symbol);
        neighbour *sum = j->sums[side] + symbol;
        // Of two pairs in succession, the second one followed a `right`, of which the first one has
        // taken the count already, and the first one is not followed by `left` any more.
        int64_t total = sum->total, lost = total;
        if (side == 0 && symbol == j->result) lost -= j->twins;
        if (side == 1 && symbol == j->left) total -= j->twins;
        if (!room_for_row(index)) return false;
        pair_row *row = find_row(index->rows, index->bits, new_key(j, side, symbol));
        bool is_new = row->key == -1;
        bool has_row =
            total > 0 && !(is_new && total < index->floor) &&
            (side ? may_join(index, j->result, symbol) : may_join(index, symbol, j->result));
        if (has_row) {
            int64_t old = row->list >= 0 ? index->places[row->list] : 0;
            // Nothing moves once `sums` has places in the lists.
            if (!room_for_list(index, 1 + old + sum->places, step > 0)) return false;
        }
        if (lost > 0 && replaced != key) {
            pair_row *other = find_row(index->rows, index->bits, replaced);
            if (other->key == replaced) other->count -= lost;
        }
        if (!has_row) {
            sum->places = -1;
            continue;
        }
        if (is_new) {
            row->key = new_key(j, side, symbol);
            index->used++;
        }
        *mixed |= row->list >= 0;
        sum->places = new_list(index, row, sum->places);
        row->count += total;
        if (row->count > row->queued) {
            row->queued = row->count;
            heap_push(index->heap, index->queued++, (heap_item){row->count, row->key});
        }
    }
    return true;
}

// Writes the positions of the new pairs on one side to their lists; clears `sums`.
static void write_lists(join *j, int side, bool mixed) {
    pair_index *index = &j->index;
    for (int64_t step = 0; step < j->joined; step++) {
        int32_t symbol = j->found[step].symbols[side], place = j->found[step].place;
        if (symbol < 0) continue;
        neighbour *sum = j->sums[side] + symbol;
        if (sum->places >= 0)
            index->places[sum->places++] = side ? place : place - index->lengths[symbol];
    }
    for (int64_t step = 0; step < j->touches[side]; step++) {
        int32_t symbol = j->touched[side][step];
        j->sums[side][symbol] = (neighbour){0, 0};
        if (!mixed) continue;
        int64_t key = new_key(j, side, symbol);
        const pair_row *row = find_row(index->rows, index->bits, key);
        if (row->key == key && row->list >= 0) sort_list(index->places + row->list);
    }
}

static bool apply_merge(join *j, pair_row *row) {
    int64_t listed = j->index.places[row->list];
    if (listed > j->found_room) {
        if (!grow_block((void **)&j->found, 0, 2 * listed, sizeof(joined_pair))) return false;
        j->found_room = 2 * listed;
    }
    join_places(j, row);
    if (!room_for_list(&j->index, 2 * j->joined + j->touches[0] + j->touches[1], false))
        return false;
    for (int side = 0; side < 2; side++) {
        bool mixed;
        if (!add_rows(j, side, &mixed)) return false;
        write_lists(j, side, mixed);
    }
    return true;
}

// --- choosing ---

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

// How often each token occurs, or occurs as a whole word.
static int64_t *occurrences(const int32_t *symbols, const int64_t *offsets, const int64_t *counts,
                            int64_t words, int64_t room, bool whole_words_only) {
    int64_t *found = new_zeros(room, sizeof(int64_t));
    for (int64_t word = 0; found && word < words; word++) {
        if (whole_words_only && offsets[word + 1] - offsets[word] != 1) continue;
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

// The loop, after everything has its place. `worth`: counts of tokens that may be adopted.
static int run(join *j, const int64_t *worth, heap_item *units, int64_t unit_total, int64_t *family,
               int64_t members, int64_t budget, volatile int64_t *signal) {
    mt_learner *l = j->l;
    pair_index *index = &j->index;
    bool is_counted = false;
    bool has_many = l->merge_total > 0;
    for (signal[0] = members; members < budget && !signal[1]; signal[0] = members) {
        if (!is_counted && !count_pairs(index, has_many)) return MT_NO_MEMORY;
        is_counted = has_many = true;
        int64_t pair_count = best_pair(index);
        int64_t unit_count = best_unit(worth, l->member, units, &unit_total);
        if (pair_count < index->floor && unit_count < index->floor && index->floor > 1) {
            index->floor = max64(1, index->floor / 8);  // a pair without a row may be the best one
            is_counted = false;
            continue;
        }
        if (pair_count <= 0 && unit_count <= 0) break;  // no pair and no token is left
        bool adopting = unit_count >= pair_count;
        int64_t related, left = 0, right = 0;
        if (adopting) {
            related = ancestry(l, units->key, -1, family);
        } else {
            left = index->heap->key >> 32;
            right = index->heap->key & 0xFFFFFFFF;
            related = ancestry(l, left, right, family);
            // Only with whole-word counts can the parts of a merge be missing. If they fill the
            // budget, only they are adopted: T gets no token that no language has.
            adopting = related > 0 && members + related >= budget;
        }
        int64_t taken = min64(related, budget - members);
        adopt_tokens(l, family, taken);
        members += taken;
        if (adopting) continue;

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
             const int64_t *word_counts, int64_t words, int64_t budget, bool whole_words_only,
             int64_t floor, int64_t most_unspaced, int64_t *signal) {
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
    l->frequency = occurrences(symbols, word_offsets, word_counts, words, room, false);
    // Tokens of T that occur and are not in V_i yet. Their counts as whole words never change: a
    // merge never turns a word into an older token.
    int64_t *whole = whole_words_only
                         ? occurrences(symbols, word_offsets, word_counts, words, room, true)
                         : NULL;
    const int64_t *worth = whole_words_only ? whole : l->frequency;
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
    if (!worth || !l->frequency || !j.index.lengths || !j.index.characters || !j.found || !units ||
        !j.sums[0] || !j.sums[1] || !j.touched[0] || !j.touched[1])
        goto end;
    for (int64_t token = 0; token < first; token++) measure(&j.index, l, token);
    if (!lay_out(&j.index, symbols, word_offsets, words, &longest)) goto end;
    family = new_block(2 * longest + 2, sizeof(int64_t));
    if (!family) goto end;
    for (int64_t token = 0; token < first; token++)
        if (!l->member[token] && worth[token] > 0)
            units[unit_total++] = (heap_item){worth[token], token};
    heap_make(units, unit_total);
    status = run(&j, worth, units, unit_total, family, members, budget, signal);
end:
    free_block(whole);
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
