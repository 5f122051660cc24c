// The cost of removing a token: segmentation into fewest tokens with and without it.
//
// The edges of a word are the positions where a token of the vocabulary matches (from, to, token).
// The cost of a word is the fewest tokens over all edges; its cost without a token is the same
// without the edges of that token.
//
// A token with one edge in the word is the usual case: every path passes the position before the
// end of that edge by one edge, so the cost without it is the least cost of a path through another
// edge there. For tokens with several edges all paths are computed again.
#include "common.h"

// Longer words are processed in portions of this many bytes: 100,000 dashes must not take quadratic
// time, and no token is that long.
enum { PORTION = MT_SIZE(256, 32) };
#define FAR (INT64_C(1) << 40)

typedef struct {
    int32_t from, to, token;
} edge;

typedef struct {
    const uint64_t *units;
    const double *scores;
    const uint8_t *active, *removable;
    int64_t *losses, *token_counts, *total;
    int32_t *edges_of;  // edges of each token in this word
    edge *edges;
    int64_t room, found, longest;
    int64_t first[PORTION + 1];   // number of the first edge from a position
    int64_t fewest[PORTION + 1];  // tokens from the start to a position
    int64_t rest[PORTION + 1];    // tokens from a position to the end
    double sums[PORTION + 1];     // of scores on the best path to a position
    int64_t chosen[PORTION + 1];  // its last edge
} pruning;

static bool find_edges(pruning *p, const uint8_t *word, int64_t size) {
    p->found = p->longest = 0;
    for (int64_t i = 1; i <= size; i++) p->fewest[i] = FAR;
    p->fewest[0] = 0;
    p->sums[0] = 0.0;
    for (int64_t i = 0; i < size; i++) {
        p->first[i] = p->found;
        uint64_t base = unit_base(p->units[0]);
        for (int64_t j = i; base && j < size;) {
            uint64_t unit = p->units[base ^ word[j]];
            if (unit_label(unit) != word[j]) break;
            base = unit_base(unit);
            j++;
            int64_t token = (int64_t)unit_value(unit) - 1;
            if (token < 0 || !p->active[token]) continue;
            if (p->found == p->room) {
                if (!grow_block((void **)&p->edges, p->found, 2 * p->room, sizeof(edge)))
                    return false;
                p->room *= 2;
            }
            p->edges[p->found] = (edge){(int32_t)i, (int32_t)j, (int32_t)token};
            p->edges_of[token]++;
            p->longest = max64(p->longest, j - i);
            double sum = p->sums[i] + p->scores[token];
            int64_t tokens = p->fewest[i] + 1;
            if (tokens < p->fewest[j] || (tokens == p->fewest[j] && sum > p->sums[j])) {
                p->fewest[j] = tokens;
                p->sums[j] = sum;
                p->chosen[j] = p->found;
            }
            p->found++;
        }
    }
    p->first[size] = p->found;
    p->rest[size] = 0;
    for (int64_t i = size - 1; i >= 0; i--) {
        p->rest[i] = FAR;
        for (int64_t e = p->first[i]; e < p->first[i + 1]; e++)
            p->rest[i] = min64(p->rest[i], p->rest[p->edges[e].to] + 1);
    }
    return true;
}

// The fewest tokens of the word without its only edge of a token, which ends at `stop`.
static int64_t without_edge(const pruning *p, int32_t token, int64_t stop) {
    int64_t fewest = FAR;
    for (int64_t i = max64(0, stop - p->longest); i < stop; i++)
        for (int64_t e = p->first[i]; e < p->first[i + 1]; e++)
            if (p->edges[e].to >= stop && p->edges[e].token != token)
                fewest = min64(fewest, p->fewest[i] + 1 + p->rest[p->edges[e].to]);
    return fewest;
}

// The fewest tokens of the word without a token.
static int64_t without_token(const pruning *p, int32_t token, int64_t size) {
    int64_t best[PORTION + 1];
    for (int64_t i = 1; i <= size; i++) best[i] = FAR;
    best[0] = 0;
    for (int64_t e = 0; e < p->found; e++) {
        int64_t tokens = best[p->edges[e].from] + 1;
        if (tokens < best[p->edges[e].to] && p->edges[e].token != token)
            best[p->edges[e].to] = tokens;
    }
    return best[size];
}

static void add_losses(pruning *p, int64_t size, int64_t count) {
    int64_t least = p->fewest[size];
    *p->total += count * least;
    int32_t path[PORTION];
    int64_t length = 0;
    for (int64_t place = size; place > 0;) {
        edge e = p->edges[p->chosen[place]];
        p->token_counts[e.token] += count;
        bool again = false;
        for (int64_t i = 0; i < length; i++) again |= path[i] == e.token;
        path[length++] = e.token;
        if (p->removable[e.token] && p->edges_of[e.token] == 1)
            p->losses[e.token] += count * (without_edge(p, e.token, place) - least);
        else if (p->removable[e.token] && !again)
            p->losses[e.token] += count * (without_token(p, e.token, size) - least);
        place = e.from;
    }
    for (int64_t e = 0; e < p->found; e++) p->edges_of[p->edges[e].token] = 0;
}

int mt_removal_losses(const uint8_t *data, const int64_t *offsets, const int64_t *counts,
                      int64_t words, const uint64_t *units, const double *scores,
                      int64_t vocabulary, const uint8_t *active, const uint8_t *removable,
                      int64_t *losses, int64_t *token_counts, int64_t *total) {
    pruning p = {.units = units,
                 .scores = scores,
                 .active = active,
                 .removable = removable,
                 .losses = losses,
                 .token_counts = token_counts,
                 .total = total,
                 .room = MT_SIZE(4096, 1)};
    p.edges_of = new_zeros(vocabulary, sizeof(int32_t));
    p.edges = new_block(p.room, sizeof(edge));
    int status = p.edges_of && p.edges ? MT_OK : MT_NO_MEMORY;
    memset(losses, 0, (size_t)vocabulary * sizeof(int64_t));
    memset(token_counts, 0, (size_t)vocabulary * sizeof(int64_t));
    *total = 0;
    for (int64_t word = 0; !status && word < words; word++) {
        for (int64_t start = offsets[word]; start < offsets[word + 1]; start += PORTION) {
            int64_t size = min64(PORTION, offsets[word + 1] - start);
            if (!find_edges(&p, data + start, size)) {
                status = MT_NO_MEMORY;
                break;
            }
            add_losses(&p, size, counts[word]);
        }
    }
    free_block(p.edges_of);
    free_block(p.edges);
    return status;
}
