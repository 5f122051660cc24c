// `gemma`: a word takes all spaces before it, and nothing else splits text.
//
// SentencePiece BPE as in Gemma, Llama 2 and Mistral merges within a whole document. Where no token
// has a space after another character, no merge goes beyond such a word, so that words can be
// counted and encoded one by one with the same result. The models write a space as "▁" (U+2581),
// so a "▁" in the text is a space too. Gemma has a token ">▁</": spaces after ">" end no word. For
// the bytes of "a  b1> c" the ends are 1 and 8.
#include "../text.h"

static int64_t word_end(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop) {
    (void)splitter;
    bool begun = false, after_mark = false;
    int64_t at = start;
    while (at < stop) {
        int size = 0;
        if (data[at] == ' ')
            size = 1;
        else if (data[at] == 0xE2 && at + 2 < stop && data[at + 1] == 0x96 && data[at + 2] == 0x81)
            size = 3;
        if (!size) {
            begun = true;
            after_mark = data[at++] == '>';
        } else if (begun && !after_mark) {
            break;
        } else {
            at += size;
        }
    }
    return at;
}

const mt_pretokenizer pretokenizer_gemma = {
    .name = "gemma",
    .pattern = "[ ▁]*(?:>[ ▁]*|[^ ▁>])+|[ ▁]+",
    .splitter = {.word_end = word_end},
};
