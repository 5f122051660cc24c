#include "common.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

int mt_version(void) { return MT_VERSION; }

int mt_compiled_for(void) {
#if defined(__AVX512BW__)
    return 4;
#elif defined(__AVX2__)
    return 3;
#elif defined(__x86_64__)
    return 2;
#else
    return 0;
#endif
}

#if defined(__x86_64__)
// Asked by hand: __builtin_cpu_supports needs a part of the runtime that not every compiler brings.
int mt_processor(void) {
    unsigned a, b, c, d, leaf1, extended = 0, state = 0;
    if (!__get_cpuid(1, &a, &b, &leaf1, &d) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 2;
    __get_cpuid(0x80000001, &a, &c, &extended, &d);
    if (leaf1 >> 27 & 1)  // the system saves what xgetbv says
        __asm__ volatile("xgetbv" : "=a"(state), "=d"(d) : "c"(0));
    bool base = (leaf1 >> 28 & 1) && (leaf1 >> 12 & 1) && (leaf1 >> 22 & 1);  // AVX, FMA, MOVBE
    bool bits = (b >> 3 & 1) && (b >> 8 & 1) && (extended >> 5 & 1);          // BMI1, BMI2, LZCNT
    if (!base || !bits || !(b >> 5 & 1) || (state & 0x6) != 0x6) return 2;    // AVX2
    bool wide = (b >> 16 & 1) && (b >> 17 & 1) && (b >> 28 & 1) && (b >> 30 & 1) && (b >> 31 & 1);
    return wide && (state & 0xE6) == 0xE6 ? 4 : 3;  // AVX-512 F, DQ, CD, BW, VL
}
#else
int mt_processor(void) { return mt_compiled_for(); }
#endif
