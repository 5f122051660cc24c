// What the harnesses share. Each one is a function of arbitrary bytes that asserts what modtok.h
// says, mostly by comparison with a slow, obvious computation. `make fuzz` runs each under
// libFuzzer (fuzz.c); tests/core/test_core.c runs them on fixed and random inputs, also without
// memory.
#ifndef MODTOK_FUZZ_H
#define MODTOK_FUZZ_H

#undef NDEBUG
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modtok.h"

// Whether an allocation of the core was made to fail, and whether a call gave an error for it.
extern bool allocation_failed, error_seen;

typedef int fuzz_target(const uint8_t *data, size_t size);
fuzz_target fuzz_utf8, fuzz_json, fuzz_split, fuzz_encode, fuzz_count, fuzz_trie, fuzz_learn;

// An error of the core may only come from a failed allocation; then a harness ends early.
#define TRY(done)                                                                                  \
    do {                                                                                           \
        if (!(done)) {                                                                             \
            assert(allocation_failed);                                                             \
            error_seen = true;                                                                     \
            goto end;                                                                              \
        }                                                                                          \
    } while (0)

// Input of a harness, taken piece by piece; zeros when it is used up.
typedef struct {
    const uint8_t *data;
    int64_t size;
} input;

static inline uint8_t take(input *in) {
    if (!in->size) return 0;
    in->size--;
    return *in->data++;
}

// Blocks of a harness, of their exact size; all are freed together.
typedef struct {
    void *blocks[64];
    int used;
} rooms;

static inline void *room(rooms *all, int64_t count, size_t item) {
    void *block = malloc(count > 0 ? (size_t)count * item : 1);
    assert(block && all->used < 64);
    return all->blocks[all->used++] = block;
}

static inline void free_rooms(rooms *all) {
    while (all->used) free(all->blocks[--all->used]);
}

// A copy with MT_PADDING bytes behind it, which are `filler` and others.
static inline uint8_t *padded(rooms *all, const uint8_t *data, int64_t size, uint8_t filler) {
    uint8_t *copy = room(all, size + MT_PADDING, 1);
    if (size) memcpy(copy, data, (size_t)size);
    for (int i = 0; i < MT_PADDING; i++) copy[size + i] = (uint8_t)(filler + i * (filler & 7));
    return copy;
}

// Bytes of the well-formed sequence of UTF-8 that data[0:size] begins with, 0 if there is none.
static inline int64_t sequence(const uint8_t *data, int64_t size) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (size < 1) return 0;
    if (data[0] < 0x80) return 1;
    int64_t length = data[0] >= 0xF0 ? 4 : data[0] >= 0xE0 ? 3 : 2;
    if (data[0] < 0xC0 || data[0] >= 0xF8 || length > size) return 0;
    uint32_t point = data[0] & (0x7Fu >> length);
    for (int64_t i = 1; i < length; i++) {
        if ((data[i] & 0xC0) != 0x80) return 0;
        point = point << 6 | (data[i] & 0x3F);
    }
    bool surrogate = point >= 0xD800 && point < 0xE000;
    return point < least[length] || point > 0x10FFFF || surrogate ? 0 : length;
}

static inline bool is_utf8(const uint8_t *data, int64_t size) {
    for (int64_t at = 0, length; at < size; at += length)
        if (!(length = sequence(data + at, size - at))) return false;
    return true;
}

#endif
