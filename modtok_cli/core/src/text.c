// Tables of code points, and splitting of text block by block.
//
// Patterns are written for the regular-expression engine of the `tokenizers` library (Oniguruma),
// which runs a published tokenizer.json. Classes come from tables made by asking that engine
// (tests/helpers/class_tables.py): other libraries have other versions of Unicode, and the engine's
// \s has U+0085 but not U+001C to U+001F.
#include "text.h"

uint8_t class_table[MT_CODE_POINTS];
uint8_t case_table[MT_CODE_POINTS];
uint8_t number_table[MT_CODE_POINTS];

typedef struct {
    uint32_t first, last, kind;
} range;

static const range CLASSES[] = {
#include "classes.inc"
};
static const range CASES[] = {
#include "cases.inc"
};
// Numbers of the library's `Digits`, which has a newer Unicode than its regular expressions.
static const range NEW_NUMBERS[] = {{0x11DE0, 0x11DE9, NUMBER}, {0x16FF4, 0x16FF6, NUMBER}};

static void fill(uint8_t *table, const range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++)
        memset(table + ranges[i].first, (int)ranges[i].kind, ranges[i].last - ranges[i].first + 1);
}

#define FILL(table, ranges) fill(table, ranges, sizeof(ranges) / sizeof(ranges[0]))

void mt_start(void) {
    FILL(class_table, CLASSES);
    FILL(case_table, CLASSES);
    FILL(case_table, CASES);
    FILL(number_table, CLASSES);
    FILL(number_table, NEW_NUMBERS);
}

const uint8_t *mt_classes(bool cases) { return cases ? case_table : class_table; }

#define X(name) extern const mt_pretokenizer pretokenizer_##name;
MT_PRETOKENIZERS
#undef X

const mt_pretokenizer *const *mt_pretokenizers(void) {
#define X(name) &pretokenizer_##name,
    static const mt_pretokenizer *const all[] = {MT_PRETOKENIZERS NULL};
#undef X
    return all;
}

int64_t next_block(const mt_splitter *splitter, const uint8_t *data, int64_t start, int64_t stop,
                   int32_t *ends) {
    int64_t words = 0;
    if (!splitter->split_block) {
        for (int64_t at = start; at < stop && at < start + MT_BLOCK;) {
            int64_t end = splitter->word_end(splitter, data, at, stop);
            at = end > at && end <= stop ? end : stop;  // a function of Python may fail
            ends[words++] = (int32_t)(at - start);
        }
        return words;
    }
    if (stop - start <= MT_BLOCK) return splitter->split_block(splitter, data, start, stop, ends);
    int64_t edge = start + MT_BLOCK;
    for (int64_t back = 0; back < 4; back++) {
        if ((data[edge - back] & 0xC0) != 0x80) {
            edge -= back;  // not within a code point; of four continuation bytes, the last is none
            break;
        }
    }
    for (int64_t back = 1; back < 4; back++) {
        if (data[edge - back] == '\'') {  // 's and 've need what follows
            edge -= back;
            break;
        }
    }
    words = splitter->split_block(splitter, data, start, edge, ends) - 1;
    // The last one may continue beyond the edge; others may depend on what is there.
    int64_t certain = edge - start - splitter->lookahead;
    while (words > 0 && ends[words - 1] > certain) words--;
    if (words > 0) return words;
    ends[0] = (int32_t)(splitter->word_end(splitter, data, start, stop) - start);
    return 1;
}

int64_t mt_split(const mt_splitter *splitter, const uint8_t *data, int64_t size, int64_t *ends) {
    int32_t *block = new_block(min64(size, MT_BLOCK) + MT_ENDS, sizeof(int32_t));
    if (!block) return MT_NO_MEMORY;
    int64_t total = 0;
    for (int64_t position = 0; position < size;) {
        int64_t words = next_block(splitter, data, position, size, block);
        for (int64_t word = 0; word < words; word++) ends[total++] = position + block[word];
        position = ends[total - 1];
    }
    free_block(block);
    return total;
}

void mt_hash_spans(const uint8_t *data, int64_t spans, const int64_t *starts, const int64_t *stops,
                   uint64_t *hashes) {
    for (int64_t i = 0; i < spans; i++) {
        int64_t size = stops[i] - starts[i];
        hashes[i] = key_hash((word_key){long_hash(data + starts[i], size), (uint64_t)size});
    }
}

void mt_copy_spans(const uint8_t *data, int64_t spans, const int64_t *starts,
                   const int64_t *offsets, uint8_t *out) {
    for (int64_t i = 0; i < spans; i++)
        memcpy(out + offsets[i], data + starts[i], (size_t)(offsets[i + 1] - offsets[i]));
}
