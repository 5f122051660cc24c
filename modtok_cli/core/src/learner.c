// The state of a learner: strings of tokens, merges in order, and what V_i lacks of them.
#include "learner.h"

static int64_t string_home(const uint8_t *bytes, int64_t size) {
    uint64_t value = UINT64_C(0xCBF29CE484222325);
    for (int64_t i = 0; i < size; i++) value = (value ^ bytes[i]) * UINT64_C(0x100000001B3);
    value ^= value >> 29;
    return (int64_t)((value * MIX_A) >> 32);
}

int32_t *find_string(const mt_learner *l, const uint8_t *bytes, int64_t size) {
    int64_t mask = l->slot_count - 1;
    for (int64_t slot = string_home(bytes, size) & mask;; slot = (slot + 1) & mask) {
        int32_t token = l->slots[slot];
        if (token < 0) return l->slots + slot;
        int64_t first = l->token_offsets[token];
        if (l->token_offsets[token + 1] - first == size &&
            memcmp(l->token_data + first, bytes, (size_t)size) == 0)
            return l->slots + slot;
    }
}

static bool index_strings(mt_learner *l) {
    if (l->slot_count >= 2 * l->token_room) return true;
    int64_t size = 1024;
    while (size < 2 * l->token_room) size *= 2;
    int32_t *slots = new_block(size, sizeof(int32_t));
    if (!slots) return false;
    free_block(l->slots);
    l->slots = slots;
    l->slot_count = size;
    memset(l->slots, 0xFF, (size_t)size * sizeof(int32_t));
    for (int64_t token = l->specials; token < l->tokens; token++) {
        int64_t start = l->token_offsets[token];
        *find_string(l, l->token_data + start, l->token_offsets[token + 1] - start) =
            (int32_t)token;
    }
    return true;
}

static void *copy_of(const void *from, int64_t used, int64_t room, int64_t item) {
    uint8_t *block = new_block(room, item);
    if (!block) return NULL;
    if (used) memcpy(block, from, (size_t)(used * item));
    memset(block + used * item, 0, (size_t)((room - used) * item));
    return block;
}

mt_learner *mt_learner_new(const uint8_t *token_data, const int64_t *token_offsets, int64_t tokens,
                           int64_t specials, const int32_t *merges, int64_t merge_total,
                           const uint8_t *member, const uint8_t *merge_member, const int32_t *slots,
                           int64_t slot_count) {
    mt_learner *l = calloc(1, sizeof(mt_learner));
    if (!l) return NULL;
    l->tokens = l->token_room = tokens;
    l->specials = specials;
    l->merge_total = l->merge_room = merge_total;
    l->data_room = token_offsets[tokens];
    l->token_data = copy_of(token_data, l->data_room, l->data_room, 1);
    l->token_offsets = copy_of(token_offsets, tokens + 1, tokens + 1, sizeof(int64_t));
    l->merges = copy_of(merges, merge_total, merge_total, 3 * sizeof(int32_t));
    l->member = copy_of(member, tokens, tokens, 1);
    l->merge_member = copy_of(merge_member, merge_total, merge_total, 1);
    l->slots = copy_of(slots, slot_count, slot_count, sizeof(int32_t));
    l->slot_count = slot_count;
    if (l->token_data && l->token_offsets && l->merges && l->member && l->merge_member && l->slots)
        return l;
    mt_learner_free(l);
    return NULL;
}

void mt_learner_free(mt_learner *l) {
    if (!l) return;
    free_block(l->token_data);
    free_block(l->token_offsets);
    free_block(l->merges);
    free_block(l->member);
    free_block(l->merge_member);
    free_block(l->slots);
    free_block(l->derivation);
    free_block(l->later_merge);
    free_block(l->frequency);
    free(l);
}

mt_learner_contents mt_learner_view(const mt_learner *l) {
    mt_learner_contents contents = {l->token_data,   l->token_offsets, l->merges,  l->member,
                                    l->merge_member, l->frequency,     l->slots,   l->tokens,
                                    l->merge_total,  l->slot_count,    l->adopted, {0}};
    memcpy(contents.work, l->work, sizeof(l->work));
    return contents;
}

bool reserve(mt_learner *l, int64_t extra) {
    int64_t tokens = l->tokens + extra, merges = l->merge_total + extra;
    int64_t bytes = l->token_offsets[l->tokens] + MT_SIZE(16, 1) * extra;
    bool done =
        grow_block((void **)&l->token_data, l->token_offsets[l->tokens], bytes, 1) &&
        grow_block((void **)&l->token_offsets, l->tokens + 1, tokens + 1, sizeof(int64_t)) &&
        grow_block((void **)&l->member, l->tokens, tokens, 1) &&
        grow_block((void **)&l->merges, l->merge_total, merges, 3 * sizeof(int32_t)) &&
        grow_block((void **)&l->merge_member, l->merge_total, merges, 1);
    if (!done) return false;
    memset(l->member + l->tokens, 0, (size_t)extra);
    memset(l->merge_member + l->merge_total, 0, (size_t)extra);
    l->data_room = bytes;
    l->token_room = tokens;
    l->merge_room = merges;
    free_block(l->derivation);
    free_block(l->later_merge);
    l->derivation = new_block(tokens, sizeof(int32_t));
    l->later_merge = new_block(merges, sizeof(int32_t));
    if (!l->derivation || !l->later_merge) return false;
    memset(l->derivation, 0xFF, (size_t)tokens * sizeof(int32_t));
    memset(l->later_merge, 0xFF, (size_t)merges * sizeof(int32_t));
    for (int64_t rank = l->merge_total - 1; rank >= 0; rank--) {
        int32_t result = l->merges[3 * rank + 2];
        l->later_merge[rank] = l->derivation[result];
        l->derivation[result] = (int32_t)rank;
    }
    return index_strings(l);
}

bool room_for_merge(mt_learner *l, int64_t text_end) {
    if (text_end > l->data_room) {
        if (!grow_block((void **)&l->token_data, l->token_offsets[l->tokens], 2 * text_end, 1))
            return false;
        l->data_room = 2 * text_end;
    }
    if (l->merge_total < l->merge_room) return true;
    int64_t total = l->merge_total, room = 2 * total + MT_SIZE(16, 1);
    if (!grow_block((void **)&l->merges, total, room, 3 * sizeof(int32_t)) ||
        !grow_block((void **)&l->merge_member, total, room, 1) ||
        !grow_block((void **)&l->later_merge, total, room, sizeof(int32_t)))
        return false;
    memset(l->merge_member + total, 0, (size_t)(room - total));
    l->merge_room = room;
    return true;
}

int64_t append_merge(mt_learner *l, int64_t left, int64_t right, int64_t result) {
    int64_t merge = l->merge_total++;
    l->merges[3 * merge] = (int32_t)left;
    l->merges[3 * merge + 1] = (int32_t)right;
    l->merges[3 * merge + 2] = (int32_t)result;
    l->later_merge[merge] = -1;
    int32_t *last = l->derivation + result;
    while (*last >= 0) last = l->later_merge + *last;
    *last = (int32_t)merge;
    return merge;
}

static void sort_few(int64_t *numbers, int64_t size) {
    for (int64_t end = 1; end < size; end++) {
        int64_t value = numbers[end], place = end;
        for (; place > 0 && numbers[place - 1] > value; place--)
            numbers[place] = numbers[place - 1];
        numbers[place] = value;
    }
}

static bool contains(const int64_t *numbers, int64_t size, int64_t value) {
    for (int64_t i = 0; i < size; i++)
        if (numbers[i] == value) return true;
    return false;
}

int64_t ancestry(const mt_learner *l, int64_t token, int64_t *family) {
    int64_t found = 0;
    if (!l->member[token]) family[found++] = token;
    for (int64_t looked = 0; looked < found; looked++) {
        int32_t origin = l->derivation[family[looked]];
        if (origin < 0) continue;
        for (int side = 0; side < 2; side++) {
            int64_t part = l->merges[3 * origin + side];
            if (!l->member[part] && !contains(family, found, part)) family[found++] = part;
        }
    }
    sort_few(family, found);
    return found;
}

int64_t merges_to_derive(const mt_learner *l, int64_t merge, int64_t **needed) {
    int64_t total = 0, room = MT_SIZE(16, 1);
    *needed = new_block(room, sizeof(int64_t));
    if (!*needed) return MT_NO_MEMORY;
    for (int64_t looked = -1; looked < total; looked++) {
        int64_t below = looked < 0 ? merge : (*needed)[looked];
        for (int side = 0; side < 2; side++) {
            int64_t origin = l->derivation[l->merges[3 * below + side]];
            if (origin < 0) continue;  // a byte
            bool there = contains(*needed, total, origin);
            for (int64_t other = origin; !there && other >= 0 && other < below;
                 other = l->later_merge[other])
                there = l->merge_member[other] != 0;
            if (there) continue;
            if (total == room) {
                if (!grow_block((void **)needed, total, 2 * room, sizeof(int64_t)))
                    return MT_NO_MEMORY;
                room *= 2;
            }
            (*needed)[total++] = origin;
        }
    }
    sort_few(*needed, total);
    return total;
}
