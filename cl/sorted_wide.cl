// Sorted tables with 64-bit keys or values, in two columns: the OpenCL version of src/scheme/sorted/wide/columns.rs.
//
//   KOEL_KEY_BITS, KOEL_VALUE_BITS   32 or 64. KOEL_VALUE_BITS is 0 in sets, whose values are passed as 32-bit zeros
//
// An image consists of `slots` keys and, from its word `first_value` on, as many values. A column of 32 bits is padded
// to whole words. The slots after the pairs are 0.

#if KOEL_VALUE_BITS == 64
typedef ulong value_type;
#else
typedef uint value_type;
#endif

#define COLUMNS const uint pairs, const uint slots, const ulong first_value
#define KEYS_OF(image) ((__global const key_type *)(image))
#define VALUES_OF(image) ((__global value_type *)((image) + first_value))
// The number of elements of a column of `bits` bits, including the padding after an odd number of slots.
#define CELLS(bits) ((bits) == 64 ? (ulong)slots : ((ulong)slots + 1) / 2 * 2)

#ifndef KOEL_PARTIAL
// Writes the sorted pairs to their columns. A key that equals the one before it is a duplicate.
__kernel GROUP_SIZE void sorted_place(__global ulong *image, COLUMNS, __global const key_type *keys,
                                      __global const value_type *values, __global ulong *status) {
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < CELLS(KOEL_KEY_BITS)) {
        key_type key = item < pairs ? keys[item] : 0;
        ((__global key_type *)image)[item] = key;
        if (item > 0 && item < pairs && keys[item - 1] == key) count_wide_copy(tally, status, key);
    }
#if KOEL_VALUE_BITS > 0
    if (item < CELLS(KOEL_VALUE_BITS)) VALUES_OF(image)[item] = item < pairs ? values[item] : 0;
#endif
    report_tally(tally, status);
}
#endif

__kernel GROUP_SIZE void sorted_lookup(__global ulong *image, COLUMNS, const uint steps,
                                       __global const key_type *queries, const ulong count,
                                       __global value_type *values, __global uint *found) {
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        uint at = find(KEYS_OF(image), pairs, steps, queries[item]);
        hit = at < pairs;
        values[item] = hit && KOEL_VALUE_BITS ? VALUES_OF(image)[at] : 0;
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

// The keys are distinct, so each value has one writer. Searches only read keys.
__kernel GROUP_SIZE void sorted_assign(__global ulong *image, COLUMNS, const uint steps,
                                       __global const key_type *keys, __global const value_type *values,
                                       const ulong count) {
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint at = find(KEYS_OF(image), pairs, steps, keys[item]);
    if (at < pairs) VALUES_OF(image)[at] = values[item];
}

__kernel GROUP_SIZE void sorted_decode(__global ulong *image, COLUMNS, __global key_type *keys,
                                       __global value_type *values, __global uint *taken_bits) {
    __local ulong answers[KOEL_GROUP / 8];
    ulong slot = get_global_id(0);
    bool pair = slot < pairs;
    if (slot < slots) {
        keys[slot] = pair ? KEYS_OF(image)[slot] : 0;
        values[slot] = pair && KOEL_VALUE_BITS ? VALUES_OF(image)[slot] : 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slot % 32 == 0 && slot < slots) taken_bits[slot / 32] = pack_answers(answers);
}
