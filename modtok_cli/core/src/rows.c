// Tables in host memory: AdamW in place, and copies of rows.
//
// An update is one pass: a row's gradient, weight and moments are read once, updated in registers,
// and written back. Nothing is gathered. Blocks of neighbouring rows are assigned to threads,
// always the same thread for a row, so that no two threads write to one row, and a row's memory is
// on the NUMA node of its thread. Compiled without contraction of a * b + c, the results equal the
// same operations in NumPy, bit for bit, on any number of threads.
#include <math.h>
#ifndef __wasi__
#include <pthread.h>
#endif

#include "common.h"

// Neighbouring rows that one thread owns: 16 rows of 1,024 floats are 16 pages of memory.
enum { ROW_BLOCK = 16, MOST_THREADS = 64 };

typedef void part_of(const void *work, int64_t part, int64_t parts);
typedef struct {
    part_of *run;
    const void *work;
    int64_t part, parts;
} share;

static void *run_share(void *of) {
    const share *s = of;
    s->run(s->work, s->part, s->parts);
    return NULL;
}

// All parts at once, a thread each. The caller has the first, and those that get no thread.
static void in_threads(part_of *run, const void *work, int64_t threads) {
    share shares[MOST_THREADS];
    bool started[MOST_THREADS] = {false};
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads < 1) threads = 1;
#ifndef __wasi__
    pthread_t ids[MOST_THREADS];
#endif
    for (int64_t i = threads - 1; i >= 0; i--) {
        shares[i] = (share){run, work, i, threads};
#ifndef __wasi__
        started[i] = i && !pthread_create(ids + i, NULL, run_share, shares + i);
#endif
        if (!started[i]) run_share(shares + i);
    }
#ifndef __wasi__
    for (int64_t i = 1; i < threads; i++)
        if (started[i]) pthread_join(ids[i], NULL);
#endif
}

INLINE bool is_own(int64_t row, int64_t part, int64_t parts) {
    return row / ROW_BLOCK % parts == part;
}

INLINE float widened(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

// Rounds ties to even, as torch does.
INLINE uint16_t rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

typedef struct {
    float keep, new1, old2, new2, epsilon, size, scale;
} step;

INLINE float updated(float weight, float *moment1, float *moment2, float gradient, step s) {
    float a = *moment1 + s.new1 * (gradient - *moment1);
    float b = *moment2 * s.old2 + s.new2 * gradient * gradient;
    *moment1 = a;
    *moment2 = b;
    return weight * s.keep - s.size * a / (sqrtf(b) * s.scale + s.epsilon);
}

// One row of each kind of moments and gradients.
#define UPDATE(NAME, MOMENT, READ_MOMENT, STORE_MOMENT, GRADIENT, READ_GRADIENT)                   \
    static void NAME(float *restrict w, void *first, void *second, const void *from,               \
                     int64_t width, step s) {                                                      \
        MOMENT *restrict m = first, *restrict v = second;                                          \
        const GRADIENT *restrict g = from;                                                         \
        for (int64_t j = 0; j < width; j++) {                                                      \
            float a = READ_MOMENT(m[j]), b = READ_MOMENT(v[j]);                                    \
            w[j] = updated(w[j], &a, &b, READ_GRADIENT(g[j]), s);                                  \
            m[j] = STORE_MOMENT(a);                                                                \
            v[j] = STORE_MOMENT(b);                                                                \
        }                                                                                          \
    }
#define AS_IT_IS(x) (x)
UPDATE(update_ff, float, AS_IT_IS, AS_IT_IS, float, AS_IT_IS)
UPDATE(update_fb, float, AS_IT_IS, AS_IT_IS, uint16_t, widened)
UPDATE(update_bf, uint16_t, widened, rounded, float, AS_IT_IS)
UPDATE(update_bb, uint16_t, widened, rounded, uint16_t, widened)

static void update_part(const void *work, int64_t part, int64_t parts) {
    const mt_rows_update *u = work;
    void (*update)(float *, void *, void *, const void *, int64_t, step) =
        u->moments_bf16 ? (u->gradients_bf16 ? update_bb : update_bf)
                        : (u->gradients_bf16 ? update_fb : update_ff);
    int64_t width = u->width, moment = u->moments_bf16 ? 2 : 4,
            gradient = u->gradients_bf16 ? 2 : 4;
    step s = {.keep = (float)(1 - u->lr * u->decay),
              .new1 = (float)(1 - u->beta1),
              .old2 = (float)u->beta2,
              .new2 = (float)(1 - u->beta2),
              .epsilon = (float)u->epsilon};
    for (int64_t i = 0; i < u->total; i++) {
        int64_t row = u->rows[i];
        if (!is_own(row, part, parts)) continue;
        double count = ++u->steps[row];
        s.size = (float)(u->lr / (1 - pow(u->beta1, count)));
        s.scale = (float)(1 / sqrt(1 - pow(u->beta2, count)));
        update(u->weight + row * width, (char *)u->moment1 + row * width * moment,
               (char *)u->moment2 + row * width * moment,
               (const char *)u->gradients + i * width * gradient, width, s);
    }
}

void mt_update_rows(const mt_rows_update *u) { in_threads(update_part, u, u->threads); }

typedef struct {
    const float *weight;
    const int64_t *rows;
    void *out;
    int64_t width, total;
    bool bf16;
} rows_copy;

static void copy_part(const void *work, int64_t part, int64_t parts) {
    const rows_copy *c = work;
    int64_t width = c->width, last = c->total * (part + 1) / parts;
    for (int64_t i = c->total * part / parts; i < last; i++) {
        const float *restrict from = c->weight + c->rows[i] * width;
        if (c->bf16) {
            uint16_t *restrict to = (uint16_t *)c->out + i * width;
            for (int64_t j = 0; j < width; j++) to[j] = rounded(from[j]);
        } else {
            memcpy((float *)c->out + i * width, from, (size_t)width * sizeof(float));
        }
    }
}

void mt_copy_rows(const float *weight, int64_t width, const int64_t *rows, int64_t total, void *out,
                  bool bf16, int64_t threads) {
    in_threads(copy_part, &(rows_copy){weight, rows, out, width, total, bf16}, threads);
}

typedef struct {
    uint8_t *array;
    int64_t rows, row_bytes;
} rows_array;

static void touch_part(const void *work, int64_t part, int64_t parts) {
    const rows_array *a = work;
    for (int64_t row = 0; row < a->rows; row++)
        if (is_own(row, part, parts))
            memset(a->array + row * a->row_bytes, 0, (size_t)a->row_bytes);
}

void mt_touch_rows(uint8_t *array, int64_t rows, int64_t row_bytes, int64_t threads) {
    in_threads(touch_part, &(rows_array){array, rows, row_bytes}, threads);
}
