// A cache of encoded words and their token ids, of bounded size, shared by threads (cache.c).
//
// Most words of a text occurred before. A slot is half a cache line: up to three ids, their number,
// and the key of the word, so that nearly all look-ups touch nothing else and copy 16 bytes. Longer
// words and longer lists of ids are in arenas. A cache that is full is replaced by an empty one,
// the first by a larger one: that costs less than tracking the age of entries.
//
// One thread at a time adds words; others look up meanwhile, without a lock: a slot is written
// before its `tokens`, which says that it is in use. Its key may be read while it is written.
#ifndef MODTOK_CACHE_H
#define MODTOK_CACHE_H

#include <stdatomic.h>

#include "common.h"

enum { LONGEST_CACHED = 256, INLINE_IDS = 3, COPIED_IDS = 4 };

// Of a word of more than SHORT_WORD bytes, `second` has the highest bit, its size from bit
// PLACE_BITS on, and the place of its bytes.
enum { PLACE_BITS = 40, LONG_WORD = 1 << 23 };
typedef struct {
    int32_t ids[INLINE_IDS];  // the first is the place of all if they are more
    _Atomic int32_t tokens;   // number of ids + 1; 0: free
    _Atomic uint64_t first, second;
} cache_slot;

typedef struct {
    atomic_int references;
    int bits;  // binary logarithm of the number of slots
    cache_slot *slots;
    uint8_t *words;
    int32_t *ids;
    int64_t words_size, ids_size;
    int64_t used, words_used, ids_used;
} word_cache;

// Words with their ids; hashes are their `key_hash`.
typedef struct {
    const uint8_t *data;
    const int64_t *starts, *stops;
    const uint64_t *hashes;
    const int32_t *ids;
    const int64_t *offsets;
    int64_t count;
} cache_entries;

word_cache *new_cache(int64_t slots);
void free_cache(word_cache *cache);
// Stores entries from number `first` on as long as there is room; gives the first for which there
// is none, or their number.
int64_t cache_words(word_cache *cache, const cache_entries *entries, int64_t first);
// The slot of a word, or the free one where it belongs, from number `at` on; whether it is there.
bool find_cached(const word_cache *cache, const uint8_t *word, int64_t size, uint64_t *at);

// Number of ids in a slot, -1 if it is free. What else is in it may be read afterwards.
INLINE int32_t slot_tokens(const cache_slot *slot) {
    return atomic_load_explicit(&slot->tokens, memory_order_acquire) - 1;
}

INLINE bool has_key(const cache_slot *slot, word_key key) {
    return !((atomic_load_explicit(&slot->first, memory_order_relaxed) ^ key.first) |
             (atomic_load_explicit(&slot->second, memory_order_relaxed) ^ key.second));
}

#endif
