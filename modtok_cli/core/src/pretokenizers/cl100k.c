// `cl100k`: GPT-4. As `llama3`, but all white space at the end of a text is one word. For the bytes
// of "a \n  " the ends are 1 and 5.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    if (run_end(data, start, stop, class_table, 1 << SPACE, stop) == stop) return stop;
    return llama3_end(data, start, stop, 3, false);
}

const mt_pretokenizer pretokenizer_cl100k = {
    .name = "cl100k",
    .pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+(?!\\s|\\S)|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    .splitter = {.word_end = word_end},
};
