// Both kinds of cuckoo table and set: src/scheme/cuckoo/canonical.rs and classic.rs, src/scheme/cuckoo_set.rs. One
// work-item per key, except lookups of runs of keys.
//
// Compile-time parameters (one program for each combination in use):
//   KOEL_CLASSIC       0 canonical, 1 classic
//   KOEL_CELL_BITS     64, or 32 for sets: a slot is the upper half of the word, whose value is 0 (cell.clh)
//   KOEL_FUNCTIONS     H, 2 to 5
//   KOEL_FAMILY        index in HashFamily::ALL      (classic)
//   KOEL_REINSERTION   index in Reinsertion::ALL     (classic)
//   KOEL_GROUP         work-items of a group, a multiple of 32
//   KOEL_RUN           0, or the keys per work-item of lookups (runs.clh)
// Arguments, because the plan determines them: the constants of the H functions, the slots, the maximum length of
// chains, the sentinel pair.
//
// No work-item waits for another. Words that others change by atomics are read by `SEEN` (cl/heavy.clh explains why
// this is correct), except in `cuckoo_copies`, which explains its reads. All lengths have 64 bits. The global size is a
// multiple of the group size: work-items past the end do no work, but reach every barrier.

// The parameters of every kernel of a table.
#define TABLE const uint slots, MIXERS

// ---- src/scheme/cuckoo/cell.rs

#define KEYS_ALONE (KOEL_CELL_BITS == 32)

#if KEYS_ALONE
static inline cell cell_of(uint upper, uint value) { return upper; }
static inline uint upper_in(cell there) { return there; }
static inline uint value_in(cell there) { return 0; }
#else
static inline cell cell_of(uint upper, uint value) { return ((cell)upper << 32) | value; }
static inline uint upper_in(cell there) { return upper_of(there); }
static inline uint value_in(cell there) { return (uint)there; }
#endif

// ---- The result of one probe of a lookup.

#define GO_ON 0
#define FOUND 1
#define ABSENT 2

#if KOEL_CLASSIC

// ---- Classic: a slot is [key][value], or [key].

static inline uint location(functions f, uint i, uint key, uint slots) {
    mix_keys c = keys_of(f, i);
#if KOEL_FAMILY == KOEL_FAMILY_MIXER
    return reduce(mix(key, c), slots);
#elif KOEL_FAMILY == KOEL_FAMILY_LINEAR
    return linear_family(key, c.before, c.between, KOEL_ALCANTARA_PRIME, slots);
#else
    return xor_family(key, c.before, c.between, KOEL_ALCANTARA_PRIME, slots);
#endif
}

// The next slot of a pair that was evicted from `from` after `swaps` swaps (Listing 4.1, and the two corrections in
// Section 4.3.1.2).
static inline uint next_location(functions f, uint key, uint from, uint swaps, uint slots) {
#if KOEL_REINSERTION == KOEL_RANDOM_FUNCTION
    mix_keys drawn = {swaps, 1, 1, from};
    return location(f, reduce(mix(key, drawn), KOEL_FUNCTIONS), key, slots);
#else
    uint places[KOEL_FUNCTIONS];
    #pragma unroll
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) places[i] = location(f, i, key, slots);
    // The loops count down, so that the earliest function whose slot is `from` determines `to`, the slot of the next
    // function. If no function has this slot, `to` is the first function's (and `here` stays the last function).
    uint to = places[0];
#if KOEL_REINSERTION == KOEL_AS_PUBLISHED
    #pragma unroll
    for (uint i = KOEL_FUNCTIONS; i-- > 0;) to = places[i] == from ? places[(i + 1) % KOEL_FUNCTIONS] : to;
#else
    uint here = KOEL_FUNCTIONS - 1;
    #pragma unroll
    for (uint i = KOEL_FUNCTIONS; i-- > 0;) here = places[i] == from ? i : here;
    // The next slot after function `here`, cyclically, that differs from `from`. `here` is the earliest function with
    // this slot, so all before it have other slots: the result is the first different slot after it or else the very
    // first, unless all are equal.
    to = here > 0 ? places[0] : from;
    #pragma unroll
    for (uint i = KOEL_FUNCTIONS; i-- > 1;) to = (i > here && places[i] != from) ? places[i] : to;
#endif
    return to;
#endif
}

#ifndef KOEL_PARTIAL

// A chain also ends if a pair meets its own key: one of the two is kept, and the other is counted.
__kernel GROUP_SIZE void cuckoo_place(__global cell *image, TABLE, const uint chain, __global const uint *keys,
                                      __global const uint *values, const ulong pairs, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    uint key = item < pairs ? keys[item] : KOEL_CLASSIC_EMPTY_KEY;
    uint value = KEYS_ALONE || item >= pairs ? 0 : values[item];
    if (item < pairs && seen64(&status[KOEL_UNPLACED])) {
        // A cut chain fails the attempt, so no further chain begins.
        count_unplaced(tally);
    } else if (key != KOEL_CLASSIC_EMPTY_KEY) {
        // Listing 4.1. `moving` is the evicted entry. Its key indicates whether the last swap found a pair or an empty
        // slot.
        cell moving = cell_of(key, value);
        uint at = location(f, 0, key, slots);
        // The paper compares the evicted entry's key only in sets. Here, one of two duplicates is kept and the other is
        // dropped; otherwise duplicates would evict each other until the chain is cut. A duplicate that finds its key
        // stored before its first swap is not inserted. (Only then: of two duplicates that were both evicted, each
        // could be dropped because of the other.)
        bool duplicate = upper_in(SEEN(image, at)) == key;
        for (uint swaps = 0; swaps < chain && !duplicate; swaps++) {
            moving = EXCHANGE(&image[at], moving);
            duplicate = upper_in(moving) == key;
            key = upper_in(moving);
            if (key == KOEL_CLASSIC_EMPTY_KEY) break;
            at = next_location(f, key, at, swaps, slots);
            // Work-items with long chains check periodically whether a chain was cut, and stop. Most chains end after
            // two swaps, and never check.
            if (swaps % 64 == 63 && seen64(&status[KOEL_UNPLACED])) break;
        }
        if (duplicate) count_copy(tally, key);
        // Added directly instead of through the group's tally, so that other work-groups see it early.
        else if (key != KOEL_CLASSIC_EMPTY_KEY) atom_add(&status[KOEL_UNPLACED], 1UL);
    } else if (item < pairs) {
        count_outside(tally, value);
    }
    report_tally(tally, status);
}

// Reads a slot that other work-items may be emptying.
#if KEYS_ALONE
#define READ_COPY SEEN
#else
#define READ_COPY(cells, at) (cells)[at]
#endif

// Runs after all pairs are placed. Counts each slot whose key is found in another slot by a lookup. Of k pairs with one
// key, a lookup finds one, so k - 1 are counted, here or when they were dropped.
//
// In a set, these slots are also emptied, which is the paper's clean-up. A slot that is read here may be emptied at any
// time, but the first slot with a key is never emptied, and the search reaches it before all others of the key. So the
// result does not depend on other reads. The loads have 32 bits, and are not torn.
__kernel GROUP_SIZE void cuckoo_copies(__global cell *image, TABLE, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong slot = get_global_id(0);
    if (slot < slots) {
        uint key = upper_in(READ_COPY(image, slot));
        if (key != KOEL_CLASSIC_EMPTY_KEY) {
            for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
                uint at = location(f, i, key, slots);
                // If the search reaches the slot itself, it ends without a second read.
                if (at == slot) break;
                if (upper_in(READ_COPY(image, at)) == key) {
                    count_copy(tally, key);
#if KEYS_ALONE
                    EXCHANGE(&image[slot], KOEL_CLASSIC_EMPTY_KEY);
#endif
                    break;
                }
            }
        }
    }
    report_tally(tally, status);
}

#endif

// The slot of a key under function i, and the upper half that identifies the key there.
static inline uint2 probe(functions f, uint i, uint key, uint slots) {
    return (uint2)(location(f, i, key, slots), key);
}

static inline int verdict(uint i, uint wanted, uint upper_there) { return upper_there == wanted ? FOUND : GO_ON; }

static inline bool taken(cell there) { return upper_in(there) != KOEL_CLASSIC_EMPTY_KEY; }

// The word of a slot whose pair was removed.
#define VACANT cell_of(KOEL_CLASSIC_EMPTY_KEY, 0)

static inline uint key_in(functions f, uint slot, uint slots, cell there) { return upper_in(there); }

#else

// ---- Canonical: a slot is [age][remainder][value], or [age][remainder].

// The function that a proposal of this age uses. Age 0 is not a proposal, but must not give an index out of range,
// whatever the image contains.
static inline uint turn_of(uint age) { return (max(age, 1u) - 1) % KOEL_FUNCTIONS; }

// The slot and the remainder of a key under function i.
static inline uint2 probe(functions f, uint i, uint key, uint slots) {
    return split(mix(key, keys_of(f, i)), slots);
}

// Remainders alone do not suffice: a remainder identifies a key only together with the function, which the age
// determines. A word below the key's proposal proves that the key never made an offer to this slot, because the offer
// would have displaced the word.
static inline int verdict(uint i, uint remainder, uint upper_there) {
    if (remainder_of(upper_there) == remainder && is_pair(upper_there) && turn_of(age_of(upper_there)) == i) return FOUND;
    return upper_there < upper(i + 1, remainder) ? ABSENT : GO_ON;
}

static inline bool taken(cell there) { return is_pair(upper_in(there)); }

// The word of a slot whose pair was removed.
#define VACANT cell_of(upper_of(KOEL_TOMBSTONE), 0)

static inline uint key_in(functions f, uint slot, uint slots, cell there) {
    uint turn = turn_of(age_of(upper_in(there)));
    return unmix(join(slot, remainder_of(upper_in(there)), slots), keys_of(f, turn));
}

// In the partial tier, tables of pairs are placed like sets: only upper halves (src/opencl/cuckoo/mod.rs).
#if !defined(KOEL_PARTIAL) || KEYS_ALONE
__kernel GROUP_SIZE void cuckoo_place(__global cell *image, TABLE, const uint chain, __global const uint *keys,
                                      __global const uint *values, const ulong pairs, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < pairs) {
        uint key = keys[item], value = KEYS_ALONE ? 0 : values[item];
        uint age = 1, turn = 0;
        while (age <= KOEL_MAX_AGE) {
            uint2 at = probe(f, turn, key, slots);
            cell mine = cell_of(upper(age, at.y), value);
            // The whole rule is this maximum. Its result determines which of the two words is left without a slot. The
            // maximum is skipped if the word read is not below `mine`, because it would change nothing: slots only
            // increase, so `mine` is rejected for good, or it is a duplicate of the word read and can be dropped,
            // whatever happened to that word (src/cpu/acceptance.rs has the proof).
            cell there = SEEN(image, at.x);
            if (there < mine) there = RAISE(&image[at.x], mine);
            if (upper_in(there) == upper_in(mine)) {
                // The same key at the same age: the greater word is kept, the other is dropped.
                count_copy(tally, key);
                break;
            }
            if (there < mine) {
                if (there == KOEL_SLOT_EMPTY) break;
                key = key_in(f, at.x, slots, there);
                value = value_in(there);
                age = age_of(upper_in(there));
                turn = turn_of(age);
            }
            age++;
            turn = turn + 1 == KOEL_FUNCTIONS ? 0 : turn + 1;
        }
        if (age > KOEL_MAX_AGE) count_unplaced(tally);
    }
    report_tally(tally, status);
}
#endif

#endif

// ---- Both kinds, by `probe`, `verdict`, `taken` and `key_in`.

#if KOEL_RUN > 0

__kernel BY_ITSELF void cuckoo_lookup(__global const cell *image, TABLE, const uint outside, const uint outside_value,
                                      __global const uint *queries, const ulong count, __global uint *values,
                                      __global uint *found) {
    functions f = {forth, back};
    ulong start = get_global_id(0) * KOEL_RUN;
    if (start >= count) return;
    uint len = (uint)min(count - start, (ulong)KOEL_RUN), left = len;
    queries += start;
    values += start;
    found += start / 32;
    uint at[KOEL_RUN], wanted[KOEL_RUN], bits[KOEL_RUN / 32];
    cell there[KOEL_RUN];
    uchar result[KOEL_RUN];
    ushort open[KOEL_RUN];
    for (uint k = 0; k < KOEL_RUN / 32; k++) bits[k] = 0;
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        for (uint j = 0; j < left; j++) {
            uint2 to = probe(f, i, queries[i ? open[j] : j], slots);
            at[j] = to.x;
            wanted[j] = to.y;
        }
        for (uint j = 0; j < left; j++) ASK_FOR(image + at[j]);
        for (uint j = 0; j < left; j++) there[j] = image[at[j]];
        for (uint j = 0; j < left; j++) result[j] = (uchar)verdict(i, wanted[j], upper_in(there[j]));
        uint now = left;
        left = 0;
        for (uint j = 0; j < now; j++) {
            uint k = i ? open[j] : j, hit = result[j] == FOUND;
            values[k] = value_in(there[j]) & (0 - hit);
            bits[k / 32] |= hit << (k % 32);
            open[left] = (ushort)k;
            left += result[j] == GO_ON;
        }
    }
#if KOEL_CLASSIC
    // The search takes empty slots for pairs with this key.
    answer_outside(queries, len, outside, outside_value, values, bits);
#endif
    for (uint k = 0; k < len; k += 32) found[k / 32] = bits[k / 32];
}

#else

// One read at a time, because most keys end at their first or second slot: in prototypes, four reads at once halved the
// rate of an H200.
__kernel GROUP_SIZE void cuckoo_lookup(__global const cell *image, TABLE, const uint outside, const uint outside_value,
                                       __global const uint *queries, const ulong count, __global uint *values,
                                       __global uint *found) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        uint key = queries[item], value = 0;
#if KOEL_CLASSIC
        if (key == KOEL_CLASSIC_EMPTY_KEY) {
            hit = outside;
            value = outside_value;
        } else
#endif
        for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
            uint2 at = probe(f, i, key, slots);
            cell there = image[at.x];
            int result = verdict(i, at.y, upper_in(there));
            if (result == GO_ON) continue;
            hit = result == FOUND;
            value = hit ? value_in(there) : 0;
            break;
        }
        values[item] = value;
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#endif

#if !KEYS_ALONE
// Keys are distinct, so each slot has one writer. Other work-items may read the slot during their search. To avoid
// races, the image is accessed as 32-bit halves: upper (odd) halves are only read, lower (even) halves, which contain
// the values, only written.
__kernel GROUP_SIZE void cuckoo_assign(__global uint *halves, TABLE, __global const uint *keys,
                                       __global const uint *values, const ulong count) {
    functions f = {forth, back};
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint key = keys[item];
#if KOEL_CLASSIC
    if (key == KOEL_CLASSIC_EMPTY_KEY) return;
#endif
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        uint2 at = probe(f, i, key, slots);
        int result = verdict(i, at.y, halves[2 * (ulong)at.x + 1]);
        if (result == GO_ON) continue;
        if (result == FOUND) halves[2 * (ulong)at.x] = values[item];
        return;
    }
}
#endif

#ifndef KOEL_PARTIAL
// Several work-items may remove the same key. Each exchanges the word that it found for VACANT, and the one that gets
// the pair counts it. Reads may be outdated: if the key was found, the exchange decides whether it is still stored; if
// it was not found, it is absent for good.
__kernel GROUP_SIZE void cuckoo_remove(__global cell *image, TABLE, __global const uint *keys, const ulong count,
                                       __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < count) {
        uint key = keys[item];
#if KOEL_CLASSIC
        if (key == KOEL_CLASSIC_EMPTY_KEY) atomic_inc(&tally[KOEL_OUTSIDE_COUNT]);
        else
#endif
        for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
            uint2 at = probe(f, i, key, slots);
            int result = verdict(i, at.y, upper_in(SEEN(image, at.x)));
            if (result == GO_ON) continue;
            if (result == FOUND && EXCHANGE(&image[at.x], VACANT) != VACANT) atomic_inc(&tally[KOEL_REMOVED]);
            break;
        }
    }
    report_tally(tally, status);
}
#endif

#if !KOEL_CLASSIC
// Removes tombstones and pairs above age 1 from the image, and returns these pairs.
__kernel GROUP_SIZE void cuckoo_lift(__global cell *image, TABLE, __global uint *keys, __global uint *values,
                                     __global uint *taken_bits) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    ulong slot = get_global_id(0);
    bool pair = false;
    if (slot < slots) {
        cell there = image[slot];
        bool lifted = age_of(upper_in(there)) > 1;
        pair = lifted && taken(there);
        keys[slot] = pair ? key_in(f, (uint)slot, slots, there) : 0;
        values[slot] = pair ? value_in(there) : 0;
        if (lifted) image[slot] = KOEL_SLOT_EMPTY;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slot % 32 == 0 && slot < slots) taken_bits[slot / 32] = pack_answers(answers);
}
#endif

__kernel GROUP_SIZE void cuckoo_decode(__global const cell *image, TABLE, __global uint *keys, __global uint *values,
                                       __global uint *taken_bits) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    ulong slot = get_global_id(0);
    bool pair = false;
    if (slot < slots) {
        cell there = image[slot];
        pair = taken(there);
        keys[slot] = pair ? key_in(f, (uint)slot, slots, there) : 0;
        values[slot] = pair ? value_in(there) : 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slot % 32 == 0 && slot < slots) taken_bits[slot / 32] = pack_answers(answers);
}
