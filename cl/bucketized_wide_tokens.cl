// Builds tables of 64-bit keys or values without 64-bit atomics: the rule of bucketized_wide.cl, by tokens of 32 bits.
//
//   lines_place_tokens   an item a row    offers its token, and whom it displaces, until one rests in an empty slot
//   lines_of_tokens      an item a line   words and values of its tokens, in descending order of the words
//
// and lines_copies of bucketized_wide.cl.
//
// A token is [age][row]. Both determine the word that the row's key has at this age, so tokens compete by their words,
// and an exchange that finds the same token finds the same word. Ages begin at 1: an empty slot is 0. A slot is
// token `line * KOEL_SLOTS + slot`.

#define ROW_BITS (32 - KOEL_AGE_BITS)
#define ROW_OF(token) ((token) & ((1u << ROW_BITS) - 1))
// A token that no row has: its age is that of tombstones.
#define TOKEN_COPY ((KOEL_MAX_AGE + 1u) << ROW_BITS)

#define ROWS functions f, ulong4 mixer, uint buckets, __global const key_type *keys
#define THE_ROWS f, mixer, buckets, keys

static inline line_home home_of_token(ROWS, uint token) {
    return home_of_line_key(f, mixer, buckets, keys[ROW_OF(token)]);
}

static inline word_type word_of_token(ROWS, uint token) {
    return token ? line_word(token >> ROW_BITS, home_of_token(THE_ROWS, token).remainder) : 0;
}

// Offers a token to a line: what is left without a slot is the token itself, the one that it displaced, or TOKEN_COPY.
// Proofs: bucketized_canonical.cl.
static inline uint offer_token(ROWS, __global uint *line, uint token, word_type mine) {
    for (;;) {
        word_type least = 0;
        uint least_token = 0, at = 0;
        bool copy = false;
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            uint there = seen32(&line[j]);
            word_type word = word_of_token(THE_ROWS, there);
            copy |= word == mine;
            bool less = j == 0 || word < least;
            least = less ? word : least;
            least_token = less ? there : least_token;
            at = less ? j : at;
        }
        if (copy) return TOKEN_COPY;
        if (least > mine) return token;
        if (atomic_cmpxchg(&line[at], least_token, token) == least_token) return least_token;
    }
}

__kernel GROUP_SIZE void lines_place_tokens(__global uint *tokens, LINE_TABLE, __global const key_type *keys,
                                            const ulong count, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < count) {
        uint row = (uint)item, age = 1;
        line_home home = home_of_token(THE_ROWS, row);
        while (age <= KOEL_MAX_AGE) {
            uint line = line_for(f, turn_of(age), home, buckets), token = age << ROW_BITS | row;
            uint left = offer_token(THE_ROWS, tokens + first_slot(line), token, line_word(age, home.remainder));
            if (left == TOKEN_COPY) count_wide_copy(tally, status, keys[row]);
            if (left == TOKEN_COPY || left == 0) break;
            if (left != token) {
                row = ROW_OF(left);
                age = left >> ROW_BITS;
                home = home_of_token(THE_ROWS, row);
            }
            age++;
        }
        if (age > KOEL_MAX_AGE) count_unplaced(tally);
    }
    report_tally(tally, status);
}

// The image is zeros. Equal words are those of copies: then the image is discarded.
__kernel GROUP_SIZE void lines_of_tokens(__global word_type *words, LINE_TABLE, __global const key_type *keys,
                                         __global const value_type *values, __global const uint *tokens) {
    functions f = {forth, back};
    ulong line = get_global_id(0);
    if (line >= buckets) return;
    word_type here[KOEL_SLOTS];
    for (uint j = 0; j < KOEL_SLOTS; j++) here[j] = word_of_token(THE_ROWS, tokens[line * KOEL_SLOTS + j]);
    for (uint j = 0; j < KOEL_SLOTS; j++) {
        if (here[j] == 0) continue;
        uint slot = 0;
        for (uint i = 0; i < KOEL_SLOTS; i++) slot += here[i] > here[j] || (here[i] == here[j] && i < j);
        words[word_at(line, slot)] = here[j];
        if (KOEL_VALUE_BITS) {
            uint row = ROW_OF(tokens[line * KOEL_SLOTS + j]);
            ((__global value_type *)words)[value_at(line, slot)] = values[row];
        }
    }
}
