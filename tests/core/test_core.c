// Tests of the native core without Python. `test_core all 100` runs the harnesses of fuzz/ on fixed
// inputs and on 100 random ones; `test_core failing 100` runs them while allocation 1, 2, 3, ...
// fails: a call must then give an error, and free all it took. `test_core all learn FILE...` reads
// inputs. Compiled with -DMT_FAIL_ALLOCATIONS -DMT_EXACT_BLOCKS.
#include <math.h>

#include "fuzz/fuzz.h"

// --- allocations of the core ---

bool allocation_failed = false, error_seen = false;
static int64_t allocations, fails_at, living;

static bool fails(void) {
    allocations++;
    allocation_failed |= allocations == fails_at;
    return allocations == fails_at;
}

void *failing_malloc(size_t bytes);
void *failing_calloc(size_t count, size_t item);
void counted_free(void *block);

void *failing_malloc(size_t bytes) {
    void *block = fails() ? NULL : malloc(bytes ? bytes : 1);
    living += block != NULL;
    return block;
}

void *failing_calloc(size_t count, size_t item) {
    void *block = fails() ? NULL : calloc(count, item);
    living += block != NULL;
    return block;
}

void counted_free(void *block) {
    living -= block != NULL;
    free(block);
}

// --- what has no harness ---

static void test_library(void) {
    assert(mt_version() == MT_VERSION);
    assert(mt_compiled_for() <= mt_processor());
    const uint8_t *classes = mt_classes(false), *cases = mt_classes(true);
    assert(classes['a'] == 1 && classes['1'] == 2 && classes[' '] == 3 && classes['.'] == 0);
    assert(cases['A'] == 5 && cases['a'] == 6 && classes[0x301] == 4);
    mt_counter_free(NULL);
    mt_trie_free(NULL);
    mt_pairs_free(NULL);
    mt_encoder_free(NULL);
    mt_learner_free(NULL);
}

// floor(16 log2(1 + 2 n)); the logarithm is exact enough away from whole steps.
static void test_likelihoods(void) {
    static const int64_t counts[] = {
        0, 1, 2, 7, 100, 12345, INT64_C(1) << 40, (INT64_C(1) << 62) - 1};
    enum { TOTAL = sizeof(counts) / sizeof(counts[0]) };
    int32_t out[TOTAL];
    mt_likelihoods(counts, TOTAL, out);
    for (int i = 0; i < TOTAL - 1; i++)
        assert(out[i] == (int32_t)floor(16 * log2(2.0 * (double)counts[i] + 1)));
    assert(out[TOTAL - 1] == 16 * 63);  // 2^63 - 1 as a double is 2^63
}

static uint16_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float float_of(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

// One update of each kind, by one thread and by three; copies; zeros.
static void test_rows(void) {
    enum { ROWS = 40, WIDTH = 5, TOTAL = 4 };
    static const int64_t rows[TOTAL] = {39, 0, 17, 16};
    for (int kind = 0; kind < 4; kind++) {
        for (int64_t threads = 1; threads <= 3; threads += 2) {
            bool moments_bf16 = kind & 1, gradients_bf16 = kind & 2;
            float weight[ROWS][WIDTH], wide[2][ROWS][WIDTH] = {0}, gradients[TOTAL][WIDTH];
            uint16_t narrow[2][ROWS][WIDTH] = {0}, narrow_gradients[TOTAL][WIDTH];
            int32_t steps[ROWS] = {0};
            for (int i = 0; i < ROWS; i++)
                for (int j = 0; j < WIDTH; j++) weight[i][j] = (float)(i - j) / 8;
            for (int i = 0; i < TOTAL; i++)
                for (int j = 0; j < WIDTH; j++) {
                    gradients[i][j] = (float)(i + j + 1) / 4;
                    narrow_gradients[i][j] = bits_of_float(gradients[i][j]);
                }
            mt_rows_update update = {
                .weight = weight[0],
                .moment1 = moments_bf16 ? (void *)narrow[0] : (void *)wide[0],
                .moment2 = moments_bf16 ? (void *)narrow[1] : (void *)wide[1],
                .steps = steps,
                .rows = rows,
                .gradients = gradients_bf16 ? (void *)narrow_gradients : (void *)gradients,
                .total = TOTAL,
                .width = WIDTH,
                .moments_bf16 = moments_bf16,
                .gradients_bf16 = gradients_bf16,
                .threads = threads,
                .lr = 0.5,
                .beta1 = 0.5,
                .beta2 = 0.75,
                .epsilon = 0,
                .decay = 0.5,
            };
            mt_update_rows(&update);
            for (int row = 0; row < ROWS; row++) {
                int at = -1;
                for (int i = 0; i < TOTAL; i++)
                    if (rows[i] == row) at = i;
                assert(steps[row] == (at >= 0));
                for (int j = 0; j < WIDTH; j++) {
                    float old = (float)(row - j) / 8;
                    if (at < 0) {
                        assert(weight[row][j] == old);
                        continue;
                    }
                    // The first step moves by lr in the direction of the gradient.
                    assert(fabsf(weight[row][j] - (old * 0.75f - 0.5f)) < 1e-5f);
                    float moment = moments_bf16 ? float_of(narrow[0][row][j]) : wide[0][row][j];
                    assert(moment == gradients[at][j] / 2);
                }
            }
            float copied[TOTAL][WIDTH];
            uint16_t rounded[TOTAL][WIDTH];
            mt_copy_rows(weight[0], WIDTH, rows, TOTAL, copied, false, threads);
            mt_copy_rows(weight[0], WIDTH, rows, TOTAL, rounded, true, threads);
            for (int i = 0; i < TOTAL; i++)
                for (int j = 0; j < WIDTH; j++) {
                    assert(copied[i][j] == weight[rows[i]][j]);
                    assert(rounded[i][j] == bits_of_float(weight[rows[i]][j]));
                }
            mt_touch_rows((uint8_t *)weight, ROWS, sizeof(weight[0]), threads);
            for (int i = 0; i < ROWS; i++)
                for (int j = 0; j < WIDTH; j++) assert(weight[i][j] == 0.0f);
        }
    }
}

// --- the harnesses ---

static const struct {
    const char *name;
    fuzz_target *run;
} TARGETS[] = {{"utf8", fuzz_utf8},     {"json", fuzz_json},   {"split", fuzz_split},
               {"encode", fuzz_encode}, {"count", fuzz_count}, {"trie", fuzz_trie},
               {"learn", fuzz_learn}};
enum { TARGET_TOTAL = sizeof(TARGETS) / sizeof(TARGETS[0]), LONGEST = 1500 };

// Inputs that found something.
#define FILTER "\xFF\0\0\0\5\xFF\xFF\xFF\0"  // and what is behind the text
#define TEN "a a a a a "
#define TWELVE TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
static const struct {
    fuzz_target *run;
    const char *bytes;
    size_t size;
} FOUND[] = {
    // Two bytes that are no UTF-8 were one character to word_end, two to split_block.
    {fuzz_split, FILTER "\xDE\x0C", 11},
    // A block that ended in four continuation bytes cut the character before them. Next to it, a
    // character of four bytes whose last one is at the end of the block.
    {fuzz_split, FILTER TWELVE ".\xC3\xA9\xD0\x96\xAD\xAD\xAD\xAD.", 139},
    {fuzz_split, FILTER TWELVE ".\xC3\xA9\xD0\x96\xF0\x90\x90\x80.", 139},
    // A byte without a token, beside characters, was looked up as symbol -1.
    {fuzz_encode, "&*\7\0\0\n", 6},
    // Three bytes for U+0042, which are no UTF-8, were that character.
    {fuzz_encode, "\2\0\0\0\0\xE0\x81\x82", 8},
    // Rows of pairs that occur 0 times were dropped while their numbers were in use.
    {fuzz_learn, "\xFF\xFF\xFF\xFF\xFF\xF3\xF3\xF3\xF3", 9},
};

static uint64_t state = 88172645463325252u;

static uint64_t next_random(void) {  // xorshift
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// Random bytes: of all values, of a few, or of text.
static size_t make_input(uint8_t *input) {
    static const char text[] = "don't  we'll 123 a\tb\n\nAbC. "
                               "\xC3\xA9\xD0\x96\xE4\xB8\xAD\xF0\x9F\x98\x80 e\xCC\x81\xC2\xA0";
    size_t size = next_random() % (next_random() % 4 ? 300 : LONGEST);
    uint64_t kind = next_random() % 3, few = 1 + next_random() % 8;
    for (size_t i = 0; i < size; i++) {
        uint64_t value = next_random();
        input[i] = (uint8_t)(kind == 0 || i < 12 ? value : kind == 1 ? value % few : 0);
        if (kind == 2 && i >= 12) input[i] = (uint8_t)text[(i + value % 2) % (sizeof(text) - 1)];
    }
    return size;
}

// The input in a block of its exact size.
static void run(fuzz_target *target, const void *input, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    assert(exact);
    if (size) memcpy(exact, input, size);
    allocations = 0;
    allocation_failed = error_seen = false;
    target(exact, size);
    assert(living == 0);
    assert(error_seen == allocation_failed);
    free(exact);
}

static void run_failing(fuzz_target *target, const void *input, size_t size) {
    fails_at = 1;
    do run(target, input, size);
    while (allocation_failed && ++fails_at);
    fails_at = 0;
}

static void run_file(fuzz_target *target, const char *name, bool failing) {
    static uint8_t input[1 << 16];
    FILE *file = fopen(name, "rb");
    assert(file);
    size_t size = fread(input, 1, sizeof(input), file);
    fclose(file);
    (failing ? run_failing : run)(target, input, size);
}

int main(int count, char **arguments) {
    bool failing = count > 1 && !strcmp(arguments[1], "failing");
    mt_start();
    for (int target = 0; count > 3 && target < TARGET_TOTAL; target++) {
        if (strcmp(arguments[2], TARGETS[target].name) != 0) continue;
        for (int i = 3; i < count; i++) run_file(TARGETS[target].run, arguments[i], failing);
        return 0;
    }
    int rounds = count > 2 ? atoi(arguments[2]) : 10;
    test_library();
    test_likelihoods();
    test_rows();
    for (size_t i = 0; i < sizeof(FOUND) / sizeof(FOUND[0]); i++)
        (failing ? run_failing : run)(FOUND[i].run, FOUND[i].bytes, FOUND[i].size);
    static uint8_t input[LONGEST];
    for (int target = 0; target < TARGET_TOTAL; target++)
        for (int i = 0; i < rounds; i++) {
            size_t size = make_input(input);
            (failing ? run_failing : run)(TARGETS[target].run, input, size);
        }
    printf("%d inputs for each of %d harnesses%s\n", rounds, TARGET_TOTAL,
           failing ? ", without memory" : "");
    return 0;
}
