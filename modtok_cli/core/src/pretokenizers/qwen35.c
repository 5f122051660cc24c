// `qwen35`: Qwen 3.5 and 3.6: as `qwen2`, but marks belong to letters. For the bytes of "e", U+0301
// and "!" the ends are 3 and 4.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    return llama3_end(data, start, stop, 1, true);
}

const mt_pretokenizer pretokenizer_qwen35 = {
    .name = "qwen35",
    .pattern = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
               "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    .llama_cpp = "qwen35",
    .splitter = {.word_end = word_end},
};
