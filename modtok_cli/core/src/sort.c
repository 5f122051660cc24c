// The order of words by their bytes: by their first eight as numbers, then the rest of equal ones.
#include "common.h"

enum { FEW = MT_SIZE(24, 3) };  // words with equal beginnings: so many are sorted by insertion

typedef struct {
    uint64_t key;
    int64_t word;
} entry;

typedef struct {
    const uint8_t *data;
    const int64_t *offsets;
} word_list;

// Bytes `from` to `from` + 8 of a word as a number that sorts as they do.
static uint64_t bytes_key(word_list words, int64_t word, int64_t from) {
    int64_t start = words.offsets[word] + from, left = words.offsets[word + 1] - start;
    if (left <= 0) return 0;
    return __builtin_bswap64(load64(words.data + start) & byte_mask(min64(left, 8)));
}

static bool is_before(word_list words, entry a, entry b) {
    if (a.key != b.key) return a.key < b.key;
    const int64_t *offsets = words.offsets;
    int64_t order =
        compare_bytes(words.data + offsets[a.word], offsets[a.word + 1] - offsets[a.word],
                      words.data + offsets[b.word], offsets[b.word + 1] - offsets[b.word]);
    return order < 0 || (order == 0 && a.word < b.word);
}

static void sink(word_list words, entry *heap, int64_t root, int64_t size) {
    entry moved = heap[root];
    for (int64_t child; (child = 2 * root + 1) < size; root = child) {
        if (child + 1 < size && is_before(words, heap[child], heap[child + 1])) child++;
        if (!is_before(words, moved, heap[child])) break;
        heap[root] = heap[child];
    }
    heap[root] = moved;
}

// Sorts words of equal beginnings; their next eight bytes decide nearly always.
static void sort_ties(word_list words, entry *ties, int64_t size) {
    for (int64_t i = 0; i < size; i++) ties[i].key = bytes_key(words, ties[i].word, 8);
    if (size <= FEW) {
        for (int64_t end = 1; end < size; end++) {
            entry moved = ties[end];
            int64_t at = end;
            for (; at > 0 && is_before(words, moved, ties[at - 1]); at--) ties[at] = ties[at - 1];
            ties[at] = moved;
        }
        return;
    }
    // Heap sort: no recursion, and never slow, however many words share a beginning.
    for (int64_t root = size / 2 - 1; root >= 0; root--) sink(words, ties, root, size);
    for (int64_t last = size - 1; last > 0; last--) {
        entry first = ties[0];
        ties[0] = ties[last];
        ties[last] = first;
        sink(words, ties, 0, last);
    }
}

int sort_words(const uint8_t *data, const int64_t *offsets, int64_t words, int64_t *order) {
    word_list list = {data, offsets};
    entry *entries = new_block(words, sizeof(entry)), *other = new_block(words, sizeof(entry));
    if (!entries || !other) {
        free_block(entries);
        free_block(other);
        return MT_NO_MEMORY;
    }
    static const int digits = 8;
    int64_t counts[8][256] = {{0}};
    for (int64_t word = 0; word < words; word++) {
        uint64_t key = bytes_key(list, word, 0);
        entries[word] = (entry){key, word};
        for (int digit = 0; digit < digits; digit++) counts[digit][key >> 8 * digit & 0xFF]++;
    }
    for (int digit = 0; digit < digits; digit++) {  // radix sort, the lowest digit first
        int64_t *count = counts[digit], place = 0;
        if (words && count[entries[0].key >> 8 * digit & 0xFF] == words) continue;
        for (int i = 0; i < 256; i++) {
            int64_t here = count[i];
            count[i] = place;
            place += here;
        }
        for (int64_t i = 0; i < words; i++)
            other[count[entries[i].key >> 8 * digit & 0xFF]++] = entries[i];
        entry *swapped = entries;
        entries = other;
        other = swapped;
    }
    for (int64_t low = 0, high; low < words; low = high) {
        uint64_t key = entries[low].key;
        for (high = low + 1; high < words && entries[high].key == key;) high++;
        if (high - low > 1) sort_ties(list, entries + low, high - low);
    }
    for (int64_t i = 0; i < words; i++) order[i] = entries[i].word;
    free_block(entries);
    free_block(other);
    return MT_OK;
}
