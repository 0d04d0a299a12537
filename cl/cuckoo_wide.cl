// Canonical cuckoo tables of 64-bit keys or values, and sets of 64-bit keys: src/scheme/cuckoo/wide/ once more.
//
//   cuckoo_place    an item a key      offers its word, and whom it displaces, until one rests in an empty slot
//   cuckoo_clear    an item a line     values to 0
//   cuckoo_carry    an item a slot     values of an old image's pairs, to where their keys stand now
//   cuckoo_bring    an item a key      its value
//   cuckoo_lookup   cuckoo_contains   cuckoo_assign   cuckoo_remove   cuckoo_decode   cuckoo_lift
//
// Fixed when the program is built: what bucketized_wide.clh lists (KOEL_SLOTS are those of a line) and KOEL_FUNCTIONS,
// which is H. Words, values and lines are of that file; buckets there are none, and a key has H slots by H mixers.
//
// Values are raised to what is brought, so of duplicates the greatest stays. All lengths are 64 bits wide; work-items past
// the end do nothing, but reach every barrier.

#if KOEL_KEY_BITS == 64
#define RAISE_WORD(at, word) atom_max(at, word)
#else
#define RAISE_WORD(at, word) atomic_max(at, word)
#endif

// What every kernel takes: slots, and the mixers of 32 and of 64 bits, of which one sort is of no account.
#define SLOT_TABLE const uint slots, MIXERS, const ulong4 w0, const ulong4 w1, const ulong4 w2, const ulong4 w3, const ulong4 w4
#define SLOT_FUNCTIONS {{forth, back}, w0, w1, w2, w3, w4, slots}

typedef struct {
    functions narrow;
    ulong4 w0, w1, w2, w3, w4;
    uint slots;
} slot_functions;

// The function that a proposal of this age uses; age 0 counts as 1.
static inline uint function_of(uint age) { return (max(age, 1u) - 1) % KOEL_FUNCTIONS; }

#if KOEL_KEY_BITS == 64

// By selects and not from an array: see functions.clh.
static inline ulong4 mixer_of(slot_functions f, uint i) {
    ulong4 mixer = f.w0;
    if (i == 1) mixer = f.w1;
    if (i == 2) mixer = f.w2;
    if (i == 3) mixer = f.w3;
    if (i == 4) mixer = f.w4;
    return mixer;
}

// Slot and remainder of a key under function i.
static inline line_home probe(slot_functions f, uint i, ulong key) {
    return home_of_line_key(f.narrow, mixer_of(f, i), f.slots, key);
}

// The key of a pair's word that stands in a slot.
static inline ulong key_in_slot(slot_functions f, uint slot, word_type word) {
    line_home home = {slot, remainder_in(word)};
    return key_of_line_home(f.narrow, mixer_of(f, function_of(age_in(word))), f.slots, home);
}

#else

static inline line_home probe(slot_functions f, uint i, uint key) {
    uint2 place = split(mix(key, keys_of(f.narrow, i)), f.slots);
    line_home home = {place.x, place.y};
    return home;
}

static inline uint key_in_slot(slot_functions f, uint slot, word_type word) {
    return unmix(join(slot, remainder_in(word), f.slots), keys_of(f.narrow, function_of(age_in(word))));
}

#endif

// Where the word of a slot stands, and where its value does.
static inline ulong word_of_slot(uint slot) { return word_at(slot / KOEL_SLOTS, slot % KOEL_SLOTS); }
static inline ulong value_of_slot(uint slot) { return value_at(slot / KOEL_SLOTS, slot % KOEL_SLOTS); }

#define GO_ON 0
#define FOUND 1
#define ABSENT 2

// The twin of `verdict` in src/scheme/cuckoo/wide/canonical.rs.
static inline int verdict(uint i, key_type remainder, word_type word) {
    if (holds_pair(word) && remainder_in(word) == remainder && function_of(age_in(word)) == i) return FOUND;
    return word < line_word(i + 1, remainder) ? ABSENT : GO_ON;
}

#define NO_SLOT 0xffffffffu

// The slot of a key in an image whose words nobody changes, or that only become tombstones meanwhile. No slot has the
// number NO_SLOT: they are fewer.
static inline uint slot_of(slot_functions f, __global word_type *words, key_type key) {
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        line_home at = probe(f, i, key);
        int says = verdict(i, at.remainder, SEEN_WORD(&words[word_of_slot(at.home)]));
        if (says != GO_ON) return says == FOUND ? at.home : NO_SLOT;
    }
    return NO_SLOT;
}

__kernel GROUP_SIZE void cuckoo_place(__global word_type *words, SLOT_TABLE, __global const key_type *keys,
                                      const ulong count, __global ulong *status) {
    slot_functions f = SLOT_FUNCTIONS;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < count) {
        key_type key = keys[item];
        uint age = 1;
        while (age <= KOEL_MAX_AGE) {
            line_home at = probe(f, function_of(age), key);
            word_type mine = line_word(age, at.remainder);
            __global word_type *word = &words[word_of_slot(at.home)];
            // The whole rule is this maximum; what it returns tells which of the two words is left without a slot. Where
            // the word seen is not below mine, it would change nothing (src/cpu/acceptance.rs proves it).
            word_type there = SEEN_WORD(word);
            if (there < mine) there = RAISE_WORD(word, mine);
            if (there == mine) {
                count_wide_copy(tally, status, key);
                break;
            }
            if (there < mine) {
                if (there == 0) break;
                key = key_in_slot(f, at.home, there);
                age = age_in(there);
            }
            age++;
        }
        if (age > KOEL_MAX_AGE) count_unplaced(tally);
    }
    report_tally(tally, status);
}

// ---- Values.

__kernel GROUP_SIZE void cuckoo_clear(__global value_type *values, SLOT_TABLE) {
    ulong line = get_global_id(0);
    if (line * KOEL_SLOTS >= slots) return;
    for (uint j = 0; j < KOEL_SLOTS; j++) values[value_at(line, j)] = 0;
}

// Each key of the old image has one writer, but for duplicates that the batch brings.
__kernel GROUP_SIZE void cuckoo_carry(__global word_type *words, SLOT_TABLE, __global const word_type *old_words) {
    slot_functions f = SLOT_FUNCTIONS;
    ulong item = get_global_id(0);
    if (item >= slots) return;
    uint slot = (uint)item;
    word_type word = old_words[word_of_slot(slot)];
    if (!holds_pair(word)) return;
    value_type value = ((__global const value_type *)old_words)[value_of_slot(slot)];
    // Nobody changes words here; but they are read in one way, for simulators.
    uint to = SEEN_WORD(&words[word_of_slot(slot)]) == word ? slot : slot_of(f, words, key_in_slot(f, slot, word));
    __global value_type *values = (__global value_type *)words;
    if (to != NO_SLOT && value != 0) RAISE_VALUE(&values[value_of_slot(to)], value);
}

__kernel GROUP_SIZE void cuckoo_bring(__global word_type *words, SLOT_TABLE, __global const key_type *keys,
                                      __global const value_type *brought, const ulong count) {
    slot_functions f = SLOT_FUNCTIONS;
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint to = slot_of(f, words, keys[item]);
    // All values are 0 before.
    if (to != NO_SLOT && brought[item] != 0) {
        RAISE_VALUE((__global value_type *)words + value_of_slot(to), brought[item]);
    }
}

// The keys are distinct, so each value has one writer.
__kernel GROUP_SIZE void cuckoo_assign(__global word_type *words, SLOT_TABLE, __global const key_type *keys,
                                       __global const value_type *brought, const ulong count) {
    slot_functions f = SLOT_FUNCTIONS;
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint to = slot_of(f, words, keys[item]);
    if (to != NO_SLOT) ((__global value_type *)words)[value_of_slot(to)] = brought[item];
}

// ---- Lookups: one slot at a time, because most keys end at their first or second. A slot's word and value stand in one
// line and are asked for together, so that a hit waits once.

INLINED bool look_up(slot_functions f, __global const word_type *words, key_type key, bool want_value,
                     value_type *value) {
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        line_home at = probe(f, i, key);
        word_type there = words[word_of_slot(at.home)];
#if KOEL_VALUE_BITS > 0
        value_type beside = want_value ? ((__global const value_type *)words)[value_of_slot(at.home)] : 0;
#else
        value_type beside = 0;
#endif
        int says = verdict(i, at.remainder, there);
        if (says == GO_ON) continue;
        *value = says == FOUND ? beside : 0;
        return says == FOUND;
    }
    *value = 0;
    return false;
}

__kernel GROUP_SIZE void cuckoo_lookup(__global const word_type *words, SLOT_TABLE, __global const key_type *queries,
                                       const ulong count, __global value_type *values, __global uint *found) {
    slot_functions f = SLOT_FUNCTIONS;
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    value_type value = 0;
    bool hit = item < count && look_up(f, words, queries[item], true, &value);
    if (item < count) values[item] = value;
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

__kernel GROUP_SIZE void cuckoo_contains(__global const word_type *words, SLOT_TABLE,
                                         __global const key_type *queries, const ulong count, __global uint *found) {
    slot_functions f = SLOT_FUNCTIONS;
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    value_type value = 0;
    bool hit = item < count && look_up(f, words, queries[item], false, &value);
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

// ---- Pairs out of the image.

// Of several work-items with one key, one takes the word out.
__kernel GROUP_SIZE void cuckoo_remove(__global word_type *words, SLOT_TABLE, __global const key_type *keys,
                                       const ulong count, __global ulong *status) {
    slot_functions f = SLOT_FUNCTIONS;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < count) {
        uint slot = slot_of(f, words, keys[item]);
        if (slot != NO_SLOT && SWAP_WORD(&words[word_of_slot(slot)], LINE_TOMBSTONE) != LINE_TOMBSTONE) {
            atomic_inc(&tally[KOEL_REMOVED]);
            if (KOEL_VALUE_BITS) ((__global value_type *)words)[value_of_slot(slot)] = 0;
        }
    }
    report_tally(tally, status);
}

// Key and value of a slot, and whether it holds a pair that is wanted: any, or one above age 1, which is then taken out
// as tombstones are.
INLINED void hand_out_slot(slot_functions f, __global word_type *words, bool lift, __global key_type *keys,
                           __global value_type *values, __global uint *taken_bits, __local ulong *answers) {
    ulong item = get_global_id(0);
    uint slot = (uint)item;
    bool inside = item < f.slots, pair = false;
    if (inside) {
        word_type word = words[word_of_slot(slot)];
        __global value_type *there = (__global value_type *)words + value_of_slot(slot);
        bool lifted = lift && age_in(word) > 1;
        pair = holds_pair(word) && (lifted || !lift);
        keys[slot] = pair ? key_in_slot(f, slot, word) : 0;
        values[slot] = pair && KOEL_VALUE_BITS ? *there : 0;
        if (lifted) words[word_of_slot(slot)] = 0;
        if (lifted && KOEL_VALUE_BITS) *there = 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && inside) taken_bits[item / 32] = pack_answers(answers);
}

__kernel GROUP_SIZE void cuckoo_decode(__global word_type *words, SLOT_TABLE, __global key_type *keys,
                                       __global value_type *values, __global uint *taken_bits) {
    slot_functions f = SLOT_FUNCTIONS;
    __local ulong answers[KOEL_GROUP / 8];
    hand_out_slot(f, words, false, keys, values, taken_bits, answers);
}

__kernel GROUP_SIZE void cuckoo_lift(__global word_type *words, SLOT_TABLE, __global key_type *keys,
                                     __global value_type *values, __global uint *taken_bits) {
    slot_functions f = SLOT_FUNCTIONS;
    __local ulong answers[KOEL_GROUP / 8];
    hand_out_slot(f, words, true, keys, values, taken_bits, answers);
}
