#include "fuzz.h"

enum { DOCUMENTS = 6 };

typedef struct {
    const uint8_t *bytes;
    int64_t size, count;
} word;

static int by_bytes(const void *a, const void *b) {
    const word *one = a, *two = b;
    int64_t least = one->size < two->size ? one->size : two->size;
    int order = memcmp(one->bytes, two->bytes, (size_t)least);
    return order ? order : (one->size > two->size) - (one->size < two->size);
}

// Sorts words and adds up the counts of equal ones; gives their number.
static int64_t add_up(word *words, int64_t count) {
    int64_t kept = 0;
    if (count) qsort(words, (size_t)count, sizeof(word), by_bytes);
    for (int64_t i = 0; i < count; i++) {
        if (kept && !by_bytes(words + kept - 1, words + i))
            words[kept - 1].count += words[i].count;
        else
            words[kept++] = words[i];
    }
    return kept;
}

// A table of words as the core gives it.
typedef struct {
    uint8_t *data;
    int64_t *offsets, *counts, words;
} table;

static table new_table(rooms *all, int64_t words, int64_t bytes) {
    return (table){room(all, bytes + MT_PADDING, 1), room(all, words + 1, sizeof(int64_t)),
                   room(all, words, sizeof(int64_t)), words};
}

static void check_table(const table *t, const word *words, int64_t count) {
    assert(t->words == count && t->offsets[0] == 0);
    for (int64_t i = 0; i < count; i++) {
        assert(t->offsets[i + 1] - t->offsets[i] == words[i].size);
        assert(!memcmp(t->data + t->offsets[i], words[i].bytes, (size_t)words[i].size));
        assert(t->counts[i] == words[i].count);
    }
    assert(mt_first_disorder(t->data, t->offsets, t->words) == -1);
}

static bool list(rooms *all, mt_counter *counter, table *t) {
    int64_t words, bytes, held;
    mt_counter_sizes(counter, &words, &bytes, &held);
    assert(held > 0 && bytes >= words);
    *t = new_table(all, words, bytes);
    return mt_counter_list(counter, t->data, t->offsets, t->counts) == MT_OK;
}

static table merged(rooms *all, const table *a, const table *b) {
    table both = new_table(all, a->words + b->words, a->offsets[a->words] + b->offsets[b->words]);
    both.words = mt_merge_counts(a->data, a->offsets, a->counts, a->words, b->data, b->offsets,
                                 b->counts, b->words, both.data, both.offsets, both.counts);
    return both;
}

int fuzz_count(const uint8_t *data, size_t length) {
    rooms all = {.used = 0};
    input in = {data, (int64_t)length};
    uint8_t form = take(&in), number = take(&in);
    int64_t size = in.size, documents = 0, starts[DOCUMENTS], stops[DOCUMENTS], weights[DOCUMENTS];
    uint8_t *text = padded(&all, in.data, size, form);
    for (int64_t at = 0; at < size && documents < DOCUMENTS; documents++) {
        starts[documents] = at;
        while (at < size && text[at] != 0xFF && text[at] != '\n') at++;
        stops[documents] = at++;
        weights[documents] = form & 1 ? documents * 1000 : 1;
    }
    mt_counter *counter = mt_counter_new(), *bounded = mt_counter_new();
    TRY(counter && bounded);
    const mt_pretokenizer *const *splitters = mt_pretokenizers();
    int known = 0;
    while (splitters[known]) known++;
    const mt_splitter *splitter = &splitters[number % known]->splitter;
    word *words = room(&all, size, sizeof(word));
    int64_t *ends = room(&all, size, sizeof(int64_t)), total = 0;
    for (int64_t i = 0; i < documents; i++) {
        const uint8_t *here = text + starts[i];
        int64_t count = mt_split(splitter, here, stops[i] - starts[i], ends);
        TRY(count >= 0);
        for (int64_t w = 0, at = 0; w < count; at = ends[w++])
            words[total++] = (word){here + at, ends[w] - at, weights[i]};
    }
    // Words in the order of the text: the first that does not ascend.
    int64_t *offsets = room(&all, total + 1, sizeof(int64_t)), disorder = -1;
    for (int64_t i = total - 1; i > 0; i--)
        if (by_bytes(words + i - 1, words + i) >= 0) disorder = i;
    uint8_t *flat = room(&all, size, 1);
    offsets[0] = 0;
    for (int64_t i = 0; i < total; i++) {
        memcpy(flat + offsets[i], words[i].bytes, (size_t)words[i].size);
        offsets[i + 1] = offsets[i] + words[i].size;
    }
    assert(mt_first_disorder(flat, offsets, total) == disorder);
    total = add_up(words, total);

    const int64_t *weighed = form & 1 ? weights : NULL;
    TRY(mt_counter_add(counter, splitter, text, documents, starts, stops, weighed, 0) == MT_OK);
    table whole;
    TRY(list(&all, counter, &whole));
    check_table(&whole, words, total);

    // In little memory: parts are listed, cleared and merged. Rooms are for few parts; then the
    // bound goes.
    table sum = new_table(&all, 0, 0);
    sum.offsets[0] = 0;
    int64_t most = 32 * take(&in);
    for (int part = 0, status = MT_FULL; status == MT_FULL; part++) {
        status = mt_counter_add(bounded, splitter, text, documents, starts, stops, weighed,
                                part < 4 ? most : 0);
        TRY(status == MT_OK || status == MT_FULL);
        table here;
        TRY(list(&all, bounded, &here));
        assert(status != MT_FULL || here.words > 0);
        mt_counter_clear(bounded);
        sum = merged(&all, &sum, &here);
    }
    check_table(&sum, words, total);
end:
    mt_counter_free(counter);
    mt_counter_free(bounded);
    free_rooms(&all);
    return 0;
}
