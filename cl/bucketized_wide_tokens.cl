// Builds tables of 64-bit keys or values without 64-bit atomics: the rule of bucketized_wide.cl, with tokens of 32
// bits.
//
//   lines_place_tokens   a work-item per row    offers its token, and then the tokens that are displaced, until one is
//                                               stored in an empty slot
//   lines_of_tokens      a work-item per slot   writes the word and the value of its token; words descend in a line
//
// followed by lines_copies of bucketized_wide.cl.
//
// A token is [age][row]. It determines the word that the row's key has at this age, so tokens are compared by their
// words, and an exchange that finds the same token finds the same word. Ages begin at 1, so an empty slot is 0. A slot
// is token `line * KOEL_SLOTS + slot`.

#define ROW_BITS (32 - KOEL_AGE_BITS)
#define ROW_OF(token) ((token) & ((1u << ROW_BITS) - 1))

#define ROWS functions f, ulong4 mixer, uint buckets, __global const key_type *keys
#define THE_ROWS f, mixer, buckets, keys

static inline line_home home_of_token(ROWS, uint token) {
    return home_of_line_key(f, mixer, buckets, keys[ROW_OF(token)]);
}

static inline word_type word_of_token(ROWS, uint token) {
    return token ? line_word(token >> ROW_BITS, home_of_token(THE_ROWS, token).remainder) : 0;
}

// Proofs: bucketized_canonical.cl. The offer is not a separate function, because rusticl 22.3.6 loses tokens if a loop
// within a loop returns.
__kernel GROUP_SIZE void lines_place_tokens(__global uint *tokens, LINE_TABLE, __global const key_type *keys,
                                            const ulong count, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < count) {
        uint row = (uint)item, age = 1;
        line_home home = home_of_token(THE_ROWS, row);
        bool settled = false;
        while (!settled && age <= KOEL_MAX_AGE) {
            uint token = age << ROW_BITS | row, least_token = 0, at = 0;
            word_type mine = line_word(age, home.remainder), least = 0;
            __global uint *line = tokens + first_slot(line_for(f, turn_of(age), home, buckets));
            bool duplicate = false;
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) {
                uint there = seen32(&line[j]);
                word_type word = word_of_token(THE_ROWS, there);
                duplicate |= word == mine;
                bool less = j == 0 || word < least;
                least = less ? word : least;
                least_token = less ? there : least_token;
                at = less ? j : at;
            }
            if (duplicate) {
                count_wide_copy(tally, status, keys[row]);
                settled = true;
            } else if (least > mine) {
                age++;
            } else if (atomic_cmpxchg(&line[at], least_token, token) == least_token) {
                settled = least_token == 0;
                row = ROW_OF(least_token);
                age = (least_token >> ROW_BITS) + 1;
                home = home_of_token(THE_ROWS, row);
            }
        }
        if (!settled) count_unplaced(tally);
    }
    report_tally(tally, status);
}

// The image must be zero. Equal words belong to duplicates, and then the image is discarded.
__kernel GROUP_SIZE void lines_of_tokens(__global word_type *words, LINE_TABLE, __global const key_type *keys,
                                         __global const value_type *values, __global const uint *tokens) {
    functions f = {forth, back};
    ulong cell = get_global_id(0);
    if (cell >= first_slot(buckets) || tokens[cell] == 0) return;
    uint token = tokens[cell], slot = 0;
    ulong line = cell / KOEL_SLOTS;
    word_type mine = word_of_token(THE_ROWS, token);
    for (uint j = 0; j < KOEL_SLOTS; j++) {
        word_type there = word_of_token(THE_ROWS, tokens[line * KOEL_SLOTS + j]);
        slot += there > mine || (there == mine && j < cell % KOEL_SLOTS);
    }
    words[word_at(line, slot)] = mine;
    if (KOEL_VALUE_BITS) ((__global value_type *)words)[value_at(line, slot)] = values[ROW_OF(token)];
}
