// The double array of a trie over byte strings; common.h has its layout.
#include "common.h"

struct mt_trie {
    uint64_t *units;
    int64_t size;
};

// Free places that a node tries, oldest and newest, before it takes a new block.
enum { FEW = 3, TRIES_OLDEST = 24, TRIES_NEWEST = 256, PAGE = 256 };

// What is under construction. Free places form a ring through `after` and `before`, beginning at
// place 0; `taken`: bases in use.
typedef struct {
    uint64_t *units;
    int64_t *after, *before;
    uint8_t *taken;
    int64_t room, filled;
} builder;

// Pieces low … high - 1 share their first `depth` bytes, which lead to `node`.
typedef struct {
    int64_t node, low, high, depth;
} task;

static bool add_page(builder *b) {
    if (b->filled + PAGE > b->room) {
        int64_t room = (b->room + b->room / 2 + PAGE) & ~(PAGE - 1);
        if (!grow_block((void **)&b->units, b->filled, room, sizeof(uint64_t)) ||
            !grow_block((void **)&b->after, b->filled, room, sizeof(int64_t)) ||
            !grow_block((void **)&b->before, b->filled, room, sizeof(int64_t)) ||
            !grow_block((void **)&b->taken, b->filled, room, 1))
            return false;
        b->room = room;
    }
    memset(b->taken + b->filled, 0, PAGE);
    int64_t last = b->before[0];
    for (int64_t i = b->filled; i < b->filled + PAGE; i++) {
        b->units[i] = NO_LABEL;
        b->before[i] = last;
        b->after[last] = i;
        last = i;
    }
    b->after[last] = 0;
    b->before[0] = last;
    b->filled += PAGE;
    return true;
}

// A base whose children by these labels are free; 0 if none was found soon.
static int64_t find_base(const builder *b, const uint8_t *labels, int64_t children, bool newest) {
    const int64_t *next = newest ? b->before : b->after;
    int tries = newest ? TRIES_NEWEST : TRIES_OLDEST;
    for (int64_t place = next[0]; place != 0 && tries > 0; place = next[place], tries--) {
        int64_t base = place ^ labels[0];
        if (b->taken[base]) continue;
        int64_t i = 1;
        while (i < children && b->units[base ^ labels[i]] == NO_LABEL) i++;
        if (i == children) return base;
    }
    return 0;
}

// The base for children by these labels, whose units get them; 0 without memory.
static int64_t place_children(builder *b, const uint8_t *labels, int64_t children) {
    // A few children fit into old gaps; for many, the newest block is the emptiest.
    int64_t base = children <= FEW ? find_base(b, labels, children, false) : 0;
    if (!base) base = find_base(b, labels, children, true);
    if (!base) {
        base = b->filled;
        if (!add_page(b)) return 0;
    }
    b->taken[base] = 1;
    for (int64_t i = 0; i < children; i++) {
        int64_t child = base ^ labels[i];
        b->units[child] = labels[i];
        b->after[b->before[child]] = b->after[child];
        b->before[b->after[child]] = b->before[child];
    }
    return base;
}

// Pieces in ascending order; MT_INVALID and the index of a piece that equals the one before it.
static int build(builder *b, const uint8_t *data, const int64_t *offsets, const int64_t *order,
                 int64_t pieces, const int64_t *ids, task *stack, int64_t *wrong) {
    int64_t waiting = 1;
    stack[0] = (task){0, 0, pieces, 0};
    while (waiting > 0) {
        task here = stack[--waiting];
        uint64_t value = 0;
        for (int twice = 0; twice < 2 && here.low < here.high; twice++) {
            int64_t piece = order[here.low];
            if (offsets[piece + 1] - offsets[piece] != here.depth) break;
            if (twice) {
                *wrong = piece;
                return MT_INVALID;
            }
            value = (uint64_t)ids[piece] + 1;
            here.low++;
        }
        uint8_t labels[256];
        int64_t cuts[257], children = 0;
        for (int64_t at = here.low; at < here.high;) {
            uint8_t byte = data[offsets[order[at]] + here.depth];
            labels[children] = byte;
            cuts[children++] = at;
            do at++;
            while (at < here.high && data[offsets[order[at]] + here.depth] == byte);
        }
        cuts[children] = here.high;
        int64_t base = 0;
        if (children) {
            base = place_children(b, labels, children);
            if (!base) return MT_NO_MEMORY;
            for (int64_t i = children - 1; i >= 0; i--)  // the first child is visited first
                stack[waiting++] = (task){base ^ labels[i], cuts[i], cuts[i + 1], here.depth + 1};
        }
        b->units[here.node] |= (uint64_t)base << 36 | value << 9;
    }
    return MT_OK;
}

mt_trie *mt_trie_new(const uint8_t *data, const int64_t *offsets, int64_t pieces,
                     const int64_t *ids, int64_t *wrong) {
    *wrong = -1;
    int64_t bytes = MT_SIZE(512, 256);
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t size = offsets[piece + 1] - offsets[piece];
        if (size <= 0) {
            *wrong = piece;
            return NULL;
        }
        bytes += size;
    }
    // Twice the maximum need; unused pages are never touched.
    builder b = {.room = (bytes * 5 / 4 + MT_SIZE(1024, 0)) & ~(PAGE - 1)};
    b.units = new_block(b.room, sizeof(uint64_t));
    b.after = new_block(b.room, sizeof(int64_t));
    b.before = new_block(b.room, sizeof(int64_t));
    b.taken = new_block(b.room, 1);
    // Waiting tasks have different pieces.
    task *stack = new_block(pieces + 1, sizeof(task));
    int64_t *order = new_block(pieces, sizeof(int64_t));
    int status = b.units && b.after && b.before && b.taken && stack && order ? MT_OK : MT_NO_MEMORY;
    mt_trie *trie = NULL;
    if (!status) status = sort_words(data, offsets, pieces, order);
    if (!status) {
        b.filled = PAGE;
        b.after[0] = b.before[0] = 0;
        memset(b.taken, 0, PAGE);
        for (int i = 0; i < PAGE; i++) b.units[i] = NO_LABEL;
        status = build(&b, data, offsets, order, pieces, ids, stack, wrong);
    }
    if (!status) trie = malloc(sizeof(mt_trie));
    if (trie) {
        trie->size = b.filled;
        trie->units = new_block(b.filled, sizeof(uint64_t));
        if (trie->units) {
            memcpy(trie->units, b.units, (size_t)b.filled * sizeof(uint64_t));
        } else {
            free(trie);
            trie = NULL;
        }
    }
    free_block(b.units);
    free_block(b.after);
    free_block(b.before);
    free_block(b.taken);
    free_block(stack);
    free_block(order);
    return trie;
}

void mt_trie_free(mt_trie *trie) {
    if (!trie) return;
    free_block(trie->units);
    free(trie);
}

const uint64_t *mt_trie_units(const mt_trie *trie, int64_t *size) {
    *size = trie->size;
    return trie->units;
}
