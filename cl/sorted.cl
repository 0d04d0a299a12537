// Sorted tables: the image of pairs that cl/sort.cl has sorted, and binary searches in it.
//
// Searches read an image as 32-bit halves: the upper ones (odd) are keys, the lower ones (even) are values.

#ifndef KOEL_PARTIAL
// Writes the pairs as words, and 0 to the slots after them. A key that equals the one before it is a duplicate.
__kernel GROUP_SIZE void sorted_place(__global ulong *image, const uint slots, __global const uint *keys,
                                      __global const uint *values, const uint pairs, __global ulong *status) {
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < slots) {
        ulong mine = 0;
        if (item < pairs) {
            uint key = keys[item];
            mine = ((ulong)key << 32) | values[item];
            if (item > 0 && keys[item - 1] == key) count_copy(tally, key);
        }
        image[item] = mine;
    }
    report_tally(tally, status);
}
#endif

__kernel GROUP_SIZE void sorted_lookup(__global const uint *halves, const uint pairs, const uint steps,
                                       __global const uint *queries, const ulong count, __global uint *values,
                                       __global uint *found) {
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        uint at = find(halves + 1, pairs, steps, queries[item]);
        hit = at < pairs;
        values[item] = hit ? halves[2 * (ulong)at] : 0;
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

// The keys are distinct, so each value has one writer. Searches only read keys.
__kernel GROUP_SIZE void sorted_assign(__global uint *halves, const uint pairs, const uint steps,
                                       __global const uint *keys, __global const uint *values, const ulong count) {
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint at = find(halves + 1, pairs, steps, keys[item]);
    if (at < pairs) halves[2 * (ulong)at] = values[item];
}

__kernel GROUP_SIZE void sorted_decode(__global const ulong *image, const uint pairs, const uint slots,
                                       __global uint *keys, __global uint *values, __global uint *taken_bits) {
    __local ulong answers[KOEL_GROUP / 8];
    ulong slot = get_global_id(0);
    bool pair = slot < pairs;
    if (slot < slots) {
        ulong word = pair ? image[slot] : 0;
        keys[slot] = (uint)(word >> 32);
        values[slot] = (uint)word;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slot % 32 == 0 && slot < slots) taken_bits[slot / 32] = pack_answers(answers);
}
