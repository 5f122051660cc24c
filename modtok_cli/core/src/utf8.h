// Whether bytes are UTF-8: by the table of well-formed sequences of the Unicode standard (3.9,
// table 3-7).
#ifndef MODTOK_UTF8_H
#define MODTOK_UTF8_H

#include "common.h"

enum { LANES = 32 };
typedef uint8_t lanes __attribute__((vector_size(LANES)));

INLINE lanes load_lanes(const uint8_t *at) {
    lanes value;
    memcpy(&value, at, LANES);
    return value;
}

INLINE lanes all_lanes(uint8_t byte) { return (lanes){0} + byte; }

// Whether a lane is not 0.
INLINE bool any_lane(lanes value) {
    uint64_t parts[LANES / 8];
    memcpy(parts, &value, LANES);
    return (parts[0] | parts[1] | parts[2] | parts[3]) != 0;
}

// Whether one of 32 bytes cannot follow the three before them: as many continuation bytes after
// each lead byte as it asks for and nowhere else, no lead byte of an overlong form or beyond
// U+10FFFF, and after E0, ED, F0 and F4 only half of the continuation bytes. What the last three of
// the 32 ask for is left to the next call.
INLINE bool has_fault(const uint8_t *at) {
    lanes byte = load_lanes(at), one = load_lanes(at - 1);
    lanes two = load_lanes(at - 2), three = load_lanes(at - 3);
    lanes follows = (lanes)((byte & all_lanes(0xC0)) == all_lanes(0x80));
    lanes due = (lanes)(one >= all_lanes(0xC0)) | (lanes)(two >= all_lanes(0xE0)) |
                (lanes)(three >= all_lanes(0xF0));
    lanes fault = follows ^ due;
    fault |= (lanes)(byte == all_lanes(0xC0)) | (lanes)(byte == all_lanes(0xC1));
    fault |= (lanes)(byte >= all_lanes(0xF5));
    fault |= (lanes)(one == all_lanes(0xE0)) & (lanes)(byte < all_lanes(0xA0));
    fault |= (lanes)(one == all_lanes(0xED)) & (lanes)(byte >= all_lanes(0xA0));
    fault |= (lanes)(one == all_lanes(0xF0)) & (lanes)(byte < all_lanes(0x90));
    fault |= (lanes)(one == all_lanes(0xF4)) & (lanes)(byte >= all_lanes(0x90));
    return any_lane(fault);
}

// Whether the byte at `at` cannot follow the three before it.
INLINE bool is_fault(const uint8_t *at) {
    uint8_t byte = at[0], one = at[-1], two = at[-2], three = at[-3];
    bool due = one >= 0xC0 || two >= 0xE0 || three >= 0xF0;
    if (((byte & 0xC0) == 0x80) != due || byte == 0xC0 || byte == 0xC1 || byte >= 0xF5) return true;
    if ((one == 0xE0 && byte < 0xA0) || (one == 0xED && byte >= 0xA0)) return true;
    return (one == 0xF0 && byte < 0x90) || (one == 0xF4 && byte >= 0x90);
}

// Whether data[0:size], which begins with three ASCII bytes, is UTF-8.
INLINE bool utf8_from_third(const uint8_t *data, int64_t size) {
    int64_t at = 3;
    for (; at + LANES <= size; at += LANES)
        if (has_fault(data + at)) return false;
    if (at < size && size >= LANES + 3) {
        // The last 32 bytes once more, some of them for the second time.
        if (has_fault(data + size - LANES)) return false;
        at = size;
    }
    for (; at < size; at++)
        if (is_fault(data + at)) return false;
    // The last sequence is whole.
    return size < 3 ||
           !(data[size - 1] >= 0xC0 || data[size - 2] >= 0xE0 || data[size - 3] >= 0xF0);
}

#endif
