// Segmentation by merges: the `tokenizers` library's BPE on flat arrays.
//
// The rule: of all adjacent pairs that a merge joins, apply the one of lowest rank, the leftmost
// first; repeat until none is left.
#include "common.h"

enum {
    SHORT_SPAN = 48,  // symbols; for longer spans a heap beats a scan
    TURNS = 6,        // spans at once
    STRIDE = 72,      // numbers of a span: of 64 pairs, and one that stands for no pair
    NOWHERE = 64
};

// --- long spans ---

static int64_t push(uint64_t *heap, int64_t size, uint64_t item) {
    int64_t at = size;
    for (int64_t parent; at > 0 && heap[parent = (at - 1) >> 1] > item; at = parent)
        heap[at] = heap[parent];
    heap[at] = item;
    return size + 1;
}

static int64_t pop(uint64_t *heap, int64_t size) {
    uint64_t item = heap[--size];
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= item) break;
        heap[at] = heap[child];
    }
    heap[at] = item;
    return size;
}

// A pair of a long span in the heap: its rank, then where it is.
INLINE uint64_t heap_entry(uint64_t merge, int64_t at) {
    return (LAST_RANK - (merge >> RANK_SHIFT)) << 32 | (uint64_t)at;
}

// Merges a span of any length in place in n log n steps; gives the symbols left, or MT_NO_MEMORY.
// An entry whose position no longer begins a pair of that rank is stale and skipped. What is left
// out by chance waits behind the heap for the next merge.
static int64_t merge_long(const mt_pairs *pairs, int32_t *symbols, int64_t size, chance c) {
    int64_t *after = new_block(size, sizeof(int64_t)), *before = new_block(size, sizeof(int64_t));
    uint8_t *gone = new_zeros(size, 1);
    // Each merge adds at most two entries to the first size - 1, and there are fewer than size.
    uint64_t *heap = new_block(3 * size, sizeof(uint64_t));
    int64_t kept = MT_NO_MEMORY, entries = 0, waiting = 0, drawn = 0;
    if (!after || !before || !gone || !heap) goto end;
    for (int64_t i = 0; i < size; i++) after[i] = i + 1, before[i] = i - 1;
    for (int64_t i = 0; i + 1 < size; i++) {
        uint64_t merge = find_merge(pairs, pair_of(symbols[i], symbols[i + 1]));
        if (merge) entries = push(heap, entries, heap_entry(merge, i));
    }
    while (entries) {
        uint64_t entry = heap[0];
        entries = pop(heap, entries);
        int64_t at = (int64_t)(entry & 0xFFFFFFFF), other = after[at];
        if (gone[at] || other >= size) continue;
        uint64_t merge = find_merge(pairs, pair_of(symbols[at], symbols[other]));
        if (!merge || heap_entry(merge, at) != entry) continue;
        if (is_left_out(c, drawn++)) {
            heap[3 * size - ++waiting] = entry;
            continue;
        }
        for (; waiting; waiting--) entries = push(heap, entries, heap[3 * size - waiting]);
        symbols[at] = (int32_t)(merge & RESULT_MASK);
        gone[other] = 1;
        int64_t beyond = after[at] = after[other], ahead = before[at];
        if (beyond < size) {
            before[beyond] = at;
            merge = find_merge(pairs, pair_of(symbols[at], symbols[beyond]));
            if (merge) entries = push(heap, entries, heap_entry(merge, at));
        }
        if (ahead >= 0) {
            merge = find_merge(pairs, pair_of(symbols[ahead], symbols[at]));
            if (merge) entries = push(heap, entries, heap_entry(merge, ahead));
        }
    }
    kept = 0;
    for (int64_t i = 0; i < size; i++)
        if (!gone[i]) symbols[kept++] = symbols[i];
end:
    free_block(after);
    free_block(before);
    free_block(gone);
    free_block(heap);
    return kept;
}

// --- short spans ---

typedef uint64_t eight __attribute__((vector_size(64)));

// A span in progress: bits of `left` tell which symbols are still there. A pair is where its first
// symbol is. Where the last merge and the symbol before it are, and the pairs that are new by it.
typedef struct {
    uint64_t merges[STRIDE];
    uint64_t left, stop, here, before, pair_before, pair_after;
    int64_t span;
    int32_t *symbols;
} turn;

INLINE uint64_t greatest(const uint64_t *numbers, uint64_t stop) {
    // Numbers are below 2^63: signed comparison is one instruction.
    int64_t best = 0;
    for (uint64_t i = 0; i < stop; i += 8)
        for (uint64_t j = i; j < i + 8; j++) best = max64(best, (int64_t)numbers[j]);
    return (uint64_t)best;
}

static void begin_turn(const mt_pairs *pairs, turn *t, int32_t *symbols, uint64_t size,
                       int64_t span) {
    // The first pairs are of bytes: they are few, and in the nearest caches.
    for (uint64_t at = 0; at + 1 < size; at++) {
        uint64_t merge = find_merge(pairs, pair_of(symbols[at], symbols[at + 1]));
        t->merges[at] = merge | (63 - at) << POSITION_SHIFT;
    }
    t->stop = (size + 6) & ~UINT64_C(7);
    for (uint64_t i = size - 1; i < t->stop; i++) t->merges[i] = 0;
    t->left = (UINT64_C(1) << size) - 1;
    t->here = 0;
    t->before = NOWHERE;
    t->pair_before = NO_PAIR;
    t->pair_after = pair_of(symbols[0], symbols[1]);
    t->span = span;
    t->symbols = symbols;
}

// Applies one merge; gives false when there is none left. What it looks up was prefetched by the
// call before.
INLINE bool merge_once(const mt_pairs *pairs, turn *t) {
    int32_t *symbols = t->symbols;
    // The new merges are compared from registers: they are 0 in memory until then.
    uint64_t best = greatest(t->merges, t->stop);
    uint64_t merge = find_merge(pairs, t->pair_after) | (63 - t->here) << POSITION_SHIFT;
    t->merges[t->here] = merge;
    best = merge > best ? merge : best;
    merge = find_merge(pairs, t->pair_before) | (63 - (t->before & 63)) << POSITION_SHIFT;
    t->merges[t->before] = merge;
    best = merge > best ? merge : best;
    if (!(best >> RANK_SHIFT)) return false;
    uint64_t here = 63 - (best >> POSITION_SHIFT & 63);
    int64_t result = (int64_t)(best & RESULT_MASK);
    symbols[here] = (int32_t)result;
    uint64_t behind = t->left >> (here + 1);
    uint64_t gone = here + 1 + (uint64_t)trailing_zeros(behind);
    t->left &= ~(UINT64_C(1) << gone);
    behind &= behind - 1;
    uint64_t at = here + 1 + (uint64_t)trailing_zeros(behind | UINT64_C(1) << 63);
    at = behind ? at : here;
    uint64_t pair_after = behind ? pair_of(result, symbols[at]) : NO_PAIR;
    uint64_t ahead = t->left & ((UINT64_C(1) << here) - 1);
    at = 63 - (uint64_t)__builtin_clzll(ahead | 1);
    uint64_t pair_before = ahead ? pair_of(symbols[at], result) : NO_PAIR;
    uint64_t before = ahead ? at : NOWHERE;
    send_for(pairs, pair_after);
    send_for(pairs, pair_before);
    t->merges[gone] = t->merges[here] = t->merges[before] = 0;
    t->here = here;
    t->before = before;
    t->pair_after = pair_after;
    t->pair_before = pair_before;
    return true;
}

// Applies all merges to each span symbols[offsets[i]:offsets[i + 1]] in place; sizes[i] becomes the
// number of symbols left, the first of the span. Several spans take turns, one merge at a time.
// `chances`: of each span, or NULL.
static int merge_spans(const mt_pairs *pairs, int32_t *symbols, const int64_t *offsets,
                       int64_t *sizes, int64_t spans, const chance *chances) {
    turn turns[TURNS];
    for (int i = 0; i < TURNS; i++) turns[i].left = 0;
    int64_t following = 0;
    for (bool active = true; active;) {
        active = false;
        for (int number = 0; number < TURNS; number++) {
            turn *t = turns + number;
            if (t->left) {
                active = true;
                if (merge_once(pairs, t)) continue;
                int64_t kept = 0;
                for (; t->left; t->left &= t->left - 1)
                    t->symbols[kept++] = t->symbols[trailing_zeros(t->left)];
                sizes[t->span] = kept;
            }
            while (following < spans) {
                int64_t span = following++, size = offsets[span + 1] - offsets[span];
                int32_t *first = symbols + offsets[span];
                if (size < 2) {
                    sizes[span] = size;
                } else if (size > SHORT_SPAN || chances) {
                    chance c = chances ? chances[span] : (chance){0, 0};
                    sizes[span] = merge_long(pairs, first, size, c);
                    if (sizes[span] < 0) return MT_NO_MEMORY;
                } else {
                    begin_turn(pairs, t, first, (uint64_t)size, span);
                    active = true;
                    break;
                }
            }
        }
    }
    return MT_OK;
}

// --- words ---

// Symbols of data[start:stop] into symbols[end:]; gives their end.
static int64_t spell(const mt_segmenter *s, const uint8_t *data, int64_t start, int64_t stop,
                     int32_t *symbols, int64_t end) {
    static const int64_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const int32_t *byte_ids = s->byte_ids;
    if (!s->characters) {
        for (int64_t at = start; at < stop; at++) {
            symbols[end] = byte_ids[data[at]];
            end += symbols[end] >= 0;
        }
        return end;
    }
    for (int64_t at = start, size; at < stop; at += size) {
        int64_t lead = data[at], point = lead;
        size = 1;
        if (lead >= 0x80) {
            size = character_length((uint8_t)lead);
            if (size == 1) size = 2;  // a continuation byte: no character
            point = lead & (0x7F >> size);
            bool whole = lead >= 0xC2 && lead < 0xF5 && at + size <= stop;
            for (int64_t i = 1; whole && i < size; i++) {
                whole = (data[at + i] & 0xC0) == 0x80;
                point = point << 6 | (data[at + i] & 0x3F);
            }
            if (!whole || point < least[size] || point >= MT_CODE_POINTS) {  // not UTF-8
                size = 1;
                point = -1;
            }
        }
        if (point >= 0 && s->characters[point] >= 0) {
            symbols[end++] = s->characters[point];
        } else {
            for (int64_t i = 0; i < size; i++) {
                symbols[end] = byte_ids[data[at + i]];
                end += symbols[end] >= 0;
            }
        }
    }
    return end;
}

// The first added token of data[at:stop]: where it is, its size (0: there is none) and number.
typedef struct {
    int64_t at, size, number;
} added_token;

static added_token next_added(const mt_segmenter *s, const uint8_t *data, int64_t at,
                              int64_t stop) {
    for (; at < stop; at++) {
        added_token found = {at, 0, -1};
        uint64_t unit = s->added_units[0];
        for (int64_t i = at; i < stop && unit_base(unit); i++) {
            unit = s->added_units[unit_base(unit) ^ data[i]];
            if (unit_label(unit) != data[i]) break;
            if (unit_value(unit))
                found = (added_token){at, i + 1 - at, (int64_t)unit_value(unit) - 1};
        }
        if (found.size) return found;
    }
    return (added_token){stop, 0, -1};
}

// The token that is the whole word data[at:stop], -1 if there is none.
static int32_t whole_token(const uint64_t *units, const uint8_t *data, int64_t at, int64_t stop) {
    uint64_t unit = units[0];
    for (; at < stop && unit_base(unit); at++) {
        unit = units[unit_base(unit) ^ data[at]];
        if (unit_label(unit) != data[at]) return -1;
    }
    return at == stop ? (int32_t)unit_value(unit) - 1 : -1;
}

int merge_words(const mt_segmenter *s, const uint8_t *data, int64_t words, const int64_t *starts,
                const int64_t *stops, int32_t *ids, int64_t *offsets) {
    // A word is one span of symbols to merge, or several about its added tokens.
    int64_t most = words;
    if (s->added_units)
        for (int64_t word = 0; word < words; word++) most += 2 * (stops[word] - starts[word]);
    int64_t *spans = new_block(most + 1, sizeof(int64_t));
    int64_t *sizes = new_block(most, sizeof(int64_t));
    int64_t *word_spans = new_block(words + 1, sizeof(int64_t));
    chance *chances = s->keys ? new_block(most, sizeof(chance)) : NULL;
    int status = spans && sizes && word_spans && (chances || !s->keys) ? MT_OK : MT_NO_MEMORY;
    if (status) goto end;
    int64_t total = 0, filled = 0;
    spans[0] = word_spans[0] = 0;
    for (int64_t word = 0; word < words; word++) {
        int64_t first = starts[word], stop = stops[word];
        int32_t whole = s->units ? whole_token(s->units, data, first, stop) : -1;
        if (whole >= 0 && !is_left_out(chance_of(s, word), 0)) {
            ids[filled++] = whole;
            spans[++total] = filled;
            word_spans[word + 1] = total;
            continue;
        }
        if (s->added_units) {
            added_token next = next_added(s, data, first, stop);
            for (; next.size; next = next_added(s, data, next.at + next.size, stop)) {
                if (s->added[next.number] < 0) continue;
                filled = spell(s, data, first, next.at, ids, filled);
                spans[++total] = filled;
                ids[filled++] = s->added[next.number];
                spans[++total] = filled;
                first = next.at + next.size;
            }
        }
        filled = spell(s, data, first, stop, ids, filled);
        spans[++total] = filled;
        word_spans[word + 1] = total;
    }
    for (int64_t word = 0; chances && word < words; word++)
        for (int64_t span = word_spans[word]; span < word_spans[word + 1]; span++)
            chances[span] = (chance){mixed(s->keys[word], span - word_spans[word]), s->dropout};
    status = merge_spans(s->pairs, ids, spans, sizes, total, chances);
    if (status) goto end;
    offsets[0] = filled = 0;
    for (int64_t word = 0, span = 0; word < words; word++) {
        for (; span < word_spans[word + 1]; span++) {
            memmove(ids + filled, ids + spans[span], (size_t)sizes[span] * sizeof(int32_t));
            filled += sizes[span];
        }
        offsets[word + 1] = filled;
    }
end:
    free_block(spans);
    free_block(sizes);
    free_block(word_spans);
    free_block(chances);
    return status;
}
