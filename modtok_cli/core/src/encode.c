// Text to token ids block by block: split into words, look each up, segment only what is new.
//
// `advance` splits a block of text into words, whatever documents they belong to, and looks them up
// in the cache; the ids of known words are copied out at once, and a new word gets a gap of its
// size in bytes wherever it comes up. After ENOUGH new words it returns. They are segmented,
// `close_gaps` writes their ids and moves the others, and the cache stores them.
#include "cache.h"
#include "text.h"

#if defined(__unix__) || defined(__APPLE__)
#include <sched.h>
#define YIELD() sched_yield()
#else
#define YIELD() ((void)0)
#endif

enum {
    FIRST_SLOTS = MT_SIZE(1 << 15, 2),   // 1 MB of slots at first, for 20,000 words
    MOST_SLOTS = MT_SIZE(1 << 19, 8),    // then 16 MB, for 330,000
    ENOUGH_TEXT = MT_SIZE(1 << 20, 64),  // bytes of text that fill the first table
    BATCH = MT_SIZE(64, 4),     // words whose slots are fetched before the first is looked up
    ENOUGH = MT_SIZE(2048, 8),  // new words for which `advance` returns, at the end of a block,
    MOST_GAPS = 4 * ENOUGH,     // or gaps: a new word may come many times before it is in the cache
    PENDING_BITS = MT_SIZE(14, 2)
};

typedef struct {
    word_key key;
    uint64_t hash;
} look_up;

// Scratch of one pass over texts: a block of words, which may span documents. ends: of words,
// relative to the block; cuts: numbers of words at which documents end; starts, stops, hashes: of
// new words; pending: their numbers, by the slots in which they will be; gaps: where ids of new
// words belong, and gap_words: of which.
typedef struct scratch {
    struct scratch *next;
    int64_t room, cuts_room, new_room;
    int32_t *ends, *cuts, *pending, *gap_words, *new_ids;
    int64_t *starts, *stops, *gaps, *new_offsets;
    uint64_t *hashes;
} scratch;

typedef struct held_segmenter {
    struct held_segmenter *before;
    mt_segmenter segmenter;
} held_segmenter;

struct mt_encoder {
    const mt_splitter *splitter;
    _Atomic(held_segmenter *) segmenter;
    atomic_flag lock;  // of all below
    word_cache *cache;
    scratch *free;
    int64_t first_slots, most_slots;
    mt_encoder_work spent;
};

// Where a pass is. Of `ids`, `end` are written; `closed`: documents whose offsets are final.
typedef struct {
    const uint8_t *data;
    const int64_t *offsets;
    int64_t texts;
    int32_t *ids;
    int64_t *id_offsets;
    int64_t split_document, position, document, end, gaps, missing, closed;
    // The block.
    int64_t begin, words, cuts;
} pass;

static void lock(mt_encoder *encoder) {
    while (atomic_flag_test_and_set_explicit(&encoder->lock, memory_order_acquire)) YIELD();
}

static void unlock(mt_encoder *encoder) {
    atomic_flag_clear_explicit(&encoder->lock, memory_order_release);
}

// --- scratch ---

static void free_scratch(scratch *s) {
    if (!s) return;
    free_block(s->ends);
    free_block(s->cuts);
    free_block(s->pending);
    free_block(s->gap_words);
    free_block(s->new_ids);
    free_block(s->starts);
    free_block(s->stops);
    free_block(s->gaps);
    free_block(s->new_offsets);
    free_block(s->hashes);
    free(s);
}

static scratch *new_scratch(int64_t room, int64_t cuts_room) {
    scratch *s = calloc(1, sizeof(scratch));
    if (!s) return NULL;
    int64_t words = room + min64(room, ENOUGH), gaps = room + min64(room, MOST_GAPS);
    s->room = room;
    s->cuts_room = cuts_room;
    s->ends = new_block(room + MT_ENDS, sizeof(int32_t));
    s->cuts = new_block(cuts_room, sizeof(int32_t));
    s->pending = new_zeros(1 << PENDING_BITS, sizeof(int32_t));
    s->starts = new_block(words, sizeof(int64_t));
    s->stops = new_block(words, sizeof(int64_t));
    s->hashes = new_block(words, sizeof(uint64_t));
    s->new_offsets = new_block(words + 1, sizeof(int64_t));
    s->gaps = new_block(gaps, sizeof(int64_t));
    s->gap_words = new_block(gaps, sizeof(int32_t));
    if (s->ends && s->cuts && s->pending && s->starts && s->stops && s->hashes && s->new_offsets &&
        s->gaps && s->gap_words)
        return s;
    free_scratch(s);
    return NULL;
}

// Scratch for texts of so many bytes; of a short text it is small.
static scratch *take_scratch(mt_encoder *encoder, int64_t bytes, int64_t texts) {
    int64_t room = min64(bytes, 2 * MT_BLOCK) + 1, cuts_room = min64(texts, MT_BLOCK) + 1;
    lock(encoder);
    scratch *s = encoder->free;
    if (s) encoder->free = s->next;
    unlock(encoder);
    if (s && s->room >= room && s->cuts_room >= cuts_room) return s;
    if (s) {
        room = max64(room, s->room);
        cuts_room = max64(cuts_room, s->cuts_room);
        free_scratch(s);
    }
    return new_scratch(room, cuts_room);
}

static void give_scratch(mt_encoder *encoder, scratch *s) {
    lock(encoder);
    s->next = encoder->free;
    encoder->free = s;
    unlock(encoder);
}

// --- cache ---

static void release(word_cache *cache) {
    if (cache && atomic_fetch_sub(&cache->references, 1) == 1) free_cache(cache);
}

// The cache to look words up in; it lives until it is released.
static word_cache *acquire(mt_encoder *encoder) {
    lock(encoder);
    if (!encoder->cache) encoder->cache = new_cache(encoder->first_slots);
    word_cache *cache = encoder->cache;
    if (cache) atomic_fetch_add(&cache->references, 1);
    unlock(encoder);
    return cache;
}

static int store(mt_encoder *encoder, const cache_entries *entries) {
    int status = MT_OK;
    lock(encoder);
    if (!encoder->cache) encoder->cache = new_cache(encoder->first_slots);
    int64_t done = 0;
    while (encoder->cache && (done = cache_words(encoder->cache, entries, done)) < entries->count) {
        release(encoder->cache);
        encoder->cache = new_cache(encoder->most_slots);
    }
    if (!encoder->cache) status = MT_NO_MEMORY;
    encoder->spent.words += entries->count;
    encoder->spent.calls++;
    for (int64_t i = 0; i < entries->count; i++)
        encoder->spent.bytes += entries->stops[i] - entries->starts[i];
    unlock(encoder);
    return status;
}

// --- a pass ---

// Splits the next block into words.
static void split(pass *p, const mt_splitter *splitter, scratch *s) {
    int64_t position = max64(p->position, p->offsets[0]);
    int64_t document = p->split_document;
    p->begin = position;
    p->words = p->cuts = 0;
    while (document < p->texts && position - p->begin < MT_BLOCK && p->cuts < MT_BLOCK) {
        int64_t stop = p->offsets[document + 1];
        if (position < stop) {
            int32_t *ends = s->ends + p->words;
            int64_t words = next_block(splitter, p->data, position, stop, ends);
            int32_t size = ends[words - 1], shift = (int32_t)(position - p->begin);
            if (shift)
                for (int64_t word = 0; word < words; word++) ends[word] += shift;
            p->words += words;
            position += size;
        }
        if (position == stop) {
            s->cuts[p->cuts++] = (int32_t)p->words;
            document++;
        }
    }
    p->split_document = document;
    p->position = position;
}

// Has the slots fetched in which the words low … high - 1 may be.
static void send_for_words(const pass *p, const scratch *s, const word_cache *cache, int64_t low,
                           int64_t high, look_up *batch) {
    int shift = 64 - cache->bits;
    const uint8_t *block = p->data + p->begin, *start = block + (low ? s->ends[low - 1] : 0);
    for (int64_t word = low; word < high; word++) {
        const uint8_t *stop = block + s->ends[word];
        batch->key = key_of(start, stop - start);
        batch->hash = key_hash(batch->key);
        PREFETCH(cache->slots + (batch->hash >> shift));
        batch++;
        start = stop;
    }
}

// Notes a gap for a word that is not in the cache.
static void note_new(pass *p, scratch *s, uint64_t hash, int64_t start, int64_t size) {
    uint64_t near = hash >> (64 - PENDING_BITS);
    int64_t number = s->pending[near];
    if (number >= p->missing || s->stops[number] - s->starts[number] != size ||
        memcmp(p->data + s->starts[number], p->data + start, (size_t)size) != 0) {
        number = p->missing++;
        s->pending[near] = (int32_t)number;
        s->starts[number] = start;
        s->stops[number] = start + size;
        s->hashes[number] = hash;
    }
    s->gaps[p->gaps] = p->end;
    s->gap_words[p->gaps++] = (int32_t)number;
    p->end += size;
}

// Writes the ids of a word that is not in its first slot, long, new, or of many ids.
static NOINLINE void look_further(pass *p, scratch *s, const word_cache *cache, int64_t word,
                                  uint64_t hash) {
    int64_t first = word ? s->ends[word - 1] : 0, size = s->ends[word] - first;
    uint64_t at = hash >> (64 - cache->bits);
    if (!find_cached(cache, p->data + p->begin + first, size, &at)) {
        note_new(p, s, hash, p->begin + first, size);
        return;
    }
    const cache_slot *slot = cache->slots + at;
    int64_t tokens = slot_tokens(slot);
    const int32_t *ids = tokens > INLINE_IDS ? cache->ids + slot->ids[0] : slot->ids;
    for (int64_t i = 0; i < tokens; i++) p->ids[p->end++] = ids[i];
}

// Writes the ids of the words low … high - 1, from their first slots where these are right.
static void write_ids(pass *p, scratch *s, const word_cache *cache, int64_t low, int64_t high,
                      const look_up *batch) {
    int shift = 64 - cache->bits;
    int32_t *ids = p->ids + p->end;
    for (int64_t word = low; word < high; word++, batch++) {
        const cache_slot *slot = cache->slots + (batch->hash >> shift);
        int64_t tokens = slot_tokens(slot);
        if (LIKELY(has_key(slot, batch->key) && (uint64_t)tokens <= INLINE_IDS)) {
            memcpy(ids, (const void *)slot, COPIED_IDS * sizeof(int32_t));
            ids += tokens;
        } else {
            p->end = ids - p->ids;
            look_further(p, s, cache, word, batch->hash);
            ids = p->ids + p->end;
        }
    }
    p->end = ids - p->ids;
}

// Writes ids until enough new words came up; gives their number.
static int64_t advance(pass *p, const mt_splitter *splitter, scratch *s, const word_cache *cache) {
    look_up batch[BATCH];
    p->gaps = p->missing = 0;
    while (p->split_document < p->texts && p->missing < ENOUGH && p->gaps < MOST_GAPS) {
        split(p, splitter, s);
        int64_t cut = 0;
        for (int64_t low = 0; low < p->words; low += BATCH) {
            int64_t high = min64(low + BATCH, p->words);
            send_for_words(p, s, cache, low, high, batch);
            for (int64_t word = low, stop; word < high; word = stop) {
                for (; cut < p->cuts && s->cuts[cut] == word; cut++)  // a document ends before it
                    p->id_offsets[++p->document] = p->end;
                stop = cut < p->cuts ? min64(high, s->cuts[cut]) : high;
                write_ids(p, s, cache, word, stop, batch + (word - low));
            }
        }
        for (; cut < p->cuts; cut++) p->id_offsets[++p->document] = p->end;
    }
    return p->missing;
}

// Writes the ids of the new words into their gaps, and moves the others up behind them.
static void close_gaps(pass *p, const scratch *s) {
    int32_t *ids = p->ids;
    int64_t to = s->gaps[0], document = p->closed;
    for (int64_t number = 0; number < p->gaps; number++) {
        int64_t gap = s->gaps[number];
        int32_t word = s->gap_words[number];
        while (document < p->document && p->id_offsets[document + 1] <= gap)
            p->id_offsets[++document] -= gap - to;
        for (int64_t at = s->new_offsets[word]; at < s->new_offsets[word + 1]; at++)
            ids[to++] = s->new_ids[at];
        int64_t end = number + 1 < p->gaps ? s->gaps[number + 1] : p->end;
        for (int64_t at = gap + s->stops[word] - s->starts[word]; at < end; at++)
            ids[to++] = ids[at];
    }
    while (document < p->document) p->id_offsets[++document] -= p->end - to;
    p->end = to;
    p->closed = document;
}

static int segment_new(mt_encoder *encoder, pass *p, scratch *s, int64_t missing) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < missing; i++) bytes += s->stops[i] - s->starts[i];
    if (bytes > s->new_room) {
        if (!grow_block((void **)&s->new_ids, 0, bytes + bytes / 2, sizeof(int32_t)))
            return MT_NO_MEMORY;
        s->new_room = bytes + bytes / 2;
    }
    const mt_segmenter *segmenter = &atomic_load(&encoder->segmenter)->segmenter;
    int status =
        mt_segment(segmenter, p->data, missing, s->starts, s->stops, s->new_ids, s->new_offsets);
    if (status) return status;
    close_gaps(p, s);
    cache_entries entries = {p->data,    s->starts,      s->stops, s->hashes,
                             s->new_ids, s->new_offsets, missing};
    return store(encoder, &entries);
}

int mt_encode(mt_encoder *encoder, const uint8_t *data, const int64_t *offsets, int64_t texts,
              int32_t *ids, int64_t *id_offsets) {
    scratch *s = take_scratch(encoder, offsets[texts] - offsets[0], texts);
    if (!s) return MT_NO_MEMORY;
    pass p = {
        .data = data, .offsets = offsets, .texts = texts, .ids = ids, .id_offsets = id_offsets};
    id_offsets[0] = 0;
    int status = MT_OK;
    while (!status && p.split_document < texts) {
        word_cache *cache = acquire(encoder);
        if (!cache) {
            status = MT_NO_MEMORY;
            break;
        }
        int64_t missing = advance(&p, encoder->splitter, s, cache);
        release(cache);
        if (missing)
            status = segment_new(encoder, &p, s, missing);
        else
            p.closed = p.document;
    }
    give_scratch(encoder, s);
    return status;
}

// --- the encoder ---

mt_encoder *mt_encoder_new(const mt_splitter *splitter, const mt_segmenter *segmenter) {
    mt_encoder *encoder = calloc(1, sizeof(mt_encoder));
    if (!encoder) return NULL;
    encoder->splitter = splitter;
    encoder->first_slots = FIRST_SLOTS;
    encoder->most_slots = MOST_SLOTS;
    atomic_flag_clear(&encoder->lock);
    atomic_init(&encoder->segmenter, NULL);
    mt_encoder_change(encoder, segmenter);
    if (atomic_load(&encoder->segmenter)) return encoder;
    mt_encoder_free(encoder);
    return NULL;
}

void mt_encoder_free(mt_encoder *encoder) {
    if (!encoder) return;
    mt_encoder_forget(encoder);
    for (held_segmenter *here = atomic_load(&encoder->segmenter), *before; here; here = before) {
        before = here->before;
        free(here);
    }
    free(encoder);
}

void mt_encoder_change(mt_encoder *encoder, const mt_segmenter *segmenter) {
    held_segmenter *held = malloc(sizeof(held_segmenter));
    if (!held) return;  // the one before gives the same ids
    held->segmenter = *segmenter;
    lock(encoder);
    held->before = atomic_load(&encoder->segmenter);
    atomic_store(&encoder->segmenter, held);
    unlock(encoder);
}

int mt_encoder_expect(mt_encoder *encoder, int64_t bytes) {
    if (bytes <= ENOUGH_TEXT) return MT_OK;
    lock(encoder);
    if (!encoder->cache) encoder->cache = new_cache(encoder->most_slots);
    int status = encoder->cache ? MT_OK : MT_NO_MEMORY;
    unlock(encoder);
    return status;
}

void mt_encoder_forget(mt_encoder *encoder) {
    lock(encoder);
    release(encoder->cache);
    encoder->cache = NULL;
    scratch *s = encoder->free;
    encoder->free = NULL;
    unlock(encoder);
    while (s) {
        scratch *next = s->next;
        free_scratch(s);
        s = next;
    }
}

mt_encoder_work mt_encoder_spent(mt_encoder *encoder) {
    lock(encoder);
    mt_encoder_work spent = encoder->spent;
    spent.slots = encoder->cache ? INT64_C(1) << encoder->cache->bits : 0;
    unlock(encoder);
    return spent;
}

void mt_encoder_cache_sizes(mt_encoder *encoder, int64_t first, int64_t most) {
    encoder->first_slots = first;
    encoder->most_slots = most;
}
