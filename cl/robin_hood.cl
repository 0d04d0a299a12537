// Robin Hood tables, canonical and classic: the OpenCL version of src/scheme/robin_hood/rule.rs. Kernels have one
// work-item per key or per cell.
//
// KOEL_GROUP, the work-items of a group, is a multiple of 32. The other constants are listed in robin_hood.clh.
//
// No work-item waits for another. Words that other work-items change with atomics are read with `SEEN`; cl/heavy.clh
// explains why. All lengths have 64 bits. The global size is a multiple of KOEL_GROUP: work-items past the end do
// nothing, but reach every barrier.
//
// If adjacent work-items have adjacent keys, a coherent sequence gives them adjacent cells at every age, so a group
// reads whole lines. The kernels preserve this: adjacent work-items process adjacent keys of the input.

// ---- Building.

#ifndef KOEL_PARTIAL

__kernel GROUP_SIZE void robin_hood_place(__global cell *image, TABLE, __global const uint *keys,
                                          __global const uint *values, const ulong pairs, __global ulong *status) {
    lists t = THE_LISTS;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < pairs) {
        uint2 goal = home_and_name(t, keys[item]);
        uint home = goal.x, name = goal.y, value = values[item], age = 1;
        while (age <= KOEL_LAST_AGE) {
            uint at = place_of(t, home, age);
            cell mine = cell_of(age, name, value);
            // The whole rule is this maximum. Its result determines which of the two cells continues. If the cell that
            // was read is not less than mine, the atomic would not change it, so it is skipped: my pair is rejected for
            // good, or is a duplicate.
            cell there = SEEN(image, at);
            if (there < mine) there = RAISE(&image[at], mine);
            if (upper_part(there) == upper_part(mine)) {
                // The same key at the same age: the greater cell stays, and the other pair is dropped as a duplicate.
                count_copy(tally, KOEL_CLASSIC ? name : key_of(t, home, name));
                break;
            }
            if (there < mine) {
                if (!has_age(there)) break;
                // Place and age determine the home, so the displaced key itself need not be computed.
                age = age_in(there);
                name = name_in(there);
                value = value_in(there);
                home = home_of(t, at, age);
            }
            age++;
        }
        if (age > KOEL_LAST_AGE) count_unplaced(tally);
    }
    report_tally(tally, status);
}

#if KOEL_ARRAY || KOEL_PACKED

// The maximum age of the keys of each home. The caller sets `ages` to 0.
__kernel GROUP_SIZE void robin_hood_max_ages(__global const cell *image, TABLE, __global uint *ages) {
    lists t = THE_LISTS;
    ulong at = get_global_id(0);
    if (at >= SLOTS(t)) return;
    cell there = image[at];
    if (has_age(there)) atomic_max(&ages[home_of(t, (uint)at, age_in(there))], age_in(there));
}

// Writes the codes of the maximum ages: to the words after the cells, one work-item per word; or in place of the ages
// in the cells, one work-item per cell.
__kernel GROUP_SIZE void robin_hood_pack(__global cell *image, TABLE, __global const uint *ages) {
    lists t = THE_LISTS;
    ulong item = get_global_id(0);
#if KOEL_ARRAY
    ulong first = item * CODES_A_WORD;
    if (first >= SLOTS(t)) return;
    uint codes = (uint)min((ulong)CODES_A_WORD, SLOTS(t) - first);
    ulong word = 0;
    for (uint i = 0; i < codes; i++) word |= (ulong)code_of(ages[first + i]) << (i * KOEL_CODE_BITS);
    image[SLOTS(t) + item] = word;
#else
    if (item >= SLOTS(t)) return;
    cell there = image[item];
    // At least 1: the pair may have another home, and with code 0, its cell could be equal to an empty one.
    if (there != 0) image[item] = with_age(there, max(code_of(ages[item]), 1u));
#endif
}

#endif

#endif

// ---- Searching.

#define NOWHERE 0xffffffffu

// The maximum number of cells that a lookup probes, before it has read any.
static inline uint first_bound(lists t, __global const cell *image, uint home) {
#if KOEL_ARRAY
    ulong word = image[SLOTS(t) + (ulong)(home / CODES_A_WORD)];
    return bound_of((uint)(word >> (home % CODES_A_WORD * KOEL_CODE_BITS)) & LOW(KOEL_CODE_BITS));
#else
    return KOEL_PACKED ? 1 : KOEL_LAST_AGE;
#endif
}

// The same, after the cell at home has been read.
static inline uint second_bound(cell at_home) {
#if KOEL_PACKED
    return max(bound_of(age_in(at_home)), 1u);
#else
    return 0;
#endif
}

static inline bool is_mine(cell there, uint age, uint name) {
    return name_in(there) == name && (KOEL_PACKED ? there != 0 : age_in(there) == age);
}

// A key that was inserted would have displaced a weaker cell. If codes have replaced the ages, this is unknown.
static inline bool ends_here(cell there, uint age, uint name) {
    return !KOEL_PACKED && upper_part(there) < upper_part(cell_of(age, name, 0));
}

// Defines a search: it returns the place of a key and its cell, or NOWHERE. It reads one cell at a time, because most
// keys end at their first or second place. READ(cells, at) reads a cell that other work-items may be changing.
#define SEARCH(NAME, CELLS, READ)                                                                                    \
    static inline uint NAME(lists t, __global const cell *image, CELLS cells, uint key, cell *there) {               \
        uint2 goal = home_and_name(t, key);                                                                          \
        uint bound = first_bound(t, image, goal.x);                                                                  \
        for (uint age = 1; age <= bound; age++) {                                                                    \
            uint at = place_of(t, goal.x, age);                                                                      \
            *there = READ(cells, at);                                                                                \
            if (KOEL_PACKED && age == 1) bound = second_bound(*there);                                               \
            if (is_mine(*there, age, goal.y)) return at;                                                             \
            if (ends_here(*there, age, goal.y)) break;                                                               \
        }                                                                                                            \
        return NOWHERE;                                                                                              \
    }

#define READ_PLAIN(cells, at) (cells)[at]
SEARCH(find, __global const cell *, READ_PLAIN)

#if KOEL_RUN > 0

__kernel BY_ITSELF void robin_hood_lookup(__global const cell *image, TABLE, __global const uint *queries,
                                          const ulong count, __global uint *values, __global uint *found) {
    lists t = THE_LISTS;
    ulong start = get_global_id(0) * KOEL_RUN;
    if (start >= count) return;
    uint len = (uint)min(count - start, (ulong)KOEL_RUN), left = 0;
    queries += start;
    values += start;
    found += start / 32;
    uint homes[KOEL_RUN], names[KOEL_RUN], bounds[KOEL_RUN], at[KOEL_RUN], bits[KOEL_RUN / 32];
    cell there[KOEL_RUN];
    ushort open[KOEL_RUN];
    for (uint k = 0; k < KOEL_RUN / 32; k++) bits[k] = 0;
    for (uint k = 0; k < len; k++) {
        uint2 goal = home_and_name(t, queries[k]);
        homes[k] = goal.x;
        names[k] = goal.y;
        values[k] = 0;
    }
#if KOEL_ARRAY
    for (uint k = 0; k < len; k++) ASK_FOR(image + SLOTS(t) + (ulong)(homes[k] / CODES_A_WORD));
#endif
    for (uint k = 0; k < len; k++) {
        bounds[k] = first_bound(t, image, homes[k]);
        open[left] = (ushort)k;
        left += bounds[k] > 0;
    }
    for (uint age = 1; left > 0; age++) {
        uint offset = offset_of(t, age);
        for (uint j = 0; j < left; j++) at[j] = wrapped(homes[open[j]] + offset, SLOTS(t));
        for (uint j = 0; j < left; j++) ASK_FOR(image + at[j]);
        for (uint j = 0; j < left; j++) there[j] = image[at[j]];
        uint now = left;
        left = 0;
        for (uint j = 0; j < now; j++) {
            uint k = open[j], name = names[k], hit = is_mine(there[j], age, name);
            if (KOEL_PACKED && age == 1) bounds[k] = second_bound(there[j]);
            values[k] = value_in(there[j]) & (0 - hit);
            bits[k / 32] |= hit << (k % 32);
            open[left] = (ushort)k;
            left += !hit & !ends_here(there[j], age, name) & (age < bounds[k]);
        }
    }
    for (uint k = 0; k < len; k += 32) found[k / 32] = bits[k / 32];
}

#else

__kernel GROUP_SIZE void robin_hood_lookup(__global const cell *image, TABLE, __global const uint *queries,
                                           const ulong count, __global uint *values, __global uint *found) {
    lists t = THE_LISTS;
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        cell there = 0;
        hit = find(t, image, image, queries[item], &there) != NOWHERE;
        values[item] = hit ? value_in(there) : 0;
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#endif

// The keys are distinct, so each cell has one writer. Other work-items may read the cell at the same time.
#if KOEL_CLASSIC

// A value shares its half of a cell with a part of the key, so all reads and writes here are atomic.
#if KOEL_VALUE_BITS > 0
#ifdef KOEL_PARTIAL
// Only the value in the lower half changes, so a read in two halves still returns the age and the key.
#define SEEN_HALVES(cells, at) \
    ((cell)seen32((__global uint *)&(cells)[at] + 1) << 32 | seen32((__global uint *)&(cells)[at]))
static inline void put_value(__global cell *at, cell there, uint value) {
    uint low = (uint)there & ~LOW(KOEL_VALUE_BITS);
    atomic_xchg((__global uint *)at, low | (value & LOW(KOEL_VALUE_BITS)));
}
SEARCH(find_shared, __global cell *, SEEN_HALVES)
#else
static inline void put_value(__global cell *at, cell there, uint value) {
    EXCHANGE(at, (upper_part(there) << KOEL_VALUE_BITS) | (value & LOW(KOEL_VALUE_BITS)));
}
SEARCH(find_shared, __global cell *, READ_SHARED)
#endif

__kernel GROUP_SIZE void robin_hood_assign(__global cell *cells, __global const cell *image, TABLE,
                                           __global const uint *keys, __global const uint *values, const ulong count) {
    lists t = THE_LISTS;
    ulong item = get_global_id(0);
    if (item >= count) return;
    cell there = 0;
    uint at = find_shared(t, image, cells, keys[item], &there);
    if (at == NOWHERE) return;
    // No other work-item changes this cell, so it still has the value that was read.
    put_value(&cells[at], there, values[item]);
}
#endif

#else

// Only upper halves (odd) are read, and only lower halves (even, the values) are written. The image is passed a second
// time for the maximum ages, which are not written.
#define READ_UPPER(halves, at) ((cell)(halves)[2 * (ulong)(at) + 1] << 32)
SEARCH(find_upper, __global const uint *, READ_UPPER)

__kernel GROUP_SIZE void robin_hood_assign(__global uint *halves, __global const cell *image, TABLE,
                                           __global const uint *keys, __global const uint *values, const ulong count) {
    lists t = THE_LISTS;
    ulong item = get_global_id(0);
    if (item >= count) return;
    cell there = 0;
    uint at = find_upper(t, image, halves, keys[item], &there);
    if (at != NOWHERE) halves[2 * (ulong)at] = values[item];
}

#ifndef KOEL_PARTIAL
SEARCH(find_shared, __global cell *, SEEN)

// Several work-items may remove the same key. Each exchanges the cell that it found for a tombstone, and the one that
// gets the pair counts it.
__kernel GROUP_SIZE void robin_hood_remove(__global cell *cells, __global const cell *image, TABLE,
                                           __global const uint *keys, const ulong count, __global ulong *status) {
    lists t = THE_LISTS;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < count) {
        cell there = 0;
        uint at = find_shared(t, image, cells, keys[item], &there);
        if (at != NOWHERE && EXCHANGE(&cells[at], KOEL_ROBIN_HOOD_TOMBSTONE) != KOEL_ROBIN_HOOD_TOMBSTONE) {
            atomic_inc(&tally[KOEL_REMOVED]);
        }
    }
    report_tally(tally, status);
}
#endif

// Removes tombstones, and pairs above age 1, from the image. The pairs are returned. The maximum ages stay, because the
// caller inserts the pairs again, which rewrites them.
__kernel GROUP_SIZE void robin_hood_lift(__global cell *image, TABLE, __global uint *keys, __global uint *values,
                                         __global uint *taken_bits) {
    lists t = THE_LISTS;
    __local ulong answers[KOEL_GROUP / 8];
    ulong at = get_global_id(0);
    bool pair = false;
    if (at < SLOTS(t)) {
        cell there = image[at];
        bool lifted = age_in(there) > 1;
        pair = lifted && taken(there);
        keys[at] = pair ? key_in(t, (uint)at, there) : 0;
        values[at] = pair ? value_in(there) : 0;
        if (lifted) image[at] = 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (at % 32 == 0 && at < SLOTS(t)) taken_bits[at / 32] = pack_answers(answers);
}

#endif

__kernel GROUP_SIZE void robin_hood_decode(__global const cell *image, TABLE, __global uint *keys,
                                           __global uint *values, __global uint *taken_bits) {
    lists t = THE_LISTS;
    __local ulong answers[KOEL_GROUP / 8];
    ulong at = get_global_id(0);
    bool pair = false;
    if (at < SLOTS(t)) {
        cell there = image[at];
        pair = taken(there);
        keys[at] = pair ? key_in(t, (uint)at, there) : 0;
        values[at] = pair ? value_in(there) : 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (at % 32 == 0 && at < SLOTS(t)) taken_bits[at / 32] = pack_answers(answers);
}
