// Placing pairs in classic bucketized tables: src/scheme/bucketized/classic.rs, with a random walk instead of a search.
//
// Besides the parameters of bucketized.clh:
//   KOEL_LOAD_BALANCING   1, or 0 for first-fit
//
// No work-item waits for another. `settle` may read outdated words, but an occupied slot stays occupied while pairs are
// placed. An atomic decides whether a slot is still free.

#define NOWHERE 0xffffffffu

#define NO_SLOT 0
#define SETTLED 1
#define A_COPY 2

// A bit for each free slot of a bucket.
static inline uint free_slots(const ulong *words) {
    uint free = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) free |= (uint)(words[j] == KOEL_CLASSIC_EMPTY) << j;
    return free;
}

static inline bool contains(const ulong *words, uint key) {
    bool there = false;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) there |= upper_of(words[j]) == key;
    return there;
}

// Tries to store a word in the first of these free slots. OpenCL C 1.2 cannot count trailing zeros.
static inline bool take(__global ulong *bucket, uint *free, ulong moving) {
    uint lowest = *free & (0u - *free);
    *free ^= lowest;
    return atom_cmpxchg(&bucket[popcount(lowest - 1)], KOEL_CLASSIC_EMPTY, moving) == KOEL_CLASSIC_EMPTY;
}

// Stores a pair in a free slot of one of its buckets, according to the table's policy. Skips bucket `from`, from which
// the pair was evicted and which is full. A new pair (`from` is NOWHERE) is dropped if its key is already stored. An
// evicted pair is not: of two duplicates that are both evicted, each could be dropped because of the other.
static inline int settle(__global ulong *image, functions f, ulong moving, uint from, uint buckets) {
    uint key = upper_of(moving);
    ulong words[KOEL_SLOTS];
#if KOEL_LOAD_BALANCING
    // The free slots of all candidate buckets, KOEL_SLOTS bits each, at most 64 in total.
    ulong all = 0;
    #pragma unroll
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        uint at = location(f, i, key, buckets);
        if (at == from) continue;
        read_bucket(image + first_slot(at), words);
        if (from == NOWHERE && contains(words, key)) return A_COPY;
        all |= (ulong)free_slots(words) << (i * KOEL_SLOTS);
    }
    uint first = first_choice(f, key);
    // Each iteration removes one slot from the set.
    while (all) {
        uint best = 0, free = 0;
        for (uint n = 0; n < KOEL_FUNCTIONS; n++) {
            uint i = (first + n) % KOEL_FUNCTIONS;
            uint vacant = (uint)(all >> (i * KOEL_SLOTS)) & ((1u << KOEL_SLOTS) - 1);
            best = popcount(vacant) > popcount(free) ? i : best;
            free = popcount(vacant) > popcount(free) ? vacant : free;
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
        if (from == NOWHERE && contains(words, key)) return A_COPY;
        uint free = free_slots(words);
        while (free) {
            if (take(bucket, &free, moving)) return SETTLED;
        }
    }
#endif
    return NO_SLOT;
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
            // A random walk instead of a search: a pair that finds no free slot evicts another, which continues.
            ulong moving = ((ulong)key << 32) | value;
            uint from = NOWHERE;
            int outcome = NO_SLOT;
            for (uint moves = 0; ; moves++) {
                outcome = settle(image, f, moving, from, buckets);
                if (outcome != NO_SLOT || moves == reach) break;
                // An unplaced pair fails the attempt, so work-items with long chains periodically check for one
                // and stop.
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
            if (outcome == A_COPY) count_copy(tally, key);
            // Added directly instead of through the group's tally, so that other work-groups see it early.
            if (outcome == NO_SLOT) atom_add(&status[KOEL_UNPLACED], 1UL);
        }
    }
    report_tally(tally, status);
}

// Runs after all pairs are placed. Counts each slot whose key is found in another slot by a lookup. Of k pairs with one
// key, a lookup finds one, so k - 1 are counted, here or when they were dropped.
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
