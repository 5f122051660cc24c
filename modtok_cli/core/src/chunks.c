// Where phrases can be cut without a change to their tokens.
//
// A segmentation of a phrase into the fewest tokens is found by search over the whole phrase, and
// hardly any phrase occurs twice. But no path passes a position inside a phrase that no token of
// the vocabulary matches across: the parts on its two sides, chunks, are segmented independently.
// They are short and often repeated, so a cache of words serves them.
//
// Only few tokens may match across the end of a word of `bpe`: superwords, and some odd ones. A
// filter tells by the bytes about the end of a word whether one may. It is wrong only to one side:
// some chunks are longer than they need be, with the same tokens. `shift` is 64 minus the binary
// logarithm of the filter's bits (tokenizer/segmenters/chunks.py makes it).
#include "text.h"

enum { WIDEST = 8 };  // bytes before the end of a word that the filter looks at, at most
#define LEFT_MULTIPLIER UINT64_C(0x9E3779B97F4A7C15)
#define RIGHT_MULTIPLIER UINT64_C(0xC2B2AE3D27D4EB4F)

INLINE uint64_t has_key(const mt_splitter *splitter, uint64_t key) {
    uint64_t number = key >> splitter->shift;
    return splitter->filter[number >> 3] >> (number & 7) & 1;
}

// Whether the filter has the end of the word data[begin:end]; never wrongly false. A key is the
// bytes of the word back to its begin, or its last byte or three, with some bytes behind: 2 and 4
// if they begin with a space, else 1 and 2.
INLINE bool may_cross(const mt_splitter *splitter, const uint8_t *data, int64_t begin,
                      int64_t end) {
    uint64_t left = load64(data + max64(end - WIDEST, 0));
    if (end < WIDEST) left <<= 8 * (WIDEST - end);
    uint64_t right = load64(data + end);
    int least = data[end] == ' ' ? 48 : 56;
    uint64_t one = (right << least) * RIGHT_MULTIPLIER;
    uint64_t two = (right << (2 * least - 64)) * RIGHT_MULTIPLIER;
    uint64_t found = 0;
    int64_t sizes[3] = {min64(end - begin, WIDEST), 1, 3};
    for (int i = 0; i < 3; i++) {
        uint64_t suffix = (left >> (64 - 8 * sizes[i])) * LEFT_MULTIPLIER;
        found |= has_key(splitter, suffix ^ one) | has_key(splitter, suffix ^ two);
    }
    return found;
}

// Whether phrases end before and after the word at `at`: numbers, all but single spaces.
INLINE bool is_apart(const uint8_t *data, int64_t at, int64_t stop) {
    int kind = class_at(data, at, stop, class_table).kind;
    if (data[at] == ' ' && at + 1 < stop) kind = class_at(data, at + 1, stop, class_table).kind;
    return kind == NUMBER || kind == SPACE;
}

static int64_t chunk_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                         int64_t stop) {
    for (int64_t begin = start;;) {
        int64_t end = bpe_word_end(splitter, data, begin, stop);
        if (end == stop || !may_cross(splitter, data, begin, end)) return end;
        if (is_apart(data, begin, stop) || is_apart(data, end, stop)) return end;
        begin = end;
    }
}

static int64_t chunk_ends(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                          int64_t stop, int32_t *ends) {
    int64_t words = bpe_split_block(splitter, data, start, stop, ends);
    int64_t length = stop - start, chunks = 0, begin = start;
    for (int64_t word = 0; word < words; word++) {
        int32_t near = ends[word];
        int64_t end = start + near;
        bool crossed = near < length && may_cross(splitter, data, begin, end) &&
                       !is_apart(data, begin, stop) && !is_apart(data, end, stop);
        ends[chunks] = near;
        chunks += !crossed;
        begin = end;
    }
    return chunks;
}

mt_splitter mt_chunk_splitter(const uint8_t *filter, int64_t shift) {
    // A chunk depends on the bytes behind the end of a word that the filter looks at, and on two
    // code points for what kind of word is next.
    return (mt_splitter){chunk_end, chunk_ends, WIDEST, filter, shift};
}
