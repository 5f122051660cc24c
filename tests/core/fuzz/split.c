#include "fuzz.h"

// The ends ascend and cover the text, and each is the one that word_end gives.
static int64_t checked_ends(const mt_splitter *splitter, const uint8_t *text, int64_t size,
                            int64_t *ends) {
    int64_t words = mt_split(splitter, text, size, ends);
    if (words < 0) return words;
    int64_t begin = 0;
    for (int64_t word = 0; word < words; word++) {
        assert(ends[word] > begin);
        assert(splitter->word_end(splitter, text, begin, size) == ends[word]);
        begin = ends[word];
    }
    assert(begin == size);
    return words;
}

int fuzz_split(const uint8_t *data, size_t length) {
    rooms all = {.used = 0};
    input in = {data, (int64_t)length};
    uint8_t filter[8];
    for (int i = 0; i < 8; i++) filter[i] = take(&in);
    uint8_t filler = take(&in);
    int64_t size = in.size;
    uint8_t *text = padded(&all, in.data, size, 'a');
    uint8_t *other = padded(&all, in.data, size, filler);
    int64_t *ends = room(&all, size, sizeof(int64_t)), *more = room(&all, size, sizeof(int64_t));
    int64_t *offsets = room(&all, size + 2, sizeof(int64_t));
    uint64_t *hashes = room(&all, size + 1, sizeof(uint64_t));
    uint8_t *copy = room(&all, size, 1);
    const mt_pretokenizer *bpe = NULL;
    for (const mt_pretokenizer *const *here = mt_pretokenizers(); *here; here++) {
        const mt_splitter *splitter = &(*here)->splitter;
        assert((*here)->name && (*here)->pattern);
        if (!strcmp((*here)->name, "bpe")) bpe = *here;
        int64_t words = checked_ends(splitter, text, size, ends);
        TRY(words >= 0);
        // What is behind the text has no effect.
        int64_t again = mt_split(splitter, other, size, more);
        TRY(again >= 0);
        assert(again == words && !memcmp(ends, more, (size_t)words * sizeof(int64_t)));
        offsets[0] = 0;
        if (words) memcpy(offsets + 1, ends, (size_t)words * sizeof(int64_t));
        mt_hash_spans(text, words, offsets, offsets + 1, hashes);
        for (int64_t word = 1; word < words; word++) {
            int64_t first = offsets[word - 1], here_size = ends[word] - offsets[word];
            bool same = ends[word - 1] - first == here_size &&
                        !memcmp(text + first, text + offsets[word], (size_t)here_size);
            assert(same == (hashes[word] == hashes[word - 1]));
        }
        mt_copy_spans(text, words, offsets, offsets, copy);
        assert(!size || !memcmp(copy, text, (size_t)size));
    }
    // Chunks end where words of `bpe` end.
    mt_splitter chunks = mt_chunk_splitter(filter, 58);
    int64_t words = checked_ends(&chunks, text, size, ends);
    TRY(words >= 0);
    int64_t many = mt_split(&bpe->splitter, text, size, more);
    TRY(many >= 0);
    for (int64_t word = 0, near = 0; word < words; word++) {
        while (near < many && more[near] < ends[word]) near++;
        assert(near < many && more[near] == ends[word]);
    }
end:
    free_rooms(&all);
    return 0;
}
