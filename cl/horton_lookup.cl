// Lookups in Horton tables, in two shapes. Besides what horton.clh lists:
//   KOEL_LANES    work-items that read a bucket together: 1, or one for each 16 bytes of it (S / 2)
//
// A bucket as 16-byte loads see it: values in x and z, keys in y and w. Both shapes read the home bucket whole, then,
// if its entry for the key's tag says so, one more. What that entry leads to is Type A or in the stash (it holds a
// secondary item), so in the second bucket each word is a pair or empty.
//
// The key of the empty marker is no key of the image; its answer comes with the arguments.

#define LOADS (KOEL_SLOTS / 2)

#define LOOKUP                                                                                                      \
    __global const uint4 *image, TABLE, const uint outside, const uint outside_value, __global const uint *queries, \
        const ulong count, __global uint *values, __global uint *found

static inline __global const uint4 *loads_of(__global const uint4 *image, uint bucket) {
    return image + (ulong)bucket * LOADS;
}

// The remap entry of a tag in a bucket's last 16 bytes, if the bucket is Type B.
static inline uint entry_in(uint4 last, uint tag) { return entry(as_ulong(last.zw), tag); }

#if KOEL_LANES == 1

// ---- One work-item a key.

__kernel GROUP_SIZE void horton_lookup(LOOKUP) {
    table t = THE_TABLE;
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        uint key = queries[item], value = 0;
        if (key == KOEL_CLASSIC_EMPTY_KEY) {
            hit = outside;
            value = outside_value;
        } else {
            uint2 home = home_of(t, key);
            __global const uint4 *bucket = loads_of(image, home.x);
            uint4 v[LOADS];
            #pragma unroll
            for (uint i = 0; i < LOADS; i++) v[i] = bucket[i];
            bool type_b = is_type_b(v[0].y, v[0].w);
            #pragma unroll
            for (uint i = 0; i < LOADS; i++) {
                bool first = v[i].y == key, second = v[i].w == key && !(i == LOADS - 1 && type_b);
                hit |= first || second;
                value = first ? v[i].x : second ? v[i].z : value;
            }
            uint code = type_b ? entry_in(v[LOADS - 1], home.y) : 0;
            if (!hit && code - 1 < STASH_CODE) {
                bucket = loads_of(image, led(t, key, home, code));
                #pragma unroll
                for (uint i = 0; i < LOADS; i++) v[i] = bucket[i];
                #pragma unroll
                for (uint i = 0; i < LOADS; i++) {
                    bool first = v[i].y == key, second = v[i].w == key;
                    hit = first || second ? true : hit;
                    value = first ? v[i].x : second ? v[i].z : value;
                }
            }
        }
        values[item] = value;
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#else

// ---- A few work-items serve as many keys: each reads its 16 bytes of all their buckets. What they see meets in local
// memory, an element for each key. Every load is on its way before the first is looked at.

#define NOWHERE 0xffffffffu

__kernel GROUP_SIZE void horton_lookup(LOOKUP) {
    table t = THE_TABLE;
    // The key, its home and later its second bucket; its tag, and later what its home's last word would say if it were
    // a pair of this key; the value that was found.
    __local uint key_of[KOEL_GROUP], bucket_of[KOEL_GROUP], tag_of[KOEL_GROUP], value_of[KOEL_GROUP];
    // Whether the home is Type B; the entry of the tag, with LAST_IS_IT if the last word looks like the key's pair.
    __local uchar type_b_of[KOEL_GROUP], entry_of[KOEL_GROUP];
    // Whether the key was found: the bytes of `put_answer`, here written by whoever finds it.
    __local ulong answers[KOEL_GROUP / 8];
    __local uint someone_needs_more;
#define LAST_IS_IT 16
    ulong item = get_global_id(0);
    uint me = get_local_id(0), lane = me % KOEL_LANES, base = me - lane;
    // Work-items past the end, and those with the key that stands outside, ask for key 0 like others do, but what comes
    // of it is not used: so the loads need no conditions.
    uint key = item < count ? queries[item] : 0;
    bool is_outside = key == KOEL_CLASSIC_EMPTY_KEY, ask = item < count && !is_outside;
    key = ask ? key : 0;
    uint2 home = home_of(t, key);
    key_of[me] = key;
    bucket_of[me] = home.x;
    tag_of[me] = home.y;
    put_answer(answers, false);
    if (me == 0) someone_needs_more = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    uint4 v[KOEL_LANES];
    #pragma unroll
    for (uint i = 0; i < KOEL_LANES; i++) v[i] = loads_of(image, bucket_of[base + i])[lane];
    #pragma unroll
    for (uint i = 0; i < KOEL_LANES; i++) {
        uint wanted = key_of[base + i];
        bool first = v[i].y == wanted, second = v[i].w == wanted;
        if (lane == 0) type_b_of[base + i] = is_type_b(v[i].y, v[i].w);
        if (lane == KOEL_LANES - 1) {
            // Whether the last word is a pair or the remap entries is not known here, so both are handed over.
            entry_of[base + i] = entry_in(v[i], tag_of[base + i]) | (second ? LAST_IS_IT : 0);
            if (second) tag_of[base + i] = v[i].z;
            second = false;
        }
        if (first || second) {
            value_of[base + i] = first ? v[i].x : v[i].z;
            ((__local uchar *)answers)[base + i] = true;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    uint code = entry_of[me], second_bucket = NOWHERE;
    bool hit = ((__local uchar *)answers)[me] != 0, type_b = type_b_of[me] != 0;
    if (ask && !hit && !type_b && code >= LAST_IS_IT) {
        put_answer(answers, true);
        value_of[me] = tag_of[me];
    }
    code %= LAST_IS_IT;
    if (ask && !hit && type_b && code - 1 < STASH_CODE) {
        second_bucket = led(t, key, home, code);
        atomic_inc(&someone_needs_more);
    }
    bucket_of[me] = second_bucket;
    barrier(CLK_LOCAL_MEM_FENCE);

    if (someone_needs_more) {
        #pragma unroll
        for (uint i = 0; i < KOEL_LANES; i++) {
            uint bucket = bucket_of[base + i];
            if (bucket != NOWHERE) v[i] = loads_of(image, bucket)[lane];
        }
        #pragma unroll
        for (uint i = 0; i < KOEL_LANES; i++) {
            uint wanted = key_of[base + i];
            bool first = v[i].y == wanted, second = v[i].w == wanted;
            if (bucket_of[base + i] != NOWHERE && (first || second)) {
                value_of[base + i] = first ? v[i].x : v[i].z;
                ((__local uchar *)answers)[base + i] = true;
            }
        }
    }
    // Of these nobody else writes the answers now.
    if (!ask) put_answer(answers, is_outside && outside);
    barrier(CLK_LOCAL_MEM_FENCE);

    if (item < count) {
        hit = ((__local uchar *)answers)[me] != 0;
        values[item] = hit ? is_outside ? outside_value : value_of[me] : 0;
    }
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#endif
