// The native core of modtok: bytes and counts in; words, ids, merges and counts out.
//
// It knows no files, languages or Python objects. Every function may be called by any thread; a
// handle by one thread at a time unless it says otherwise. Sizes are in items, not bytes, unless
// they are called bytes. A function that gives `int` returns MT_OK or an error below.
//
// A text buffer goes on for MT_PADDING bytes behind the last text: loops read 64 bytes at a time,
// and what is there has no effect. Texts may hold any bytes; those that are not UTF-8 are symbols.
#ifndef MODTOK_H
#define MODTOK_H

#include <stdbool.h>
#include <stdint.h>

#if defined(_WIN32)
#define MT_API __declspec(dllexport)
#else
#define MT_API __attribute__((visibility("default")))
#endif

// A fuzzer reaches every edge sooner where blocks and tables are small.
#ifdef MT_SMALL
#define MT_SIZE(usual, small) (small)
#else
#define MT_SIZE(usual, small) (usual)
#endif

enum { MT_PADDING = 64, MT_ENDS = 16, MT_CODE_POINTS = 0x110000 };
enum { MT_BLOCK = MT_SIZE(1 << 15, 128) };
enum { MT_OK = 0, MT_NO_MEMORY = -1, MT_INVALID = -2, MT_FULL = -3 };

// --- the library ---

MT_API int mt_version(void);
// Tables of code points; before everything else, once.
MT_API void mt_start(void);
// Instruction set of this processor: 2, 3 or 4 of x86-64 (4: AVX-512), else 0.
MT_API int mt_processor(void);
// Instruction set that this library was compiled for, as mt_processor.
MT_API int mt_compiled_for(void);

// --- text to words ---

typedef struct mt_splitter mt_splitter;
// End of the word that begins at `start` (start < stop); text ends at `stop`.
typedef int64_t mt_word_end(const mt_splitter *, const uint8_t *data, int64_t start, int64_t stop);
// Ends of the words of data[start:stop], relative to `start`; gives their number. The last one need
// not be right. `ends` has room for stop - start + MT_ENDS; what is behind the last has no meaning.
typedef int64_t mt_split_block(const mt_splitter *, const uint8_t *data, int64_t start,
                               int64_t stop, int32_t *ends);

// How text is split. `split_block` is NULL where only `word_end` is known; `lookahead`: bytes
// behind the end of a word on which it may depend, beside the next word; `filter` and `shift`: of
// superwords, see chunks.c.
struct mt_splitter {
    mt_word_end *word_end;
    mt_split_block *split_block;
    int64_t lookahead;
    const uint8_t *filter;
    int64_t shift;
};

// How a pre-tokenizer is written in a tokenizer.json.
enum { MT_SPLIT, MT_BYTE_LEVEL, MT_DIGITS_BYTE_LEVEL };

// A pre-tokenizer. `pattern` is a regular expression of Oniguruma whose matches are the words and
// cover the text; `llama_cpp` is its name there, NULL if it has none.
typedef struct {
    const char *name;
    const char *pattern;
    const char *llama_cpp;
    int64_t json_form;
    mt_splitter splitter;
} mt_pretokenizer;

// All of src/pretokenizers, in alphabetical order; NULL ends the list.
MT_API const mt_pretokenizer *const *mt_pretokenizers(void);
// The splitter of a vocabulary with superwords; see chunks.c.
MT_API mt_splitter mt_chunk_splitter(const uint8_t *filter, int64_t shift);
// Class of every code point, MT_CODE_POINTS of them: 0 other, 1 letter, 2 number, 3 white space,
// 4 mark; with `cases` also 5 upper case and 6 lower case.
MT_API const uint8_t *mt_classes(bool cases);
// Ends of all words of data[0:size] into `ends`, which has room for `size`; gives their number.
MT_API int64_t mt_split(const mt_splitter *, const uint8_t *data, int64_t size, int64_t *ends);
// Whether data[0:size] is UTF-8.
MT_API bool mt_is_utf8(const uint8_t *data, int64_t size);

// The text of every line of JSON of data[0:size], unescaped, into `out`, which has room for
// size + 64 bytes. Text d is out[starts[d]:stops[d]]. A line that is not an object of valid JSON
// in UTF-8 with one text in `field` and, if any, a string or null in `lang_field` is in doubt: its
// text is kept free, and a row of `doubts` (n, 4) says d, the line from 0, its begin, its end.
// Blank lines are passed over. starts, stops and doubts have room for all lines.
MT_API void mt_read_json_lines(const uint8_t *data, int64_t size, const uint8_t *field,
                               int64_t field_size, const uint8_t *lang_field,
                               int64_t lang_field_size, uint8_t *out, int64_t *starts,
                               int64_t *stops, int64_t *doubts, int64_t *texts, int64_t *doubtful);
// A 64-bit hash of each data[starts[i]:stops[i]].
MT_API void mt_hash_spans(const uint8_t *data, int64_t spans, const int64_t *starts,
                          const int64_t *stops, uint64_t *hashes);
// The spans one after the other into `out`, from the places that `offsets` says.
MT_API void mt_copy_spans(const uint8_t *data, int64_t spans, const int64_t *starts,
                          const int64_t *offsets, uint8_t *out);

// --- counts of words ---

typedef struct mt_counter mt_counter;

MT_API mt_counter *mt_counter_new(void);
MT_API void mt_counter_free(mt_counter *);
// Adds weights[d] (1 if NULL) to each word of data[starts[d]:stops[d]], for every document. With
// `most` above 0, stops with MT_FULL where the table would take more bytes than that; list and
// clear it, and call again with the same arguments to go on.
MT_API int mt_counter_add(mt_counter *, const mt_splitter *, const uint8_t *data, int64_t documents,
                          const int64_t *starts, const int64_t *stops, const int64_t *weights,
                          int64_t most);
// Words in the table, their bytes, and bytes of memory.
MT_API void mt_counter_sizes(const mt_counter *, int64_t *words, int64_t *bytes, int64_t *held);
// The words in ascending byte order, words + 1 offsets, and their counts.
MT_API int mt_counter_list(const mt_counter *, uint8_t *data, int64_t *offsets, int64_t *counts);
MT_API void mt_counter_clear(mt_counter *);

// The union of two sorted tables of words; counts of words in both are added. Outputs have room for
// both; gives the number of words.
MT_API int64_t mt_merge_counts(const uint8_t *a_data, const int64_t *a_offsets,
                               const int64_t *a_counts, int64_t a_words, const uint8_t *b_data,
                               const int64_t *b_offsets, const int64_t *b_counts, int64_t b_words,
                               uint8_t *data, int64_t *offsets, int64_t *counts);
// Index of the first word that does not sort after the one before it; -1 if none.
MT_API int64_t mt_first_disorder(const uint8_t *data, const int64_t *offsets, int64_t words);

// --- tries ---

typedef struct mt_trie mt_trie;

// A double array (common.h) of pieces in any order; piece i has the id ids[i], 0 to 2^27 - 2. NULL
// without memory or for a piece that is empty or occurs twice, whose index is then *wrong, else -1.
MT_API mt_trie *mt_trie_new(const uint8_t *data, const int64_t *offsets, int64_t pieces,
                            const int64_t *ids, int64_t *wrong);
MT_API void mt_trie_free(mt_trie *);
// Its units and their number.
MT_API const uint64_t *mt_trie_units(const mt_trie *, int64_t *size);

// --- merges ---

// A table of merges by pair. See common.h for its layout.
typedef struct {
    uint64_t *table;
    uint64_t mask;  // number of buckets - 1, a power of two
} mt_pairs;

// The table of merges (n, 3): left, right, result; the row is the rank. If a pair occurs twice, its
// lower rank counts.
MT_API mt_pairs *mt_pairs_new(const int32_t *merges, int64_t total);
// Adds merges[first:total] to a table that has merges[:first]; it may be made anew.
MT_API int mt_pairs_extend(mt_pairs *, const int32_t *merges, int64_t total, int64_t first);
MT_API void mt_pairs_free(mt_pairs *);
// What each sequence symbols[offsets[i]:offsets[i + 1]] merges to, and the rank of the merge that
// is applied last. The result is -1 if more than one symbol is left or one is -1; the rank is -1
// if no merge was applied.
MT_API int mt_last_merges(const mt_pairs *, const int32_t *symbols, const int64_t *offsets,
                          int64_t count, int32_t *results, int32_t *last);

// --- words to ids ---

// How words are segmented. By merges where `pairs` is given, else by search over `units`.
typedef struct {
    // Merges start from byte_ids (256,), -1 for a byte that is left out; or from characters
    // (MT_CODE_POINTS,), -1 where bytes spell one, NULL if bytes spell all text. Of an adopted
    // tokenizer, added tokens are found first, at each position the longest: their trie, or NULL,
    // and their ids by number, -1 for those that a text never contains as such. `units`: a double
    // array of words that are tokens before anything is merged, or NULL.
    const mt_pairs *pairs;
    const int32_t *byte_ids;
    const int32_t *characters;
    const uint64_t *added_units;
    const int32_t *added;
    // Search: a double array of all pieces, their scores, and 1 for those that may be used. Of all
    // paths the one of the fewest `each` × tokens, then of the greatest sum of scores; of equal
    // ones that with the longer last piece. With `fallback`, a character that no piece spells alone
    // is written in bytes, with the score `unknown`. `local`: ids to give, NULL for those of the
    // trie.
    const uint64_t *units;
    const double *scores;
    const uint8_t *active;
    const int32_t *local;
    double unknown;
    int64_t each;
    int64_t fallback;
    // With `keys`, one of each word: each time that a merge would be the next one, and each piece
    // of several characters at each place, is left out with the chance `dropout`. A merge that is
    // left out waits for the next one. The key decides. NULL in an encoder.
    const uint64_t *keys;
    double dropout;
} mt_segmenter;

// Scores for the fewest tokens: floor(16 log2(1 + 2 n)) of each count, 0 to 2^62 - 1, into `out`.
MT_API void mt_likelihoods(const int64_t *counts, int64_t total, int32_t *out);

// Ids of each data[starts[i]:stops[i]], taken as one word: room for as many ids as bytes, and
// words + 1 offsets. A word that cannot be spelled gives -1 for each byte.
MT_API int mt_segment(const mt_segmenter *, const uint8_t *data, int64_t words,
                      const int64_t *starts, const int64_t *stops, int32_t *ids, int64_t *offsets);

// A splitter and a segmenter with a cache of words; for any number of threads at once. What the two
// point to must stay as it is while the encoder lives.
typedef struct mt_encoder mt_encoder;

MT_API mt_encoder *mt_encoder_new(const mt_splitter *, const mt_segmenter *);
MT_API void mt_encoder_free(mt_encoder *);
// Another segmenter that gives the same ids; calls in progress may still use the one before.
MT_API void mt_encoder_change(mt_encoder *, const mt_segmenter *);
// Ids of texts data[offsets[i]:offsets[i + 1]] into ids, which has room for their bytes + 3, and
// their offsets (texts + 1).
MT_API int mt_encode(mt_encoder *, const uint8_t *data, const int64_t *offsets, int64_t texts,
                     int32_t *ids, int64_t *id_offsets);
// Be ready for the words of so many bytes of text.
MT_API int mt_encoder_expect(mt_encoder *, int64_t bytes);
// Free the cache.
MT_API void mt_encoder_forget(mt_encoder *);
// So far: bytes and number of words that were segmented, calls of the segmenter, slots of the
// cache.
typedef struct {
    int64_t bytes, words, calls, slots;
} mt_encoder_work;
MT_API mt_encoder_work mt_encoder_spent(mt_encoder *);
// Sizes of the cache, in slots: at first, and when that is full; powers of two above 1. For tests.
MT_API void mt_encoder_cache_sizes(mt_encoder *, int64_t first, int64_t most);

// --- learning merges ---

typedef struct mt_learner mt_learner;

// T, and what a language has of it: token_data, token_offsets (tokens + 1), merges (n, 3), member
// (tokens) and merge_member (n); the first `specials` tokens are never the result of a merge.
// `slots` (2^n): an index of T's strings that mt_learner_view gave, or NULL.
MT_API mt_learner *mt_learner_new(const uint8_t *token_data, const int64_t *token_offsets,
                                  int64_t tokens, int64_t specials, const int32_t *merges,
                                  int64_t merge_total, const uint8_t *member,
                                  const uint8_t *merge_member, const int32_t *slots,
                                  int64_t slot_count);
MT_API void mt_learner_free(mt_learner *);

// Runs the loop of Algorithm 2 for one language whose unique words are symbols[word_offsets[w]:
// word_offsets[w + 1]] with word_counts[w]. budget: |V_i| to reach; floor: least count of a pair
// that is kept track of, which affects time and memory only; most_unspaced: characters of scripts
// without spaces in a token that is merged, at most. After an error what was learned is of no use.
// signal[0] is set to |V_i| as it grows; a signal[1] that is not 0 stops the loop.
MT_API int mt_learn(mt_learner *, const int32_t *symbols, const int64_t *word_offsets,
                    const int64_t *word_counts, int64_t words, int64_t budget, int64_t floor,
                    int64_t most_unspaced, int64_t *signal);

// What a learner holds; valid until it is changed or freed. frequency: how often each token occurs
// in the final segmentation. work: pairs counted, positions of lists visited, pairs joined, rows of
// the table looked up for that, entries of the heap looked at.
typedef struct {
    const uint8_t *token_data;
    const int64_t *token_offsets;
    const int32_t *merges;
    const uint8_t *member;
    const uint8_t *merge_member;
    const int64_t *frequency;
    const int32_t *slots;
    int64_t tokens, merge_total, slot_count, adopted;
    int64_t work[5];
} mt_learner_contents;
MT_API mt_learner_contents mt_learner_view(const mt_learner *);

// --- Unigram and fewest tokens ---

// The E-step: adds the expected counts of words first … last - 1 to `table` (V + 1, 2), and gives
// their log-likelihood. In row v + 1 the weight of piece v, p(v) exp(log_scale) for each of its
// bytes, and its expected count; row 0 is 0. byte_entries (256,): rows of the bytes, which spell
// characters that are no piece. Words are whole UTF-8 characters, sorted for speed.
MT_API int mt_expect(const uint8_t *data, const int64_t *offsets, const double *counts,
                     int64_t first, int64_t last, const uint64_t *units, double *table,
                     const int32_t *byte_entries, double log_scale, double *likelihood);

// How many more tokens the words need without each single removable token, with segmentation into
// the fewest tokens of those that are active, every byte among them: losses (V,), 0 for tokens that
// are not removable; token_counts (V,), how often each token is used; total, tokens of all words.
MT_API int mt_removal_losses(const uint8_t *data, const int64_t *offsets, const int64_t *counts,
                             int64_t words, const uint64_t *units, const double *scores,
                             int64_t vocabulary, const uint8_t *active, const uint8_t *removable,
                             int64_t *losses, int64_t *token_counts, int64_t *total);

// --- rows of tables in host memory, by so many threads ---

// One step of row-sparse AdamW in place. weight (R, width) float32; moments and gradients float32
// or the bits of bfloat16; steps (R,): updates of each row; rows (n,), unique; gradients (n,
// width). Blocks of 16 neighbouring rows take turns: a row has the same thread in each step.
typedef struct {
    float *weight;
    void *moment1, *moment2;
    int32_t *steps;
    const int64_t *rows;
    const void *gradients;
    int64_t total, width;
    int64_t moments_bf16, gradients_bf16;
    int64_t threads;
    double lr, beta1, beta2, epsilon, decay;
} mt_rows_update;
MT_API void mt_update_rows(const mt_rows_update *);
// weight[rows[i]] to out[i]; out (n, width) float32 or the bits of bfloat16.
MT_API void mt_copy_rows(const float *weight, int64_t width, const int64_t *rows, int64_t total,
                         void *out, bool bf16, int64_t threads);
// Zeros to all rows, each by the thread that updates it: a page is on the NUMA node that writes to
// it first.
MT_API void mt_touch_rows(uint8_t *array, int64_t rows, int64_t row_bytes, int64_t threads);

#endif
