// Assigning values in Horton tables, and decoding images: src/scheme/horton/bucket.rs, one work-item per key or word.
//
// All lengths have 64 bits. The global size is a multiple of the group size: work-items past the end do no work, but
// reach every barrier.

// The slot of a key in a bucket, or KOEL_SLOTS if it is not there. The image is accessed as 32-bit halves; of pairs and
// empty slots, only upper (odd) ones are read.
static inline uint slot_of(__global const uint *bucket, bool may_be_b, uint key) {
    bool type_b = may_be_b && is_type_b(bucket[1], bucket[3]);
    uint found = KOEL_SLOTS;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS - 1; j++) found = bucket[2 * j + 1] == key ? j : found;
    // The word of remap entries is not a pair, whatever its bits.
    bool last = !type_b && bucket[2 * KOEL_SLOTS - 1] == key;
    return last ? KOEL_SLOTS - 1 : found;
}

// Keys are distinct, so each slot has one writer, and only lower halves of pairs (values) are written. Other work-items
// read none of these halves: keys and types are determined by upper halves, because no two pairs of a bucket have the
// same key and empty slots are all equal. Both halves of the remap entries are read, but these are not written.
__kernel GROUP_SIZE void horton_assign(__global uint *halves, TABLE, __global const uint *keys,
                                       __global const uint *values, const ulong count) {
    table t = THE_TABLE;
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint key = keys[item];
    if (key == KOEL_CLASSIC_EMPTY_KEY) return;
    uint2 home = home_of(t, key);
    __global uint *bucket = halves + 2 * first_slot(home.x);
    uint found = slot_of(bucket, true, key);
    if (found == KOEL_SLOTS && is_type_b(bucket[1], bucket[3])) {
        ulong array = ((ulong)bucket[2 * KOEL_SLOTS - 1] << 32) | bucket[2 * KOEL_SLOTS - 2];
        uint code = entry(array, home.y);
        if (code == 0) return;
        uint other = led(t, key, home, code);
        bucket = halves + 2 * first_slot(other);
        found = slot_of(bucket, other < buckets, key);
    }
    if (found < KOEL_SLOTS) bucket[2 * found] = values[item];
}

__kernel GROUP_SIZE void horton_decode(__global const ulong *image, TABLE, __global uint *keys, __global uint *values,
                                       __global uint *taken_bits) {
    __local ulong answers[KOEL_GROUP / 8];
    ulong slot = get_global_id(0), table_words = first_slot(buckets);
    bool inside = slot < table_words + first_slot(stash_buckets), pair = false;
    if (inside) {
        ulong there = image[slot];
        pair = upper_of(there) != KOEL_CLASSIC_EMPTY_KEY;
        // The last word of a Type B bucket is not a pair; stash buckets are never Type B.
        if (slot % KOEL_SLOTS == KOEL_SLOTS - 1 && slot < table_words) {
            __global const ulong *bucket = image + (slot - (KOEL_SLOTS - 1));
            pair &= !is_type_b(upper_of(bucket[0]), upper_of(bucket[1]));
        }
        keys[slot] = pair ? upper_of(there) : 0;
        values[slot] = pair ? (uint)there : 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slot % 32 == 0 && inside) taken_bits[slot / 32] = pack_answers(answers);
}
