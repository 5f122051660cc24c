// `bpe`: runs of letters and marks, of numbers, of symbols, of white space.
//
// Each run takes at most one space before it. Marks stay with the letters they belong to
// (Devanagari clusters are whole), a run of symbols takes the marks in it, and no look-ahead is
// used: in "a  b" the words are "a", two spaces, and "b". For the bytes of "a  b!" the ends are 1,
// 3, 4 and 5.
#include "../text.h"

int64_t bpe_word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                     int64_t stop) {
    (void)splitter;
    code_point here = class_at(data, start, stop, class_table);
    int64_t at = start + here.size;
    if (data[start] == ' ' && at < stop) {
        // One space belongs to what follows it, unless that is white space too.
        here = class_at(data, at, stop, class_table);
        at += here.size;
    }
    int run = here.kind == LETTER || here.kind == MARK ? WORDS
              : here.kind == NUMBER                    ? NUMBERS
              : here.kind == SPACE                     ? 1 << SPACE
                                                       : SYMBOLS;
    return run_end(data, at, stop, class_table, run, stop);
}

const mt_pretokenizer pretokenizer_bpe = {
    .name = "bpe",
    .pattern = " ?[\\p{L}\\p{M}]+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+",
    .splitter = {.word_end = bpe_word_end, .split_block = bpe_split_block},
};
