// Tables with 64-bit keys or values, and sets of 64-bit keys, in which each key has a list of single slots: cuckoo and
// Robin Hood. The OpenCL version of src/scheme/slot_lists.rs.
//
//   place      a work-item per key      inserts its word, and continues with displaced words until a slot was empty
//   clear      a work-item per line     sets values to 0
//   carry      a work-item per slot     copies the values of an old image to the new slots of their keys
//   bring      a work-item per key      writes its value
//   lookup   contains   assign   remove   decode   lift
//
// The places of keys are defined by the file that precedes this one (cuckoo_wide.clh or robin_hood_wide.clh):
//   KERNEL(NAME)    the name of a kernel of that scheme
//   SLOT_TABLE, SLOT_FUNCTIONS, slot_functions, SLOT_COUNT(f)   arguments, and what is derived from them
//   TURNS           the maximum number of places that a lookup probes
//   goal_type, goal_of, key_of_goal, goal_in_slot, probe, turn_of_age   the counterparts of `SlotLists`
// Words, values and lines are those of wide.clh; KOEL_SLOTS is the number of slots of a line.
//
// Values are written with atomic maxima, so the greatest value of duplicates is kept. All lengths have 64 bits.
// Work-items past the end do nothing, but reach every barrier.

#if KOEL_KEY_BITS == 64
#define RAISE_WORD(at, word) atom_max(at, word)
#else
#define RAISE_WORD(at, word) atomic_max(at, word)
#endif

// The positions of the word and of the value of a slot.
static inline ulong word_of_slot(uint slot) { return word_at(slot / KOEL_SLOTS, slot % KOEL_SLOTS); }
static inline ulong value_of_slot(uint slot) { return value_at(slot / KOEL_SLOTS, slot % KOEL_SLOTS); }

#define CONTINUE 0
#define FOUND 1
#define ABSENT 2

// What a word means for the lookup of a key with this remainder at an age: the counterpart of `verdict`.
static inline int verdict(uint age, key_type remainder, word_type word) {
    if (holds_pair(word) && remainder_in(word) == remainder && turn_of_age(age_in(word)) == age - 1) return FOUND;
    return word < line_word(age, remainder) ? ABSENT : CONTINUE;
}

#define NO_SLOT 0xffffffffu

// The slot of a key in an image whose words do not change, or only become tombstones, while the kernel runs. There are
// fewer than NO_SLOT slots, so no slot has this number.
static inline uint slot_of(slot_functions f, __global word_type *words, key_type key) {
    goal_type goal = goal_of(f, key);
    for (uint age = 1; age <= TURNS; age++) {
        line_home at = probe(f, goal, age);
        int outcome = verdict(age, at.remainder, SEEN_WORD(&words[word_of_slot(at.home)]));
        if (outcome != CONTINUE) return outcome == FOUND ? at.home : NO_SLOT;
    }
    return NO_SLOT;
}

#ifndef KOEL_PARTIAL

__kernel GROUP_SIZE void KERNEL(place)(__global word_type *words, SLOT_TABLE, __global const key_type *keys,
                                      const ulong count, __global ulong *status) {
    slot_functions f = SLOT_FUNCTIONS;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < count) {
        goal_type goal = goal_of(f, keys[item]);
        uint age = 1;
        while (age <= KOEL_LINE_MAX_AGE) {
            line_home at = probe(f, goal, age);
            word_type mine = line_word(age, at.remainder);
            __global word_type *word = &words[word_of_slot(at.home)];
            // The whole rule is this maximum: its result determines which of the two words continues. If the word that
            // was read is not less than mine, the atomic would not change it, so it is skipped (src/cpu/acceptance.rs
            // has the proof).
            word_type there = SEEN_WORD(word);
            if (there < mine) there = RAISE_WORD(word, mine);
            if (there == mine) {
                count_wide_copy(tally, status, key_of_goal(f, goal));
                break;
            }
            if (there < mine) {
                if (there == 0) break;
                goal = goal_in_slot(f, at.home, there);
                age = age_in(there);
            }
            age++;
        }
        if (age > KOEL_LINE_MAX_AGE) count_unplaced(tally);
    }
    report_tally(tally, status);
}

// ---- Values.

__kernel GROUP_SIZE void KERNEL(clear)(__global value_type *values, SLOT_TABLE) {
    ulong line = get_global_id(0);
    slot_functions f = SLOT_FUNCTIONS;
    if (line * KOEL_SLOTS >= SLOT_COUNT(f)) return;
    for (uint j = 0; j < KOEL_SLOTS; j++) values[value_at(line, j)] = 0;
}

// The keys of the old image are distinct, but the batch may contain duplicates of them, so the greater value is kept.
__kernel GROUP_SIZE void KERNEL(carry)(__global word_type *words, SLOT_TABLE, __global const word_type *old_words) {
    slot_functions f = SLOT_FUNCTIONS;
    ulong item = get_global_id(0);
    if (item >= SLOT_COUNT(f)) return;
    uint slot = (uint)item;
    word_type word = old_words[word_of_slot(slot)];
    if (!holds_pair(word)) return;
    value_type value = ((__global const value_type *)old_words)[value_of_slot(slot)];
    // Words do not change here, but race detectors require that they are read in the same way everywhere.
    uint to = SEEN_WORD(&words[word_of_slot(slot)]) == word
        ? slot : slot_of(f, words, key_of_goal(f, goal_in_slot(f, slot, word)));
    __global value_type *values = (__global value_type *)words;
    if (to != NO_SLOT && value != 0) RAISE_VALUE(&values[value_of_slot(to)], value);
}

__kernel GROUP_SIZE void KERNEL(bring)(__global word_type *words, SLOT_TABLE, __global const key_type *keys,
                                      __global const value_type *new_values, const ulong count) {
    slot_functions f = SLOT_FUNCTIONS;
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint to = slot_of(f, words, keys[item]);
    // All values are initially 0.
    if (to != NO_SLOT && new_values[item] != 0) {
        RAISE_VALUE((__global value_type *)words + value_of_slot(to), new_values[item]);
    }
}

#endif

// The keys are distinct, so each value has one writer.
__kernel GROUP_SIZE void KERNEL(assign)(__global word_type *words, SLOT_TABLE, __global const key_type *keys,
                                       __global const value_type *new_values, const ulong count) {
    slot_functions f = SLOT_FUNCTIONS;
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint to = slot_of(f, words, keys[item]);
    if (to != NO_SLOT) ((__global value_type *)words)[value_of_slot(to)] = new_values[item];
}

// ---- Lookups probe one slot at a time, because most keys end at their first or second slot. The word and the value of
// a slot are in one line and are loaded together, so a hit waits for memory once.

INLINED bool look_up(slot_functions f, __global const word_type *words, key_type key, bool want_value,
                     value_type *value) {
    goal_type goal = goal_of(f, key);
    for (uint age = 1; age <= TURNS; age++) {
        line_home at = probe(f, goal, age);
        word_type there = words[word_of_slot(at.home)];
#if KOEL_VALUE_BITS > 0
        value_type value_here = want_value ? ((__global const value_type *)words)[value_of_slot(at.home)] : 0;
#else
        value_type value_here = 0;
#endif
        int outcome = verdict(age, at.remainder, there);
        if (outcome == CONTINUE) continue;
        *value = outcome == FOUND ? value_here : 0;
        return outcome == FOUND;
    }
    *value = 0;
    return false;
}

__kernel GROUP_SIZE void KERNEL(lookup)(__global const word_type *words, SLOT_TABLE, __global const key_type *queries,
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

__kernel GROUP_SIZE void KERNEL(contains)(__global const word_type *words, SLOT_TABLE,
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

// ---- Removing and decoding.

#ifndef KOEL_PARTIAL
// If several work-items have the same key, one of them removes and counts it.
__kernel GROUP_SIZE void KERNEL(remove)(__global word_type *words, SLOT_TABLE, __global const key_type *keys,
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
#endif

// Returns the key and the value of a slot, and whether it contains a pair to return: any pair, or, with `lift`, one
// above age 1. `lift` also empties these slots and those with tombstones.
INLINED void decode_slot(slot_functions f, __global word_type *words, bool lift, __global key_type *keys,
                           __global value_type *values, __global uint *taken_bits, __local ulong *answers) {
    ulong item = get_global_id(0);
    uint slot = (uint)item;
    bool inside = item < SLOT_COUNT(f), pair = false;
    if (inside) {
        word_type word = words[word_of_slot(slot)];
        __global value_type *there = (__global value_type *)words + value_of_slot(slot);
        bool lifted = lift && age_in(word) > 1;
        pair = holds_pair(word) && (lifted || !lift);
        keys[slot] = pair ? key_of_goal(f, goal_in_slot(f, slot, word)) : 0;
        values[slot] = pair && KOEL_VALUE_BITS ? *there : 0;
        if (lifted) words[word_of_slot(slot)] = 0;
        if (lifted && KOEL_VALUE_BITS) *there = 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && inside) taken_bits[item / 32] = pack_answers(answers);
}

__kernel GROUP_SIZE void KERNEL(decode)(__global word_type *words, SLOT_TABLE, __global key_type *keys,
                                       __global value_type *values, __global uint *taken_bits) {
    slot_functions f = SLOT_FUNCTIONS;
    __local ulong answers[KOEL_GROUP / 8];
    decode_slot(f, words, false, keys, values, taken_bits, answers);
}

__kernel GROUP_SIZE void KERNEL(lift)(__global word_type *words, SLOT_TABLE, __global key_type *keys,
                                     __global value_type *values, __global uint *taken_bits) {
    slot_functions f = SLOT_FUNCTIONS;
    __local ulong answers[KOEL_GROUP / 8];
    decode_slot(f, words, true, keys, values, taken_bits, answers);
}
