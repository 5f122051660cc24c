// Tables of merges by pair, and how merges build each token; common.h has the layout.
#include "common.h"

static void fill(mt_pairs *pairs, const int32_t *merges, int64_t total, int64_t first) {
    for (int64_t rank = first; rank < total; rank++) {
        const int32_t *merge = merges + 3 * rank;
        uint64_t key = pair_of((uint32_t)merge[0], (uint32_t)merge[1]);
        for (uint64_t bucket = pair_hash(key);; bucket++) {
            uint64_t *at = pairs->table + ((bucket & pairs->mask) << 3);
            int slot = 0;
            while (slot < BUCKET_SLOTS && at[slot] != NO_KEY && at[slot] != key) slot++;
            if (slot == BUCKET_SLOTS) continue;
            if (at[slot] == NO_KEY) {
                at[slot] = key;
                at[slot + BUCKET_SLOTS] =
                    (LAST_RANK - (uint64_t)rank) << RANK_SHIFT | (uint32_t)merge[2];
            }
            break;
        }
    }
}

static bool make_table(mt_pairs *pairs, int64_t total) {
    int64_t buckets = 8;
    while (2 * buckets < total) buckets *= 2;
    pairs->table = new_block(buckets * BUCKET, sizeof(uint64_t));
    if (!pairs->table) return false;
    memset(pairs->table, 0xFF, (size_t)(buckets * BUCKET) * sizeof(uint64_t));
    pairs->mask = (uint64_t)buckets - 1;
    return true;
}

mt_pairs *mt_pairs_new(const int32_t *merges, int64_t total) {
    mt_pairs *pairs = malloc(sizeof(mt_pairs));
    if (!pairs) return NULL;
    if (!make_table(pairs, total)) {
        free(pairs);
        return NULL;
    }
    fill(pairs, merges, total, 0);
    return pairs;
}

int mt_pairs_extend(mt_pairs *pairs, const int32_t *merges, int64_t total, int64_t first) {
    if (total > 2 * ((int64_t)pairs->mask + 1)) {
        mt_pairs larger;
        if (!make_table(&larger, total)) return MT_NO_MEMORY;
        free_block(pairs->table);
        *pairs = larger;
        first = 0;
    }
    fill(pairs, merges, total, first);
    return MT_OK;
}

void mt_pairs_free(mt_pairs *pairs) {
    if (!pairs) return;
    free_block(pairs->table);
    free(pairs);
}

int mt_last_merges(const mt_pairs *pairs, const int32_t *symbols, const int64_t *offsets,
                   int64_t count, int32_t *results, int32_t *last) {
    int64_t longest = 1;
    for (int64_t i = 0; i < count; i++) longest = max64(longest, offsets[i + 1] - offsets[i]);
    int32_t *work = new_block(longest, sizeof(int32_t));
    if (!work) return MT_NO_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        int64_t size = offsets[i + 1] - offsets[i];
        bool known = size > 0;
        results[i] = last[i] = -1;
        for (int64_t j = 0; j < size; j++) {
            work[j] = symbols[offsets[i] + j];
            known = known && work[j] >= 0;
        }
        while (known && size > 1) {
            uint64_t best = 0;
            int64_t at = 0;
            for (int64_t j = 0; j + 1 < size; j++) {
                uint64_t found = find_merge(pairs, pair_of(work[j], work[j + 1]));
                if (found >> RANK_SHIFT > best >> RANK_SHIFT) best = found, at = j;
            }
            if (!best) break;
            work[at] = (int32_t)(best & RESULT_MASK);
            last[i] = (int32_t)(LAST_RANK - (best >> RANK_SHIFT));
            size--;
            for (int64_t j = at + 1; j < size; j++) work[j] = work[j + 1];
        }
        if (known && size == 1) results[i] = work[0];
    }
    free_block(work);
    return MT_OK;
}
