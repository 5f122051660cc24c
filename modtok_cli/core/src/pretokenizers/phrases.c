// `phrases`: words of `bpe` with single spaces between them are one.
//
// A phrase is a run of words of `bpe` that are neither numbers nor white space: it ends at a
// number, at two spaces, at a tab and at the end of a line. Vocabularies with superwords, tokens of
// several words, are segmented by phrase. For the bytes of "a b, 12  c" the ends are 4, 7, 9
// and 10.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    code_point here = class_at(data, start, stop, class_table);
    int64_t at = start + here.size;
    if (data[start] == ' ' && at < stop) {
        // One space belongs to what follows it, unless that is white space too.
        here = class_at(data, at, stop, class_table);
        at += here.size;
    }
    if (here.kind == NUMBER || here.kind == SPACE)
        return run_end(data, at, stop, class_table, 1 << here.kind, stop);
    while (at < stop) {
        int64_t space = data[at] == ' ';
        if (at + space == stop) break;
        here = class_at(data, at + space, stop, class_table);
        if (here.kind == NUMBER || here.kind == SPACE) break;
        at += space + here.size;
    }
    return at;
}

const mt_pretokenizer pretokenizer_phrases = {
    .name = "phrases",
    .pattern = "(?: ?[^\\s\\p{N}])+| ?\\p{N}+|\\s+",
    .splitter = {.word_end = word_end},
};
