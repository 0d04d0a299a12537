// How pairs are placed in classic bucketized tables: src/scheme/bucketized/classic.rs, with a walk for its search.
//
// Besides what bucketized.clh lists:
//   KOEL_LOAD_BALANCING   1, or 0 for first-fit
//
// No work-item waits for another. What `settle` sees of a bucket may be old, but a taken slot stays taken while pairs are
// placed; whether a free one still is, an atomic decides.

#define NOWHERE 0xffffffffu

#define NO_ROOM 0
#define SETTLED 1
#define A_COPY 2

// A bit for each free slot of a bucket.
static inline uint free_slots(const ulong *words) {
    uint free = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) free |= (uint)(words[j] == KOEL_CLASSIC_EMPTY) << j;
    return free;
}

static inline bool holds(const ulong *words, uint key) {
    bool there = false;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) there |= upper_of(words[j]) == key;
    return there;
}

// Tries to take the first of these slots that is still free. 1.2 has no count of trailing zeros.
static inline bool take(__global ulong *bucket, uint *free, ulong moving) {
    uint lowest = *free & (0u - *free);
    *free ^= lowest;
    return atom_cmpxchg(&bucket[popcount(lowest - 1)], KOEL_CLASSIC_EMPTY, moving) == KOEL_CLASSIC_EMPTY;
}

// Puts a pair into a free slot of one of its buckets by the table's policy. It was just evicted from bucket `from`,
// which has no room; or it is new, and then it is dropped where its key stands already. (Only then: of two copies that
// were both evicted, each could drop out because of the other.)
static inline int settle(__global ulong *image, functions f, ulong moving, uint from, uint buckets) {
    uint key = upper_of(moving);
    ulong words[KOEL_SLOTS];
#if KOEL_LOAD_BALANCING
    // The free slots of all candidates, KOEL_SLOTS bits each; 64 at the most.
    ulong all = 0;
    #pragma unroll
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        uint at = location(f, i, key, buckets);
        if (at == from) continue;
        read_bucket(image + first_slot(at), words);
        if (from == NOWHERE && holds(words, key)) return A_COPY;
        all |= (ulong)free_slots(words) << (i * KOEL_SLOTS);
    }
    uint first = first_choice(f, key);
    // Each turn strikes a slot off.
    while (all) {
        uint best = 0, free = 0;
        for (uint n = 0; n < KOEL_FUNCTIONS; n++) {
            uint i = (first + n) % KOEL_FUNCTIONS;
            uint room = (uint)(all >> (i * KOEL_SLOTS)) & ((1u << KOEL_SLOTS) - 1);
            best = popcount(room) > popcount(free) ? i : best;
            free = popcount(room) > popcount(free) ? room : free;
        }
        all ^= (ulong)(free & (0u - free)) << (best * KOEL_SLOTS);
        if (take(image + first_slot(location(f, best, key, buckets)), &free, moving)) return SETTLED;
    }
#else
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        uint at = location(f, i, key, buckets);
        if (at == from) continue;
        __global ulong *bucket = image + first_slot(at);
        read_bucket(bucket, words);
        if (from == NOWHERE && holds(words, key)) return A_COPY;
        uint free = free_slots(words);
        while (free) {
            if (take(bucket, &free, moving)) return SETTLED;
        }
    }
#endif
    return NO_ROOM;
}

__kernel GROUP_SIZE void bucketized_place(__global ulong *image, TABLE, const uint reach, __global const uint *keys,
                                          __global const uint *values, const ulong pairs, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < pairs) {
        uint key = keys[item], value = values[item];
        if (key == KOEL_CLASSIC_EMPTY_KEY) {
            count_outside(tally, value);
        } else {
            // A walk and no search: a pair without room takes the place of another, which goes on in its stead.
            ulong moving = ((ulong)key << 32) | value;
            uint from = NOWHERE;
            int became = NO_ROOM;
            for (uint moves = 0; ; moves++) {
                became = settle(image, f, moving, from, buckets);
                if (became != NO_ROOM || moves == reach) break;
                // One unplaced pair fails the attempt, so work-items with long chains check from time to time whether
                // there is one, and stop.
                if (moves % 64 == 63 && seen64(&status[KOEL_UNPLACED])) break;
                key = upper_of(moving);
                mix_keys drawn = {moves, 1, 1, from};
                uint random = mix(key, drawn);
                uint i = reduce(random, KOEL_FUNCTIONS), to = location(f, i, key, buckets);
                for (uint n = 1; n < KOEL_FUNCTIONS && to == from; n++) {
                    i = (i + 1) % KOEL_FUNCTIONS;
                    to = location(f, i, key, buckets);
                }
                moving = atom_xchg(&image[first_slot(to) + random % KOEL_SLOTS], moving);
                from = to;
            }
            if (became == A_COPY) count_copy(tally, key);
            // Counted at once and not with the group's tally, so that others see it while this group goes on.
            if (became == NO_ROOM) atom_add(&status[KOEL_UNPLACED], 1UL);
        }
    }
    report_tally(tally, status);
}

// After all pairs have settled: one work-item a slot counts it if a lookup of its key ends elsewhere. Of k pairs with
// one key a lookup finds one, so k - 1 are counted, here or when they were dropped.
__kernel GROUP_SIZE void bucketized_copies(__global const ulong *image, TABLE, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong slot = get_global_id(0);
    if (slot < first_slot(buckets) && taken(image[slot])) {
        uint key = upper_of(image[slot]);
        for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
            ulong first = first_slot(location(f, i, key, buckets)), found = first + KOEL_SLOTS;
            #pragma unroll
            for (uint j = KOEL_SLOTS; j-- > 0;) found = upper_of(image[first + j]) == key ? first + j : found;
            if (found == first + KOEL_SLOTS) continue;
            if (found != slot) count_copy(tally, key);
            break;
        }
    }
    report_tally(tally, status);
}
