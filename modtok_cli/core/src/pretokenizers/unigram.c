// `unigram`: splits where SentencePiece's pieces never reach across.
//
// A word takes all the spaces before it ("a  b": "a" and "  b", whose pieces may be two spaces and
// "b", or one space and " b"); every digit is a word; tabs and line ends are apart. Only ASCII is
// looked at: a no-break space is a symbol like any other, as it is to SentencePiece. So every byte
// beyond ASCII belongs to a word and no character has to be decoded. For the bytes of "a  b1" the
// ends are 1, 4 and 5.
#include "../text.h"

static int byte_kind(uint8_t byte) {
    if (byte == ' ') return SPACE;
    if (byte >= '0' && byte <= '9') return NUMBER;
    return byte >= 0x09 && byte <= 0x0D ? OTHER : LETTER;
}

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    int64_t at = start;
    int kind = byte_kind(data[at]);
    if (kind == NUMBER) return at + 1;
    if (kind == SPACE) {
        while (at < stop && data[at] == ' ') at++;
        if (at == stop || byte_kind(data[at]) != LETTER) return at;
        kind = LETTER;
    }
    while (at < stop && byte_kind(data[at]) == kind) at++;
    return at;
}

static int64_t split_block(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                           int64_t stop, int32_t *ends) {
    (void)splitter;
    return unigram_words(data, start, stop, ends);
}

const mt_pretokenizer pretokenizer_unigram = {
    .name = "unigram",
    .pattern = " *[^ \\t\\n\\x0B\\f\\r0-9]+|[0-9]| +|[\\t\\n\\x0B\\f\\r]+",
    .splitter = {.word_end = word_end, .split_block = split_block},
};
