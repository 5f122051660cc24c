// The learner: T and V_i while a language is learned. learner.c grows it, join.c joins pairs in the
// text, learn.c chooses what to do next.
#ifndef LEARNER_H
#define LEARNER_H

#include "pair_index.h"

struct mt_learner {
    // T, with room for what the language adds.
    uint8_t *token_data;
    int64_t *token_offsets;
    int32_t *merges;
    uint8_t *member, *merge_member;
    int64_t data_room, token_room, merge_room;
    int64_t tokens, specials, merge_total;
    int32_t *slots;  // index of T's strings
    int64_t slot_count;
    // The first merge that gives a token is the one with which T encodes the token's own string, so
    // it is the one to adopt with it; later_merge chains the others.
    int32_t *derivation, *later_merge;
    int64_t *frequency;
    int64_t adopted;
    int64_t work[5];
};

// The slot of the token of these bytes, or the empty slot for it.
int32_t *find_string(const mt_learner *l, const uint8_t *bytes, int64_t size);

// Room for `extra` more tokens and merges.
bool reserve(mt_learner *l, int64_t extra);

// Room for a merge whose token's bytes end at `text_end`.
bool room_for_merge(mt_learner *l, int64_t text_end);

// Writes a merge at rank `merge_total`, last in the chain of merges that give `result`.
int64_t append_merge(mt_learner *l, int64_t left, int64_t right, int64_t result);

// A token and all its parts, as far as V_i lacks them: their number. They are written to `family`,
// which has room for twice the token's bytes, in T's order, so that every prefix contains the parts
// of its tokens.
int64_t ancestry(const mt_learner *l, int64_t token, int64_t *family);

// Merges that M_i must add so that the parts of `merge` are derived before its rank, ascending:
// their number, or MT_NO_MEMORY. A part that M_i derives only at a later rank requires T's first
// merge for it, and so do that merge's parts.
int64_t merges_to_derive(const mt_learner *l, int64_t merge, int64_t **needed);

// Of the symbols before (side 0) or after (1) the joined pairs: occurrences there, and the number
// of positions, then where those are written, or -1 without a row. Zero between merges.
typedef struct {
    int64_t total, places;
} neighbour;

typedef struct {
    int32_t symbols[2];  // before and after
    int32_t place;
} joined_pair;

typedef struct {
    mt_learner *l;
    pair_index index;
    neighbour *sums[2];   // by symbol
    int32_t *touched[2];  // those symbols
    int64_t touches[2];
    joined_pair *found;
    int64_t found_room, joined;
    int64_t left, right, result;
    int64_t twins;  // occurrences that follow another one of this merge
} join;

// Joins every occurrence of the pair of a row in the text, and updates counts and lists of pairs.
bool apply_merge(join *j, pair_row *row);

#endif
