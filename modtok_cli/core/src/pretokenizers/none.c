// `none`: a document is one word.
//
// For tokenizers that do not split text before merging, or split it in a way that is not known
// here. Word counts are then counts of documents.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter, (void)data, (void)start;
    return stop;
}

const mt_pretokenizer pretokenizer_none = {
    .name = "none",
    .pattern = "[\\s\\S]+",
    .splitter = {.word_end = word_end},
};
