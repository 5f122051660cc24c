// Words of a pattern by arithmetic on bits: 64 bytes of text at a time.
//
// Bit i of a number says something about byte i of 64: it is a letter, it is white space. Whether a
// word begins at a byte follows from the classes of that byte and of those about it, so a few
// shifts give all the words of 64 bytes at once. Code points beyond ASCII are looked up one by one,
// and GPT-2's contractions are corrected afterwards.
#include "text.h"

enum { WIDTH = 64 };
#define ALL (~UINT64_C(0))

// Which of 64 bytes are ASCII letters, ASCII digits, ASCII white space, spaces, apostrophes, and
// beyond ASCII.
typedef struct {
    uint64_t letters, numbers, spaces, blanks, quotes, beyond;
} text_masks;

// As many bytes as are tested at once, and the bits of those that pass.
#if defined(__AVX512BW__)
#include <immintrin.h>
typedef __m512i lane;
INLINE lane every(uint8_t byte) { return _mm512_set1_epi8((char)byte); }
INLINE uint64_t top_bits(lane bytes) { return _mm512_movepi8_mask(bytes); }
INLINE uint64_t equal(lane bytes, uint8_t byte) {
    return _mm512_cmpeq_epi8_mask(bytes, every(byte));
}
INLINE uint64_t in_range(lane bytes, uint8_t first, uint8_t count) {
    return _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, every(first)), every(count));
}
#else
typedef uint8_t lane __attribute__((vector_size(16)));
#if defined(__SSE2__)
#include <immintrin.h>
INLINE uint64_t top_bits(lane bytes) { return (uint32_t)_mm_movemask_epi8((__m128i)bytes); }
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
INLINE uint64_t top_bits(lane bytes) {
    static const int8_t places[16] = {-7, -6, -5, -4, -3, -2, -1, 0, -7, -6, -5, -4, -3, -2, -1, 0};
    uint8x16_t set = vshlq_u8(vandq_u8((uint8x16_t)bytes, vdupq_n_u8(0x80)), vld1q_s8(places));
    return vaddv_u8(vget_low_u8(set)) | (uint64_t)vaddv_u8(vget_high_u8(set)) << 8;
}
#else
INLINE uint64_t top_bits(lane bytes) {
    uint64_t bits = 0;
    for (int i = 0; i < 16; i++) bits |= (uint64_t)(bytes[i] >> 7) << i;
    return bits;
}
#endif
INLINE lane every(uint8_t byte) { return (lane){0} + byte; }
INLINE uint64_t equal(lane bytes, uint8_t byte) { return top_bits((lane)(bytes == every(byte))); }
INLINE uint64_t in_range(lane bytes, uint8_t first, uint8_t count) {
    return top_bits((lane)(bytes - every(first) < every(count)));
}
#endif

INLINE lane load_lane(const uint8_t *data) {
    lane bytes;
    memcpy(&bytes, data, sizeof(lane));
    return bytes;
}

// Whether testing 64 bytes costs less than a branch about it, which is often mispredicted.
enum { LANE = sizeof(lane), CHEAP = LANE == WIDTH };

INLINE text_masks masks_of(const uint8_t *data) {
    text_masks found = {0};
    for (int at = 0; at < WIDTH; at += LANE) {
        lane bytes = load_lane(data + at);
        found.letters |= in_range(bytes | every(0x20), 'a', 26) << at;
        found.numbers |= in_range(bytes, '0', 10) << at;
        found.spaces |= in_range(bytes, 9, 5) << at;
        found.blanks |= equal(bytes, ' ') << at;
        found.quotes |= equal(bytes, '\'') << at;
        found.beyond |= top_bits(bytes) << at;
    }
    found.spaces |= found.blanks;
    return found;
}

// First bytes of letters of two bytes among 64: U+00C0 to U+02BF but for × and ÷ (with them others
// that end in the same byte are left out), U+0400 to U+047F. The usual ones, but not all there are.
INLINE uint64_t letter_pairs(const uint8_t *data) {
    uint64_t latin = 0, cyrillic = 0, behind = 0, signs = 0;
    for (int at = 0; at < WIDTH; at += LANE) {
        lane bytes = load_lane(data + at);
        latin |= in_range(bytes, 0xC3, 8) << at;
        cyrillic |= in_range(bytes, 0xD0, 2) << at;
        behind |= in_range(bytes, 0x80, 64) << at;
        signs |= equal(bytes | every(0x20), 0xB7) << at;
    }
    return (latin & (behind & ~signs) >> 1) | (cyrillic & behind >> 1);
}

INLINE uint64_t inside_of(int64_t left) { return left >= WIDTH ? ALL : (UINT64_C(1) << left) - 1; }
// Bits of a code point of `size` bytes from `bit` on, and those that reach into the next 64 bytes.
INLINE uint64_t own_bits(int size, int bit) { return ((UINT64_C(1) << size) - 1) << bit; }
INLINE uint64_t over_bits(int size, int bit) {
    return bit + size > WIDTH ? (UINT64_C(1) << (bit + size - WIDTH)) - 1 : 0;
}
// Of the byte before bit i, and of the one before that; `last`: the same mask of the 64 before.
INLINE uint64_t one_back(uint64_t mask, uint64_t last) { return mask << 1 | last >> 63; }
INLINE uint64_t two_back(uint64_t mask, uint64_t last) { return mask << 2 | last >> 62; }

// Appends the places of the bits of `begins`, from `base` on, to ends[:words]; gives their number.
// Without a loop that ends with the bits, which is mispredicted: fewer than MT_ENDS numbers more
// are written.
INLINE int64_t write_ends(uint64_t begins, int64_t base, int32_t *ends, int64_t words) {
#if defined(__AVX512BW__)
    __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    places = _mm512_add_epi32(places, _mm512_set1_epi32((int32_t)base));
    for (int part = 0; part < 4; part++, begins >>= 16) {
        __mmask16 here = (__mmask16)begins;
        _mm512_storeu_si512(ends + words, _mm512_maskz_compress_epi32(here, places));
        words += __builtin_popcount(here);
        places = _mm512_add_epi32(places, _mm512_set1_epi32(16));
    }
    return words;
#else
    int64_t total = words + __builtin_popcountll(begins);
    for (; begins; words += 8)
        for (int64_t i = 0; i < 8; i++, begins &= begins - 1)
            ends[words + i] = (int32_t)(base + trailing_zeros(begins | UINT64_C(1) << 63));
    return total;
#endif
}

// A word begins where the class changes, except after a single space (0x20 with no white space
// before it), which belongs to what follows.
int64_t bpe_split_block(const mt_splitter *splitter, const uint8_t *data, int64_t start,
                        int64_t stop, int32_t *ends) {
    (void)splitter;
    int64_t length = stop - start, words = 0;
    uint64_t last_letters = 0, last_numbers = 0, last_spaces = 0, last_others = 0, last_blanks = 0;
    uint64_t ahead = 0, next_letters = 0, next_numbers = 0, next_spaces = 0;
    for (int64_t base = 0; base < length; base += WIDTH) {
        uint64_t inside = inside_of(length - base);
        text_masks here = masks_of(data + start + base);
        uint64_t letters = here.letters, numbers = here.numbers, spaces = here.spaces;
        uint64_t beyond = here.beyond & inside;
        if (beyond || CHEAP) {
            uint64_t pairs = letter_pairs(data + start + base) & inside >> 1;
            letters |= pairs | pairs << 1;
            beyond &= ~(pairs | pairs << 1);
        }
        if (beyond | ahead) {
            letters = (letters & ~ahead) | next_letters;
            numbers = (numbers & ~ahead) | next_numbers;
            spaces = (spaces & ~ahead) | next_spaces;
            beyond &= ~ahead;
            ahead = next_letters = next_numbers = next_spaces = 0;
            while (beyond) {
                int bit = trailing_zeros(beyond);
                code_point point = class_at(data, start + base + bit, stop, class_table);
                uint64_t own = own_bits(point.size, bit), over = over_bits(point.size, bit);
                if (over) ahead = over;
                beyond &= ~own;
                int kind = point.kind;
                if (kind == MARK) {  // it joins a run of symbols, else it counts as a letter
                    uint64_t symbol = last_others >> 63;
                    if (bit) symbol = ~(letters | numbers | spaces) >> (bit - 1) & 1;
                    kind = symbol ? OTHER : LETTER;
                }
                letters &= ~own;
                numbers &= ~own;
                spaces &= ~own;
                if (kind == LETTER) {
                    letters |= own;
                    next_letters = over;
                } else if (kind == NUMBER) {
                    numbers |= own;
                    next_numbers = over;
                } else if (kind == SPACE) {
                    spaces |= own;
                    next_spaces = over;
                }
            }
        }
        uint64_t others = ~(letters | numbers | spaces);
        uint64_t same = letters & one_back(letters, last_letters);
        same |= numbers & one_back(numbers, last_numbers);
        same |= spaces & one_back(spaces, last_spaces);
        same |= others & one_back(others, last_others);
        uint64_t begins =
            ~same & inside & (~one_back(here.blanks, last_blanks) | two_back(spaces, last_spaces));
        if (base == 0) begins &= ~UINT64_C(1);  // the first word's own beginning is no end
        words = write_ends(begins, base, ends, words);
        last_letters = letters, last_numbers = numbers, last_spaces = spaces;
        last_others = others, last_blanks = here.blanks;
    }
    ends[words] = (int32_t)length;
    return words + 1;
}

int64_t unigram_words(const uint8_t *data, int64_t start, int64_t stop, int32_t *ends) {
    int64_t length = stop - start, words = 0;
    uint64_t last_numbers = 0, last_white = 0, last_blanks = 0;
    for (int64_t base = 0; base < length; base += WIDTH) {
        text_masks here = masks_of(data + start + base);
        uint64_t white = here.spaces & ~here.blanks;
        uint64_t begins = here.numbers | one_back(here.numbers, last_numbers);
        begins |= white ^ one_back(white, last_white);
        // A space begins a word unless it follows one; it belongs to the word after it.
        begins |= here.blanks & ~one_back(here.blanks, last_blanks);
        begins &= inside_of(length - base);
        if (base == 0) begins &= ~UINT64_C(1);
        words = write_ends(begins, base, ends, words);
        last_numbers = here.numbers, last_white = white, last_blanks = here.blanks;
    }
    ends[words] = (int32_t)length;
    return words + 1;
}

// Beginnings of words, but for contractions, as bits: bit i of begins[j] is of byte 64 j + i - 1.
// `quoted`: those of words that begin with an apostrophe; `blocks`: the j with such words, whose
// number is given.
static int64_t gpt2_begins(const uint8_t *data, int64_t start, int64_t stop, const uint8_t *table,
                           bool digits, uint64_t *all, uint64_t *quoted, int32_t *blocks) {
    int64_t length = stop - start, listed = 0;
    // Of the 64 bytes before. Of code points that reach into the next 64: `ahead` bits are known,
    // and what they are.
    uint64_t last_letters = 0, last_numbers = 0, last_spaces = 0, last_others = 0, last_blanks = 0;
    uint64_t last_quotes = 0, last_inner = 0, last_forced = 0;
    uint64_t ahead = 0, next_letters = 0, next_numbers = 0, next_spaces = 0, next_inner = 0;
    for (int64_t base = 0; base <= length; base += WIDTH) {
        uint64_t inside = inside_of(length - base);
        text_masks here = masks_of(data + start + base);
        uint64_t letters = here.letters & inside, numbers = here.numbers & inside;
        uint64_t spaces = here.spaces & inside, blanks = here.blanks & inside;
        uint64_t quotes = here.quotes & inside, beyond = here.beyond & inside;
        uint64_t inner = next_inner, forced = 0;
        if (beyond || CHEAP) {
            uint64_t pairs = letter_pairs(data + start + base) & inside >> 1;
            letters |= pairs | pairs << 1;
            beyond &= ~(pairs | pairs << 1);
        }
        if (beyond | ahead) {
            letters |= next_letters;
            numbers |= next_numbers;
            spaces |= next_spaces;
            beyond &= ~ahead;
            ahead = next_letters = next_numbers = next_spaces = next_inner = 0;
            while (beyond) {
                int bit = trailing_zeros(beyond);
                int64_t at = start + base + bit;
                code_point point = class_at(data, at, stop, table);
                uint64_t own = own_bits(point.size, bit), over = over_bits(point.size, bit);
                if (over) ahead = over;
                beyond &= ~own;
                if (point.kind == LETTER) {
                    letters |= own;
                    next_letters |= over;
                } else if (point.kind == NUMBER) {
                    numbers |= own;
                    next_numbers |= over;
                    inner |= own & own << 1;
                    next_inner |= over;
                } else if (point.kind == SPACE) {
                    spaces |= own;
                    next_spaces |= over;
                    inner |= own & own << 1;
                    next_inner |= over;
                    if (at + point.size < stop) {  // the last of a run of white space begins a word
                        int after = class_at(data, at + point.size, stop, table).kind;
                        if (after != SPACE && !(digits && after == NUMBER))
                            forced |= own & ~(own << 1);
                    }
                }
            }
        } else {
            next_inner = 0;
        }
        spaces |= ~inside;  // white space at the end of the text is one word
        uint64_t others = ~(letters | numbers | spaces);
        uint64_t letters_1 = one_back(letters, last_letters);
        uint64_t numbers_1 = one_back(numbers, last_numbers);
        uint64_t spaces_1 = one_back(spaces, last_spaces);
        uint64_t others_1 = one_back(others, last_others);
        uint64_t inner_1 = one_back(inner, last_inner);
        uint64_t spaces_2 = two_back(spaces, last_spaces);
        uint64_t blanks_2 = two_back(blanks, last_blanks);
        uint64_t continued = (letters_1 & two_back(letters, last_letters)) |
                             (others_1 & two_back(others, last_others));
        uint64_t begins;
        if (digits) {  // no space goes with a number
            begins = (letters_1 | others_1) & ~continued & ~blanks_2;
            begins |= numbers_1 & ~inner_1;
            begins |= spaces_1 & ~inner_1 & (~spaces_2 | ~(spaces | numbers));
        } else {
            continued |= numbers_1 & two_back(numbers, last_numbers);
            begins = ~spaces_1 & ~continued & ~blanks_2;
            begins |= spaces_1 & ~inner_1 & (~spaces_2 | ~spaces);
        }
        begins |= one_back(forced, last_forced);
        if (base == 0) begins = (begins & ~UINT64_C(1)) | 2;
        begins &= inside << 1 | 1;
        int64_t block = base / WIDTH;
        all[block] = begins;
        quoted[block] = begins & one_back(quotes, last_quotes);
        blocks[listed] = (int32_t)block;
        listed += quoted[block] != 0;
        last_letters = letters, last_numbers = numbers, last_spaces = spaces, last_others = others;
        last_blanks = blanks, last_quotes = quotes, last_inner = inner, last_forced = forced;
    }
    return listed;
}

// With `digits`, each number is a word of its own, as in SmolLM's pattern. The last word, and
// whether an apostrophe in the last three bytes begins one, depend on `stop` being the end of the
// text.
int64_t gpt2_words(const uint8_t *data, int64_t start, int64_t stop, const uint8_t *table,
                   int32_t *ends, bool digits) {
    uint64_t begins[MT_BLOCK / WIDTH + 2], quoted[MT_BLOCK / WIDTH + 1];
    int32_t blocks[MT_BLOCK / WIDTH + 2];
    int64_t length = stop - start, words = 0;
    begins[0] = begins[length / WIDTH + 1] = 0;
    int64_t listed = gpt2_begins(data, start, stop, table, digits, begins, quoted, blocks);
    for (int64_t i = 0; i < listed; i++) {  // without branches that depend on the text
        for (uint64_t bits = quoted[blocks[i]]; bits; bits &= bits - 1) {
            int64_t quote = WIDTH * (int64_t)blocks[i] + trailing_zeros(bits) - 1;
            int64_t size = contraction(data, start + quote, stop, false), end = quote + size + 1;
            uint64_t some = size > 0;
            begins[(quote + 2) / WIDTH] &= ~(some << (quote + 2) % WIDTH);
            begins[end / WIDTH] |= (some & (end <= length)) << end % WIDTH;
        }
    }
    begins[0] &= ~UINT64_C(3);  // the first word's own beginning is no end
    for (int64_t base = 0; base <= length; base += WIDTH)
        words = write_ends(begins[base / WIDTH], base - 1, ends, words);
    ends[words] = (int32_t)length;
    return words + 1;
}
