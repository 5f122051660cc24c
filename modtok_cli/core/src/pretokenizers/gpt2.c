// `gpt2`: GPT-2, RoBERTa, GPT-NeoX, Phi 1 and 2, and many others. For the bytes of "it's  so" the
// ends are 2, 4, 5 and 8.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    return gpt2_end(data, start, stop, class_table, false);
}

static int64_t split_block(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                           int64_t stop, int32_t *ends) {
    (void)splitter;
    return gpt2_words(data, start, stop, class_table, ends, false);
}

const mt_pretokenizer pretokenizer_gpt2 = {
    .name = "gpt2",
    .pattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    .llama_cpp = "gpt-2",
    .json_form = MT_BYTE_LEVEL,
    .splitter = {.word_end = word_end, .split_block = split_block},
};
