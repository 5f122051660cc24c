#include <math.h>

#include "fuzz.h"

enum { BYTES = 256, MOST_PIECES = 300, LONGEST = 32, WORDS = 6 };

typedef struct {
    uint8_t data[MOST_PIECES * LONGEST + MT_PADDING];
    int64_t offsets[MOST_PIECES + 1], ids[MOST_PIECES], total;
    double scores[MOST_PIECES];
    uint8_t active[MOST_PIECES], removable[MOST_PIECES];
} pieces;

static int64_t size_of(const pieces *p, int64_t piece) {
    return p->offsets[piece + 1] - p->offsets[piece];
}

// The piece of these bytes among first ... before - 1, or -1.
static int64_t find_from(const pieces *p, int64_t first, int64_t before, const uint8_t *bytes,
                         int64_t size) {
    for (int64_t i = first; i < before; i++)
        if (size_of(p, i) == size && !memcmp(p->data + p->offsets[i], bytes, (size_t)size))
            return i;
    return -1;
}

static int64_t find(const pieces *p, int64_t before, const uint8_t *bytes, int64_t size) {
    return find_from(p, 0, before, bytes, size);
}

static void add(pieces *p, const uint8_t *bytes, int64_t size) {
    if (size) memcpy(p->data + p->offsets[p->total], bytes, (size_t)size);
    p->offsets[p->total + 1] = p->offsets[p->total] + size;
    p->total++;
}

// What the double array has for bytes: the id, or -1.
static int64_t look_up(const uint64_t *units, int64_t unit_total, const uint8_t *bytes,
                       int64_t size) {
    uint64_t unit = units[0];
    for (int64_t i = 0; i < size; i++) {
        if (!(unit >> 36)) return -1;
        uint64_t at = (unit >> 36) ^ bytes[i];
        assert((int64_t)at < unit_total);
        unit = units[at];
        if ((unit & 0x1FF) != bytes[i]) return -1;
    }
    return (int64_t)(unit >> 9 & 0x7FFFFFF) - 1;
}

// The fewest tokens of a word without one piece (the first are the bytes); of equal paths the
// greatest sum, then the first. Adds `count` to `uses` of the pieces on the path.
static int64_t fewest(const pieces *p, int64_t without, const uint8_t *word, int64_t size,
                      int64_t count, int64_t *uses) {
    int64_t tokens[LONGEST + 1], from[LONGEST + 1], chosen[LONGEST + 1];
    double sums[LONGEST + 1];
    for (int64_t i = 0; i <= size; i++) tokens[i] = i ? INT64_C(1) << 40 : 0;
    sums[0] = 0.0;
    for (int64_t i = 0; i < size; i++) {
        for (int64_t j = i + 1; j <= size; j++) {
            int64_t piece = j - i == 1 ? word[i] : find_from(p, BYTES, p->total, word + i, j - i);
            if (piece < 0 || piece == without || !p->active[piece]) continue;
            double sum = sums[i] + p->scores[piece];
            if (tokens[i] + 1 < tokens[j] || (tokens[i] + 1 == tokens[j] && sum > sums[j]))
                tokens[j] = tokens[i] + 1, sums[j] = sum, from[j] = i, chosen[j] = piece;
        }
    }
    if (uses)
        for (int64_t at = size; at > 0; at = from[at]) uses[chosen[at]] += count;
    return tokens[size];
}

static bool check_losses(rooms *all, pieces *p, input *in) {
    pieces *full = room(all, 1, sizeof(pieces));
    memset(full, 0, sizeof(pieces));
    for (int i = 0; i < BYTES; i++) add(full, &(uint8_t){(uint8_t)i}, 1);
    for (int64_t i = 0; i < p->total && i < 24; i++)
        if (size_of(p, i) > 1) add(full, p->data + p->offsets[i], size_of(p, i));
    for (int64_t i = 0; i < full->total; i++) {
        full->ids[i] = i;
        full->active[i] = i < BYTES || take(in) % 8 > 0;
        full->removable[i] = i >= BYTES && take(in) % 8 > 0;
        full->scores[i] = i < BYTES ? 0 : take(in) % 5;
    }
    int64_t offsets[WORDS + 1] = {0}, counts[WORDS], words = 0;
    uint8_t text[WORDS * LONGEST];
    for (; words < WORDS && in->size; words++) {
        int64_t size = take(in) % (LONGEST + 1);
        counts[words] = take(in);
        for (int64_t i = 0; i < size; i++) text[offsets[words] + i] = take(in);
        offsets[words + 1] = offsets[words] + size;
    }
    int64_t vocabulary = full->total, wrong, unit_total, total, all_tokens = 0;
    int64_t *losses = room(all, vocabulary, sizeof(int64_t));
    int64_t *uses = room(all, vocabulary, sizeof(int64_t));
    int64_t *slow = room(all, vocabulary, sizeof(int64_t));
    memset(slow, 0, (size_t)vocabulary * sizeof(int64_t));
    mt_trie *trie = mt_trie_new(full->data, full->offsets, vocabulary, full->ids, &wrong);
    if (!trie) return false;
    int status = mt_removal_losses(text, offsets, counts, words, mt_trie_units(trie, &unit_total),
                                   full->scores, vocabulary, full->active, full->removable, losses,
                                   uses, &total);
    mt_trie_free(trie);
    if (status != MT_OK) return false;
    for (int64_t w = 0; w < words; w++)
        all_tokens += counts[w] * fewest(full, -1, text + offsets[w], offsets[w + 1] - offsets[w],
                                         counts[w], slow);
    assert(total == all_tokens && !memcmp(uses, slow, (size_t)vocabulary * sizeof(int64_t)));
    for (int64_t piece = 0; piece < vocabulary; piece++) {
        int64_t without = 0;
        for (int64_t w = 0; full->removable[piece] && w < words; w++)
            without += counts[w] *
                       fewest(full, piece, text + offsets[w], offsets[w + 1] - offsets[w], 0, NULL);
        assert(losses[piece] == (full->removable[piece] ? without - total : 0));
    }
    return true;
}

// Each byte of a word belongs to one piece of every segmentation: so do expected counts.
static bool check_expected(rooms *all, input *in) {
    pieces *p = room(all, 1, sizeof(pieces));
    memset(p, 0, sizeof(pieces));
    int total = take(in) % 20;
    for (int i = 0; i < total; i++) {
        uint8_t piece[4];
        int64_t size = 1 + take(in) % 4;
        for (int64_t j = 0; j < size; j++) piece[j] = 'a' + take(in) % 3;
        if (size > 2 && take(in) % 4 == 0) memcpy(piece, "\xC3\xA9", 2);
        if (find(p, p->total, piece, size) < 0) add(p, piece, size);
    }
    for (int64_t i = 0; i < p->total; i++) p->ids[i] = i;
    int64_t offsets[WORDS + 1] = {0}, words = 0, wrong, unit_total, bytes = 0;
    double counts[WORDS], likelihood, table[2 * (MOST_PIECES + BYTES + 1)] = {0};
    uint8_t text[WORDS * 600];
    for (; words < WORDS && in->size; words++) {
        int64_t end = offsets[words];
        counts[words] = take(in) % 5;
        for (int count = take(in); count > 0 && in->size; count--) {
            uint8_t choice = take(in) % 4;
            if (choice < 3)
                text[end++] = 'a' + choice;
            else
                memcpy(text + end, "\xC3\xA9", 2), end += 2;
        }
        offsets[words + 1] = end;
        bytes += (int64_t)counts[words] * (end - offsets[words]);
    }
    // Weights so small that long words are computed with logarithms, and ones that are not.
    double least = take(in) % 2 ? 0.01 : 1e-9;
    int32_t byte_entries[BYTES];
    for (int64_t i = 0; i < p->total; i++) table[2 * (i + 1)] = least * (1 + take(in) % 9);
    for (int i = 0; i < BYTES; i++) {
        byte_entries[i] = (int32_t)p->total + 1 + i;
        table[2 * byte_entries[i]] = least;
    }
    mt_trie *trie = mt_trie_new(p->data, p->offsets, p->total, p->ids, &wrong);
    if (!trie) return false;
    int status = mt_expect(text, offsets, counts, 0, words, mt_trie_units(trie, &unit_total), table,
                           byte_entries, 0.0, &likelihood);
    mt_trie_free(trie);
    if (status != MT_OK) return false;
    double covered = 0.0;
    for (int64_t i = 0; i < p->total; i++) covered += table[2 * i + 3] * (double)size_of(p, i);
    for (int i = 0; i < BYTES; i++) covered += table[2 * byte_entries[i] + 1];
    assert(fabs(covered - (double)bytes) <= 1e-6 * (double)(bytes + 1));
    assert(likelihood <= 0.0 && isfinite(likelihood) && table[1] == 0.0);
    return true;
}

int fuzz_trie(const uint8_t *data, size_t length) {
    rooms all = {.used = 0};
    input in = {data, (int64_t)length};
    mt_trie *trie = NULL;
    pieces *p = room(&all, 1, sizeof(pieces));
    memset(p, 0, sizeof(pieces));
    uint8_t form = take(&in);
    if (form % 4 == 0) {
        TRY(check_expected(&all, &in));
        goto end;
    }
    int total = take(&in);
    int64_t fault = -1;
    for (int i = 0; i < total && fault < 0; i++) {
        uint8_t piece[LONGEST];
        int64_t size = take(&in) % (form & 4 ? LONGEST : 5);
        for (int64_t j = 0; j < size; j++) piece[j] = take(&in);
        bool is_wrong = !size || find(p, p->total, piece, size) >= 0;
        if (is_wrong && !(form & 8)) continue;
        if (is_wrong) fault = p->total;
        p->ids[p->total] = 1 + i * 3;
        add(p, piece, size);
    }
    int64_t wrong, unit_total;
    trie = mt_trie_new(p->data, p->offsets, p->total, p->ids, &wrong);
    if (fault >= 0) {  // of two equal pieces, either
        TRY(!trie && wrong >= 0);
        assert(wrong == fault ||
               find(p, fault, p->data + p->offsets[fault], size_of(p, fault)) == wrong);
        goto end;
    }
    assert(wrong == -1);
    TRY(trie);
    const uint64_t *units = mt_trie_units(trie, &unit_total);
    for (int64_t i = 0; i < p->total; i++) {
        const uint8_t *piece = p->data + p->offsets[i];
        for (int64_t size = 1; size <= size_of(p, i); size++) {
            int64_t known = find(p, p->total, piece, size);
            assert(look_up(units, unit_total, piece, size) == (known < 0 ? -1 : p->ids[known]));
        }
    }
    for (int64_t size = 1; size <= in.size && size < 20; size++) {
        int64_t known = find(p, p->total, in.data, size);
        assert(look_up(units, unit_total, in.data, size) == (known < 0 ? -1 : p->ids[known]));
    }
    TRY(check_losses(&all, p, &in));
end:
    mt_trie_free(trie);
    free_rooms(&all);
    return 0;
}
