// JSON lines to documents, 32 bytes at a time: the value of one field out of each, unescaped.
//
// A strict reader: what it accepts is an object of valid JSON in UTF-8, as `orjson` sees it, with
// one text and, if any, a language that is a string or null. Of every other line it only gives the
// position; the caller parses it slowly, and reports the error or accepts a line that is merely
// unusual.
#include "utf8.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum {
    NONE = -1,     // in place of a position: this is not for us
    DEEPEST = 60,  // nested levels, of which each has a bit in a 64-bit number
    LONGEST = 18   // digits of a number; no double is that large or small, whatever its exponent
};
enum { NO_UNIT = 1 << 16 };

typedef struct {
    const uint8_t *data;
    int64_t size;
    uint8_t *out;
} reader;

// The byte at `at`; beyond the end a line feed, which ends a line as well.
INLINE int peek(const reader *r, int64_t at) { return at < r->size ? r->data[at] : '\n'; }

INLINE int64_t skip_space(const reader *r, int64_t at) {
    while (at < r->size && (r->data[at] == ' ' || r->data[at] == '\t' || r->data[at] == '\r')) at++;
    return at;
}

static int hex_digit(uint8_t byte) {
    if (byte >= '0' && byte <= '9') return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : NO_UNIT;
}

// The number in a \uXXXX at `at`, or more than 0xFFFF if there is none.
static int64_t code_unit(const reader *r, int64_t at) {
    if (at + 6 > r->size || r->data[at] != '\\' || r->data[at + 1] != 'u') return NO_UNIT;
    int64_t unit = 0;
    for (int64_t i = at + 2; i < at + 6; i++) unit = unit * 16 + hex_digit(r->data[i]);
    return unit;
}

// The byte that a backslash and this byte stand for; 0 for none, and for `u`.
static uint8_t unescaped(int byte) {
    switch (byte) {
        case '"':
        case '\\':
        case '/': return (uint8_t)byte;
        case 'b': return '\b';
        case 'f': return '\f';
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        default: return 0;
    }
}

static int64_t write_point(uint8_t *out, int64_t point) {
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (uint8_t)(0xC0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xE0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (point & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (point & 0x3F));
    return 4;
}

// Copies 32 bytes; gives how many of them come before a quote, a backslash or a control character.
INLINE int64_t copy_plain(const uint8_t *from, uint8_t *to) {
    lanes bytes = load_lanes(from);
    memcpy(to, &bytes, LANES);
    lanes stops = (lanes)(bytes == all_lanes('"')) | (lanes)(bytes == all_lanes('\\')) |
                  (lanes)(bytes < all_lanes(' '));
#if defined(__AVX2__)
    uint32_t found = (uint32_t)_mm256_movemask_epi8((__m256i)stops);
    return found ? trailing_zeros(found) : LANES;
#else
    uint64_t parts[LANES / 8];
    memcpy(parts, &stops, LANES);
    for (int i = 0; i < LANES / 8; i++)
        if (parts[i]) return 8 * i + (trailing_zeros(parts[i]) >> 3);
    return LANES;
#endif
}

// Unescapes the string whose opening quote is at `at - 1` to out + *to; gives where it ends, and
// sets *to to the end in `out`, which has as much room from *to as `data` from `at`, and 32 more.
static int64_t read_string(const reader *r, int64_t at, int64_t *to) {
    const uint8_t *data = r->data;
    uint8_t *out = r->out + *to;
    int64_t end = NONE;
    while (at < r->size) {
        // Not where one escape follows another, as in text that is all \uXXXX.
        if (at + LANES <= r->size && data[at] != '\\') {
            int64_t plain = copy_plain(data + at, out);
            at += plain;
            out += plain;
            if (plain == LANES) continue;
        }
        uint8_t byte = data[at];
        if (byte == '"') {
            end = at + 1;
            break;
        }
        if (byte < 0x20) break;
        if (byte != '\\') {  // near the end, where there are no 32 bytes
            *out++ = byte;
            at++;
            continue;
        }
        uint8_t simple = unescaped(peek(r, at + 1));
        if (simple) {
            *out++ = simple;
            at += 2;
            continue;
        }
        int64_t point = code_unit(r, at);
        at += 6;
        if (point >= 0xD800 && point < 0xDC00) {
            int64_t low = code_unit(r, at);
            at += 6;
            if (low < 0xDC00 || low >= 0xE000) break;
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
        } else if (point >= 0xDC00 && (point < 0xE000 || point > 0xFFFF)) {
            break;
        }
        out += write_point(out, point);
    }
    *to = out - r->out;
    return end;
}

// The end of one to LONGEST digits at `at`, or of one to `most`.
static int64_t skip_digits(const reader *r, int64_t at, int64_t most) {
    int64_t start = at;
    while (peek(r, at) >= '0' && peek(r, at) <= '9') at++;
    return at > start && at - start <= most ? at : NONE;
}

static bool spells(const reader *r, int64_t at, const char *word, int64_t size) {
    return at + size <= r->size && memcmp(r->data + at, word, (size_t)size) == 0;
}

// The end of the number, true, false or null at `at`; a number too long is not for us.
static int64_t skip_plain(const reader *r, int64_t at) {
    switch (peek(r, at)) {
        case 't': return spells(r, at, "true", 4) ? at + 4 : NONE;
        case 'n': return spells(r, at, "null", 4) ? at + 4 : NONE;
        case 'f': return spells(r, at, "false", 5) ? at + 5 : NONE;
        default: break;
    }
    if (peek(r, at) == '-') at++;
    at = peek(r, at) == '0' ? at + 1 : skip_digits(r, at, LONGEST);
    if (at >= 0 && peek(r, at) == '.') at = skip_digits(r, at + 1, LONGEST);
    if (at >= 0 && (peek(r, at) | 0x20) == 'e') {
        at++;
        if (peek(r, at) == '+' || peek(r, at) == '-') at++;
        at = skip_digits(r, at, 2);
    }
    return at;
}

// The key at `at`, to out + *to: where its value begins; *to becomes its end in `out`.
static int64_t read_key(const reader *r, int64_t at, int64_t *to) {
    if (peek(r, at) != '"') return NONE;
    at = read_string(r, at + 1, to);
    if (at < 0) return NONE;
    at = skip_space(r, at);
    return peek(r, at) == ':' ? skip_space(r, at + 1) : NONE;
}

// The end of the value at `at`, of any type; what is in `out` from `to` on is overwritten.
static int64_t skip_value(const reader *r, int64_t at, int64_t to) {
    int depth = 0;
    uint64_t objects = 0;  // bit d: what is open at depth d is an object, not an array
    bool key_due = false;
    for (;;) {
        int64_t end = to;
        if (key_due) {
            at = read_key(r, at, &end);
            if (at < 0) return NONE;
            key_due = false;
            end = to;
        }
        int byte = peek(r, at);
        if (byte == '"') {
            at = read_string(r, at + 1, &end);
        } else if (byte == '{' || byte == '[') {
            at = skip_space(r, at + 1);
            if (peek(r, at) == byte + 2) {  // both closing signs are two after the opening one
                at++;
            } else {
                if (depth == DEEPEST) return NONE;
                depth++;
                key_due = byte == '{';
                objects = (objects & ~(UINT64_C(1) << depth)) | (uint64_t)key_due << depth;
                continue;
            }
        } else {
            at = skip_plain(r, at);
        }
        if (at < 0) return NONE;
        // A value has ended, and with it perhaps what it was in.
        while (depth > 0) {
            at = skip_space(r, at);
            byte = peek(r, at);
            bool in_object = objects >> depth & 1;
            if (byte == ',') {
                at = skip_space(r, at + 1);
                key_due = in_object;
                break;
            }
            if (byte != (in_object ? '}' : ']')) return NONE;
            depth--;
            at++;
        }
        if (depth == 0) return at;
    }
}

typedef struct {
    const uint8_t *bytes;
    int64_t size;
} name;

static bool is_name(const reader *r, int64_t at, int64_t stop, name wanted) {
    return stop - at == wanted.size && memcmp(r->out + at, wanted.bytes, (size_t)wanted.size) == 0;
}

// Where the line at `at` ends, NONE if it is in doubt; its text begins and ends in `out`.
static int64_t read_line(const reader *r, int64_t at, name field, name lang_field, int64_t to,
                         int64_t *begin, int64_t *end) {
    *begin = NONE;
    at = skip_space(r, at);
    if (peek(r, at) != '{') return NONE;
    at++;
    for (;;) {
        int64_t key = to, stop = to;
        at = read_key(r, skip_space(r, at), &stop);
        if (at < 0) return NONE;
        bool is_text = is_name(r, key, stop, field);
        bool is_language = is_name(r, key, stop, lang_field);
        if (is_text && *begin >= 0) return NONE;
        if (peek(r, at) == '"') {
            stop = key;
            at = read_string(r, at + 1, &stop);
            if (is_text) {
                *begin = key;
                *end = to = stop;
            } else if (is_language && stop == key) {
                return NONE;
            }
        } else if (is_text || (is_language && peek(r, at) != 'n')) {  // null, if anything
            return NONE;
        } else {
            at = skip_value(r, at, key);
        }
        if (at < 0) return NONE;
        at = skip_space(r, at);
        int byte = peek(r, at++);
        if (byte == '}') break;
        if (byte != ',') return NONE;
    }
    at = skip_space(r, at);
    return *begin >= 0 && peek(r, at) == '\n' ? at : NONE;
}

void mt_read_json_lines(const uint8_t *data, int64_t size, const uint8_t *field, int64_t field_size,
                        const uint8_t *lang_field, int64_t lang_field_size, uint8_t *out,
                        int64_t *starts, int64_t *stops, int64_t *doubts, int64_t *texts,
                        int64_t *doubtful) {
    reader r = {data, size, out};
    name text_name = {field, field_size}, lang_name = {lang_field, lang_field_size};
    int64_t to = 0, line = 0;
    *texts = *doubtful = 0;
    for (int64_t at = 0; at < size; line++) {
        int64_t begin, stop = 0;
        int64_t end = read_line(&r, at, text_name, lang_name, to, &begin, &stop);
        // The UTF-8 test starts after three bytes, which are `{"` and hardly ever not ASCII.
        if (end >= 0 && ((data[at] | data[at + 1] | data[at + 2]) >= 0x80 ||
                         !utf8_from_third(data + at, end - at)))
            end = NONE;
        if (end >= 0) {
            starts[*texts] = begin;
            stops[*texts] = to = stop;
            ++*texts;
        } else {
            end = skip_space(&r, at);
            if (peek(&r, end) != '\n') {
                while (end < size && data[end] != '\n') end++;
                int64_t *row = doubts + 4 * *doubtful;
                row[0] = *texts, row[1] = line, row[2] = at, row[3] = end;
                ++*doubtful;
                ++*texts;
            }
        }
        at = end + 1;
    }
}

bool mt_is_utf8(const uint8_t *data, int64_t size) {
    // Three ASCII bytes come first.
    uint8_t head[2 * LANES + 3] = "   ";
    int64_t first = min64(size, 2 * LANES);
    memcpy(head + 3, data, (size_t)first);
    if (size <= 2 * LANES) return utf8_from_third(head, size + 3);
    // The first sequences alone; what the last three bytes ask for is seen below.
    for (int64_t at = 3; at < first; at++)
        if (is_fault(head + at)) return false;
    int64_t at = LANES;
    for (; at + LANES <= size; at += LANES)
        if (has_fault(data + at)) return false;
    if (has_fault(data + size - LANES)) return false;
    return !(data[size - 1] >= 0xC0 || data[size - 2] >= 0xE0 || data[size - 3] >= 0xF0);
}
