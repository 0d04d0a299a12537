// Assigning values, removing pairs and decoding images of both kinds of bucketized table, with the functions that
// bucketized.clh defines for each kind. Builds: bucketized_canonical.cl and bucketized_classic.cl.
//
// All lengths have 64 bits. The global size is a multiple of the group size: work-items past the end do no work, but
// reach every barrier.

// Keys are distinct, so each slot has one writer. Other work-items may read the slot during their search. To avoid
// races, the image is accessed as 32-bit halves: upper (odd) halves are only read, lower (even) halves, which contain
// the values, only written.
__kernel GROUP_SIZE void bucketized_assign(__global uint *halves, TABLE, __global const uint *keys,
                                           __global const uint *values, const ulong count) {
    functions f = {forth, back};
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint key = keys[item];
#if KOEL_CLASSIC
    if (key == KOEL_CLASSIC_EMPTY_KEY) return;
#endif
    uint2 search = search_of(f, key, buckets);
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        __global uint *bucket = halves + 2 * first_slot(candidate(f, i, search, buckets));
        uint found = KOEL_SLOTS, least = 0;
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            least = bucket[2 * j + 1];
            found = matches(i, search, least) ? j : found;
        }
        if (found < KOEL_SLOTS) bucket[2 * found] = values[item];
        if (found < KOEL_SLOTS || ends(i, search, least)) return;
    }
}

#ifndef KOEL_PARTIAL
// Several work-items may remove the same key. Each exchanges the word that it found for VACANT, and the one that gets
// the pair counts it.
__kernel GROUP_SIZE void bucketized_remove(__global ulong *image, TABLE, __global const uint *keys, const ulong count,
                                           __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < count) {
        uint key = keys[item];
        uint2 search = search_of(f, key, buckets);
#if KOEL_CLASSIC
        if (key == KOEL_CLASSIC_EMPTY_KEY) atomic_inc(&tally[KOEL_OUTSIDE_COUNT]);
        else
#endif
        for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
            __global ulong *bucket = image + first_slot(candidate(f, i, search, buckets));
            ulong words[KOEL_SLOTS];
            read_bucket(bucket, words);
            uint found = KOEL_SLOTS;
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) found = matches(i, search, upper_of(words[j])) ? j : found;
            if (found < KOEL_SLOTS && atom_xchg(&bucket[found], VACANT) != VACANT) atomic_inc(&tally[KOEL_REMOVED]);
            if (found < KOEL_SLOTS || ends(i, search, upper_of(words[KOEL_SLOTS - 1]))) break;
        }
    }
    report_tally(tally, status);
}
#endif

__kernel GROUP_SIZE void bucketized_decode(__global const ulong *image, TABLE, __global uint *keys,
                                           __global uint *values, __global uint *taken_bits) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    ulong slot = get_global_id(0);
    bool inside = slot < first_slot(buckets), pair = false;
    if (inside) {
        ulong there = image[slot];
        pair = taken(there);
        keys[slot] = pair ? key_in(f, slot, buckets, there) : 0;
        values[slot] = pair ? (uint)there : 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slot % 32 == 0 && inside) taken_bits[slot / 32] = pack_answers(answers);
}
