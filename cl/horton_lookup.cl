// Lookups in Horton tables, in two variants. Besides the parameters of horton.clh:
//   KOEL_LANES    work-items that read a bucket together: 1, or one for each 16 bytes of it (S / 2)
//
// A 16-byte load contains two words: values in x and z, keys in y and w. Both variants read the whole home bucket and,
// if its entry for the key's tag is set, one more bucket. That bucket contains a pair that left its home, so it is Type
// A or in the stash, and all of its words are pairs or empty.
//
// The pair of the key that marks empty slots is not in the image; its result is an argument.

#define LOADS (KOEL_SLOTS / 2)

static inline __global const uint4 *loads_of(__global const uint4 *image, uint bucket) {
    return image + (ulong)bucket * LOADS;
}

// The remap entry of a tag, from the last 16 bytes of a bucket; valid if the bucket is Type B.
static inline uint entry_in(uint4 last, uint tag) { return entry(as_ulong(last.zw), tag); }

#if KOEL_LANES == 1

// ---- One work-item per key.

__kernel GROUP_SIZE void horton_lookup(__global const uint4 *image, TABLE, LOOKUP) {
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
        GIVE_VALUE(value);
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#else

// ---- KOEL_LANES work-items look up as many keys: each reads 16 bytes of every key's bucket. Results are exchanged in
// local memory, one element per key. All loads are in flight before the first is used. Keys that need their second
// bucket are listed, and KOEL_LANES adjacent work-items read the bucket of each, so a group reads no more than
// necessary.

// Searches two words for a key. It is in at most one slot, so at most one work-item writes a reply.
INLINED void search_words(uint4 two, uint key, __local ulong *reply) {
    bool first = two.y == key, second = two.w == key;
    if (first || second) *reply = ANSWERED | (first ? two.x : two.z);
}

__kernel GROUP_SIZE void horton_lookup(__global const uint4 *image, TABLE, LOOKUP) {
    table t = THE_TABLE;
    __local ulong answers[KOEL_GROUP / 8], replies[KOEL_GROUP], last_of[KOEL_GROUP];
    __local uint key_of[KOEL_GROUP], bucket_of[KOEL_GROUP];
    __local ushort listed[KOEL_GROUP];
    __local uchar type_b_of[KOEL_GROUP];
    __local uint waiting;
    ulong item = get_global_id(0);
    uint me = get_local_id(0), lane = me % KOEL_LANES, base = me - lane;
    // Work-items past the end, and those with the key of the sentinel pair, look up key 0, and the result is ignored:
    // so the loads need no conditions.
    uint key = item < count ? queries[item] : 0;
    uint is_outside = key == KOEL_CLASSIC_EMPTY_KEY, is_query = item < count && !is_outside;
    key = is_query ? key : 0;
    uint2 home = home_of(t, key);
    key_of[me] = key;
    bucket_of[me] = home.x;
    replies[me] = 0;
    if (me == 0) waiting = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    uint4 v[KOEL_LANES];
    #pragma unroll
    for (uint i = 0; i < KOEL_LANES; i++) v[i] = loads_of(image, bucket_of[base + i])[lane];
    #pragma unroll
    for (uint i = 0; i < KOEL_LANES; i++) {
        if (lane == 0) type_b_of[base + i] = is_type_b(v[i].y, v[i].w);
        // The last word is a pair or the remap entries. This is decided later, by the work-item that has the key.
        if (lane == KOEL_LANES - 1) {
            last_of[base + i] = as_ulong(v[i].zw);
            v[i].w = KOEL_CLASSIC_EMPTY_KEY;
        }
        search_words(v[i], key_of[base + i], &replies[base + i]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    ulong reply = is_query ? replies[me] : 0, last = last_of[me];
    uint open = 0;
    if (is_query && reply == 0) {
        if (type_b_of[me]) {
            uint code = entry(last, home.y);
            open = code - 1 < STASH_CODE;
            if (open) {
                uint place = atomic_inc(&waiting);
                listed[place] = (ushort)me;
                bucket_of[place] = led(t, key, home, code);
            }
        } else if (upper_of(last) == key) {
            reply = ANSWERED | (uint)last;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint task = me; task < waiting * KOEL_LANES; task += KOEL_GROUP) {
        uint query = listed[task / KOEL_LANES];
        search_words(loads_of(image, bucket_of[task / KOEL_LANES])[lane], key_of[query], &replies[query]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (open) reply = replies[me];
    if (is_outside && outside) reply = ANSWERED | outside_value;
    put_answer(answers, reply != 0);
    if (item < count) {
        GIVE_VALUE((uint)reply);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#endif
