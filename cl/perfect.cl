// The perfect spatial hash: lookups, one work-item a key. Tables are built by the host (src/scheme/perfect/build.rs).
//
// Fixed when the program is built:
//   KOEL_AXES          2 in a plane, 3 in a volume
//   KOEL_GROUP         work-items of a group, a multiple of 32
// Fixed by the plan, hence arguments: the sizes of the domain and of both tables, the pair outside.
//
// Neighbouring work-items with neighbouring keys of a row read neighbouring offsets, and where those are equal, as
// builds try to have them, neighbouring slots: one access for all.
//
// The image is [key][value] in each slot, then the offsets, two to a word. The global size is a multiple of the
// group's: work-items past the end do nothing, but reach every barrier.

// The offset in a cell.
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
        // An empty slot has the marker for its key; the pair with that key stands outside.
        bool is_marker = key == KOEL_CLASSIC_EMPTY_KEY;
        hit = is_marker ? outside : upper_of(there) == key;
        values[item] = !hit ? 0 : is_marker ? outside_value : (uint)there;
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

// The keys are distinct, so each slot has one writer. Others may read it meanwhile on their way; therefore the image
// comes as halves: of slots only upper ones (odd) are read, only lower ones (even, the values) are written. Offsets are
// halves of their own.
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

// One work-item a slot.
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
