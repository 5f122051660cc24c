// Small parts that several files share: loads, bits, hashes of words, memory.
#ifndef MODTOK_COMMON_H
#define MODTOK_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "modtok.h"

#ifdef MT_FAIL_ALLOCATIONS  // tests/core/test_core.c decides which one fails
void *failing_malloc(size_t bytes);
void *failing_calloc(size_t count, size_t item);
void counted_free(void *block);
#define malloc failing_malloc
#define calloc failing_calloc
#define free counted_free
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define PREFETCH(place) __builtin_prefetch((place), 0, 3)

INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// Eight bytes as one little-endian number.
INLINE uint64_t load64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

INLINE int trailing_zeros(uint64_t value) { return __builtin_ctzll(value); }

// Mask of the first `bytes` bytes of a little-endian number, 0 to 8.
INLINE uint64_t byte_mask(int64_t bytes) {
    return bytes >= 8 ? ~UINT64_C(0) : (UINT64_C(1) << (8 * bytes)) - 1;
}

// Binary logarithm, rounded up, of a number above 0.
INLINE int bits_of(int64_t size) {
    int bits = 0;
    while ((INT64_C(1) << bits) < size) bits++;
    return bits;
}

// A word of up to SHORT_WORD bytes is its own key: its bytes, zeros, and in the last place its
// size. That of a longer one is its hash and its size. Odd multipliers with well-mixed bits: of the
// golden ratio and of square roots of primes.
enum { SHORT_WORD = 15 };
#define MIX_A UINT64_C(0x9E3779B97F4A7C15)
#define MIX_B UINT64_C(0x6A09E667F3BCC909)
#define MIX_C UINT64_C(0xBB67AE8584CAA73B)

typedef struct {
    uint64_t first, second;
} word_key;

INLINE uint64_t key_hash(word_key key) { return (key.first ^ key.second * MIX_B) * MIX_A; }

// Hash of bytes of any number; reads up to 8 bytes behind them.
INLINE uint64_t long_hash(const uint8_t *data, int64_t size) {
    uint64_t mixed = MIX_C;
    for (; size >= 8; size -= 8, data += 8) {
        mixed = (mixed ^ load64(data)) * MIX_A;
        mixed ^= mixed >> 29;
    }
    mixed = (mixed ^ (load64(data) & byte_mask(size))) * MIX_B;
    return mixed ^ (mixed >> 31);
}

// A share of a word that is left out by chance, as its key decides.
typedef struct {
    uint64_t key;
    double share;
} chance;

INLINE chance chance_of(const mt_segmenter *s, int64_t word) {
    return s->keys ? (chance){s->keys[word], s->dropout} : (chance){0, 0};
}

INLINE uint64_t mixed(uint64_t key, int64_t number) {
    uint64_t bits = (key ^ (uint64_t)number) * MIX_A;
    bits = (bits ^ bits >> 32) * MIX_B;
    return bits ^ bits >> 29;
}

// Whether what has a number in the word is left out.
INLINE bool is_left_out(chance c, int64_t number) {
    return UNLIKELY(c.share > 0) && (double)(mixed(c.key, number) >> 11) * 0x1p-53 < c.share;
}

// The key of a word; reads up to 16 bytes behind its beginning.
INLINE word_key key_of(const uint8_t *word, int64_t size) {
    if (UNLIKELY(size > SHORT_WORD)) return (word_key){long_hash(word, size), (uint64_t)size};
    static const uint8_t ones[32] = {[0 ... 15] = 0xFF};
    const uint8_t *mask = ones + 16 - size;  // of as many ones, then zeros
    uint64_t second = load64(word + 8) & load64(mask + 8);
    return (word_key){load64(word) & load64(mask), second | (uint64_t)size << 56};
}

// Negative, zero or positive as bytes a sort before, with or after b.
INLINE int64_t compare_bytes(const uint8_t *a, int64_t a_size, const uint8_t *b, int64_t b_size) {
    int order = memcmp(a, b, (size_t)min64(a_size, b_size));
    return order ? order : a_size - b_size;
}

// Bytes of the UTF-8 character that begins with this byte.
INLINE int64_t character_length(uint8_t lead) {
    return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// --- memory (memory.c) ---

// Room for `count` items, not initialized, of huge pages if it is large; NULL without memory.
void *new_block(int64_t count, int64_t item);
// The same, filled with zeros.
void *new_zeros(int64_t count, int64_t item);
// Moves the first `used` items to room for `count`; frees the old block. On failure false, and the
// old block is as it was.
bool grow_block(void **block, int64_t used, int64_t count, int64_t item);
void free_block(void *block);

// --- double arrays (trie.c) ---
// A unit is one 64-bit number, so that a step of a walk is one load:
//   bits  0 to 8   label: the byte that leads here, 256 in units that no byte leads to
//   bits  9 to 35  value: 0 none, else 1 + the id of the piece that ends here
//   bits 36 to 63  base: the child for byte c is at base ^ c; 0 without children
// No two nodes share a base, so the label alone decides whether a unit is a node's child. Children
// are within 256 units; the first 256 contain only the root, so base 0 means no child.

enum { NO_LABEL = 256 };
INLINE uint64_t unit_label(uint64_t unit) { return unit & 0x1FF; }
INLINE uint64_t unit_value(uint64_t unit) { return (unit >> 9) & 0x7FFFFFF; }
INLINE uint64_t unit_base(uint64_t unit) { return unit >> 36; }

// --- tables of merges (pairs.c) ---
// Buckets of one cache line: four pairs, then their merges. A pair is left << 32 | right. A merge
// is one number, 0 without a merge: LAST_RANK - rank in the highest bits, so that the greatest is
// the one to apply, then room for the position of the pair in a short word, then its result.

#define NO_KEY (~UINT64_C(0))                 // in an empty slot
#define NO_PAIR (UINT64_C(0xFFFFFFFF) << 32)  // what no merge joins: ids are below 2^30
enum { RANK_SHIFT = 36, POSITION_SHIFT = 30, BUCKET = 8, BUCKET_SLOTS = 4 };
#define LAST_RANK ((UINT64_C(1) << 27) - 1)
#define RESULT_MASK ((UINT64_C(1) << 30) - 1)

INLINE uint64_t pair_of(int64_t left, int64_t right) {
    return ((uint64_t)left << 32) | (uint64_t)right;
}

INLINE uint64_t pair_hash(uint64_t pair) { return (pair * MIX_A) >> 32; }

// The merge of a pair, 0 if there is none. Keys are compared at once, without a branch.
INLINE uint64_t find_merge(const mt_pairs *pairs, uint64_t pair) {
    for (uint64_t bucket = pair_hash(pair);; bucket++) {
        const uint64_t *at = pairs->table + ((bucket & pairs->mask) << 3);
        uint64_t found = 0;
        for (int i = 0; i < BUCKET_SLOTS; i++)
            found |= at[BUCKET_SLOTS + i] & -(uint64_t)(at[i] == pair);
        if (LIKELY((at[3] == NO_KEY) | (found != 0))) return found;
    }
}

INLINE void send_for(const mt_pairs *pairs, uint64_t pair) {
    PREFETCH(pairs->table + ((pair_hash(pair) & pairs->mask) << 3));
}

// Ids of each word data[starts[i]:stops[i]] by merges or by search (merge.c, search.c); ids has
// room for as many as the words have bytes. Returns an error code.
int merge_words(const mt_segmenter *segmenter, const uint8_t *data, int64_t words,
                const int64_t *starts, const int64_t *stops, int32_t *ids, int64_t *offsets);
int search_words(const mt_segmenter *segmenter, const uint8_t *data, int64_t words,
                 const int64_t *starts, const int64_t *stops, int32_t *ids, int64_t *offsets);

// Order of words data[offsets[i]:offsets[i + 1]] by their bytes (sort.c). Reads up to 16 bytes
// behind a word. Returns an error code.
int sort_words(const uint8_t *data, const int64_t *offsets, int64_t words, int64_t *order);

#endif
