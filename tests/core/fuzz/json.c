#include "fuzz.h"

typedef struct {
    uint8_t *out, *data;
    int64_t *starts, *stops, *doubts;
    int64_t size, texts, doubtful;
} lines;

static lines read_lines(rooms *all, const uint8_t *data, int64_t size) {
    int64_t most = 1;
    for (int64_t i = 0; i < size; i++) most += data[i] == '\n';
    // Nothing is read behind the data.
    lines l = {.data = room(all, size, 1), .out = room(all, size + 64, 1), .size = size};
    if (size) memcpy(l.data, data, (size_t)size);
    l.starts = room(all, most, sizeof(int64_t));
    l.stops = room(all, most, sizeof(int64_t));
    l.doubts = room(all, 4 * most, sizeof(int64_t));
    for (int64_t i = 0; i < most; i++) l.starts[i] = l.stops[i] = -1;
    mt_read_json_lines(l.data, size, (const uint8_t *)"text", 4, (const uint8_t *)"lang", 4, l.out,
                       l.starts, l.stops, l.doubts, &l.texts, &l.doubtful);
    assert(0 <= l.doubtful && l.doubtful <= l.texts && l.texts <= most);
    return l;
}

// Any bytes: texts are inside the buffer, ascending and UTF-8; doubts are lines.
static void read_anything(rooms *all, const uint8_t *data, int64_t size) {
    lines l = read_lines(all, data, size);
    int64_t to = 0, doubt = 0;
    for (int64_t text = 0; text < l.texts; text++) {
        const int64_t *row = l.doubts + 4 * doubt;
        if (doubt < l.doubtful && row[0] == text) {
            assert(0 <= row[2] && row[2] < row[3] && row[3] <= size);
            assert(row[2] == 0 || l.data[row[2] - 1] == '\n');
            assert(row[3] == size || l.data[row[3]] == '\n');
            assert(!memchr(l.data + row[2], '\n', (size_t)(row[3] - row[2])));
            int64_t line = 0;
            for (int64_t i = 0; i < row[2]; i++) line += l.data[i] == '\n';
            assert(row[1] == line);
            doubt++;
            continue;
        }
        assert(to <= l.starts[text] && l.starts[text] <= l.stops[text] && l.stops[text] <= size);
        to = l.stops[text];
        assert(is_utf8(l.out + l.starts[text], to - l.starts[text]));
    }
    assert(doubt == l.doubtful);
}

typedef struct {
    uint8_t *line, *text;
    int64_t end, text_end;
} writer;

static void put(writer *w, const char *bytes) {
    for (; *bytes; bytes++) w->line[w->end++] = (uint8_t)*bytes;
}

static void put_space(writer *w, uint8_t choice) {
    static const char *const spaces[] = {"", "", "", " ", "\t", "\r", "  ", " \t "};
    put(w, spaces[choice & 7]);
}

// A character of the text, spelled in one of the ways of JSON.
static void put_character(writer *w, input *in) {
    static const char *const simple[][2] = {{"\\\"", "\""}, {"\\\\", "\\"}, {"\\/", "/"},
                                            {"\\b", "\b"},  {"\\f", "\f"},  {"\\n", "\n"},
                                            {"\\r", "\r"},  {"\\t", "\t"}};
    uint8_t choice = take(in), value = take(in);
    char spelled[16], plain[8] = {0};
    const char *other = spelled;
    if (choice < 100) {
        if (value < ' ' || value == '"' || value == '\\' || value >= 0x7F) value = 'a';
        plain[0] = spelled[0] = (char)value;
        spelled[1] = 0;
    } else if (choice < 130) {
        other = simple[value & 7][0];
        plain[0] = simple[value & 7][1][0];
    } else if (choice < 160) {  // U+00C0 on, and U+4E00 on
        if (value & 1)
            plain[0] = (char)(0xC3), plain[1] = (char)(0x80 | value >> 2);
        else
            plain[0] = (char)0xE4, plain[1] = (char)0xB8, plain[2] = (char)(0x80 | value >> 2);
        strcpy(spelled, plain);
    } else if (choice < 200) {
        snprintf(spelled, sizeof(spelled), value & 1 ? "\\u00%02X" : "\\u00%02x",
                 0xC0 | value >> 2);
        plain[0] = (char)0xC3, plain[1] = (char)(0x80 | value >> 2);
    } else if (choice < 230) {  // U+10000 + value
        snprintf(spelled, sizeof(spelled), "\\uD800\\udc%02x", value);
        plain[0] = (char)0xF0, plain[1] = (char)0x90;
        plain[2] = (char)(0x80 | value >> 6), plain[3] = (char)(0x80 | (value & 0x3F));
    } else {
        strcpy(plain, "\xF0\x9F\x98\x80");
        strcpy(spelled, plain);
    }
    put(w, other);
    for (int i = 0; plain[i]; i++) w->text[w->text_end++] = (uint8_t)plain[i];
}

static void put_value(writer *w, input *in) {
    static const char *const values[] = {"1",
                                         "-0.5e+7",
                                         "true",
                                         "null",
                                         "[]",
                                         "{}",
                                         "[1, \"\\u0061\", {\"a\": [null]}]",
                                         "\"x\"",
                                         "\"\"",
                                         "0",
                                         "1E2",
                                         "[[[[]]]]",
                                         "{\"text\": \"no\", \"b\":{}}",
                                         "false",
                                         "\"\\\\\"",
                                         "12345678901234567"};
    put(w, values[take(in) & 15]);
}

// Lines of a grammar: what they say is known.
static void read_lines_of_grammar(rooms *all, input in) {
    enum { MOST = 16 };
    int64_t most = 128 + 160 * MOST + 16 * in.size;
    writer w = {.line = room(all, most, 1), .text = room(all, most, 1)};
    int64_t ends[MOST], texts = 0;
    while (in.size && texts < MOST) {
        put_space(&w, take(&in));
        put(&w, "{");
        uint8_t form = take(&in);
        if (form & 1) put(&w, "\"meta\":"), put_value(&w, &in), put(&w, ",");
        if (form & 2) put(&w, form & 4 ? "\"lang\": \"de\" ," : "\"lang\":null,");
        put_space(&w, take(&in));
        put(&w, form & 8 ? "\"t\\u0065xt\"" : "\"text\"");
        put_space(&w, take(&in));
        put(&w, ":");
        put_space(&w, take(&in));
        put(&w, "\"");
        for (int count = take(&in); count > 0 && in.size; count--) put_character(&w, &in);
        put(&w, "\"");
        put_space(&w, take(&in));
        if (form & 16) put(&w, ", \"z\":"), put_value(&w, &in);
        put_space(&w, form >> 5);
        put(&w, "}");
        put_space(&w, take(&in));
        if (in.size) put(&w, form & 32 ? "\n\n" : "\n");
        ends[texts++] = w.text_end;
    }
    assert(w.end <= most);
    lines l = read_lines(all, w.line, w.end);
    assert(l.texts == texts && l.doubtful == 0);
    for (int64_t text = 0, begin = 0; text < texts; begin = ends[text++]) {
        assert(l.stops[text] - l.starts[text] == ends[text] - begin);
        assert(!memcmp(l.out + l.starts[text], w.text + begin, (size_t)(ends[text] - begin)));
    }
}

int fuzz_json(const uint8_t *data, size_t size) {
    rooms all = {.used = 0};
    input in = {data, (int64_t)size};
    if (take(&in) & 1)
        read_lines_of_grammar(&all, in);
    else
        read_anything(&all, in.data, in.size);
    free_rooms(&all);
    return 0;
}
