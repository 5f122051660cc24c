// One merge in the text: its positions become the new token, and pairs around them change.
#include "learner.h"

// A merge visits positions that are known in advance: they are prefetched so many steps ahead.
enum { AHEAD = 12, ROWS_AHEAD = 4 };

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

bool apply_merge(join *j, pair_row *row) {
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
