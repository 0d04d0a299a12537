// Canonical tables of 64-bit keys or values, in lines of 64 bytes: builds, changes and decoding.
//
//   lines_place    a work-item per key    offers its word, and then the displaced words, until one is stored in
//                                         an empty slot
//   lines_sort     a work-item per line   sorts the pairs in descending order of their words
//   lines_copies   a work-item per cell   removes words whose key is also stored elsewhere, and counts them
//   lines_clear    a work-item per line   sets values to 0
//   lines_carry    a work-item per cell   copies values of an old image to the new places of their keys
//   lines_fetch    a work-item per key    stores the key's value
//   lines_assign   lines_remove   lines_decode   lines_lift
//
// and, after bucketized_wide_parts.cl has placed the parts (if there are duplicates, lines_copies, lines_clear and
// lines_fetch follow too):
//
//   lines_escapes         a work-item per escape     offers the escape to the whole image
//   lines_restore_order   a work-item per 32 lines   sorts those of the lines that escapes changed
//   lines_recheck         a work-item per escape     checks escapes that were in no part for duplicates
//   lines_settle          a work-item per escape, or per pair that one displaced: stores its value
//
// Values are only raised, so the greatest of duplicates is kept. All lengths have 64 bits. Work-items past the end do
// no work, but reach every barrier.

// The partial tier has lines_copies, lines_assign, lines_decode and lines_lift, and builds by
// bucketized_wide_tokens.cl.

#ifndef KOEL_PARTIAL

#define LINE_COPY LINE_TOMBSTONE

// The bookkeeping while escapes are offered to the image: the number of pairs in each section of the list; a bit for
// each line that is no longer in order; a bit for each cell in which a pair that a part stored, or could have stored,
// was changed; and the list. A batch that is not placed one partition at a time needs none of it, because its values
// are stored afterwards.
#define ACCOUNT __global uint *account, LINE_ESCAPES
#define ACCOUNTED account, LINE_ESCAPED
#define NO_ACCOUNT 0, 0, 0, 0, 0, status

static inline __global uint *touched_lines(__global uint *account) { return account + KOEL_SECTIONS * KOEL_SECTION_STRIDE; }
static inline __global uint *claimed_cells(__global uint *account, uint buckets) {
    return touched_lines(account) + buckets / 32 + 1;
}

// Parts store pairs of these ages in the image.
static inline bool may_be_of_part(word_type word) { return age_in(word) - 1 < 2; }

// Called before an exchange in a cell that contains `there`. Values do not move with words: the value of a pair that a
// part stored is in the same cell, so the pair is added to the list before it moves. Pairs that arrived after the parts
// were written are in the list already.
//
// Pairs above age 2 arrived later. For others, the cell's bit is set before a pair enters the cell and before one
// leaves it. So if a work-item finds the bit clear and has read such a pair, a part stored it, and no other work-item
// adds it to the list.
INLINED void keep_pair(functions f, __global word_type *words, ulong line, uint slot, word_type there, word_type mine,
                       uint buckets, ACCOUNT) {
    if (!may_be_of_part(there) && !may_be_of_part(mine)) return;
    ulong cell = line * KOEL_SLOTS + slot;
    uint bit = 1u << (cell % 32);
    bool first = !(atomic_or(&claimed_cells(account, buckets)[cell / 32], bit) & bit);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    if (!first || !may_be_of_part(there)) return;
    sections s = sections_after(listed_escapes(escapes, status), escapes);
    uint section = get_group_id(0) % s.count, at = atomic_inc(&account[section * KOEL_SECTION_STRIDE]);
    if (at >= s.room) {
        atom_add(&status[KOEL_MOVED], 1UL);
        return;
    }
    value_type value = ((__global const value_type *)words)[value_at(line, slot)];
    line_home home = home_of_word(f, (uint)line, there, buckets);
    list_line_escape(s.first + (ulong)section * s.room + at, age_in(there) + 1, home, value, LINE_ESCAPED);
}

// Offers a word to a line. Returns the word that is left without a slot: `mine`, the word that it displaced, or
// LINE_COPY if `mine` is a duplicate. Proofs: bucketized_canonical.cl.
INLINED word_type offer_word(functions f, __global word_type *words, ulong line, word_type mine, uint buckets, ACCOUNT) {
    for (;;) {
        word_type least = 0;
        uint at = KOEL_SLOTS;
        bool duplicate = false;
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            word_type there = SEEN_WORD(&words[word_at(line, j)]);
            duplicate |= there == mine;
            at = j == 0 || there < least ? j : at;
            least = j == 0 ? there : min(there, least);
        }
        if (duplicate) return LINE_COPY;
        if (least > mine) return mine;
        if (KOEL_VALUE_BITS && account) keep_pair(f, words, line, at, least, mine, buckets, ACCOUNTED);
        if (EXCHANGE_WORD(&words[word_at(line, at)], least, mine) == least) return least;
    }
}

// A pair without a slot, and the age of its next offer; age 0 if there is no pair.
typedef struct {
    line_home home;
    uint age;
} unplaced_pair;

// Makes one offer. Then *pair is the next pair without a slot: the same, the displaced one, or none. The key itself is
// not needed.
INLINED void step(functions f, ulong4 mixer, __global word_type *words, uint buckets, unplaced_pair *pair,
                  __local uint *tally, ACCOUNT) {
    uint line = line_for(f, turn_of(pair->age), pair->home, buckets);
    word_type mine = line_word(pair->age, pair->home.remainder);
    word_type left = offer_word(f, words, line, mine, buckets, ACCOUNTED);
    if (account && left != mine) atomic_or(&touched_lines(account)[line / 32], 1u << (line % 32));
    if (left == LINE_COPY) count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, pair->home));
    if (left == LINE_COPY || left == 0) {
        pair->age = 0;
        return;
    }
    if (left != mine) {
        pair->home = home_of_word(f, line, left, buckets);
        pair->age = age_in(left);
    }
    pair->age++;
    if (pair->age <= KOEL_MAX_AGE) return;
    count_unplaced(tally);
    pair->age = 0;
}

__kernel GROUP_SIZE void lines_place(__global word_type *words, LINE_TABLE, __global const key_type *keys,
                                     const ulong count, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < count) {
        unplaced_pair pair = {home_of_line_key(f, mixer, buckets, keys[item]), 1};
        while (pair.age) step(f, mixer, words, buckets, &pair, tally, NO_ACCOUNT);
    }
    report_tally(tally, status);
}

// Sorts the pairs of a line in descending order of their words.
static inline void sort_line(__global ulong8 *image, ulong line) {
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

__kernel GROUP_SIZE void lines_sort(__global ulong8 *image, LINE_TABLE) {
    if (get_global_id(0) < buckets) sort_line(image, get_global_id(0));
}

#endif

// Runs after the sort, because work-items that read a line at the same time can miss each other's duplicates. Of k
// words with one key, k - 1 are counted, here or when they were dropped. The first word in the key's first line is
// kept, and the others become tombstones, because an empty slot would end lookups too early. A word may be removed
// while others are compared with it, except the one that is kept, which all others find. In the partial tier,
// duplicates are only counted.
__kernel GROUP_SIZE void lines_copies(__global word_type *words, LINE_TABLE, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong cell = get_global_id(0);
    if (cell < first_slot(buckets)) {
        uint slot = cell % KOEL_SLOTS;
        __global word_type *mine = &words[word_at(cell / KOEL_SLOTS, slot)];
        word_type word = SEEN_WORD(mine);
        if (holds_pair(word)) {
            line_home home = home_of_word(f, (uint)(cell / KOEL_SLOTS), word, buckets);
            bool duplicate = false;
            for (uint j = 0; j < slot; j++) duplicate |= SEEN_WORD(&words[word_at(cell / KOEL_SLOTS, j)]) == word;
            for (uint turn = 0; turn < min(age_in(word) - 1, 3u); turn++) {
                ulong line = line_for(f, turn, home, buckets);
                for (uint j = 0; j < KOEL_SLOTS; j++) {
                    word_type there = SEEN_WORD(&words[word_at(line, j)]);
                    duplicate |= is_of(turn, home.remainder, there) && age_in(there) < age_in(word);
                }
            }
            if (duplicate) {
                count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
#ifndef KOEL_PARTIAL
                SWAP_WORD(mine, LINE_TOMBSTONE);
#endif
            }
        }
    }
    report_tally(tally, status);
}

#ifndef KOEL_PARTIAL

// ---- Values.

__kernel GROUP_SIZE void lines_clear(__global value_type *values, LINE_TABLE) {
    ulong line = get_global_id(0);
    if (line >= buckets) return;
    for (uint j = 0; j < KOEL_SLOTS; j++) values[value_at(line, j)] = 0;
}

// Each key of the old image has one writer, unless the batch has duplicates of it.
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
    if (SEEN_WORD(&words[word_at(line, slot)]) != word) {
        key_type key = key_of_line_home(f, mixer, buckets, home_of_word(f, (uint)line, word, buckets));
        to = cell_of(f, mixer, buckets, words, key);
    }
    __global value_type *values = (__global value_type *)words;
    if (to != NOWHERE) RAISE_VALUE(&values[value_at(to / KOEL_SLOTS, to % KOEL_SLOTS)], value);
}

__kernel GROUP_SIZE void lines_fetch(__global word_type *words, LINE_TABLE, __global const key_type *keys,
                                     __global const value_type *new_values, const ulong count) {
    functions f = {forth, back};
    ulong item = get_global_id(0);
    if (item >= count) return;
    ulong to = cell_of(f, mixer, buckets, words, keys[item]);
    if (to == NOWHERE) return;
    __global value_type *values = (__global value_type *)words + value_at(to / KOEL_SLOTS, to % KOEL_SLOTS);
    // Values only increase in this kernel, so the value 0 needs no atomic.
    if (new_values[item] != 0) RAISE_VALUE(values, new_values[item]);
}

#endif

// The keys are distinct, so each slot has one writer.
__kernel GROUP_SIZE void lines_assign(__global word_type *words, LINE_TABLE, __global const key_type *keys,
                                      __global const value_type *new_values, const ulong count) {
    functions f = {forth, back};
    ulong item = get_global_id(0);
    if (item >= count) return;
    ulong to = cell_of(f, mixer, buckets, words, keys[item]);
    if (to != NOWHERE) ((__global value_type *)words)[value_at(to / KOEL_SLOTS, to % KOEL_SLOTS)] = new_values[item];
}

// ---- Removing and decoding pairs.

#ifndef KOEL_PARTIAL
// Of several work-items with the same key, one removes the word.
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
#endif

// Writes the key and the value of a cell, and a bit for whether the cell has a requested pair: any pair or, with
// `lift`, a pair above age 1, which is then removed from the image, as tombstones are.
INLINED void decode_cell(functions f, ulong4 mixer, uint buckets, __global word_type *words, bool lift,
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
    decode_cell(f, mixer, buckets, words, false, keys, values, taken_bits, answers);
}

__kernel GROUP_SIZE void lines_lift(__global word_type *words, LINE_TABLE, __global key_type *keys,
                                    __global value_type *values, __global uint *taken_bits) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    decode_cell(f, mixer, buckets, words, true, keys, values, taken_bits, answers);
}

// ---- After a build one partition at a time.

#ifndef KOEL_PARTIAL

static inline unplaced_pair listed_pair(ulong at, LINE_ESCAPES) {
    unplaced_pair pair = {{escaped_homes[at], remainder_in(escaped_words[at])}, age_in(escaped_words[at])};
    return pair;
}

// The list of escapes is processed in a grid-stride loop, because only the device knows its length. A work-item takes
// the next escape as soon as its current chain ends, so that work-items that run in lockstep do not wait for the
// longest chain of each round.
__kernel GROUP_SIZE void lines_escapes(__global word_type *words, LINE_TABLE, ACCOUNT) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong end = listed_escapes(escapes, status);
    ulong item = get_global_id(0);
    unplaced_pair pair = {{0, 0}, 0};
    for (;;) {
        if (pair.age == 0) {
            if (item >= end) break;
            pair = listed_pair(item, LINE_ESCAPED);
            item += get_global_size(0);
        }
        step(f, mixer, words, buckets, &pair, tally, ACCOUNTED);
    }
    report_tally(tally, status);
}

// One work-item per 32 lines, few of which were changed.
__kernel GROUP_SIZE void lines_restore_order(__global ulong8 *image, LINE_TABLE, __global uint *account) {
    uint item = get_global_id(0);
    if (item > buckets / 32) return;
    for (uint bits = touched_lines(account)[item]; bits; bits &= bits - 1) {
        sort_line(image, item * 32 + popcount((bits & (0u - bits)) - 1));
    }
}

// Checks the escapes that have made no offer in their part, and so were not compared yet.
__kernel GROUP_SIZE void lines_recheck(__global word_type *words, LINE_TABLE, LINE_ESCAPES) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong end = listed_escapes(escapes, status);
    for (ulong item = get_global_id(0); item < end; item += get_global_size(0)) {
        unplaced_pair pair = listed_pair(item, LINE_ESCAPED);
        line_home home = pair.home;
        if (pair.age > 1) continue;
        uint occurrences = 0;
        for (uint turn = 0; turn < 3; turn++) {
            ulong line = line_for(f, turn, home, buckets);
            for (uint j = 0; j < KOEL_SLOTS; j++) occurrences += is_of(turn, home.remainder, words[word_at(line, j)]);
        }
        if (occurrences > 1) count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
    }
    report_tally(tally, status);
}

// Stores the value of a listed pair next to its word. The search begins where the pair made the listed offer, because
// most words are stored there.
INLINED void settle(functions f, __global word_type *words, uint buckets, ulong at, LINE_ESCAPES) {
    unplaced_pair pair = listed_pair(at, LINE_ESCAPED);
    ulong to = cell_from(f, turn_of(pair.age), buckets, words, pair.home);
    if (to == NOWHERE) return;
    ((__global value_type *)words)[value_at(to / KOEL_SLOTS, to % KOEL_SLOTS)] = escaped_values[at];
}

// Each listed key has one writer, unless there are duplicates, and then the image is discarded. The values of all other
// keys are in their cells already. Work-groups are assigned to the sections in turn.
__kernel GROUP_SIZE void lines_settle(__global word_type *words, LINE_TABLE, ACCOUNT) {
    functions f = {forth, back};
    if (status[KOEL_COPIES]) return;
    sections s = sections_after(listed_escapes(escapes, status), escapes);
    for (ulong at = get_global_id(0); at < s.first; at += get_global_size(0)) settle(f, words, buckets, at, LINE_ESCAPED);
    uint section = get_group_id(0) % s.count, groups = (get_num_groups(0) - section - 1) / s.count + 1;
    uint moved = min(account[section * KOEL_SECTION_STRIDE], s.room);
    for (uint i = get_group_id(0) / s.count * KOEL_GROUP + get_local_id(0); i < moved; i += groups * KOEL_GROUP) {
        settle(f, words, buckets, s.first + (ulong)section * s.room + i, LINE_ESCAPED);
    }
}

#endif
