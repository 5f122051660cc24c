// Best segmentation of words into the pieces of a subset, by dynamic programming over a trie.
//
// One search serves two segmentations. Unigram: the greatest sum of scores. Fewest tokens: the
// fewest tokens, and among those the greatest sum. Both are "fewest `each` × tokens, then greatest
// sum", with `each` 0 or 1.
//
// Ties: of two best paths to a position the one with the longer last piece wins, as in
// SentencePiece and the `tokenizers` library: both visit positions in ascending order and replace a
// path only by one that is strictly better.
//
// Fewest tokens: once some path spells the whole word in t tokens, positions that need t tokens or
// more are passed over. Every path through one of them has more than t, so no result changes, ties
// included. Four in ten positions of new English and French words are.
//
// A character that no active piece spells (no piece that is just this character) may be written in
// bytes: an edge over the whole character with the score `unknown`, which stands for as many tokens
// as the character has bytes. SentencePiece and `tokenizers` set `unknown` to the least score of an
// ordinary piece minus 10.
#include "common.h"

#define UNREACHED (INT64_C(1) << 62)  // tokens of a path to a position that no path reaches

// The best path to a position: its sum, tokens, where its last piece begins, and 1 + that piece, 0
// for bytes.
typedef struct {
    double total;
    int64_t tokens;
    uint32_t origin, value;
} path;

INLINE void offer(path *to, double total, int64_t tokens, int64_t origin, uint64_t value) {
    if (tokens < to->tokens || (tokens == to->tokens && total > to->total))
        *to = (path){total, tokens, (uint32_t)origin, (uint32_t)value};
}

static void find_paths(const mt_segmenter *s, const uint8_t *word, int64_t size, chance c,
                       path *paths) {
    const uint64_t *units = s->units;
    const double *scores = s->scores;
    const uint8_t *active = s->active;
    int64_t each = s->each;
    bool fallback = s->fallback != 0;
    uint64_t root = unit_base(units[0]);
    paths[0] = (path){0};
    for (int64_t i = 1; i <= size; i++) paths[i].tokens = UNREACHED;
    for (int64_t i = 0; i < size; i++) {
        // A path through here to the end has more tokens than the one that is there.
        if (paths[i].tokens == UNREACHED || paths[i].tokens > paths[size].tokens - each) continue;
        double total = paths[i].total;
        int64_t tokens = paths[i].tokens + each, whole = i + character_length(word[i]);
        bool single = false;
        uint64_t base = root;
        for (int64_t j = i; base && j < size;) {
            uint64_t unit = units[base ^ word[j]];
            if (unit_label(unit) != word[j]) break;
            base = unit_base(unit);
            j++;
            uint64_t value = unit_value(unit);
            if (!value || !active[value - 1] || (j > whole && is_left_out(c, i << 32 | j)))
                continue;
            single |= j == whole;
            offer(paths + j, total + scores[value - 1], tokens, i, value);
        }
        if (single || !fallback) continue;
        int64_t j = min64(whole, size);
        offer(paths + j, total + s->unknown, paths[i].tokens + each * (j - i), i, 0);
    }
}

int search_words(const mt_segmenter *s, const uint8_t *data, int64_t words, const int64_t *starts,
                 const int64_t *stops, int32_t *ids, int64_t *offsets) {
    int64_t longest = 0;
    for (int64_t word = 0; word < words; word++)
        longest = max64(longest, stops[word] - starts[word]);
    path *paths = new_block(longest + 1, sizeof(path));
    if (!paths) return MT_NO_MEMORY;
    int64_t end = 0;
    offsets[0] = 0;
    for (int64_t i = 0; i < words; i++) {
        const uint8_t *word = data + starts[i];
        int64_t size = stops[i] - starts[i], first = end;
        find_paths(s, word, size, chance_of(s, i), paths);
        if (paths[size].tokens == UNREACHED) {  // it cannot be spelled
            for (int64_t j = 0; j < size; j++) ids[end++] = -1;
            offsets[i + 1] = end;
            continue;
        }
        // Positions are traced back from the end, so the ids are reversed.
        for (int64_t place = size; place > 0; place = paths[place].origin) {
            path here = paths[place];
            if (here.value)
                ids[end++] = (int32_t)here.value - 1;
            else
                for (int64_t j = place - 1; j >= here.origin; j--)
                    ids[end++] = s->byte_ids[word[j]];
        }
        for (int64_t low = first, high = end - 1; low < high; low++, high--) {
            int32_t swapped = ids[low];
            ids[low] = ids[high];
            ids[high] = swapped;
        }
        offsets[i + 1] = end;
    }
    if (s->local)
        for (int64_t i = 0; i < end; i++)
            if (ids[i] >= 0) ids[i] = s->local[ids[i]];
    free_block(paths);
    return MT_OK;
}

// 2^(i/16) rounded.
static const double STEPS[16] = {
    0x1.0000000000000p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,
    0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0,
    0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dcp+0, 0x1.9c49182a3f090p+0,
    0x1.ae89f995ad3aep+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba488p+0, 0x1.ea4afa2a490dap+0};

void mt_likelihoods(const int64_t *counts, int64_t total, int32_t *out) {
    for (int64_t i = 0; i < total; i++) {
        double value = 2.0 * (double)counts[i] + 1.0;
        uint64_t bits;
        memcpy(&bits, &value, 8);
        int exponent = (int)(bits >> 52) - 1023, step = 15;
        bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
        memcpy(&value, &bits, 8);
        while (STEPS[step] > value) step--;
        out[i] = 16 * exponent + step;
    }
}

int mt_segment(const mt_segmenter *s, const uint8_t *data, int64_t words, const int64_t *starts,
               const int64_t *stops, int32_t *ids, int64_t *offsets) {
    if (s->pairs) return merge_words(s, data, words, starts, stops, ids, offsets);
    return search_words(s, data, words, starts, stops, ids, offsets);
}
