// Builds of two-level tables: src/scheme/fks/canonical.rs and classic.rs, in the stages of the 2009 poster.
//
//   fks_count      a work-item per pair   the pair's bucket, and its rank there: one atomic increment
//   (scan)         scan.cl                the prefix sums of the counts: where each bucket's pairs begin
//   fks_shuffle    a work-item per pair   moves the pair to its bucket's range
//   fks_cuckoo     a group per bucket     builds the bucket in local memory, and writes all of it
//
// `starts` has two words more than there are buckets. While pairs are counted, word b counts the pairs of bucket b, and
// the word after the last bucket counts pairs in excess of KOEL_FKS_BUCKET_PAIRS per bucket. After the scan, bucket b
// begins at word b and ends at the next one, and the last two words differ if a bucket was overfull: then the attempt
// has failed, and the later stages do nothing.
//
// Work-items wait for others only at barriers. All races in local memory are between atomics, which are cheap there on
// a GPU, and are maxima if the outcome must not depend on the order.

static inline bool failed(table t, __global const uint *starts) { return starts[t.buckets] != starts[t.buckets + 1]; }

static inline bool is_outside(uint key) { return KOEL_CLASSIC && key == KOEL_CLASSIC_EMPTY_KEY; }

__kernel GROUP_SIZE void fks_count(TABLE, __global const uint *keys, __global const uint *values, const ulong pairs,
                                   __global uint *starts, __global uint *ranks, __global ulong *status) {
    table t = THE_TABLE;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < pairs) {
        uint key = keys[item];
        if (is_outside(key)) {
            count_outside(tally, values[item]);
        } else {
            // If a bucket is already full, the attempt has failed, so further pairs of a heavy key are not counted.
            __global uint *counted = &starts[bucket_of_key(t, key)];
            uint rank = seen32(counted);
            if (rank < KOEL_FKS_BUCKET_PAIRS) rank = atomic_inc(counted);
            ranks[item] = rank;
            if (rank >= KOEL_FKS_BUCKET_PAIRS) count_unplaced(tally);
        }
    }
    report_tally(tally, status);
    if (get_local_id(0) == 0 && tally[KOEL_UNPLACED]) atomic_add(&starts[buckets], tally[KOEL_UNPLACED]);
}

__kernel GROUP_SIZE void fks_shuffle(TABLE, __global const uint *keys, __global const uint *values, const ulong pairs,
                                     __global const uint *starts, __global const uint *ranks,
                                     __global ulong *shuffled) {
    table t = THE_TABLE;
    ulong item = get_global_id(0);
    if (item >= pairs || failed(t, starts)) return;
    uint key = keys[item];
    if (is_outside(key)) return;
    shuffled[starts[bucket_of_key(t, key)] + ranks[item]] = ((ulong)key << 32) | values[item];
}

// ---- Placing a bucket's pairs with one seed number. `halves` are the upper halves of its slots, all empty, and `left`
// is two zeros. Both versions of `place_pairs` return the number of pairs without a slot to all work-items.

#if KOEL_CLASSIC

#define PAIRS_EACH ((KOEL_FKS_BUCKET_PAIRS + KOEL_GROUP - 1) / KOEL_GROUP)
// Instead of the number of a sub-table: OUT if the pair is in none, NONE if there is no pair.
#define OUT 3
#define NONE 4

// The rounds of the poster: all pairs that are in no sub-table write their keys to the next one, and after a barrier
// each pair checks whether its key is still stored. Keys and slots of pairs stay in registers, with one byte per slot.
INLINED uint place_pairs(table t, uint salt, uint iterations, __global const ulong *pairs, uint count,
                         __local uint *halves, __local uint *left) {
    uint keys[PAIRS_EACH], places[PAIRS_EACH], in[PAIRS_EACH];
    #pragma unroll
    for (uint n = 0; n < PAIRS_EACH; n++) {
        uint j = n * KOEL_GROUP + get_local_id(0);
        keys[n] = j < count ? upper_of(pairs[j]) : 0;
        in[n] = j < count ? OUT : NONE;
        places[n] = 0;
        for (uint i = 0; i < KOEL_FKS_SUBTABLES; i++) places[n] |= place_of(t, salt, i, keys[n]).at << (8 * i);
    }
    uint out = count;
    for (uint iteration = 0; iteration < iterations && out > 0; iteration++) {
        for (uint i = 0; i < KOEL_FKS_SUBTABLES; i++) {
            __local uint *subtable = halves + i * KOEL_FKS_SUBTABLE_SLOTS;
            #pragma unroll
            for (uint n = 0; n < PAIRS_EACH; n++) {
                if (in[n] != OUT) continue;
                atomic_xchg(&subtable[(places[n] >> (8 * i)) & 0xff], keys[n]);
                in[n] = i;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            #pragma unroll
            for (uint n = 0; n < PAIRS_EACH; n++) {
                if (in[n] == i && subtable[(places[n] >> (8 * i)) & 0xff] != keys[n]) in[n] = OUT;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        // Rounds alternate between the two counters, so that one can be cleared while the other is read.
        uint mine = 0;
        #pragma unroll
        for (uint n = 0; n < PAIRS_EACH; n++) mine += in[n] == OUT;
        if (mine) atomic_add(&left[iteration % 2], mine);
        barrier(CLK_LOCAL_MEM_FENCE);
        out = left[iteration % 2];
        if (get_local_id(0) == 0) left[(iteration + 1) % 2] = 0;
    }
    return out;
}

#else

// Deferred acceptance. A work-item takes the next pair as soon as its current chain ends, so that work-items that run
// in lockstep do not wait for the longest chain of each round. There is one offer per pair and age, which bounds the
// loop.
#define MOST_OFFERS (KOEL_FKS_BUCKET_PAIRS * KOEL_MAX_AGE)

INLINED uint place_pairs(table t, uint salt, uint iterations, __global const ulong *pairs, uint count,
                         __local uint *halves, __local uint *left) {
    uint next = get_local_id(0), key = 0, age = 0, turn = 0;
    for (uint offers = 0; offers <= MOST_OFFERS; offers++) {
        if (age == 0) {
            if (next >= count) break;
            key = upper_of(pairs[next]);
            next += KOEL_GROUP;
            age = 1;
            turn = 0;
        }
        place p = place_of(t, salt, turn, key);
        uint mine = upper(age, p.rest), there = atomic_max(&halves[slot_of(p)], mine);
        if (there == EMPTY_HALF || there == mine) {
            // The pair is stored, or is a duplicate (same key, same age), which is counted when values are written.
            age = 0;
            continue;
        }
        if (there < mine) {
            // The displaced pair used the same sub-table, so `turn` stays the same.
            key = key_in(t, salt, turn, p.at, there);
            age = age_of(there);
        }
        age++;
        turn = turn + 1 == KOEL_FKS_SUBTABLES ? 0 : turn + 1;
        if (age > KOEL_MAX_AGE) {
            atomic_inc(&left[0]);
            age = 0;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return left[0];
}

#endif

// The slot of a key that is stored in the bucket.
INLINED uint slot_of_key(table t, uint salt, uint key, __local const uint *halves) {
    for (uint i = 0; i < KOEL_FKS_SUBTABLES; i++) {
        place p = place_of(t, salt, i, key);
        if (stands(p, halves[slot_of(p)])) return slot_of(p);
    }
    return 0;
}

__kernel GROUP_SIZE void fks_cuckoo(__global ulong *image, TABLE, const uint iterations, __global const uint *starts,
                                    __global const ulong *shuffled, __global ulong *status) {
    table t = THE_TABLE;
    __local uint halves[KOEL_FKS_BUCKET_SLOTS], values[KOEL_FKS_BUCKET_SLOTS], claims[KOEL_FKS_BUCKET_SLOTS / 32];
    __local uint left[2], tally[KOEL_TALLY];
    if (failed(t, starts)) return;
    uint me = get_local_id(0), bucket = (uint)get_group_id(0);
    uint count = starts[bucket + 1] - starts[bucket];
    __global const ulong *pairs = shuffled + starts[bucket];
    clear_tally(tally);
    for (uint j = me; j < KOEL_FKS_BUCKET_SLOTS; j += KOEL_GROUP) values[j] = 0;
    for (uint j = me; j < KOEL_FKS_BUCKET_SLOTS / 32; j += KOEL_GROUP) claims[j] = 0;

    uint out = 1, salt = 0, seed = 0;
    for (uint attempt = 0; attempt < KOEL_SEEDS && out > 0; attempt++) {
        seed = attempt;
        salt = salt_of(t, seed);
        for (uint j = me; j < KOEL_FKS_BUCKET_SLOTS; j += KOEL_GROUP) halves[j] = EMPTY_HALF;
        if (me < 2) left[me] = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        out = place_pairs(t, salt, iterations, pairs, count, halves, left);
        // Nothing is cleared while other work-items read it.
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    if (out > 0) {
        if (me == 0) atomic_add(&tally[KOEL_UNPLACED], out);
    } else {
        // Each pair searches for the slot of its key. Of several pairs with one key, the greatest value is kept, and
        // all but one are counted as duplicates.
        for (uint j = me; j < count; j += KOEL_GROUP) {
            uint key = upper_of(pairs[j]), slot = slot_of_key(t, salt, key, halves);
            if (atomic_or(&claims[slot / 32], 1u << (slot % 32)) & (1u << (slot % 32))) count_copy(tally, key);
            atomic_max(&values[slot], (uint)pairs[j]);
        }
    }
    report_tally(tally, status);
    for (uint j = me; j < KOEL_FKS_BUCKET_SLOTS; j += KOEL_GROUP) {
        image[first_slot(bucket) + j] = ((ulong)halves[j] << 32) | values[j];
    }
    if (me == 0) {
        // The byte of the last bucket, and the bytes after it up to a whole word, which are 0.
        __global uchar *seeds = (__global uchar *)image + 8 * first_slot(buckets);
        seeds[bucket] = (uchar)seed;
        if (bucket + 1 == buckets) {
            for (uint j = buckets; j % KOEL_FKS_SEEDS_OF_WORD != 0; j++) seeds[j] = 0;
        }
    }
}
