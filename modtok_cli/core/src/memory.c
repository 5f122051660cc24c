// Blocks of memory. Learning accesses tables of many megabytes at random, where a TLB miss costs
// as much as the access: large blocks begin at a huge page, of which Linux then backs them.
#include "common.h"

#if defined(__linux__)
#include <sys/mman.h>
#ifndef MADV_HUGEPAGE  // hidden by strict C11
#define MADV_HUGEPAGE 14
int madvise(void *, size_t, int);
#endif
#endif

enum { HUGE_PAGE = 1 << 21 };

static bool byte_size(int64_t count, int64_t item, size_t *bytes) {
    return count >= 0 && !__builtin_mul_overflow((size_t)count, (size_t)item, bytes) &&
           *bytes < SIZE_MAX / 4;
}

#ifdef MT_EXACT_BLOCKS  // a sanitizer sees every byte beyond them
void *new_block(int64_t count, int64_t item) {
    size_t bytes;
    return byte_size(count, item, &bytes) ? malloc(bytes) : NULL;
}
#else
static void *aligned_block(size_t bytes, size_t alignment) {
    bytes = (bytes + alignment - 1) & ~(alignment - 1);
#if defined(_WIN32)
    (void)alignment;
    return _aligned_malloc(bytes, alignment);
#else
    return aligned_alloc(alignment, bytes);
#endif
}

void *new_block(int64_t count, int64_t item) {
    size_t bytes;
    if (!byte_size(count, item, &bytes)) return NULL;
    if (bytes < HUGE_PAGE) return aligned_block(bytes + 64, 64);
    void *block = aligned_block(bytes, HUGE_PAGE);
#if defined(__linux__)
    if (block) madvise(block, bytes, MADV_HUGEPAGE);
#endif
    return block;
}
#endif

void *new_zeros(int64_t count, int64_t item) {
    void *block = new_block(count, item);
    if (block) memset(block, 0, (size_t)(count * item));
    return block;
}

bool grow_block(void **block, int64_t used, int64_t count, int64_t item) {
    void *larger = new_block(count, item);
    if (!larger) return false;
    if (used) memcpy(larger, *block, (size_t)(used * item));
    free_block(*block);
    *block = larger;
    return true;
}

void free_block(void *block) {
#if defined(_WIN32)
    _aligned_free(block);
#else
    free(block);
#endif
}
