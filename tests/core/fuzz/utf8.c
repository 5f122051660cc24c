#include "fuzz.h"

// mt_is_utf8 against a decoder of single sequences, at several distances from the begin.
int fuzz_utf8(const uint8_t *data, size_t size) {
    rooms all = {.used = 0};
    for (int64_t before = 0; before < 70; before += before < 3 ? 1 : 31) {
        int64_t total = before + (int64_t)size;
        uint8_t *text = room(&all, total, 1);
        memset(text, 'x', (size_t)before);
        if (size) memcpy(text + before, data, size);
        assert(mt_is_utf8(text, total) == is_utf8(text, total));
    }
    free_rooms(&all);
    return 0;
}
