// The counter of words: an open-addressing table, and its sorted listing.
//
// A slot is half a cache line. A short word is its own key (common.h); of a longer one a slot has
// its hash and the place of its bytes in the arena.
#include "text.h"

typedef struct {
    uint64_t first, second;
    uint64_t size;  // bytes of the word, 0: free
    uint64_t count;
} slot;

enum { FIRST_SLOTS = MT_SIZE(1 << 17, 4), FIRST_ARENA = MT_SIZE(1 << 20, 64), AHEAD = 8 };

struct mt_counter {
    slot *slots;
    int64_t capacity, used;  // slots
    uint8_t *arena;
    int64_t arena_size, arena_used;
    int64_t bytes;               // of all words
    int64_t document, position;  // where to go on
    int32_t *ends;
    uint64_t *places;
};

static void clear(mt_counter *counter) { counter->used = counter->arena_used = counter->bytes = 0; }

mt_counter *mt_counter_new(void) {
    mt_counter *counter = calloc(1, sizeof(mt_counter));
    if (!counter) return NULL;
    counter->capacity = FIRST_SLOTS;
    counter->arena_size = FIRST_ARENA;
    counter->slots = new_zeros(FIRST_SLOTS, sizeof(slot));
    counter->arena = new_block(FIRST_ARENA, 1);
    counter->ends = new_block(MT_BLOCK + MT_ENDS, sizeof(int32_t));
    counter->places = new_block(MT_BLOCK + 2, sizeof(uint64_t));
    if (counter->slots && counter->arena && counter->ends && counter->places) return counter;
    mt_counter_free(counter);
    return NULL;
}

void mt_counter_free(mt_counter *counter) {
    if (!counter) return;
    free_block(counter->slots);
    free_block(counter->arena);
    free_block(counter->ends);
    free_block(counter->places);
    free(counter);
}

void mt_counter_clear(mt_counter *counter) {
    memset(counter->slots, 0, (size_t)counter->capacity * sizeof(slot));
    clear(counter);
}

static int64_t held(const mt_counter *counter) {
    return counter->capacity * (int64_t)sizeof(slot) + counter->arena_size;
}

void mt_counter_sizes(const mt_counter *counter, int64_t *words, int64_t *bytes, int64_t *memory) {
    *words = counter->used;
    *bytes = counter->bytes;
    *memory = held(counter);
}

static bool more_slots(mt_counter *counter) {
    int64_t capacity = 2 * counter->capacity;
    slot *larger = new_zeros(capacity, sizeof(slot));
    if (!larger) return false;
    int shift = 64 - bits_of(capacity);
    for (int64_t i = 0; i < counter->capacity; i++) {
        slot old = counter->slots[i];
        if (!old.size) continue;
        word_key key = {old.first, old.size <= SHORT_WORD ? old.second : old.size};
        uint64_t place = key_hash(key) >> shift;
        while (larger[place].size) place = (place + 1) & (uint64_t)(capacity - 1);
        larger[place] = old;
    }
    free_block(counter->slots);
    counter->slots = larger;
    counter->capacity = capacity;
    return true;
}

// Room for another block of words of `length` bytes.
static int make_room(mt_counter *counter, int64_t words, int64_t length, int64_t most) {
    int64_t need = counter->arena_used + length + MT_PADDING;
    bool is_small = need > counter->arena_size;
    if (!is_small && counter->used + words <= counter->capacity * 5 / 8) return MT_OK;
    int64_t arena = is_small ? max64(need, 2 * counter->arena_size) : counter->arena_size;
    int64_t slots = is_small ? counter->capacity : 2 * counter->capacity;
    if (most > 0 && counter->used && slots * (int64_t)sizeof(slot) + arena > most) return MT_FULL;
    if (is_small) {
        if (!grow_block((void **)&counter->arena, counter->arena_used, arena, 1))
            return MT_NO_MEMORY;
        counter->arena_size = arena;
        return make_room(counter, words, length, most);
    }
    if (!more_slots(counter)) return MT_NO_MEMORY;
    return make_room(counter, words, length, most);
}

INLINE void add_short(mt_counter *counter, slot *at, word_key key, int64_t size, uint64_t weight) {
    slot *slots = counter->slots;
    for (;; at = slots + ((uint64_t)(at - slots + 1) & (uint64_t)(counter->capacity - 1))) {
        // One test, nearly always true, in place of two.
        if (LIKELY(!((at->first ^ key.first) | (at->second ^ key.second)))) break;
        if (!at->size) {
            at->first = key.first;
            at->second = key.second;
            at->size = (uint64_t)size;
            counter->used++;
            counter->bytes += size;
            break;
        }
    }
    at->count += weight;
}

static void add_long(mt_counter *counter, slot *at, const uint8_t *word, int64_t size,
                     uint64_t first, uint64_t weight) {
    slot *slots = counter->slots;
    for (;; at = slots + ((uint64_t)(at - slots + 1) & (uint64_t)(counter->capacity - 1))) {
        if (at->size == (uint64_t)size && at->first == first) {
            if (memcmp(counter->arena + at->second, word, (size_t)size) == 0) break;
        } else if (!at->size) {
            at->first = first;
            at->second = (uint64_t)counter->arena_used;
            at->size = (uint64_t)size;
            memcpy(counter->arena + counter->arena_used, word, (size_t)size);
            counter->arena_used += size;
            counter->used++;
            counter->bytes += size;
            break;
        }
    }
    at->count += weight;
}

static void add_words(mt_counter *counter, const uint8_t *text, int64_t words, uint64_t weight) {
    const int32_t *ends = counter->ends;
    uint64_t *places = counter->places;
    int shift = 64 - bits_of(counter->capacity);
    // First all places, so that the table's cache lines are on their way when needed.
    int64_t begin = 0;
    for (int64_t word = 0; word < words; word++) {
        int64_t size = ends[word] - begin;
        word_key key = key_of(text + begin, size);
        places[word] = key_hash(key) >> shift;
        PREFETCH(counter->slots + places[word]);
        begin = ends[word];
    }
    begin = 0;
    for (int64_t word = 0; word < words; word++) {
        int64_t size = ends[word] - begin;
        word_key key = key_of(text + begin, size);
        slot *at = counter->slots + places[word];
        if (LIKELY(size <= SHORT_WORD))
            add_short(counter, at, key, size, weight);
        else
            add_long(counter, at, text + begin, size, key.first, weight);
        begin = ends[word];
    }
}

int mt_counter_add(mt_counter *counter, const mt_splitter *splitter, const uint8_t *data,
                   int64_t documents, const int64_t *starts, const int64_t *stops,
                   const int64_t *weights, int64_t most) {
    int64_t document = counter->document, position = counter->position;
    counter->document = counter->position = 0;
    for (; document < documents; document++, position = 0) {
        if (position < starts[document]) position = starts[document];
        uint64_t weight = weights ? (uint64_t)weights[document] : 1;
        while (position < stops[document]) {
            int64_t words = next_block(splitter, data, position, stops[document], counter->ends);
            int64_t length = counter->ends[words - 1];
            int status = make_room(counter, words, length, most);
            if (status) {
                if (status == MT_FULL) {
                    counter->document = document;
                    counter->position = position;
                }
                return status;
            }
            add_words(counter, data + position, words, weight);
            position += length;
        }
    }
    return MT_OK;
}

int mt_counter_list(const mt_counter *counter, uint8_t *data, int64_t *offsets, int64_t *counts) {
    int64_t words = counter->used;
    uint8_t *bytes = new_block(counter->bytes + MT_PADDING, 1);
    int64_t *begins = new_block(words + 1, sizeof(int64_t));
    int64_t *order = new_block(words, sizeof(int64_t));
    int64_t *weights = new_block(words, sizeof(int64_t));
    int status = bytes && begins && order && weights ? MT_OK : MT_NO_MEMORY;
    if (!status) {
        int64_t word = 0, filled = 0;
        for (int64_t i = 0; i < counter->capacity; i++) {
            const slot *at = counter->slots + i;
            if (!at->size) continue;
            if (at->size <= SHORT_WORD) {
                memcpy(bytes + filled, &at->first, 8);
                memcpy(bytes + filled + 8, &at->second, 8);
            } else {
                memcpy(bytes + filled, counter->arena + at->second, at->size);
            }
            weights[word] = (int64_t)at->count;
            begins[word++] = filled;
            filled += (int64_t)at->size;
        }
        begins[word] = filled;
        status = sort_words(bytes, begins, words, order);
    }
    if (!status) {
        int64_t filled = 0;
        for (int64_t i = 0; i < words; i++) {
            if (i + AHEAD < words) PREFETCH(bytes + begins[order[i + AHEAD]]);
            int64_t size = begins[order[i] + 1] - begins[order[i]];
            offsets[i] = filled;
            counts[i] = weights[order[i]];
            memcpy(data + filled, bytes + begins[order[i]], (size_t)size);
            filled += size;
        }
        offsets[words] = filled;
    }
    free_block(bytes);
    free_block(begins);
    free_block(order);
    free_block(weights);
    return status;
}

int64_t mt_merge_counts(const uint8_t *a_data, const int64_t *a_offsets, const int64_t *a_counts,
                        int64_t a_words, const uint8_t *b_data, const int64_t *b_offsets,
                        const int64_t *b_counts, int64_t b_words, uint8_t *data, int64_t *offsets,
                        int64_t *counts) {
    int64_t a = 0, b = 0, words = 0, filled = 0;
    offsets[0] = 0;
    while (a < a_words || b < b_words) {
        int64_t order = a == a_words ? 1 : -1;
        if (a < a_words && b < b_words)
            order = compare_bytes(a_data + a_offsets[a], a_offsets[a + 1] - a_offsets[a],
                                  b_data + b_offsets[b], b_offsets[b + 1] - b_offsets[b]);
        const uint8_t *from = order <= 0 ? a_data + a_offsets[a] : b_data + b_offsets[b];
        int64_t size =
            order <= 0 ? a_offsets[a + 1] - a_offsets[a] : b_offsets[b + 1] - b_offsets[b];
        int64_t count = 0;
        if (order <= 0) count += a_counts[a++];
        if (order >= 0) count += b_counts[b++];
        memcpy(data + filled, from, (size_t)size);
        filled += size;
        counts[words++] = count;
        offsets[words] = filled;
    }
    return words;
}

int64_t mt_first_disorder(const uint8_t *data, const int64_t *offsets, int64_t words) {
    for (int64_t word = 1; word < words; word++) {
        int64_t start = offsets[word];
        if (compare_bytes(data + offsets[word - 1], start - offsets[word - 1], data + start,
                          offsets[word + 1] - start) >= 0)
            return word;
    }
    return -1;
}
