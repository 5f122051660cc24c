// The E-step of Unigram: forward-backward over words, each weighted by its count.
//
// Probabilities are added directly, not as logarithms. To keep them within the range of floats,
// each byte of a piece multiplies its weight by a constant s, w(v) = p(v) s^|v|: all segmentations
// of a word have the same number of bytes, so that all are scaled equally and expectations do not
// change. Words that still leave the safe range (mostly very long ones) are computed again with
// logarithms.
#include <math.h>

#include "common.h"

// Within these bounds of the forward sums (the smallest above 0) no backward sum can overflow, and
// what underflows (below 1e-308) is negligible.
static const double LARGE = 1e100, SMALL = 1e-100, SMALLEST = 1e-200;

// A row of the table: the weight of a piece, and its expected count.
typedef struct {
    double weight, expected;
} entry;

// A piece that ends at a position: where it begins, its value in a unit (0 for bytes), its weight.
typedef struct {
    uint32_t origin, value;
    double gain;
} edge;

// A walk down the trie that is still open: where it began, and the base to continue from.
typedef struct {
    uint64_t origin, base;
} walk;

typedef struct {
    const uint8_t *data;
    const uint64_t *units;
    const int32_t *byte_entries;
    entry *table;
    double *alpha, *beta;
    // Edges that end at position j are those from edge_end[j - 1] to edge_end[j]; walks that are
    // open there likewise.
    int64_t *edge_end, *walk_end;
    int64_t *lead;  // the first byte of the character that contains or ends at a position
    double *largest, *smallest;  // forward sum (above 0) up to a position
    edge *edges;
    walk *walks;
    int64_t room;  // of edges and walks
} lattice;

static double log_add(double a, double b) {
    if (a < b) {
        double other = a;
        a = b;
        b = other;
    }
    return b == -INFINITY ? a : a + log1p(exp(b - a));
}

static double log_of(double a) { return a > 0.0 ? log(a) : -INFINITY; }

// Forward sums of the positions after `same` of the word at `start`.
static bool forward(lattice *t, int64_t start, int64_t same, int64_t size) {
    const uint8_t *word = t->data + start;
    uint64_t root = unit_base(t->units[0]);
    for (int64_t j = same + 1; j <= size; j++) {
        uint8_t byte = word[j - 1];
        int64_t edges = t->edge_end[j - 1], walks = t->walk_end[j - 1];
        int64_t at = j > 1 ? t->walk_end[j - 2] : 0;
        // A new walk starts here, and every walk may add a walk and an edge.
        int64_t most = max64(edges, walks) + walks - at + 2;
        if (most > t->room) {
            if (!grow_block((void **)&t->edges, t->room, 2 * most, sizeof(edge)) ||
                !grow_block((void **)&t->walks, t->room, 2 * most, sizeof(walk)))
                return false;
            t->room = 2 * most;
        }
        int64_t begin = t->lead[j - 1], stop = walks;
        if ((byte & 0xC0) != 0x80) {
            begin = j - 1;
            t->walks[stop++] = (walk){(uint64_t)begin, root};
        }
        // The walk that starts here is overwritten only after it was read.
        double here = 0.0;
        bool single = false;
        int64_t next = stop;
        for (; at < stop; at++) {
            walk open = t->walks[at];
            uint64_t unit = t->units[open.base ^ byte];
            // Without branches, half of which would be mispredicted: a walk that ends, or has no
            // piece here, is written but not counted.
            uint64_t alive = unit_label(unit) == byte;
            uint64_t value = unit_value(unit) * alive, base = unit_base(unit) * alive;
            double gain = t->table[value].weight;
            t->edges[edges] = (edge){(uint32_t)open.origin, (uint32_t)value, gain};
            edges += value != 0;
            single |= value != 0 && (int64_t)open.origin == begin;
            here += t->alpha[open.origin] * gain;
            t->walks[next] = (walk){open.origin, base};
            next += base != 0;
        }
        if (!single && j == begin + character_length(word[begin])) {
            double gain = 1.0;
            for (int64_t i = begin; i < j; i++) gain *= t->table[t->byte_entries[word[i]]].weight;
            t->edges[edges++] = (edge){(uint32_t)begin, 0, gain};
            here += t->alpha[begin] * gain;
        }
        // The walks of position j are those after `stop`; move them down to `walks`, over the walk
        // that started here, which is no longer needed.
        if (stop > walks) {
            memmove(t->walks + walks, t->walks + stop, (size_t)(next - stop) * sizeof(walk));
            next -= stop - walks;
        }
        t->lead[j] = begin;
        t->alpha[j] = here;
        t->edge_end[j] = edges;
        t->walk_end[j] = next;
        t->largest[j] = here > t->largest[j - 1] ? here : t->largest[j - 1];
        t->smallest[j] = here > 0.0 && here < t->smallest[j - 1] ? here : t->smallest[j - 1];
    }
    return true;
}

static void add_share(lattice *t, const uint8_t *word, edge e, int64_t place, double part) {
    if (e.value) {
        t->table[e.value].expected += part;
        return;
    }
    for (int64_t i = e.origin; i < place; i++) t->table[t->byte_entries[word[i]]].expected += part;
}

// Backward, with the share of each edge. alpha(i) beta(i) is at most alpha(n), so beta cannot
// overflow where alpha is not 0; where it is 0, no path passes.
static void backward(lattice *t, const uint8_t *word, int64_t size, double count) {
    double share = count / t->alpha[size];
    memset(t->beta, 0, (size_t)size * sizeof(double));
    t->beta[size] = 1.0;
    for (int64_t place = size; place > 0; place--) {
        if (t->alpha[place] == 0.0) continue;
        double behind = t->beta[place];
        for (int64_t i = t->edge_end[place - 1]; i < t->edge_end[place]; i++) {
            edge e = t->edges[i];
            t->beta[e.origin] += e.gain * behind;
            add_share(t, word, e, place, t->alpha[e.origin] * e.gain * behind * share);
        }
    }
}

// The same with logarithms, on the edges of the forward pass, for a word out of range; gives the
// logarithm of its probability.
static double with_logarithms(lattice *t, const uint8_t *word, int64_t size, double count) {
    double *alpha = t->alpha, *beta = t->beta;
    for (int64_t j = 0; j <= size; j++) alpha[j] = beta[j] = -INFINITY;
    alpha[0] = 0.0;
    for (int64_t j = 1; j <= size; j++) {
        for (int64_t i = t->edge_end[j - 1]; i < t->edge_end[j]; i++) {
            edge *e = t->edges + i;
            if (e->value) {
                e->gain = log_of(e->gain);
            } else {
                e->gain = 0.0;
                for (int64_t k = e->origin; k < j; k++)
                    e->gain += log_of(t->table[t->byte_entries[word[k]]].weight);
            }
            alpha[j] = log_add(alpha[j], alpha[e->origin] + e->gain);
        }
    }
    double total = alpha[size];
    beta[size] = 0.0;
    for (int64_t place = size; place > 0 && total > -INFINITY; place--) {
        for (int64_t i = t->edge_end[place - 1]; i < t->edge_end[place]; i++) {
            edge e = t->edges[i];
            double power = e.gain + beta[place];
            beta[e.origin] = log_add(beta[e.origin], power);
            add_share(t, word, e, place, count * exp(alpha[e.origin] + power - total));
        }
    }
    alpha[0] = 1.0;
    return total;
}

int mt_expect(const uint8_t *data, const int64_t *offsets, const double *counts, int64_t first,
              int64_t last, const uint64_t *units, double *table, const int32_t *byte_entries,
              double log_scale, double *likelihood) {
    int64_t longest = 0;
    for (int64_t word = first; word < last; word++)
        longest = max64(longest, offsets[word + 1] - offsets[word]);
    lattice t = {.data = data,
                 .units = units,
                 .byte_entries = byte_entries,
                 .table = (entry *)table,
                 .room = MT_SIZE(1024, 1)};
    double *sums = new_zeros(4 * (longest + 1), sizeof(double));
    int64_t *ends = new_zeros(3 * (longest + 1), sizeof(int64_t));
    t.edges = new_block(t.room, sizeof(edge));
    t.walks = new_block(t.room, sizeof(walk));
    int status = sums && ends && t.edges && t.walks ? MT_OK : MT_NO_MEMORY;
    int64_t kept = 0, old = 0;
    if (!status) {
        t.alpha = sums;
        t.beta = sums + (longest + 1);
        t.largest = sums + 2 * (longest + 1);
        t.smallest = sums + 3 * (longest + 1);
        t.edge_end = ends;
        t.walk_end = ends + (longest + 1);
        t.lead = ends + 2 * (longest + 1);
        t.alpha[0] = t.largest[0] = t.smallest[0] = 1.0;
    }
    *likelihood = 0.0;
    for (int64_t word = first; !status && word < last; word++) {
        double count = counts[word];
        int64_t start = offsets[word], size = offsets[word + 1] - start, same = 0;
        if (size == 0 || count == 0.0) continue;
        // The common prefix with the previous word (words are sorted) is already computed.
        while (same < kept && same < size && data[old + same] == data[start + same]) same++;
        if (!forward(&t, start, same, size)) {
            status = MT_NO_MEMORY;
            break;
        }
        kept = size;
        old = start;
        double total = t.alpha[size];
        if (t.largest[size] < LARGE && t.smallest[size] > SMALLEST && total > SMALL) {
            backward(&t, data + start, size, count);
            *likelihood += count * (log(total) - (double)size * log_scale);
        } else {
            kept = 0;
            total = with_logarithms(&t, data + start, size, count);
            *likelihood += count * (total - (double)size * log_scale);
        }
    }
    free_block(sums);
    free_block(ends);
    free_block(t.edges);
    free_block(t.walks);
    return status;
}
