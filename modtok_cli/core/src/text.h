// Classes of code points, and the parts of patterns that pre-tokenizers share (text.c, patterns.c).
#ifndef MODTOK_TEXT_H
#define MODTOK_TEXT_H

#include "common.h"

enum { OTHER, LETTER, NUMBER, SPACE, MARK, UPPER, LOWER };

extern uint8_t class_table[MT_CODE_POINTS];
extern uint8_t case_table[MT_CODE_POINTS];    // with UPPER and LOWER
extern uint8_t number_table[MT_CODE_POINTS];  // with the numbers of a newer Unicode; see smollm.c

typedef struct {
    int kind;
    int size;  // bytes
} code_point;

// The code point at `at`. A byte that is not of a code point in UTF-8 is one OTHER, so that no
// input reads out of bounds, and no ASCII byte is part of another character.
INLINE code_point class_at(const uint8_t *data, int64_t at, int64_t stop, const uint8_t *table) {
    uint32_t lead = data[at];
    if (LIKELY(lead < 0x80)) return (code_point){table[lead], 1};
    if (lead >= 0xC2 && lead < 0xE0 && at + 1 < stop) {
        uint32_t low = data[at + 1] ^ 0x80u;
        if (LIKELY(low < 0x40)) return (code_point){table[(lead & 0x1F) << 6 | low], 2};
    }
    if (lead >= 0xE0 && lead < 0xF0 && at + 2 < stop) {
        uint32_t middle = data[at + 1] ^ 0x80u, low = data[at + 2] ^ 0x80u;
        uint32_t point = (lead & 0x0F) << 12 | middle << 6 | low;
        if (LIKELY((middle | low) < 0x40 && point >= 0x800)) return (code_point){table[point], 3};
    }
    if (lead >= 0xF0 && lead <= 0xF4 && at + 3 < stop) {
        uint32_t high = data[at + 1] ^ 0x80u, middle = data[at + 2] ^ 0x80u;
        uint32_t low = data[at + 3] ^ 0x80u;
        uint32_t point = (lead & 0x07) << 18 | high << 12 | middle << 6 | low;
        if ((high | middle | low) < 0x40 && point >= 0x10000 && point < MT_CODE_POINTS)
            return (code_point){table[point], 4};
    }
    return (code_point){OTHER, 1};
}

// Bit 7 of each byte of `eight` that is no ASCII letter; all other bits are 0.
INLINE uint64_t not_letters(uint64_t eight) {
    const uint64_t high = UINT64_C(0x8080808080808080);
    // Lower case, without bit 7: then a letter is what reaches "a" but does not pass "z".
    uint64_t low = (eight & ~high) | UINT64_C(0x2020202020202020);
    uint64_t from_a = low + UINT64_C(0x1F1F1F1F1F1F1F1F);
    uint64_t past_z = low + UINT64_C(0x0505050505050505);
    return ~((from_a ^ past_z) & ~eight) & high;
}

// Sets of classes: bit c is class c.
enum {
    LETTERS = 1 << LETTER,
    NUMBERS = 1 << NUMBER,
    SYMBOLS = 1 << OTHER | 1 << MARK,
    WORDS = 1 << LETTER | 1 << MARK
};

// End of a run of at most `most` code points of the set `classes`; of letters there is no limit.
int64_t run_end(const uint8_t *data, int64_t at, int64_t stop, const uint8_t *table, int classes,
                int64_t most);
// Bytes of 's 't 'm 'd 're 've 'll at `at`, 0 if there is none; `fold` ignores case.
int64_t contraction(const uint8_t *data, int64_t at, int64_t stop, bool fold);
// Ends of words of published patterns that begin at `start`.
int64_t gpt2_end(const uint8_t *data, int64_t start, int64_t stop, const uint8_t *table,
                 bool digits);
int64_t llama3_end(const uint8_t *data, int64_t start, int64_t stop, int64_t digits, bool marks);
int64_t o200k_end(const uint8_t *data, int64_t start, int64_t stop, int64_t digits,
                  bool contractions);

// Words 64 bytes at a time; a split_block of these patterns (masks.c).
mt_word_end bpe_word_end;
mt_split_block bpe_split_block;
int64_t unigram_words(const uint8_t *data, int64_t start, int64_t stop, int32_t *ends);
int64_t gpt2_words(const uint8_t *data, int64_t start, int64_t stop, const uint8_t *table,
                   int32_t *ends, bool digits);

// Ends of the first words of data[start:stop], relative to `start`; gives their number, at least
// one. As many whole words as a block holds; `ends` has room for min(MT_BLOCK, stop - start) +
// MT_ENDS.
int64_t next_block(const mt_splitter *splitter, const uint8_t *data, int64_t start, int64_t stop,
                   int32_t *ends);

#endif
