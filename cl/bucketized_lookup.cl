// Lookups in both kinds of bucketized table, in two variants for different devices (src/opencl/passes/shape.rs).
//
// Besides the parameters of bucketized.clh:
//   KOEL_LANES     work-items that read a bucket together: 1, or KOEL_SLOTS / 2, each of which reads 16 bytes
//   KOEL_AT_ONCE   buckets that are read at once: 1, or all buckets of a key (classic, latency-optimized)
//
// The image is read 16 bytes at a time: two words, as (value, upper half, value, upper half).

#if KOEL_LANES == 1

// One work-item per key.
__kernel GROUP_SIZE void bucketized_lookup(__global const uint4 *image, TABLE, LOOKUP) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        uint key = queries[item], value = 0;
        uint2 search = search_of(f, key, buckets);
        #pragma unroll
        for (uint i = 0; i < KOEL_FUNCTIONS; i += KOEL_AT_ONCE) {
            uint4 two[KOEL_AT_ONCE * LOADS];
            #pragma unroll
            for (uint n = 0; n < KOEL_AT_ONCE; n++) {
                __global const uint4 *bucket = image + (ulong)candidate(f, i + n, search, buckets) * LOADS;
                #pragma unroll
                for (uint j = 0; j < LOADS; j++) two[n * LOADS + j] = bucket[j];
            }
            #pragma unroll
            for (uint j = 0; j < KOEL_AT_ONCE * LOADS; j++) {
                bool first = matches(i + j / LOADS, search, two[j].y), second = matches(i + j / LOADS, search, two[j].w);
                value = first ? two[j].x : second ? two[j].z : value;
                hit = hit || first || second;
            }
            if (hit || ends(i, search, two[LOADS - 1].w)) break;
        }
#if KOEL_CLASSIC
        // The search takes empty slots for pairs with this key.
        if (key == KOEL_CLASSIC_EMPTY_KEY) {
            hit = outside;
            value = outside_value;
        }
#endif
        GIVE_VALUE(value);
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#else

// KOEL_LANES work-items look up as many keys. Each of them reads 16 bytes of every key's bucket, so a bucket is one
// memory access, and each work-item has KOEL_LANES loads in flight before it uses the first. Keys, bucket numbers and
// results are exchanged in local memory, because OpenCL 1.2 has no sub-group operations.
//
// In a canonical table, few keys need a further bucket. These keys are listed, and KOEL_LANES adjacent work-items read
// the bucket of each, so a group reads no more than necessary. Work-items without a key read the bucket of key 0 and
// ignore it.

#define ALIGNED __attribute__((aligned(16)))

// Reads KOEL_LANES numbers that adjacent work-items stored in local memory, at an aligned address, by one or two loads.
// This is faster if the table fits in a cache (docs/performance/h200-goals.md), but not in Horton tables.
INLINED void of_neighbours(__local const uint *from, uint *to) {
#if KOEL_LANES == 2
    vstore2(*(__local const uint2 *)from, 0, to);
#elif KOEL_LANES == 4
    vstore4(*(__local const uint4 *)from, 0, to);
#else
    vstore4(*(__local const uint4 *)from, 0, to);
    vstore4(*(__local const uint4 *)(from + 4), 1, to);
#endif
}

// Searches two words of bucket i for the key with this mark. A key is in at most one slot, so at most one work-item
// writes a reply.
INLINED void search_words(uint4 two, uint i, uint mark, __local ulong *reply) {
    bool first = matches(i, (uint2)(0, mark), two.y), second = matches(i, (uint2)(0, mark), two.w);
    if (first || second) *reply = ANSWERED | (first ? two.x : two.z);
}

__kernel GROUP_SIZE void bucketized_lookup(__global const uint4 *image, TABLE, LOOKUP) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8], replies[KOEL_GROUP];
    // For each key: its mark (remainder or key), the buckets to read, and the upper half of the last word that was
    // read.
    __local uint marks[KOEL_GROUP] ALIGNED, at[KOEL_AT_ONCE * KOEL_GROUP] ALIGNED, least[KOEL_GROUP];
    __local ushort listed[KOEL_GROUP];
    __local uint waiting[KOEL_FUNCTIONS];
    ulong item = get_global_id(0);
    uint me = get_local_id(0), lane = me % KOEL_LANES, base = me - lane;
    uint key = item < count ? queries[item] : 0;
    // In a classic table, a search for the key that marks empty slots would find one of these.
    uint is_outside = KOEL_CLASSIC && key == KOEL_CLASSIC_EMPTY_KEY, is_query = item < count && !is_outside;
    uint2 search = search_of(f, is_query ? key : 0, buckets);
    marks[me] = search.y;
    #pragma unroll
    for (uint n = 0; n < KOEL_AT_ONCE; n++) at[n * KOEL_GROUP + me] = candidate(f, n, search, buckets);
    replies[me] = 0;
    if (me < KOEL_FUNCTIONS) waiting[me] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    uint4 two[KOEL_AT_ONCE * KOEL_LANES];
    uint buckets_of[KOEL_AT_ONCE * KOEL_LANES], marks_of[KOEL_LANES];
    #pragma unroll
    for (uint n = 0; n < KOEL_AT_ONCE; n++) of_neighbours(&at[n * KOEL_GROUP + base], &buckets_of[n * KOEL_LANES]);
    #pragma unroll
    for (uint k = 0; k < KOEL_AT_ONCE * KOEL_LANES; k++) two[k] = image[(ulong)buckets_of[k] * LOADS + lane];
    of_neighbours(&marks[base], marks_of);
    #pragma unroll
    for (uint k = 0; k < KOEL_AT_ONCE * KOEL_LANES; k++) {
        uint query = base + k % KOEL_LANES;
        search_words(two[k], k / KOEL_LANES, marks_of[k % KOEL_LANES], &replies[query]);
        if (lane == KOEL_LANES - 1) least[query] = two[k].w;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    ulong reply = is_query ? replies[me] : 0;
    uint open = is_query && reply == 0 && !ends(0, search, least[me]);
    #pragma unroll
    for (uint i = KOEL_AT_ONCE; i < KOEL_FUNCTIONS; i++) {
        if (open) {
            uint place = atomic_inc(&waiting[i]);
            listed[place] = (ushort)me;
            at[place] = candidate(f, i, search, buckets);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint task = me; task < waiting[i] * KOEL_LANES; task += KOEL_GROUP) {
            uint query = listed[task / KOEL_LANES];
            uint4 more = image[(ulong)at[task / KOEL_LANES] * LOADS + lane];
            search_words(more, i, marks[query], &replies[query]);
            if (lane == KOEL_LANES - 1) least[query] = more.w;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (open) {
            reply = replies[me];
            open = reply == 0 && !ends(i, search, least[me]);
        }
    }
    if (is_outside && outside) reply = ANSWERED | outside_value;
    put_answer(answers, reply != 0);
    if (item < count) {
        GIVE_VALUE((uint)reply);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#endif
