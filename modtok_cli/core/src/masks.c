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

typedef uint8_t lane __attribute__((vector_size(16)));
typedef int8_t signed_lane __attribute__((vector_size(16)));

#if defined(__AVX512BW__)
#include <immintrin.h>

INLINE text_masks masks_of(const uint8_t *data) {
    __m512i bytes = _mm512_loadu_si512(data);
    __m512i lower = _mm512_or_si512(bytes, _mm512_set1_epi8(0x20));
    text_masks found;
    found.letters =
        _mm512_cmplt_epu8_mask(_mm512_sub_epi8(lower, _mm512_set1_epi8('a')), _mm512_set1_epi8(26));
    found.numbers =
        _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8('0')), _mm512_set1_epi8(10));
    found.spaces =
        _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8(9)), _mm512_set1_epi8(5));
    found.blanks = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(' '));
    found.quotes = _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8('\''));
    found.beyond = _mm512_movepi8_mask(bytes);
    found.spaces |= found.blanks;
    return found;
}
#else
#if defined(__SSE2__)
#include <immintrin.h>
INLINE uint64_t bits16(lane test) { return (uint32_t)_mm_movemask_epi8((__m128i)test); }
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
INLINE uint64_t bits16(lane test) {
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t set = vandq_u8((uint8x16_t)test, vld1q_u8(weights));
    return vaddv_u8(vget_low_u8(set)) | (uint64_t)vaddv_u8(vget_high_u8(set)) << 8;
}
#else
INLINE uint64_t bits16(lane test) {
    uint64_t found = 0;
    for (int i = 0; i < 16; i++) found |= (uint64_t)(test[i] & 1) << i;
    return found;
}
#endif

INLINE lane every(uint8_t byte) { return (lane){0} + byte; }

INLINE text_masks masks_of(const uint8_t *data) {
    text_masks found = {0};
    for (int part = 0; part < 4; part++) {
        lane bytes;
        memcpy(&bytes, data + 16 * part, 16);
        lane lower = bytes | every(0x20);
        int shift = 16 * part;
        found.letters |= bits16((lane)(lower - every('a') < every(26))) << shift;
        found.numbers |= bits16((lane)(bytes - every('0') < every(10))) << shift;
        found.spaces |= bits16((lane)(bytes - every(9) < every(5))) << shift;
        found.blanks |= bits16((lane)(bytes == every(' '))) << shift;
        found.quotes |= bits16((lane)(bytes == every('\''))) << shift;
        found.beyond |= bits16((lane)((signed_lane)bytes < 0)) << shift;
    }
    found.spaces |= found.blanks;
    return found;
}
#endif

INLINE uint64_t inside_of(int64_t left) { return left >= WIDTH ? ALL : (UINT64_C(1) << left) - 1; }
// Bits of a code point of `size` bytes from `bit` on, and those that reach into the next 64 bytes.
INLINE uint64_t own_bits(int size, int bit) { return ((UINT64_C(1) << size) - 1) << bit; }
INLINE uint64_t over_bits(int size, int bit) {
    return bit + size > WIDTH ? (UINT64_C(1) << (bit + size - WIDTH)) - 1 : 0;
}
// Of the byte before bit i, and of the one before that; `last`: the same mask of the 64 before.
INLINE uint64_t one_back(uint64_t mask, uint64_t last) { return mask << 1 | last >> 63; }
INLINE uint64_t two_back(uint64_t mask, uint64_t last) { return mask << 2 | last >> 62; }

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
        for (; begins; begins &= begins - 1)
            ends[words++] = (int32_t)(base + trailing_zeros(begins));
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
        for (; begins; begins &= begins - 1)
            ends[words++] = (int32_t)(base + trailing_zeros(begins));
        last_numbers = here.numbers, last_white = white, last_blanks = here.blanks;
    }
    ends[words] = (int32_t)length;
    return words + 1;
}

// With `digits`, each number is a word of its own, as in SmolLM's pattern. The last word, and
// whether an apostrophe in the last three bytes begins one, depend on `stop` being the end of the
// text.
int64_t gpt2_words(const uint8_t *data, int64_t start, int64_t stop, const uint8_t *table,
                   int32_t *ends, bool digits) {
    int64_t length = stop - start, words = 0;
    // Of the 64 bytes before. Of code points that reach into the next 64: `ahead` bits are known,
    // and what they are.
    uint64_t last_letters = 0, last_numbers = 0, last_spaces = 0, last_others = 0, last_blanks = 0;
    uint64_t last_quotes = 0, last_inner = 0, last_forced = 0;
    uint64_t ahead = 0, next_letters = 0, next_numbers = 0, next_spaces = 0, next_inner = 0;
    uint64_t added = 0, removed = 0;  // beginnings in the next 64, by contractions
    for (int64_t base = 0; base <= length; base += WIDTH) {
        uint64_t inside = inside_of(length - base);
        text_masks here = masks_of(data + start + base);
        uint64_t letters = here.letters & inside, numbers = here.numbers & inside;
        uint64_t spaces = here.spaces & inside, blanks = here.blanks & inside;
        uint64_t quotes = here.quotes & inside, beyond = here.beyond & inside;
        uint64_t inner = next_inner, forced = 0;
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
        begins = (begins & ~removed) | added;
        added = removed = 0;
        for (uint64_t found = begins & one_back(quotes, last_quotes); found; found &= found - 1) {
            int bit = trailing_zeros(found);
            int size = (int)contraction(data, start + base + bit - 1, stop, false);
            if (!size) continue;
            if (bit + 1 < WIDTH)
                begins &= ~(UINT64_C(1) << (bit + 1));
            else
                removed |= 1;
            if (bit + size < WIDTH)
                begins |= UINT64_C(1) << (bit + size);
            else
                added |= UINT64_C(1) << (bit + size - WIDTH);
        }
        if (base == 0) begins &= ~UINT64_C(2);  // the first word's own beginning is no end
        begins &= inside << 1 | 1;
        for (; begins; begins &= begins - 1)
            ends[words++] = (int32_t)(base - 1 + trailing_zeros(begins));
        last_letters = letters, last_numbers = numbers, last_spaces = spaces, last_others = others;
        last_blanks = blanks, last_quotes = quotes, last_inner = inner, last_forced = forced;
    }
    ends[words] = (int32_t)length;
    return words + 1;
}
