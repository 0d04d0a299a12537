// Perfect spatial hashing: lookups and assignments, one work-item per key, and decoding. Tables are built by the host
// (src/scheme/perfect/build.rs).
//
// Compile-time constants:
//   KOEL_AXES          2 for a plane, 3 for a volume
//   KOEL_GROUP         work-items of a group, a multiple of 32
// Arguments, because the plan determines them: the sizes of the domain and of both tables, and the sentinel pair.
//
// If adjacent work-items have adjacent keys of a row, they read adjacent offsets. If these offsets are equal, which the
// build tries to achieve, they also read adjacent slots, so the accesses are coalesced.
//
// The image is [key][value] for each slot, followed by the offsets, two per word. The global size is a multiple of
// KOEL_GROUP: work-items past the end do nothing, but reach every barrier.

// The offset in a cell of the offset table.
static inline uint offset_of(__global const ulong *image, table t, uint cell) {
    ulong two = image[(ulong)SLOTS + cell / 2];
    return (uint)(two >> (32 * (cell % 2)));
}

__kernel GROUP_SIZE void perfect_lookup(__global const ulong *image, TABLE, const uint outside, const uint outside_value,
                                        __global const uint *queries, const ulong count, __global uint *values,
                                        __global uint *found) {
    table t = {sizes};
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        uint key = queries[item];
        uint2 at = home(t, key);
        ulong there = image[slot_at(t, at.y, offset_of(image, t, at.x))];
        // The key of an empty slot is the sentinel; the pair with that key is stored outside of the image.
        bool is_marker = key == KOEL_CLASSIC_EMPTY_KEY;
        hit = is_marker ? outside : upper_of(there) == key;
        values[item] = !hit ? 0 : is_marker ? outside_value : (uint)there;
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

// The keys are distinct, so each slot has one writer. Others may read it at the same time, so the image is accessed as
// 32-bit halves: of the slots, only upper halves (odd, the keys) are read, and only lower halves (even, the values) are
// written. An offset is one half.
__kernel GROUP_SIZE void perfect_assign(__global uint *halves, TABLE, __global const uint *keys,
                                        __global const uint *values, const ulong count) {
    table t = {sizes};
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint key = keys[item];
    uint2 at = home(t, key);
    ulong slot = slot_at(t, at.y, halves[2 * (ulong)SLOTS + at.x]);
    if (key != KOEL_CLASSIC_EMPTY_KEY && halves[2 * slot + 1] == key) halves[2 * slot] = values[item];
}

// One work-item per slot.
__kernel GROUP_SIZE void perfect_decode(__global const ulong *image, TABLE, __global uint *keys, __global uint *values,
                                        __global uint *taken_bits) {
    table t = {sizes};
    __local ulong answers[KOEL_GROUP / 8];
    ulong at = get_global_id(0);
    bool pair = false;
    if (at < SLOTS) {
        ulong there = image[at];
        pair = upper_of(there) != KOEL_CLASSIC_EMPTY_KEY;
        keys[at] = pair ? upper_of(there) : 0;
        values[at] = pair ? (uint)there : 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (at % 32 == 0 && at < SLOTS) taken_bits[at / 32] = pack_answers(answers);
}
