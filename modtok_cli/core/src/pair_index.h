// The table of adjacent pairs: how often each occurs, and where (pair_index.c).
//
// Words are laid out by bytes: a word takes a cell for each byte, and another one ends it. The
// first cell of a symbol has the symbol and the count of its word; the last cell has the symbol,
// too. So both neighbours of a symbol are found by lengths of symbols, and they are mostly in the
// same cache line. Position p stands for the pair of the symbol that starts there and the next one.
//
// A pair is born in the merge that makes the later of its symbols; from then on its count only
// falls. So pairs that are too rare ever to be merged need no row: `floor` is the least count that
// has one. Most pairs are rare, and the time of a merge is that of its cache misses.
//
// The list of a pair is complete when the pair is born, and never changed. Its reader skips
// positions whose symbols have changed; a position never returns to a pair that it left, because
// symbols only grow. The exception is a merge whose result T has already (second passes): its pairs
// may become more frequent. All pairs are then indexed again, with `floor` 1.
#ifndef MODTOK_PAIR_INDEX_H
#define MODTOK_PAIR_INDEX_H

#include "common.h"

enum {
    WORD_END = -1,  // symbol of a cell between words
    INSIDE = -2     // symbol of a cell where a symbol started that is part of another now
};

typedef struct {
    int32_t symbol;
    int32_t weight;  // count of the word; one that needs more than 31 bits is -1 - word
} cell;

typedef struct {
    int64_t key;  // left << 32 | right, -1 when empty
    int64_t count;
    int64_t list;    // where its positions are: their number, then themselves, ascending; -1: none
    int64_t queued;  // largest count that the heap has for it
} pair_row;

typedef struct {
    int64_t count, key;
} heap_item;

// Characters of scripts without spaces in a symbol, and the bytes at its ends.
typedef struct {
    int32_t count;
    uint8_t first, last;
} unspaced;

// What is spent, see mt_learner_contents.
enum { SCANNED, VISITED, JOINED, ROWS, LOOKED };

typedef struct {
    cell *cells;
    int64_t total;  // cells
    const int64_t *word_counts;
    int32_t *lengths;  // bytes of each symbol
    unspaced *characters;
    int64_t most_unspaced;
    int64_t floor;
    // Rows: an open-addressing table of 1 << bits.
    pair_row *rows;
    int bits;
    int64_t used;
    // Lists.
    int32_t *places;
    int64_t places_room, placed;
    // The most frequent first, then the smallest key: a heap. Counts on it may be outdated, but
    // never too low.
    heap_item *heap;
    int64_t heap_room, queued;
    int64_t *work;
} pair_index;

INLINE int64_t row_home(int64_t key, int bits) {
    return (int64_t)(((uint64_t)key * MIX_A) >> (64 - bits));
}

// The row of `key`, or the empty row to insert it at.
INLINE pair_row *find_row(const pair_row *rows, int bits, int64_t key) {
    int64_t mask = (INT64_C(1) << bits) - 1;
    for (int64_t at = row_home(key, bits);; at = (at + 1) & mask)
        if (rows[at].key == key || rows[at].key == -1) return (pair_row *)rows + at;
}

INLINE int64_t row_key(int64_t left, int64_t right) { return left << 32 | right; }

// Whether a character of a script without spaces begins with these two bytes: Thai, Lao, Tibetan
// (E0 B8 to E0 BF), Myanmar (E1 80, E1 81), Khmer (E1 9E, E1 9F), kana and Han (E3 to E9).
INLINE bool begins_unspaced(uint8_t first, uint8_t second) {
    if (first == 0xE0) return second >= 0xB8 && second <= 0xBF;
    if (first == 0xE1) return second == 0x80 || second == 0x81 || second == 0x9E || second == 0x9F;
    return first >= 0xE3 && first <= 0xE9 && second >= 0x80 && second <= 0xBF;
}

INLINE unspaced join_unspaced(unspaced left, unspaced right) {
    int32_t across = begins_unspaced(left.last, right.first);
    return (unspaced){left.count + right.count + across, left.first, right.last};
}

// Whether two symbols may be merged.
INLINE bool may_join(const pair_index *index, int64_t left, int64_t right) {
    const unspaced *characters = index->characters;
    return join_unspaced(characters[left], characters[right]).count <= index->most_unspaced;
}

INLINE int64_t weight_of(const pair_index *index, const cell *at) {
    return at->weight >= 0 ? at->weight : index->word_counts[-1 - at->weight];
}

// --- heaps of counts (heap.c): largest count first, then smallest key ---
// That order is the tie-break of all BPE learning here: the higher count wins, and among equal
// counts the smaller ids (a pair's key is left << 32 | right, a token's is its id).
void heap_push(heap_item *heap, int64_t size, heap_item item);  // room for one more
void heap_sink(heap_item *heap, int64_t size, int64_t place);   // restore the order below
int64_t heap_drop(heap_item *heap, int64_t size);               // without the first; the new size
void heap_make(heap_item *heap, int64_t size);

// Cells of the words that are concatenated in `symbols`; sets `longest`, the bytes of a word.
bool lay_out(pair_index *index, const int32_t *symbols, const int64_t *word_offsets, int64_t words,
             int64_t *longest);
// Counts every adjacent pair that occurs `floor` times anew, with its positions and the heap. With
// `has_many` pairs, most of those that are too rare are sorted out before they come into the table.
bool count_pairs(pair_index *index, bool has_many);
// Room for another row, and for another item of the heap.
bool room_for_row(pair_index *index);
// Room for `room` more numbers in lists; those of pairs below `floor`, and of merged ones, go
// unless `keep`: then nothing moves.
bool room_for_list(pair_index *index, int64_t room, bool keep);
void free_index(pair_index *index);

#endif
