// Lookups in two-level tables of both kinds, assigning and decoding, with one work-item per key or slot:
// src/scheme/fks/canonical.rs and classic.rs.
//
// All lengths have 64 bits. The global size is a multiple of the group size: work-items past the end do no work, but
// reach every barrier.

// One read at a time, because most keys end at their first or second slot. The bucket's seed number is read from an
// array with a 4608th of the size of the slots, so it is mostly cached.
__kernel GROUP_SIZE void fks_lookup(__global const ulong *image, TABLE, const uint outside, const uint outside_value,
                                    __global const uint *queries, const ulong count, __global uint *values,
                                    __global uint *found) {
    table t = THE_TABLE;
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        uint key = queries[item], value = 0;
#if KOEL_CLASSIC
        if (key == KOEL_CLASSIC_EMPTY_KEY) {
            hit = outside;
            value = outside_value;
        } else
#endif
        {
            uint bucket = bucket_of_key(t, key);
            uint salt = salt_of(t, seed_of(t, (__global const uchar *)image, bucket));
            for (uint i = 0; i < KOEL_FKS_SUBTABLES; i++) {
                place p = place_of(t, salt, i, key);
                ulong there = image[first_slot(bucket) + slot_of(p)];
                hit = stands(p, upper_of(there));
                value = hit ? (uint)there : 0;
                if (hit || ends(p, upper_of(there))) break;
            }
        }
        values[item] = value;
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

// Keys are distinct, so each slot has one writer. Other work-items may read the slot during their search. To avoid
// races, the image is accessed as 32-bit halves: upper (odd) halves are only read, lower (even) halves, which contain
// the values, only written.
__kernel GROUP_SIZE void fks_assign(__global uint *halves, TABLE, __global const uint *keys,
                                    __global const uint *values, const ulong count) {
    table t = THE_TABLE;
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint key = keys[item];
    if (KOEL_CLASSIC && key == KOEL_CLASSIC_EMPTY_KEY) return;
    uint bucket = bucket_of_key(t, key);
    uint salt = salt_of(t, seed_of(t, (__global const uchar *)halves, bucket));
    for (uint i = 0; i < KOEL_FKS_SUBTABLES; i++) {
        place p = place_of(t, salt, i, key);
        ulong at = first_slot(bucket) + slot_of(p);
        uint there = halves[2 * at + 1];
        bool hit = stands(p, there);
        if (hit) halves[2 * at] = values[item];
        if (hit || ends(p, there)) return;
    }
}

// Words of seed numbers contain no pairs.
__kernel GROUP_SIZE void fks_decode(__global const ulong *image, TABLE, const ulong words, __global uint *keys,
                                    __global uint *values, __global uint *taken_bits) {
    table t = THE_TABLE;
    __local ulong answers[KOEL_GROUP / 8];
    ulong at = get_global_id(0);
    bool pair = false;
    if (at < words) {
        uint key = 0, value = 0;
        if (at < first_slot(buckets)) {
            uint bucket = (uint)(at / KOEL_FKS_BUCKET_SLOTS), slot = (uint)(at % KOEL_FKS_BUCKET_SLOTS);
            uint subtable = slot / KOEL_FKS_SUBTABLE_SLOTS;
            ulong there = image[at];
            pair = taken(subtable, upper_of(there));
            if (pair) {
                uint salt = salt_of(t, seed_of(t, (__global const uchar *)image, bucket));
                key = key_in(t, salt, subtable, slot % KOEL_FKS_SUBTABLE_SLOTS, upper_of(there));
                value = (uint)there;
            }
        }
        keys[at] = key;
        values[at] = value;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (at % 32 == 0 && at < words) taken_bits[at / 32] = pack_answers(answers);
}
