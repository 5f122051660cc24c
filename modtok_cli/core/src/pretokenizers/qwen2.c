// `qwen2`: Qwen 2, 2.5 and 3: as `llama3`, with each digit apart. For the bytes of "in 24" the ends
// are 2, 3, 4 and 5.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    return llama3_end(data, start, stop, 1, false);
}

const mt_pretokenizer pretokenizer_qwen2 = {
    .name = "qwen2",
    .pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
               "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    .llama_cpp = "qwen2",
    .splitter = {.word_end = word_end},
};
