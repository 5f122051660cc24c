// `o200k`: GPT-4o, gpt-oss, Phi 4 mini. Words are split where case rises. For the bytes of
// "HelloWorld's" the ends are 5 and 12.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    return o200k_end(data, start, stop, 3, true);
}

#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER_CASE "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER_CASE "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

const mt_pretokenizer pretokenizer_o200k = {
    .name = "o200k",
    .pattern = BEFORE UPPER_CASE
    "*" LOWER_CASE "+" CONTRACTION  //
    "|" BEFORE UPPER_CASE "+" LOWER_CASE "*" CONTRACTION
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    .llama_cpp = "gpt-4o",
    .splitter = {.word_end = word_end},
};
