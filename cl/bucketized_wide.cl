// Canonical tables of 64-bit keys or values, in lines of 64 bytes: built, changed and read back.
//
//   lines_place    an item a key      offers its word, and whom it displaces, until one rests in an empty slot
//   lines_sort     an item a line     its pairs in descending order of their words
//   lines_copies   an item a cell     counts words whose key stands twice
//   lines_clear    an item a line     values to 0
//   lines_carry    an item a cell     values of an old image's pairs, to where their keys stand now
//   lines_bring    an item a key      its value
//   lines_assign   lines_remove   lines_decode   lines_lift
//
// Values are raised to what is brought, so of duplicates the greatest stays. All lengths are 64 bits wide; work-items past
// the end do nothing, but reach every barrier.

// Offers a word to a line: what is left without a slot is the word itself, the one that it displaced, or A_COPY's. Proofs:
// bucketized_canonical.cl.
#define LINE_COPY LINE_TOMBSTONE

static inline word_type offer_word(__global word_type *words, ulong line, word_type mine) {
    for (;;) {
        word_type least = 0;
        uint at = KOEL_SLOTS;
        bool copy = false;
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            word_type there = SEEN_WORD(&words[word_at(line, j)]);
            copy |= there == mine;
            at = j == 0 || there < least ? j : at;
            least = j == 0 ? there : min(there, least);
        }
        if (copy) return LINE_COPY;
        if (least > mine) return mine;
        if (EXCHANGE_WORD(&words[word_at(line, at)], least, mine) == least) return least;
    }
}

// The least key of 64 bits does not fit a group's tally, and few batches have copies at all.
static inline void count_line_copy(__local uint *tally, __global ulong *status, key_type key) {
    atomic_inc(&tally[KOEL_COPIES]);
    ulong least = ~(ulong)key;
    if (seen64(&status[KOEL_LEAST]) < least) atom_max(&status[KOEL_LEAST], least);
}

__kernel GROUP_SIZE void lines_place(__global word_type *words, LINE_TABLE, __global const key_type *keys,
                                     const ulong count, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < count) {
        line_home home = home_of_line_key(f, mixer, buckets, keys[item]);
        uint age = 1;
        bool rests = false;
        while (!rests && age <= KOEL_MAX_AGE) {
            uint line = line_for(f, turn_of(age), home, buckets);
            word_type mine = line_word(age, home.remainder);
            word_type left = offer_word(words, line, mine);
            if (left == LINE_COPY) count_line_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
            rests = left == LINE_COPY || left == 0;
            if (!rests && left != mine) {
                home = home_of_word(f, line, left, buckets);
                age = age_in(left);
            }
            age++;
        }
        if (!rests) count_unplaced(tally);
    }
    report_tally(tally, status);
}

__kernel GROUP_SIZE void lines_sort(__global ulong8 *image, LINE_TABLE) {
    ulong line = get_global_id(0);
    if (line >= buckets) return;
    union {
        ulong8 all;
        word_type words[WORDS_OF_A_LINE];
        value_type values[VALUES_OF_A_LINE];
    } here;
    here.all = image[line];
    word_type words[KOEL_SLOTS];
    value_type values[KOEL_SLOTS];
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) {
        words[j] = here.words[j * KOEL_WORD_STRIDE];
        values[j] = KOEL_VALUE_BITS ? here.values[KOEL_FIRST_VALUE + j * KOEL_VALUE_STRIDE] : 0;
    }
    bool moved = false;
    #pragma unroll
    for (uint round = 0; round < KOEL_SLOTS; round++) {
        #pragma unroll
        for (uint j = round % 2; j + 1 < KOEL_SLOTS; j += 2) {
            bool exchange = words[j] < words[j + 1];
            word_type word = words[j];
            value_type value = values[j];
            words[j] = exchange ? words[j + 1] : word;
            values[j] = exchange ? values[j + 1] : value;
            words[j + 1] = exchange ? word : words[j + 1];
            values[j + 1] = exchange ? value : values[j + 1];
            moved |= exchange;
        }
    }
    if (!moved) return;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) {
        here.words[j * KOEL_WORD_STRIDE] = words[j];
        if (KOEL_VALUE_BITS) here.values[KOEL_FIRST_VALUE + j * KOEL_VALUE_STRIDE] = values[j];
    }
    image[line] = here.all;
}

// Several work-items that look at one line at once can miss each other's copies; hence this, after the sort. Of k words
// with one key k - 1 are counted, here or when they were dropped: all but the one that a lookup finds.
__kernel GROUP_SIZE void lines_copies(__global word_type *words, LINE_TABLE, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong cell = get_global_id(0);
    if (cell < first_slot(buckets)) {
        word_type word = words[word_at(cell / KOEL_SLOTS, cell % KOEL_SLOTS)];
        if (holds_pair(word)) {
            line_home home = home_of_word(f, (uint)(cell / KOEL_SLOTS), word, buckets);
            bool copy = cell % KOEL_SLOTS > 0 && words[word_at(cell / KOEL_SLOTS, cell % KOEL_SLOTS - 1)] == word;
            for (uint turn = 0; turn < min(age_in(word) - 1, 3u); turn++) {
                ulong line = line_for(f, turn, home, buckets);
                for (uint j = 0; j < KOEL_SLOTS; j++) {
                    word_type there = words[word_at(line, j)];
                    copy |= is_of(turn, home.remainder, there) && age_in(there) < age_in(word);
                }
            }
            if (copy) count_line_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
        }
    }
    report_tally(tally, status);
}

// ---- Values.

__kernel GROUP_SIZE void lines_clear(__global value_type *values, LINE_TABLE) {
    ulong line = get_global_id(0);
    if (line >= buckets) return;
    for (uint j = 0; j < KOEL_SLOTS; j++) values[value_at(line, j)] = 0;
}

// Each key of the old image has one writer, but for duplicates that the batch brings.
__kernel GROUP_SIZE void lines_carry(__global word_type *words, LINE_TABLE, __global const word_type *old_words) {
    functions f = {forth, back};
    ulong cell = get_global_id(0);
    if (cell >= first_slot(buckets)) return;
    uint slot = cell % KOEL_SLOTS;
    ulong line = cell / KOEL_SLOTS;
    word_type word = old_words[word_at(line, slot)];
    if (!holds_pair(word)) return;
    value_type value = ((__global const value_type *)old_words)[value_at(line, slot)];
    ulong to = cell;
    if (words[word_at(line, slot)] != word) {
        key_type key = key_of_line_home(f, mixer, buckets, home_of_word(f, (uint)line, word, buckets));
        to = cell_of(f, mixer, buckets, words, key);
    }
    __global value_type *values = (__global value_type *)words;
    if (to != NOWHERE) RAISE_VALUE(&values[value_at(to / KOEL_SLOTS, to % KOEL_SLOTS)], value);
}

__kernel GROUP_SIZE void lines_bring(__global word_type *words, LINE_TABLE, __global const key_type *keys,
                                     __global const value_type *brought, const ulong count) {
    functions f = {forth, back};
    ulong item = get_global_id(0);
    if (item >= count) return;
    ulong to = cell_of(f, mixer, buckets, words, keys[item]);
    if (to == NOWHERE) return;
    __global value_type *values = (__global value_type *)words + value_at(to / KOEL_SLOTS, to % KOEL_SLOTS);
    // Values only grow meanwhile, and most are 0 so far.
    if (brought[item] != 0) RAISE_VALUE(values, brought[item]);
}

// The keys are distinct, so each slot has one writer.
__kernel GROUP_SIZE void lines_assign(__global word_type *words, LINE_TABLE, __global const key_type *keys,
                                      __global const value_type *brought, const ulong count) {
    functions f = {forth, back};
    ulong item = get_global_id(0);
    if (item >= count) return;
    ulong to = cell_of(f, mixer, buckets, words, keys[item]);
    if (to != NOWHERE) ((__global value_type *)words)[value_at(to / KOEL_SLOTS, to % KOEL_SLOTS)] = brought[item];
}

// ---- Pairs out of the image.

// Of several work-items with one key, one takes the word out.
__kernel GROUP_SIZE void lines_remove(__global word_type *words, LINE_TABLE, __global const key_type *keys,
                                      const ulong count, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < count) {
        ulong at = cell_of(f, mixer, buckets, words, keys[item]);
        if (at != NOWHERE) {
            ulong line = at / KOEL_SLOTS;
            uint slot = at % KOEL_SLOTS;
            if (SWAP_WORD(&words[word_at(line, slot)], LINE_TOMBSTONE) != LINE_TOMBSTONE) {
                atomic_inc(&tally[KOEL_REMOVED]);
                if (KOEL_VALUE_BITS) ((__global value_type *)words)[value_at(line, slot)] = 0;
            }
        }
    }
    report_tally(tally, status);
}

// Key and value of a cell, and whether it holds a pair that is wanted: any, or one above age 1, which is then taken out
// as tombstones are.
INLINED void hand_out(functions f, ulong4 mixer, uint buckets, __global word_type *words, bool lift,
                      __global key_type *keys, __global value_type *values, __global uint *taken_bits,
                      __local ulong *answers) {
    ulong cell = get_global_id(0), line = cell / KOEL_SLOTS;
    uint slot = cell % KOEL_SLOTS;
    bool inside = cell < first_slot(buckets), pair = false;
    if (inside) {
        word_type word = words[word_at(line, slot)];
        __global value_type *there = (__global value_type *)words + value_at(line, slot);
        bool lifted = lift && age_in(word) > 1;
        pair = holds_pair(word) && (lifted || !lift);
        keys[cell] = pair ? key_of_line_home(f, mixer, buckets, home_of_word(f, (uint)line, word, buckets)) : 0;
        values[cell] = pair && KOEL_VALUE_BITS ? *there : 0;
        if (lifted) words[word_at(line, slot)] = 0;
        if (lifted && KOEL_VALUE_BITS) *there = 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (cell % 32 == 0 && inside) taken_bits[cell / 32] = pack_answers(answers);
}

__kernel GROUP_SIZE void lines_decode(__global word_type *words, LINE_TABLE, __global key_type *keys,
                                      __global value_type *values, __global uint *taken_bits) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    hand_out(f, mixer, buckets, words, false, keys, values, taken_bits, answers);
}

__kernel GROUP_SIZE void lines_lift(__global word_type *words, LINE_TABLE, __global key_type *keys,
                                    __global value_type *values, __global uint *taken_bits) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    hand_out(f, mixer, buckets, words, true, keys, values, taken_bits, answers);
}
