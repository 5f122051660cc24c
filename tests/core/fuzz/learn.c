#include "fuzz.h"

enum { LETTERS = 5, WORDS = 12, SYMBOLS = 256, MOST = LETTERS + SYMBOLS };

// The unique words of a language, as letters.
typedef struct {
    int32_t symbols[SYMBOLS];
    int64_t offsets[WORDS + 1], counts[WORDS], words;
} text;

static bool is_there(const text *t, int64_t size) {
    const int32_t *last = t->symbols + t->offsets[t->words];
    for (int64_t w = 0; w < t->words; w++)
        if (t->offsets[w + 1] - t->offsets[w] == size &&
            !memcmp(t->symbols + t->offsets[w], last, (size_t)size * sizeof(int32_t)))
            return true;
    return false;
}

static void take_text(text *t, input *in) {
    t->words = t->offsets[0] = 0;
    while (in->size && t->words < WORDS) {
        bool is_long = take(in) & 1;
        int64_t end = t->offsets[t->words], size = 1 + take(in) % (is_long ? 40 : 8);
        if (end + size > SYMBOLS) break;
        for (int64_t i = 0; i < size; i++) t->symbols[end + i] = take(in) % LETTERS;
        if (is_there(t, size)) continue;
        uint8_t count = take(in);
        t->counts[t->words++] = count == 255 ? INT64_C(1) << 33 : count % 9;
        t->offsets[t->words] = end + size;
    }
}

// T: strings, merges.
typedef struct {
    uint8_t data[1 << 15];
    int64_t offsets[MOST + 1], tokens, merge_total;
    int32_t merges[2 * MOST][3];
} global;

static const uint8_t *string_of(const mt_learner_contents *c, int64_t token, int64_t *size) {
    *size = c->token_offsets[token + 1] - c->token_offsets[token];
    return c->token_data + c->token_offsets[token];
}

static int64_t rank_of(const int32_t *merges, int64_t total, int32_t left, int32_t right) {
    for (int64_t rank = 0; rank < total; rank++)
        if (merges[3 * rank] == left && merges[3 * rank + 1] == right) return rank;
    return total;
}

// Applies merges, or those of them that are kept, to each word: the lowest rank first, of equal
// ones the leftmost.
static void segment(text *t, const int32_t *merges, const uint8_t *kept, int64_t total) {
    int64_t end = 0;
    for (int64_t w = 0, first = 0; w < t->words; w++) {
        int64_t size = t->offsets[w + 1] - first;
        int32_t *symbols = t->symbols + end;
        memmove(symbols, t->symbols + first, (size_t)size * sizeof(int32_t));
        for (;;) {
            int64_t best = total, at = 0;
            for (int64_t i = 0; i + 1 < size; i++) {
                int64_t rank = rank_of(merges, total, symbols[i], symbols[i + 1]);
                if (rank < best && (!kept || kept[rank])) best = rank, at = i;
            }
            if (best == total) break;
            symbols[at] = merges[3 * best + 2];
            size--;
            for (int64_t i = at + 1; i < size; i++) symbols[i] = symbols[i + 1];
        }
        first = t->offsets[w + 1];
        end += size;
        t->offsets[w + 1] = end;
    }
}

// Holds for every language: T's strings differ, merges join strings, members are derived by merges
// that are members, and `frequency` is that of the words segmented by them.
static void check_contents(const mt_learner_contents *c, int64_t budget, int64_t before) {
    int64_t members = 0, size, left, right;
    for (int64_t token = 0; token < c->tokens; token++) {
        const uint8_t *bytes = string_of(c, token, &size);
        assert(size > 0);
        members += c->member[token];
        for (int64_t other = 0; other < token; other++) {
            const uint8_t *these = string_of(c, other, &left);
            assert(left != size || memcmp(bytes, these, (size_t)size) != 0);
        }
        bool derived = token < LETTERS || !c->member[token];
        for (int64_t rank = 0; rank < c->merge_total && !derived; rank++)
            derived = c->merge_member[rank] && c->merges[3 * rank + 2] == token;
        assert(derived);
    }
    assert(members <= budget || members == before);
    for (int64_t rank = 0; rank < c->merge_total; rank++) {
        const int32_t *merge = c->merges + 3 * rank;
        const uint8_t *bytes = string_of(c, merge[2], &size);
        const uint8_t *first = string_of(c, merge[0], &left);
        const uint8_t *second = string_of(c, merge[1], &right);
        assert(left + right == size && !memcmp(bytes, first, (size_t)left) &&
               !memcmp(bytes + left, second, (size_t)right));
        for (int64_t other = 0; other < rank; other++)
            assert(memcmp(merge, c->merges + 3 * other, 2 * sizeof(int32_t)) != 0);
        if (!c->merge_member[rank]) continue;
        assert(c->member[merge[0]] && c->member[merge[1]] && c->member[merge[2]]);
        for (int side = 0; side < 2; side++) {  // its parts are derived at lower ranks
            bool derived = merge[side] < LETTERS;
            for (int64_t other = 0; other < rank && !derived; other++)
                derived = c->merge_member[other] && c->merges[3 * other + 2] == merge[side];
            assert(derived);
        }
    }
}

// Characters of scripts without spaces in two tokens together, each by the last two letters.
static int64_t unspaced_in(const mt_learner_contents *c, int64_t left, int64_t right) {
    int64_t tokens[2] = {left, right}, size, found = 0;
    uint8_t last = 0;
    for (int side = 0; side < 2; side++) {
        const uint8_t *bytes = string_of(c, tokens[side], &size);
        for (int64_t i = 0; i < size; last = bytes[i++]) found += last == 0xE3 && bytes[i] == 0x81;
    }
    return found;
}

// Plain BPE, everything recounted before each merge.
static void check_plain(const mt_learner_contents *c, text *t, int64_t budget, int64_t most) {
    static int64_t pairs[MOST][MOST];
    int64_t rank = 0;
    for (int64_t members = LETTERS; members < budget;) {
        for (int64_t a = 0; a < c->tokens; a++)
            memset(pairs[a], 0, (size_t)c->tokens * sizeof(int64_t));
        int64_t best = 0;
        int32_t left = 0, right = 0;
        for (int64_t w = 0; w < t->words; w++)
            for (int64_t i = t->offsets[w]; i + 1 < t->offsets[w + 1]; i++)
                pairs[t->symbols[i]][t->symbols[i + 1]] += t->counts[w];
        for (int32_t a = 0; a < c->tokens; a++)
            for (int32_t b = 0; b < c->tokens; b++)
                if (pairs[a][b] > best && unspaced_in(c, a, b) <= most)
                    best = pairs[a][b], left = a, right = b;
        if (!best) break;
        // A pair that an earlier merge joins may come up again.
        int64_t known = rank_of(c->merges, c->merge_total, left, right);
        assert(known <= rank && known < c->merge_total);
        const int32_t *merge = c->merges + 3 * known;
        rank += known == rank;
        members += merge[2] == members;  // else the string was there
        segment(t, merge, NULL, 1);
    }
    assert(rank == c->merge_total);
}

static void check_frequency(const mt_learner_contents *c, const text *t) {
    int64_t found[MOST] = {0};
    for (int64_t w = 0; w < t->words; w++)
        for (int64_t i = t->offsets[w]; i < t->offsets[w + 1]; i++)
            found[t->symbols[i]] += t->counts[w];
    assert(!memcmp(found, c->frequency, (size_t)c->tokens * sizeof(int64_t)));
}

static void check_same(const mt_learner_contents *a, const mt_learner_contents *b) {
    assert(a->merge_total == b->merge_total && a->tokens == b->tokens && a->adopted == b->adopted);
    assert(!memcmp(a->merges, b->merges, (size_t)a->merge_total * 3 * sizeof(int32_t)));
    assert(!memcmp(a->member, b->member, (size_t)a->tokens));
    assert(!memcmp(a->merge_member, b->merge_member, (size_t)a->merge_total));
    assert(!memcmp(a->frequency, b->frequency, (size_t)a->tokens * sizeof(int64_t)));
}

// Learns a language that has `kept` of T's merges; NULL without memory.
static mt_learner *learn(const global *t, const text *words, const uint8_t *kept, int64_t budget,
                         int64_t floor, int64_t most, const int32_t *slots, int64_t slot_count) {
    uint8_t member[MOST] = {0}, merge_member[2 * MOST] = {0};
    int64_t signal[2] = {0, 0};
    memset(member, 1, LETTERS);
    for (int64_t rank = 0; kept && rank < t->merge_total; rank++) {
        merge_member[rank] = kept[rank];
        if (kept[rank]) member[t->merges[rank][2]] = 1;
    }
    mt_learner *l = mt_learner_new(t->data, t->offsets, t->tokens, 0, t->merges[0], t->merge_total,
                                   member, merge_member, slots, slot_count);
    if (!l) return NULL;
    int status = mt_learn(l, words->symbols, words->offsets, words->counts, words->words, budget,
                          floor, most, signal);
    mt_learner_contents c = mt_learner_view(l);
    if (status != MT_OK) {
        mt_learner_free(l);
        return NULL;
    }
    int64_t members = 0;
    for (int64_t token = 0; token < c.tokens; token++) members += c.member[token];
    assert(signal[0] == members);
    return l;
}

int fuzz_learn(const uint8_t *data, size_t length) {
    rooms all = {.used = 0};
    input in = {data, (int64_t)length};
    mt_learner *first = NULL, *again = NULL, *second = NULL, *other = NULL;
    text *one = room(&all, 1, sizeof(text)), *two = room(&all, 1, sizeof(text));
    text *copy = room(&all, 1, sizeof(text));
    global *t = room(&all, 1, sizeof(global));
    uint8_t form = take(&in);
    int64_t budget = LETTERS + take(&in) % 40, next_budget = LETTERS + take(&in) % 40;
    int64_t floor = 1 + take(&in) % 32, most = form & 4 ? form >> 4 : SYMBOLS;
    for (int i = 0; i < LETTERS; i++) t->data[i] = (uint8_t)('a' + i);
    t->data[LETTERS - 2] = 0xE3, t->data[LETTERS - 1] = 0x81;
    for (int i = 0; i <= LETTERS; i++) t->offsets[i] = i;
    t->tokens = LETTERS;
    t->merge_total = 0;
    // The texts share the input, so that they are alike.
    input half = {in.data, in.size / 2};
    take_text(one, &half);
    in.data += in.size / 3, in.size -= in.size / 3;
    take_text(two, &in);

    first = learn(t, one, NULL, budget, 1, most, NULL, 0);
    again = learn(t, one, NULL, budget, floor, most, NULL, 0);
    TRY(first && again);
    mt_learner_contents c = mt_learner_view(first), d = mt_learner_view(again);
    check_contents(&c, budget, LETTERS);
    check_same(&c, &d);
    *copy = *one;
    check_plain(&c, copy, budget, most);
    check_frequency(&c, copy);
    check_frequency(&d, copy);

    // The next language begins with T's segmentation of its words.
    t->tokens = c.tokens;
    t->merge_total = c.merge_total;
    memcpy(t->offsets, c.token_offsets, (size_t)(c.tokens + 1) * sizeof(int64_t));
    assert(c.token_offsets[c.tokens] <= (int64_t)sizeof(t->data));
    memcpy(t->data, c.token_data, (size_t)c.token_offsets[c.tokens]);
    memcpy(t->merges, c.merges, (size_t)c.merge_total * 3 * sizeof(int32_t));
    *copy = *two;
    segment(copy, t->merges[0], NULL, t->merge_total);
    second = learn(t, copy, NULL, next_budget, 1, most, c.slots, c.slot_count);
    other = learn(t, copy, NULL, next_budget, floor, most, NULL, 0);
    TRY(second && other);
    c = mt_learner_view(second), d = mt_learner_view(other);
    check_contents(&c, next_budget, LETTERS);
    check_same(&c, &d);

    // Its second pass: with the merges that it took of T, which are fewer than T's.
    int64_t before = LETTERS;
    uint8_t kept[2 * MOST], member[MOST] = {0};
    memcpy(kept, c.merge_member, (size_t)t->merge_total);
    for (int64_t rank = 0; rank < t->merge_total; rank++) {
        before += kept[rank] && !member[t->merges[rank][2]];
        member[t->merges[rank][2]] |= kept[rank];
    }
    segment(two, t->merges[0], kept, t->merge_total);
    mt_learner_free(second);
    mt_learner_free(other);
    second = learn(t, two, kept, next_budget, 1, most, NULL, 0);
    other = learn(t, two, kept, next_budget, floor, most, NULL, 0);
    TRY(second && other);
    c = mt_learner_view(second), d = mt_learner_view(other);
    check_contents(&c, next_budget, before);
    check_same(&c, &d);
end:
    mt_learner_free(first);
    mt_learner_free(again);
    mt_learner_free(second);
    mt_learner_free(other);
    free_rooms(&all);
    return 0;
}
