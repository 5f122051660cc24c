// `llama3`: Llama 3 and its descendants: runs of up to three digits. For the bytes of "in 2024" the
// ends are 2, 3, 6 and 7.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    return llama3_end(data, start, stop, 3, false);
}

const mt_pretokenizer pretokenizer_llama3 = {
    .name = "llama3",
    .pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}"
               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    .llama_cpp = "llama-bpe",
    .splitter = {.word_end = word_end},
};
