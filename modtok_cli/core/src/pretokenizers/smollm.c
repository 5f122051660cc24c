// `smollm`: as `gpt2`, with each digit apart. SmolLM, StarCoder, Granite code.
//
// The pattern and the two steps in files differ in 13 numbers only, those of a newer Unicode that
// the library's `Digits` has (text.c); the code follows the files. For the bytes of "in 2024" the
// ends are 2, 3, 4, 5, 6 and 7.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    return gpt2_end(data, start, stop, number_table, true);
}

static int64_t split_block(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                           int64_t stop, int32_t *ends) {
    (void)splitter;
    return gpt2_words(data, start, stop, number_table, ends, true);
}

const mt_pretokenizer pretokenizer_smollm = {
    .name = "smollm",
    .pattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?![^\\s\\p{N}])"
               "|\\s+",
    .llama_cpp = "smollm",
    .json_form = MT_DIGITS_BYTE_LEVEL,
    .splitter = {.word_end = word_end, .split_block = split_block},
};
