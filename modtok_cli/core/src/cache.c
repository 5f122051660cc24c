#include "cache.h"

enum { AHEAD = 8 };  // words that are stored before the one whose slot is fetched

word_cache *new_cache(int64_t slots) {
    word_cache *cache = calloc(1, sizeof(word_cache));
    if (!cache) return NULL;
    atomic_init(&cache->references, 1);
    cache->bits = bits_of(slots);
    cache->words_size = max64(8 * slots, LONGEST_CACHED) + MT_PADDING;
    cache->ids_size = max64(2 * slots, LONGEST_CACHED);
    cache->slots = new_zeros(slots, sizeof(cache_slot));
    cache->words = new_block(cache->words_size, 1);
    cache->ids = new_block(cache->ids_size, sizeof(int32_t));
    if (cache->slots && cache->words && cache->ids) return cache;
    free_cache(cache);
    return NULL;
}

void free_cache(word_cache *cache) {
    if (!cache) return;
    free_block(cache->slots);
    free_block(cache->words);
    free_block(cache->ids);
    free(cache);
}

bool find_cached(const word_cache *cache, const uint8_t *word, int64_t size, uint64_t *at) {
    uint64_t wrap = (UINT64_C(1) << cache->bits) - 1;
    word_key key = key_of(word, size);
    for (;; *at = (*at + 1) & wrap) {
        const cache_slot *slot = cache->slots + *at;
        if (slot_tokens(slot) < 0) return false;
        if (size <= SHORT_WORD) {
            if (has_key(slot, key)) return true;
            continue;
        }
        uint64_t second = atomic_load_explicit(&slot->second, memory_order_relaxed);
        if (second >> PLACE_BITS != LONG_WORD + (uint64_t)size) continue;
        const uint8_t *bytes = cache->words + (second & ((UINT64_C(1) << PLACE_BITS) - 1));
        if (memcmp(bytes, word, (size_t)size) == 0) return true;
    }
}

int64_t cache_words(word_cache *cache, const cache_entries *entries, int64_t first) {
    int shift = 64 - cache->bits;
    int64_t most = (INT64_C(1) << cache->bits) * 5 / 8;
    for (int64_t word = first; word < entries->count; word++) {
        if (word + AHEAD < entries->count)
            PREFETCH(cache->slots + (entries->hashes[word + AHEAD] >> shift));
        const uint8_t *bytes = entries->data + entries->starts[word];
        int64_t size = entries->stops[word] - entries->starts[word];
        if (size > LONGEST_CACHED) continue;
        uint64_t at = entries->hashes[word] >> shift;
        if (find_cached(cache, bytes, size, &at)) continue;  // twice, or by another thread
        const int32_t *ids = entries->ids + entries->offsets[word];
        int64_t tokens = entries->offsets[word + 1] - entries->offsets[word];
        if (cache->used == most || cache->words_used + size + MT_PADDING > cache->words_size ||
            cache->ids_used + tokens > cache->ids_size)
            return word;
        cache->used++;
        cache_slot *slot = cache->slots + at;
        word_key key = key_of(bytes, size);
        if (size > SHORT_WORD) {
            key.second = (LONG_WORD + (uint64_t)size) << PLACE_BITS | (uint64_t)cache->words_used;
            memcpy(cache->words + cache->words_used, bytes, (size_t)size);
            cache->words_used += size;
        }
        if (tokens > INLINE_IDS) {
            slot->ids[0] = (int32_t)cache->ids_used;
            memcpy(cache->ids + cache->ids_used, ids, (size_t)tokens * sizeof(int32_t));
            cache->ids_used += tokens;
        } else {
            memcpy(slot->ids, ids, (size_t)tokens * sizeof(int32_t));
        }
        atomic_store_explicit(&slot->first, key.first, memory_order_relaxed);
        atomic_store_explicit(&slot->second, key.second, memory_order_relaxed);
        atomic_store_explicit(&slot->tokens, (int32_t)tokens + 1, memory_order_release);
    }
    return entries->count;
}
