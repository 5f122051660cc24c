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

int64_t cache_words(word_cache *cache, const cache_entries *entries, int64_t first) {
    int shift = 64 - cache->bits;
    int64_t most = (INT64_C(1) << cache->bits) * 5 / 8;
    for (int64_t word = first; word < entries->count; word++) {
        if (word + AHEAD < entries->count)
            PREFETCH(cache->slots + (entries->hashes[word + AHEAD] >> shift));
        const uint8_t *bytes = entries->data + entries->starts[word];
        int64_t size = entries->stops[word] - entries->starts[word];
        if (size > LONGEST_CACHED) continue;
        word_key key = key_of(bytes, size);
        uint64_t at = entries->hashes[word] >> shift;
        if (find_cached(cache, bytes, size, key, &at)) continue;  // twice, or by another thread
        const int32_t *ids = entries->ids + entries->offsets[word];
        int64_t tokens = entries->offsets[word + 1] - entries->offsets[word];
        if (cache->used == most || cache->words_used + size + MT_PADDING > cache->words_size ||
            cache->ids_used + tokens > cache->ids_size)
            return word;
        cache->used++;
        uint64_t meta = (uint64_t)size | (uint64_t)tokens << 16, pair = 0;
        if (size > SHORT_WORD) {
            key.second = (uint64_t)cache->words_used;
            memcpy(cache->words + cache->words_used, bytes, (size_t)size);
            cache->words_used += size;
        }
        if (tokens > INLINE_IDS) {
            pair = (uint64_t)cache->ids_used;
            memcpy(cache->ids + cache->ids_used, ids, (size_t)tokens * sizeof(int32_t));
            cache->ids_used += tokens;
        } else {
            if (tokens > 0) meta |= (uint64_t)(uint32_t)ids[0] << 32;
            if (tokens > 1) pair = (uint32_t)ids[1];
            if (tokens > 2) pair |= (uint64_t)(uint32_t)ids[2] << 32;
        }
        cache_slot *slot = cache->slots + at;
        atomic_store_explicit(&slot->first, key.first, memory_order_relaxed);
        atomic_store_explicit(&slot->second, key.second, memory_order_relaxed);
        slot->pair = pair;
        atomic_store_explicit(&slot->meta, meta, memory_order_release);
    }
    return entries->count;
}
