// `tekken`: Mistral NeMo and its successors. As `o200k`, but without contractions, and every digit
// is a word. For the bytes of "HelloWorld's12" the ends are 5, 10, 12, 13 and 14. llama.cpp's
// pattern differs in marks and in letters beyond ASCII.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    return o200k_end(data, start, stop, 1, false);
}

#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER_CASE "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER_CASE "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

const mt_pretokenizer pretokenizer_tekken = {
    .name = "tekken",
    .pattern =
        BEFORE UPPER_CASE "*" LOWER_CASE "+|" BEFORE UPPER_CASE "+" LOWER_CASE "*"
                          "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    .splitter = {.word_end = word_end},
};
