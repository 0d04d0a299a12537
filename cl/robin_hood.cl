// Both kinds of Robin Hood table: src/scheme/robin_hood/rule.rs, one work-item a key, and one a cell for the rest.
//
// Besides what robin_hood.clh lists: KOEL_GROUP, the work-items of a group, a multiple of 32.
//
// No work-item waits for another, and none reads plainly what another changes with an atomic but by `SEEN`, of which
// cl/heavy.clh says why. All lengths are 64 bits wide. The global size is a multiple of the group's: work-items past
// the end do nothing, but reach every barrier.
//
// Where neighbouring work-items have neighbouring keys, a coherent sequence gives them neighbouring cells at every age:
// a group then reads whole lines. Nothing here undoes that: a key is followed by the one work-item that it came to, and
// no order is made up.

// ---- Building.

#ifndef KOEL_PARTIAL

__kernel GROUP_SIZE void robin_hood_place(__global cell *image, TABLE, __global const uint *keys,
                                          __global const uint *values, const ulong pairs, __global ulong *status) {
    lists t = THE_LISTS;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < pairs) {
        uint2 goal = aim(t, keys[item]);
        uint home = goal.x, name = goal.y, value = values[item], age = 1;
        while (age <= KOEL_LAST_AGE) {
            uint at = place_of(t, home, age);
            cell mine = cell_of(age, name, value);
            // The whole rule is this maximum. Its result determines which of the two cells is left without a slot.
            // Where the cell seen is not below mine, it would change nothing: I am refused for good, or a copy of what
            // was there.
            cell there = SEEN(image, at);
            if (there < mine) there = RAISE(&image[at], mine);
            if (upper_part(there) == upper_part(mine)) {
                // My own key at my own age: the greater cell stays, the other is dropped.
                count_copy(tally, KOEL_CLASSIC ? name : key_of(t, home, name));
                break;
            }
            if (there < mine) {
                if (!has_age(there)) break;
                // Place and age say the home, so the key itself is never needed on the way.
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

// For each home the greatest age of its keys. `ages` is 0 before.
__kernel GROUP_SIZE void robin_hood_max_ages(__global const cell *image, TABLE, __global uint *ages) {
    lists t = THE_LISTS;
    ulong at = get_global_id(0);
    if (at >= SLOTS(t)) return;
    cell there = image[at];
    if (has_age(there)) atomic_max(&ages[home_of(t, (uint)at, age_in(there))], age_in(there));
}

// Their codes: into the words behind the cells, one work-item a word; or over the ages in the cells, one a cell.
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
    // At least 1, so that a pair that is not on its list is not an empty cell.
    if (there != 0) image[item] = with_age(there, max(code_of(ages[item]), 1u));
#endif
}

#endif

#endif

// ---- Searching.

#define NOWHERE 0xffffffffu

// How far a lookup may have to go, as long as it has read no cell.
static inline uint first_bound(lists t, __global const cell *image, uint home) {
#if KOEL_ARRAY
    ulong word = image[SLOTS(t) + (ulong)(home / CODES_A_WORD)];
    return bound_of((uint)(word >> (home % CODES_A_WORD * KOEL_CODE_BITS)) & LOW(KOEL_CODE_BITS));
#else
    return KOEL_PACKED ? 1 : KOEL_LAST_AGE;
#endif
}

// The same once the cell at home is read.
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

// A key would have displaced what is weaker. If codes have replaced the ages, this is unknown.
static inline bool ends_here(cell there, uint age, uint name) {
    return !KOEL_PACKED && upper_part(there) < upper_part(cell_of(age, name, 0));
}

// A search: the place where a key stands, and the cell there; or NOWHERE. One read at a time, because most keys end at
// their first or second. READ(cells, at) is how others' changes are met meanwhile.
#define SEARCH(NAME, CELLS, READ)                                                                                    \
    static inline uint NAME(lists t, __global const cell *image, CELLS cells, uint key, cell *there) {               \
        uint2 goal = aim(t, key);                                                                                    \
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
        uint2 goal = aim(t, queries[k]);
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

// The keys are distinct, so each cell has one writer. Others read it meanwhile on their way.
#if KOEL_CLASSIC

// A value shares its half of a cell with a part of the key, so all that reads and writes here is atomic.
#if KOEL_VALUE_BITS > 0
#ifdef KOEL_PARTIAL
// The lower half alone changes, and in it the value alone: a read in two halves sees the age and the key.
static inline void put_value(__global cell *at, cell there, uint value) {
    uint low = (uint)there & ~LOW(KOEL_VALUE_BITS);
    atomic_xchg((__global uint *)at, low | (value & LOW(KOEL_VALUE_BITS)));
}
SEARCH(find_shared, __global cell *, SEEN)
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

// Only upper halves (odd) are read, only lower ones (even, the values) are written. The image is passed once more for
// the maximum ages, which are not written.
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

// Several work-items may be after one key. Each exchanges the cell it found for the tombstone; the one that takes the
// pair out counts it.
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

// Tombstones and pairs above age 1 leave the image; the pairs are returned. The maximum ages stay: the caller places
// the pairs again, which rewrites them.
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

__kernel GROUP_SIZE void robin_hood_decode(__global const cell *image, TABLE, __global uint *keys, __global uint *values,
                                           __global uint *taken_bits) {
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
