// One encoder in four threads, for the thread sanitizer: tiny caches are replaced all the time, and
// the segmenter changes meanwhile. Each thread must get the ids that one alone gets.
#undef NDEBUG
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "modtok.h"

enum { THREADS = 4, TEXTS = 40, BYTES = 20000, MERGES = 60, ROUNDS = 12 };

static struct {
    uint8_t data[BYTES + MT_PADDING];
    int64_t offsets[TEXTS + 1], id_offsets[TEXTS + 1];
    int32_t ids[BYTES + 2];
    mt_encoder *encoder;
    mt_segmenter segmenters[2];
} shared;

static void check(int32_t *ids, int64_t *offsets) {
    assert(mt_encode(shared.encoder, shared.data, shared.offsets, TEXTS, ids, offsets) == MT_OK);
    assert(!memcmp(offsets, shared.id_offsets, sizeof(shared.id_offsets)));
    assert(!memcmp(ids, shared.ids, (size_t)offsets[TEXTS] * sizeof(int32_t)));
}

static void *encode(void *number) {
    int32_t ids[BYTES + 2];
    int64_t offsets[TEXTS + 1];
    for (int round = 0; round < ROUNDS; round++) {
        check(ids, offsets);
        if ((intptr_t)number == 0) mt_encoder_change(shared.encoder, shared.segmenters + round % 2);
        if ((intptr_t)number == 1 && round % 4 == 0) mt_encoder_forget(shared.encoder);
        if ((intptr_t)number == 2) assert(mt_encoder_expect(shared.encoder, 1 << 21) == MT_OK);
        if ((intptr_t)number == 3) assert(mt_encoder_spent(shared.encoder).calls >= 0);
    }
    return NULL;
}

int main(void) {
    mt_start();
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < BYTES; i++) {  // words of few letters, some of them long
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        shared.data[i] = state % 7 == 0 && state % 3 ? ' ' : (uint8_t)('a' + state % 5);
    }
    for (int i = 0; i <= TEXTS; i++) shared.offsets[i] = (int64_t)i * (BYTES / TEXTS);
    int32_t merges[MERGES][3], byte_ids[256];
    for (int i = 0; i < 256; i++) byte_ids[i] = i;
    for (int i = 0; i < MERGES; i++) {
        merges[i][0] = i < 25 ? 'a' + i / 5 : 256 + i - 25;
        merges[i][1] = i < 25 ? 'a' + i % 5 : 'a' + i % 5;
        merges[i][2] = 256 + i;
    }
    mt_pairs *pairs[2] = {mt_pairs_new(merges[0], MERGES), mt_pairs_new(merges[0], MERGES)};
    for (int i = 0; i < 2; i++)
        shared.segmenters[i] = (mt_segmenter){.pairs = pairs[i], .byte_ids = byte_ids};
    const mt_pretokenizer *const *splitter = mt_pretokenizers();
    while (strcmp((*splitter)->name, "bpe") != 0) splitter++;

    // With a cache that all words fit into; then with tiny ones.
    shared.encoder = mt_encoder_new(&(*splitter)->splitter, shared.segmenters);
    assert(pairs[0] && pairs[1] && shared.encoder);
    assert(mt_encode(shared.encoder, shared.data, shared.offsets, TEXTS, shared.ids,
                     shared.id_offsets) == MT_OK);
    mt_encoder_free(shared.encoder);
    shared.encoder = mt_encoder_new(&(*splitter)->splitter, shared.segmenters);
    assert(shared.encoder);
    mt_encoder_cache_sizes(shared.encoder, 8, 64);
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        assert(!pthread_create(threads + i, NULL, encode, (void *)i));
    for (int i = 0; i < THREADS; i++) assert(!pthread_join(threads[i], NULL));
    mt_encoder_free(shared.encoder);
    mt_pairs_free(pairs[0]);
    mt_pairs_free(pairs[1]);
    printf("%d threads encoded %d texts %d times\n", THREADS, TEXTS, ROUNDS);
    return 0;
}
