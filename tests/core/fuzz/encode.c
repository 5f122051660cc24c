#include "fuzz.h"

enum { MOST_MERGES = 40, MOST_PIECES = 40, MOST_ADDED = 4, TEXTS = 8 };

typedef struct {
    int32_t merges[MOST_MERGES][3];
    int64_t merge_total;
    uint8_t pieces[MOST_PIECES][8];
    int64_t sizes[MOST_PIECES], piece_total;
    double scores[MOST_PIECES];
    uint8_t active[MOST_PIECES];
    int32_t local[MOST_PIECES], byte_ids[256], added[MOST_ADDED];
} model;

static int32_t characters[MT_CODE_POINTS];

// --- by merges ---

static int64_t find_pair(const model *m, int32_t left, int32_t right) {
    for (int64_t rank = 0; rank < m->merge_total; rank++)
        if (m->merges[rank][0] == left && m->merges[rank][1] == right) return rank;
    return -1;
}

// The lowest rank first, the leftmost of equal ones; the last rank in *last.
static int64_t merge_slowly(const model *m, int32_t *symbols, int64_t size, int32_t *last) {
    for (*last = -1;;) {
        int64_t best = -1, at = 0;
        for (int64_t i = 0; i + 1 < size; i++) {
            int64_t rank = find_pair(m, symbols[i], symbols[i + 1]);
            if (rank >= 0 && (best < 0 || rank < best)) best = rank, at = i;
        }
        if (best < 0) return size;
        *last = (int32_t)best;
        symbols[at] = m->merges[best][2];
        memmove(symbols + at + 1, symbols + at + 2, (size_t)(size - at - 2) * sizeof(int32_t));
        size--;
    }
}

static int64_t spell_slowly(const model *m, bool by_character, const uint8_t *word, int64_t size,
                            int32_t *symbols) {
    int64_t count = 0;
    for (int64_t at = 0; at < size;) {
        int64_t length = by_character ? sequence(word + at, size - at) : 0;
        uint32_t point = length == 1 ? word[at] : 0;
        if (length == 2) point = (word[at] & 0x1Fu) << 6 | (word[at + 1] & 0x3F);
        if (length > 0 && length < 3 && characters[point] >= 0) {
            symbols[count++] = characters[point];
            at += length;
        } else {
            symbols[count] = m->byte_ids[word[at++]];
            count += symbols[count] >= 0;
        }
    }
    return count;
}

static int64_t by_merges(const model *m, bool by_character, const uint8_t *word, int64_t size,
                         int64_t added, bool whole, int32_t *ids) {
    int32_t last;
    int64_t first = 0, count = 0;
    for (int32_t i = 0; whole && i < m->piece_total; i++)
        if (m->sizes[i] == size && !memcmp(m->pieces[i], word, (size_t)size)) {
            ids[0] = i;
            return 1;
        }
    for (int64_t at = 0; added && at < size;) {
        int64_t longest = -1;
        for (int64_t i = 0; i < added; i++)
            if (m->sizes[i] <= size - at && !memcmp(m->pieces[i], word + at, (size_t)m->sizes[i]))
                if (longest < 0 || m->sizes[i] > m->sizes[longest]) longest = i;
        if (longest >= 0 && m->added[longest] >= 0) {
            int64_t symbols = spell_slowly(m, by_character, word + first, at - first, ids + count);
            count += merge_slowly(m, ids + count, symbols, &last);
            ids[count++] = m->added[longest];
            first = at + m->sizes[longest];
        }
        at += longest >= 0 ? m->sizes[longest] : 1;
    }
    int64_t symbols = spell_slowly(m, by_character, word + first, size - first, ids + count);
    return count + merge_slowly(m, ids + count, symbols, &last);
}

// --- by search ---

static int64_t character_size(uint8_t lead) {
    return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

static int64_t by_search(const model *m, const mt_segmenter *s, const uint8_t *word, int64_t size,
                         int32_t *ids) {
    double sums[512];
    int64_t tokens[512], from[512], piece[512], count = 0;
    assert(size < 512);
    for (int64_t i = 0; i <= size; i++) tokens[i] = i ? INT64_MAX : 0;
    sums[0] = 0.0;
    for (int64_t i = 0; i < size; i++) {
        if (tokens[i] == INT64_MAX) continue;
        int64_t whole = i + character_size(word[i]);
        bool single = false;
        for (int64_t j = i + 1; j <= size; j++) {
            for (int64_t p = 0; p < m->piece_total; p++) {
                if (!m->active[p] || m->sizes[p] != j - i) continue;
                if (memcmp(m->pieces[p], word + i, (size_t)(j - i)) != 0) continue;
                single |= j == whole;
                int64_t after = tokens[i] + s->each;
                double sum = sums[i] + m->scores[p];
                if (after < tokens[j] || (after == tokens[j] && sum > sums[j]))
                    tokens[j] = after, sums[j] = sum, from[j] = i, piece[j] = p;
            }
        }
        if (single || !s->fallback) continue;
        int64_t j = whole < size ? whole : size, after = tokens[i] + s->each * (j - i);
        double sum = sums[i] + s->unknown;
        if (after < tokens[j] || (after == tokens[j] && sum > sums[j]))
            tokens[j] = after, sums[j] = sum, from[j] = i, piece[j] = -1;
    }
    if (tokens[size] == INT64_MAX) {
        for (int64_t i = 0; i < size; i++) ids[count++] = -1;
        return count;
    }
    int32_t back[512];
    for (int64_t at = size; at > 0; at = from[at]) {
        if (piece[at] >= 0)
            back[count++] = (int32_t)piece[at];
        else
            for (int64_t i = at - 1; i >= from[at]; i--) back[count++] = m->byte_ids[word[i]];
    }
    for (int64_t i = 0; i < count; i++) {
        int32_t id = back[count - 1 - i];
        ids[i] = s->local && id >= 0 ? s->local[id] : id;
    }
    return count;
}

// --- both ---

static bool is_known(const model *m, const uint8_t *bytes, int64_t size) {
    for (int64_t i = 0; i < m->piece_total; i++)
        if (m->sizes[i] == size && !memcmp(m->pieces[i], bytes, (size_t)size)) return true;
    return false;
}

static void make_model(model *m, input *in, bool searching) {
    uint8_t form = take(in);
    for (int i = 0; i < 256; i++) m->byte_ids[i] = form & 1 && i % 5 == 0 ? -1 : i % 38;
    int total = take(in) % MOST_MERGES;
    for (m->merge_total = 0; m->merge_total < total; m->merge_total++) {
        int32_t *merge = m->merges[m->merge_total];
        merge[0] = take(in) % (40 + (int)m->merge_total);
        merge[1] = take(in) % (40 + (int)m->merge_total);
        merge[2] = form & 2 ? 40 + (int)m->merge_total : take(in) % 80;
    }
    total = take(in) % (searching ? MOST_PIECES : MOST_ADDED);
    for (int i = 0; i < total; i++) {
        uint8_t *piece = m->pieces[m->piece_total];
        int64_t size = 1 + take(in) % 4;
        for (int64_t j = 0; j < size; j++) piece[j] = take(in);
        if (is_known(m, piece, size)) continue;
        m->sizes[m->piece_total] = size;
        m->scores[m->piece_total] = take(in) % 7 - 5;
        m->active[m->piece_total] = form & 4 ? take(in) % 8 > 0 : 1;
        m->local[m->piece_total++] = 300 + i;
    }
    for (int i = 0; i < MOST_ADDED; i++) m->added[i] = form & 8 && i == 1 ? -1 : 100 + i;
}

int fuzz_encode(const uint8_t *data, size_t length) {
    rooms all = {.used = 0};
    input in = {data, (int64_t)length};
    mt_pairs *pairs = NULL, *extended = NULL;
    mt_trie *trie = NULL;
    mt_encoder *encoder = NULL;
    model *m = room(&all, 1, sizeof(model));
    memset(m, 0, sizeof(model));
    uint8_t form = take(&in), number = take(&in);
    bool searching = form & 1, by_character = !searching && form & 2;
    make_model(m, &in, searching);
    memset(characters, 0xFF, sizeof(characters));
    for (int i = 0; by_character && i < 0x200; i++)
        if (i % 3 == 0) characters[i] = 38 + i % 2;
    const mt_pretokenizer *const *splitters = mt_pretokenizers();
    int known = 0;
    while (splitters[known]) known++;
    const mt_splitter *splitter = &splitters[number % known]->splitter;

    mt_segmenter segmenter = {.byte_ids = m->byte_ids};
    int64_t merge_total = m->merge_total, size;
    uint8_t piece_data[8 * MOST_PIECES + MT_PADDING] = {0};
    int64_t piece_offsets[MOST_PIECES + 1] = {0}, piece_ids[MOST_PIECES], wrong;
    for (int64_t i = 0; i < m->piece_total; i++) {
        memcpy(piece_data + piece_offsets[i], m->pieces[i], (size_t)m->sizes[i]);
        piece_offsets[i + 1] = piece_offsets[i] + m->sizes[i];
        piece_ids[i] = i;
    }
    trie = mt_trie_new(piece_data, piece_offsets, m->piece_total, piece_ids, &wrong);
    TRY(trie);
    if (searching) {
        segmenter.units = mt_trie_units(trie, &size);
        segmenter.scores = m->scores;
        segmenter.active = m->active;
        segmenter.local = form & 4 ? m->local : NULL;
        segmenter.unknown = -3.0;
        segmenter.each = form >> 3 & 1;
        segmenter.fallback = form >> 4 & 1;
    } else {
        int64_t half = merge_total / 2;
        pairs = mt_pairs_new(m->merges[0], merge_total);
        extended = mt_pairs_new(m->merges[0], half);
        TRY(pairs && extended);
        TRY(mt_pairs_extend(extended, m->merges[0], merge_total, half) == MT_OK);
        segmenter.pairs = form & 4 ? pairs : extended;
        segmenter.characters = by_character ? characters : NULL;
        if (form & 8) {
            segmenter.added_units = mt_trie_units(trie, &size);
            segmenter.added = m->added;
        }
        if (form & 64) segmenter.units = mt_trie_units(trie, &size);
    }

    // Texts, and their ids word by word.
    int64_t bytes = in.size < 400 ? in.size : 400, offsets[TEXTS + 1] = {0}, texts = 0;
    uint8_t *text = padded(&all, in.data, bytes, form);
    for (int64_t i = 0; i < bytes && texts < TEXTS - 1; i++)
        if (text[i] == '\n' || text[i] == 0xFF) offsets[++texts] = i;
    offsets[++texts] = bytes;
    int64_t *starts = room(&all, bytes + 1, sizeof(int64_t)), words = 0, wanted = 0;
    int64_t *stops = room(&all, bytes + 1, sizeof(int64_t));
    int64_t *id_offsets = room(&all, bytes + 1, sizeof(int64_t));
    int32_t *ids = room(&all, bytes, sizeof(int32_t)), *naive = room(&all, bytes, sizeof(int32_t));
    int64_t expected[TEXTS + 1] = {0}, found[TEXTS + 1];
    for (int64_t i = 0; i < texts; i++) {
        int64_t count =
            mt_split(splitter, text + offsets[i], offsets[i + 1] - offsets[i], stops + words);
        TRY(count >= 0);
        for (int64_t word = 0; word < count; word++, words++) {
            starts[words] = word ? stops[words - 1] : offsets[i];
            stops[words] += offsets[i];
            const uint8_t *here = text + starts[words];
            int64_t here_size = stops[words] - starts[words];
            wanted += searching
                          ? by_search(m, &segmenter, here, here_size, naive + wanted)
                          : by_merges(m, by_character, here, here_size,
                                      form & 8 ? m->piece_total : 0, form & 64, naive + wanted);
        }
        expected[i + 1] = wanted;
    }
    TRY(mt_segment(&segmenter, text, words, starts, stops, ids, id_offsets) == MT_OK);
    assert(id_offsets[words] == wanted && !memcmp(ids, naive, (size_t)wanted * sizeof(int32_t)));

    // Whatever is left out, there are at most as many ids as bytes; without dropout the same ids.
    uint64_t *keys = room(&all, words + 1, sizeof(uint64_t));
    for (int64_t i = 0; i < words; i++) keys[i] = (uint64_t)(form * 31 + i);
    segmenter.keys = keys;
    for (int halves = 2; halves >= 0; halves--) {
        segmenter.dropout = halves / 2.0;
        TRY(mt_segment(&segmenter, text, words, starts, stops, ids, id_offsets) == MT_OK);
        assert(id_offsets[words] <= bytes);
    }
    assert(id_offsets[words] == wanted && !memcmp(ids, naive, (size_t)wanted * sizeof(int32_t)));
    segmenter.keys = NULL;

    encoder = mt_encoder_new(splitter, &segmenter);
    TRY(encoder);
    mt_encoder_cache_sizes(encoder, 2, form & 32 ? 2 : 8);
    int32_t *encoded = room(&all, bytes + 3, sizeof(int32_t));
    for (int round = 0; round < 4; round++) {
        if (round == 1) mt_encoder_change(encoder, &segmenter);
        TRY(!allocation_failed);  // that gives no error: the segmenter before it is kept
        if (round == 2) mt_encoder_forget(encoder);
        if (round == 3) TRY(mt_encoder_expect(encoder, 1 << 21) == MT_OK);
        TRY(mt_encode(encoder, text, offsets, texts, encoded, found) == MT_OK);
        assert(!memcmp(found, expected, (size_t)(texts + 1) * sizeof(int64_t)));
        assert(!memcmp(encoded, naive, (size_t)wanted * sizeof(int32_t)));
    }
    mt_encoder_work spent = mt_encoder_spent(encoder);
    assert(spent.slots >= 0 && spent.bytes >= spent.words && spent.words >= spent.calls);
    if (searching) goto end;

    // Sequences of symbols merge to what the slow definition says.
    int64_t cuts[TEXTS + 1], symbols = 0;
    for (int64_t i = 0; i < bytes; i++) ids[symbols++] = text[i] % 50 - (text[i] == 250);
    for (int64_t i = 0; i <= texts; i++) cuts[i] = offsets[i];
    int32_t results[TEXTS], last[TEXTS], slow_last;
    TRY(mt_last_merges(pairs, ids, cuts, texts, results, last) == MT_OK);
    for (int64_t i = 0; i < texts; i++) {
        int64_t here_size = cuts[i + 1] - cuts[i];
        bool lacks = here_size == 0;
        for (int64_t j = cuts[i]; j < cuts[i + 1]; j++) lacks |= ids[j] < 0;
        if (lacks) {
            assert(results[i] == -1 && last[i] == -1);
            continue;
        }
        memcpy(naive, ids + cuts[i], (size_t)here_size * sizeof(int32_t));
        int64_t left = merge_slowly(m, naive, here_size, &slow_last);
        assert(last[i] == slow_last && results[i] == (left == 1 ? naive[0] : -1));
    }
end:
    mt_encoder_free(encoder);
    mt_trie_free(trie);
    mt_pairs_free(pairs);
    mt_pairs_free(extended);
    free_rooms(&all);
    return 0;
}
