#include "pair_index.h"

enum { SKETCH_BITS = MT_SIZE(17, 3), LEAST_BITS = MT_SIZE(12, 2) };

bool lay_out(pair_index *index, const int32_t *symbols, const int64_t *word_offsets, int64_t words,
             int64_t *longest) {
    const int32_t *lengths = index->lengths;
    int64_t total = words + 1;
    for (int64_t place = 0; place < word_offsets[words]; place++) total += lengths[symbols[place]];
    cell *cells = new_block(total, sizeof(cell));
    if (!cells) return false;
    cells[0] = (cell){WORD_END, 0};
    *longest = 0;
    int64_t at = 1;
    for (int64_t word = 0; word < words; word++) {
        int64_t first = at, weight = index->word_counts[word];
        if (weight > INT32_MAX) weight = -1 - word;
        for (int64_t place = word_offsets[word]; place < word_offsets[word + 1]; place++) {
            cells[at] = (cell){symbols[place], (int32_t)weight};
            at += lengths[symbols[place]];
            cells[at - 1].symbol = symbols[place];
        }
        cells[at] = (cell){WORD_END, 0};
        *longest = max64(*longest, at - first);
        at++;
    }
    index->cells = cells;
    index->total = total;
    return true;
}

void free_index(pair_index *index) {
    free_block(index->cells);
    free_block(index->lengths);
    free_block(index->characters);
    free_block(index->rows);
    free_block(index->places);
    free_block(index->heap);
}

// --- rows ---

static pair_row *new_rows(int bits) {
    int64_t size = INT64_C(1) << bits;
    pair_row *rows = new_block(size, sizeof(pair_row));
    if (rows)
        for (int64_t i = 0; i < size; i++) rows[i] = (pair_row){-1, 0, -1, 0};
    return rows;
}

// Moves the rows with a count of at least `floor` to a table with room for as many again. The other
// pairs are dropped; heap items for them then find no row.
static bool rehash(pair_index *index, int64_t floor) {
    int64_t size = INT64_C(1) << index->bits, living = 0;
    for (int64_t i = 0; i < size; i++)
        living += index->rows[i].key >= 0 && index->rows[i].count >= floor;
    int bits = LEAST_BITS;
    while ((INT64_C(1) << bits) < 4 * living) bits++;
    pair_row *rows = new_rows(bits);
    if (!rows) return false;
    for (int64_t i = 0; i < size; i++)
        if (index->rows[i].key >= 0 && index->rows[i].count >= floor)
            *find_row(rows, bits, index->rows[i].key) = index->rows[i];
    free_block(index->rows);
    index->rows = rows;
    index->bits = bits;
    index->used = living;
    return true;
}

bool room_for_row(pair_index *index) {
    if (index->used * 10 > (INT64_C(6) << index->bits) && !rehash(index, index->floor))
        return false;
    if (index->queued < index->heap_room) return true;
    int64_t room = 2 * index->heap_room + MT_SIZE(16, 1);
    if (!grow_block((void **)&index->heap, index->queued, room, sizeof(heap_item))) return false;
    index->heap_room = room;
    return true;
}

bool room_for_list(pair_index *index, int64_t room, bool keep) {
    if (index->placed + room <= index->places_room) return true;
    int32_t *places = index->places;
    if (keep) {
        int64_t size = 2 * (index->placed + room);
        if (!grow_block((void **)&index->places, index->placed, size, sizeof(int32_t)))
            return false;
        index->places_room = size;
        return true;
    }
    int64_t living = 0, rows = INT64_C(1) << index->bits, floor = index->floor;
    for (int64_t i = 0; i < rows; i++) {
        const pair_row *row = index->rows + i;
        if (row->count >= floor && row->list >= 0) living += 1 + places[row->list];
    }
    int64_t size = room + living + max64(living / 2, index->places_room / 8);
    int32_t *fresh = new_block(size, sizeof(int32_t));
    if (!fresh) return false;
    int64_t end = 0;
    for (int64_t i = 0; i < rows; i++) {
        pair_row *row = index->rows + i;
        if (row->list < 0) continue;
        if (row->count < floor) {
            row->list = -1;
            continue;
        }
        int64_t length = 1 + places[row->list];
        memcpy(fresh + end, places + row->list, (size_t)length * sizeof(int32_t));
        row->list = end;
        end += length;
    }
    free_block(places);
    index->places = fresh;
    index->places_room = size;
    index->placed = end;
    return true;
}

// --- counting ---

// Adds up counts of pairs by a short hash: no pair occurs more often than its sum.
static void make_sketch(const pair_index *index, int64_t *sums) {
    const cell *cells = index->cells;
    for (int64_t at = 1; at < index->total;) {
        int64_t symbol = cells[at].symbol;
        if (symbol < 0) {
            at++;
            continue;
        }
        int64_t weight = weight_of(index, cells + at);
        at += index->lengths[symbol];
        int64_t follower = cells[at].symbol;
        if (follower >= 0) sums[row_home(row_key(symbol, follower), SKETCH_BITS)] += weight;
    }
}

// Counts the pairs in rows; `numbers` receives the number of each pair, in order, -1 for one that
// is too rare by the sketch, or that may not be joined. Gives how many there are, or MT_NO_MEMORY.
// For now a row's `list` is its number, and `queued` the length of its list.
static int64_t number_pairs(pair_index *index, const int64_t *sketch, int32_t *numbers) {
    const cell *cells = index->cells;
    int64_t seen = 0;
    for (int64_t at = 1; at < index->total;) {
        int64_t symbol = cells[at].symbol;
        if (symbol < 0) {
            at++;
            continue;
        }
        int64_t weight = weight_of(index, cells + at);
        at += index->lengths[symbol];
        int64_t follower = cells[at].symbol;
        if (follower < 0) continue;
        int64_t key = row_key(symbol, follower);
        numbers[seen] = -1;
        if ((!sketch || sketch[row_home(key, SKETCH_BITS)] >= index->floor) &&
            may_join(index, symbol, follower)) {
            pair_row *row = find_row(index->rows, index->bits, key);
            if (row->key == -1) {
                row->key = key;
                row->list = index->used++;
            }
            numbers[seen] = (int32_t)row->list;
            row->count += weight;
            row->queued++;
            // None is dropped, not those that occur 0 times either: their numbers are in use.
            if (index->used * 2 > INT64_C(1) << index->bits && !rehash(index, INT64_MIN))
                return MT_NO_MEMORY;
        }
        seen++;
    }
    return seen;
}

// Lists of the pairs that have rows; numbers as of `number_pairs`, before rows were dropped.
static bool make_lists(pair_index *index, const int32_t *numbers, int64_t numbered) {
    int64_t rows = INT64_C(1) << index->bits, placed = 0;
    for (int64_t i = 0; i < rows; i++)
        if (index->rows[i].key >= 0) placed += 1 + index->rows[i].queued;
    int64_t size = placed + placed / 4 + MT_SIZE(1024, 0);
    int32_t *places = new_block(size, sizeof(int32_t));
    int64_t *ends = new_block(numbered, sizeof(int64_t));
    free_block(index->places);
    index->places = places;
    index->places_room = size;
    index->placed = placed;
    if (!places || !ends) {
        free_block(ends);
        return false;
    }
    for (int64_t i = 0; i < numbered; i++) ends[i] = -1;
    placed = 0;
    for (int64_t i = 0; i < rows; i++) {
        pair_row *row = index->rows + i;
        if (row->key < 0) continue;
        ends[row->list] = placed + 1;
        row->list = placed;
        places[placed] = (int32_t)row->queued;
        placed += 1 + row->queued;
        row->queued = 0;
    }
    const cell *cells = index->cells;
    for (int64_t at = 1, seen = 0; at < index->total;) {
        if (cells[at].symbol < 0) {
            at++;
            continue;
        }
        int64_t place = at;
        at += index->lengths[cells[at].symbol];
        if (cells[at].symbol < 0) continue;
        int32_t number = numbers[seen++];
        if (number >= 0 && ends[number] >= 0) places[ends[number]++] = (int32_t)place;
    }
    free_block(ends);
    return true;
}

static bool queue_all(pair_index *index) {
    free_block(index->heap);
    index->heap_room = 2 * index->used + MT_SIZE(1024, 0);
    index->heap = new_block(index->heap_room, sizeof(heap_item));
    if (!index->heap) return false;
    int64_t rows = INT64_C(1) << index->bits;
    index->queued = 0;
    for (int64_t i = 0; i < rows; i++) {
        pair_row *row = index->rows + i;
        if (row->key < 0) continue;
        index->heap[index->queued++] = (heap_item){row->count, row->key};
        row->queued = row->count;
    }
    heap_make(index->heap, index->queued);
    return true;
}

bool count_pairs(pair_index *index, bool has_many) {
    bool sketched = has_many && index->floor > 1;
    int64_t *sketch = sketched ? new_zeros(INT64_C(1) << SKETCH_BITS, sizeof(int64_t)) : NULL;
    int32_t *numbers = new_block(index->total, sizeof(int32_t));
    free_block(index->rows);
    index->bits = LEAST_BITS;
    index->used = 0;
    index->rows = new_rows(LEAST_BITS);
    bool done = numbers && index->rows && (sketch || !sketched);
    int64_t seen = 0, numbered = 0;
    if (done) {
        if (sketch) make_sketch(index, sketch);
        seen = number_pairs(index, sketch, numbers);
        numbered = index->used;
        done = seen >= 0;
    }
    if (done) index->work[SCANNED] += seen;
    done = done && rehash(index, index->floor) && make_lists(index, numbers, numbered);
    free_block(sketch);
    free_block(numbers);
    return done && queue_all(index);
}
