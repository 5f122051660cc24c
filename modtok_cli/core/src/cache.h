// A cache of encoded words and their token ids, of bounded size, shared by threads (cache.c).
//
// Most words of a text occurred before. A slot is half a cache line: the key of the word, its size
// and number of tokens, and up to three ids, so that nearly all look-ups touch nothing else. Longer
// words and longer lists of ids are in arenas. A cache that is full is replaced by an empty one,
// the first by a larger one: that costs less than tracking the age of entries.
//
// One thread at a time adds words; others look up meanwhile, without a lock: a slot is written
// before its `meta`, which says that it is in use. Its key may be read while it is written.
#ifndef MODTOK_CACHE_H
#define MODTOK_CACHE_H

#include <stdatomic.h>

#include "common.h"

enum { LONGEST_CACHED = 256, INLINE_IDS = 3 };

typedef struct {
    _Atomic uint64_t first, second;  // key; of a long word its hash, and the place of its bytes
    _Atomic uint64_t meta;           // size | tokens << 16 | first id << 32; 0: free
    uint64_t pair;  // the other two ids, or the place of all if they are more than 3
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

INLINE uint64_t cache_meta(const cache_slot *slot) {
    return atomic_load_explicit(&slot->meta, memory_order_acquire);
}

INLINE uint64_t key_part(const _Atomic uint64_t *part) {
    return atomic_load_explicit(part, memory_order_relaxed);
}

// The slot of a word, or the free one where it belongs, from number `at` on; its meta.
INLINE uint64_t find_cached(const word_cache *cache, const uint8_t *word, int64_t size,
                            word_key key, uint64_t *at) {
    uint64_t wrap = (UINT64_C(1) << cache->bits) - 1;
    for (;; *at = (*at + 1) & wrap) {
        const cache_slot *slot = cache->slots + *at;
        uint64_t meta = cache_meta(slot);
        if (!meta) return 0;
        if ((int64_t)(meta & 0xFFFF) != size || key_part(&slot->first) != key.first) continue;
        uint64_t second = key_part(&slot->second);
        if (size <= SHORT_WORD ? second == key.second
                               : memcmp(cache->words + second, word, (size_t)size) == 0)
            return meta;
    }
}

#endif
