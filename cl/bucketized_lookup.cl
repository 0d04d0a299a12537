// Lookups in both kinds of bucketized table, in the two shapes that devices want (src/opencl/shape.rs).
//
// Besides what bucketized.clh lists:
//   KOEL_LANES     work-items that read a bucket together: 1, or KOEL_SLOTS / 2 of 16 bytes each
//   KOEL_AT_ONCE   candidates that are read at once: 1, or all that a key has (classic, latency-optimized)
//
// The image is read 16 bytes at a time: two words, as (value, upper half, value, upper half).

#if KOEL_LANES == 1

// One work-item a key.
__kernel GROUP_SIZE void bucketized_lookup(__global const uint4 *image, TABLE, const uint outside,
                                           const uint outside_value, __global const uint *queries, const ulong count,
                                           __global uint *values, __global uint *found) {
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
                bool first = stands(i + j / LOADS, search, two[j].y), second = stands(i + j / LOADS, search, two[j].w);
                value = first ? two[j].x : second ? two[j].z : value;
                hit = hit || first || second;
            }
            if (hit || ends(i, search, two[LOADS - 1].w)) break;
        }
#if KOEL_CLASSIC
        // The search took empty slots for this key's.
        if (key == KOEL_CLASSIC_EMPTY_KEY) {
            hit = outside;
            value = outside_value;
        }
#endif
        values[item] = value;
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#else

// KOEL_LANES work-items serve as many keys: of each key's bucket, every one of them reads its 16 bytes. A bucket is
// then one access, and a work-item has KOEL_LANES of them under way before it looks at the first. Keys, buckets and
// answers meet in local memory, because OpenCL 1.2 has no other way between work-items.
//
// A key that needs no further bucket has NONE there; work-items past the end read the bucket of key 0, for nothing.

#define NONE 0xffffffffu

// What stands for the two words of a bucket that is not read: no key's.
#if KOEL_CLASSIC
#define NOTHING (uint4)(0, KOEL_CLASSIC_EMPTY_KEY, 0, KOEL_CLASSIC_EMPTY_KEY)
#else
#define NOTHING (uint4)(0, upper_of(KOEL_SLOT_EMPTY), 0, upper_of(KOEL_SLOT_EMPTY))
#endif

__kernel GROUP_SIZE void bucketized_lookup(__global const uint4 *image, TABLE, const uint outside,
                                           const uint outside_value, __global const uint *queries, const ulong count,
                                           __global uint *values, __global uint *found) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    __local uint marks[KOEL_GROUP], hits[KOEL_GROUP], got[KOEL_GROUP], least[KOEL_GROUP];
    __local uint at[KOEL_AT_ONCE * KOEL_GROUP];
    __local uint waiting;
    ulong item = get_global_id(0);
    uint me = get_local_id(0), lane = me % KOEL_LANES, base = me - lane;
    uint key = item < count ? queries[item] : 0;
    uint2 search = search_of(f, key, buckets);
    bool open = item < count;
#if KOEL_CLASSIC
    open = open && key != KOEL_CLASSIC_EMPTY_KEY;
#endif
    marks[me] = search.y;
    hits[me] = 0;
    if (me == 0) waiting = 0;
    #pragma unroll
    for (uint i = 0; i < KOEL_FUNCTIONS; i += KOEL_AT_ONCE) {
        #pragma unroll
        for (uint n = 0; n < KOEL_AT_ONCE; n++)
            at[n * KOEL_GROUP + me] = i == 0 || open ? candidate(f, i + n, search, buckets) : NONE;
        // In a canonical table hardly any key comes to its third bucket, and few groups have one that does.
        bool rare = KOEL_CLASSIC == 0 && i == 2;
        if (rare && open) atomic_inc(&waiting);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!rare || waiting) {
            uint4 two[KOEL_AT_ONCE * KOEL_LANES];
            #pragma unroll
            for (uint k = 0; k < KOEL_AT_ONCE * KOEL_LANES; k++) {
                uint bucket = at[k / KOEL_LANES * KOEL_GROUP + base + k % KOEL_LANES];
                two[k] = NOTHING;
                if (i == 0 || bucket != NONE) two[k] = image[(ulong)bucket * LOADS + lane];
            }
            #pragma unroll
            for (uint k = 0; k < KOEL_AT_ONCE * KOEL_LANES; k++) {
                uint whose = base + k % KOEL_LANES;
                uint2 wanted = (uint2)(0, marks[whose]);
                bool first = stands(i + k / KOEL_LANES, wanted, two[k].y);
                bool second = stands(i + k / KOEL_LANES, wanted, two[k].w);
                if (first || second) {
                    got[whose] = first ? two[k].x : two[k].z;
                    hits[whose] = 1;
                }
                if (lane == KOEL_LANES - 1) least[whose] = two[k].w;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        open = open && !hits[me] && !ends(i, search, least[me]);
    }
    bool hit = item < count && hits[me];
    uint value = hit ? got[me] : 0;
#if KOEL_CLASSIC
    // The first round took empty slots for this key's.
    if (key == KOEL_CLASSIC_EMPTY_KEY) {
        hit = outside;
        value = outside_value;
    }
#endif
    if (item < count) values[item] = value;
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#endif
