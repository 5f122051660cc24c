// Parts of the patterns of published tokenizers: \s+(?!\S)|\s+, contractions, digits in groups. The
// pre-tokenizers of GPT-2, Llama 3, Qwen and their descendants differ in these parts only.
#include "text.h"

int64_t run_end(const uint8_t *data, int64_t at, int64_t stop, const uint8_t *table, int classes,
                int64_t most) {
    for (int64_t count = 0; at < stop && count < most; count++) {
        if (classes & LETTERS) {
            // Eight bytes at a time: step over the ASCII letters among them.
            while (at + 8 <= stop) {
                uint64_t outside = not_letters(load64(data + at));
                if (outside) {
                    at += trailing_zeros(outside) >> 3;
                    break;
                }
                at += 8;
            }
            if (at == stop) break;
        }
        code_point here = class_at(data, at, stop, table);
        if (!(classes >> here.kind & 1)) break;
        at += here.size;
    }
    return at;
}

int64_t contraction(const uint8_t *data, int64_t at, int64_t stop, bool fold) {
    if (at + 1 >= stop || data[at] != '\'') return 0;
    uint8_t first = data[at + 1], second = at + 2 < stop ? data[at + 2] : 0;
    if (fold) {
        if (first == 0xC5 && second == 0xBF) return 3;  // the engine folds U+017F to s
        if (first < 0x80) first |= 0x20;
        if (second < 0x80) second |= 0x20;
    }
    // Without branches: which letters follow cannot be predicted.
    uint32_t stmd = 1u << ('s' & 31) | 1u << ('t' & 31) | 1u << ('m' & 31) | 1u << ('d' & 31);
    bool two = (first >> 5 == 3) & (stmd >> (first & 31) & 1);
    bool three =
        ((first == 'l') & (second == 'l')) | (((first == 'r') | (first == 'v')) & (second == 'e'));
    return 2 * two + 3 * three;
}

// End of \s+(?!\S)|\s+: a run of white space, without its last code point if text follows.
// `inside`: classes that do not count as text that follows, 0 for none.
static int64_t space_end(const uint8_t *data, int64_t at, int64_t stop, const uint8_t *table,
                         int inside) {
    int64_t last = at;
    while (at < stop) {
        code_point here = class_at(data, at, stop, table);
        if (here.kind != SPACE) return last == at || (inside >> here.kind & 1) ? at : last;
        last = at;
        at += here.size;
    }
    return at;
}

// End of \s*[\r\n]+ at `at`; `at` if it does not match.
static int64_t line_end(const uint8_t *data, int64_t at, int64_t stop) {
    int64_t end = at;
    while (at < stop) {
        code_point here = class_at(data, at, stop, class_table);
        if (here.kind != SPACE) break;
        at += here.size;
        if (data[at - 1] == '\n' || data[at - 1] == '\r') end = at;
    }
    return end;
}

// With `digits`, each number is a word without a space.
int64_t gpt2_end(const uint8_t *data, int64_t start, int64_t stop, const uint8_t *table,
                 bool digits) {
    int64_t length = contraction(data, start, stop, false);
    if (length) return start + length;
    int64_t at = start;
    code_point here = class_at(data, at, stop, table);
    if (data[start] == ' ' && start + 1 < stop) {
        code_point after = class_at(data, start + 1, stop, table);
        if (after.kind != SPACE && !(digits && after.kind == NUMBER)) {
            at = start + 1;
            here = after;
        }
    }
    if (here.kind == SPACE) {
        // The run without its last code point; a single one is a word.
        int64_t end = space_end(data, at, stop, table, digits ? NUMBERS : 0);
        return end > at ? end : at + here.size;
    }
    if (here.kind == NUMBER)
        return digits ? at + here.size : run_end(data, at, stop, table, NUMBERS, stop);
    return run_end(data, at, stop, table, here.kind == LETTER ? LETTERS : SYMBOLS, stop);
}

// End of ` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, where the set `symbols` is the
// first class of it; with `slash`, of `[\r\n/]*`.
static int64_t rest_end(const uint8_t *data, int64_t start, int64_t stop, const uint8_t *table,
                        int symbols, bool slash) {
    code_point here = class_at(data, start, stop, table);
    int64_t at = start;
    int kind = here.kind;
    if (data[start] == ' ' && start + 1 < stop) {
        int after = class_at(data, start + 1, stop, table).kind;
        if (symbols >> after & 1) {
            at = start + 1;
            kind = after;
        }
    }
    if (symbols >> kind & 1) {
        at = run_end(data, at, stop, table, symbols, stop);
        while (at < stop && (data[at] == '\n' || data[at] == '\r' || (slash && data[at] == '/')))
            at++;
        return at;
    }
    int64_t end = line_end(data, start, stop);
    if (end > start) return end;
    end = space_end(data, start, stop, table, 0);
    return end > start ? end : start + here.size;
}

// With at most `digits` digits in a word, and marks among the letters or the symbols.
int64_t llama3_end(const uint8_t *data, int64_t start, int64_t stop, int64_t digits, bool marks) {
    const uint8_t *table = class_table;
    int letters = marks ? WORDS : LETTERS, symbols = marks ? 1 << OTHER : SYMBOLS;
    int64_t length = contraction(data, start, stop, true);
    if (length) return start + length;
    code_point here = class_at(data, start, stop, table);
    if (letters >> here.kind & 1) return run_end(data, start, stop, table, letters, stop);
    if (here.kind == NUMBER) return run_end(data, start, stop, table, NUMBERS, digits);
    int64_t at = start + here.size;
    bool follow = at < stop && letters >> class_at(data, at, stop, table).kind & 1;
    if (data[start] != '\n' && data[start] != '\r' && follow)
        return run_end(data, at, stop, table, letters, stop);
    return rest_end(data, start, stop, table, symbols, false);
}

// Letters without case and marks continue both parts of a word of o200k.
enum {
    UPPERS = 1 << UPPER | 1 << LETTER | 1 << MARK,
    LOWERS = 1 << LOWER | 1 << LETTER | 1 << MARK,
    CASED = 1 << UPPER | 1 << LOWER | 1 << LETTER
};

static int64_t case_run_end(const uint8_t *data, int64_t at, int64_t stop, int classes) {
    while (at < stop) {
        code_point here = class_at(data, at, stop, case_table);
        if (!(classes >> here.kind & 1)) break;
        at += here.size;
    }
    return at;
}

// End of upper case, then lower case, at `at`; `at` if it does not match. At least one code point
// is lower case; with `rise` at least one is upper case instead.
static int64_t cased_end(const uint8_t *data, int64_t at, int64_t stop, bool rise) {
    int64_t end = at;
    int64_t lower = -1;  // end of the last code point of the upper part that may be lower case
    while (end < stop) {
        code_point here = class_at(data, end, stop, case_table);
        if (!(UPPERS >> here.kind & 1)) break;
        end += here.size;
        if (LOWERS >> here.kind & 1) lower = end;
    }
    int64_t after = case_run_end(data, end, stop, LOWERS);
    if (rise) return end > at ? after : at;
    if (after > end) return after;
    // The upper part gives back what the lower part needs.
    return lower >= 0 ? lower : at;
}

// With at most `digits` digits in a word; a contraction ends a word, if there are any.
int64_t o200k_end(const uint8_t *data, int64_t start, int64_t stop, int64_t digits,
                  bool contractions) {
    code_point here = class_at(data, start, stop, case_table);
    if (here.kind == NUMBER) return run_end(data, start, stop, case_table, NUMBERS, digits);
    int64_t prefix = start;
    if (!(CASED >> here.kind & 1) && data[start] != '\n' && data[start] != '\r')
        prefix = start + here.size;
    for (int rise = 0; rise < 2; rise++) {
        int64_t end = prefix;
        if (prefix > start) end = cased_end(data, prefix, stop, rise);
        if (end == prefix) end = cased_end(data, start, stop, rise);
        if (end > start) return contractions ? end + contraction(data, end, stop, true) : end;
    }
    return rest_end(data, start, stop, case_table, SYMBOLS, true);
}
