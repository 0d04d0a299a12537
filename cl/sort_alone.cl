// The passes of cl/sort.cl for devices on which a work-item is a core, such as CPUs: one work-item per chunk of pairs,
// without barriers.
//
//   sort_count     the number of keys of the chunk with each digit            -> counts[digit][chunk]
//   (cl/scan.cl    exclusive prefix sums over digits and chunks: the destination of each chunk's keys of a digit)
//   sort_scatter   appends each pair to those with its digit
//
// KOEL_GROUP is 1. What it is not: an algorithm for GPUs, on which the writes of adjacent work-items would not be
// coalesced.

#define DIGITS (1 << KOEL_DIGIT_BITS)

#if KOEL_KEY_WORDS == 1
typedef uint key_type;
#else
typedef ulong key_type;
#endif
#if KOEL_VALUE_WORDS == 1
typedef uint value_type;
#else
typedef ulong value_type;
#endif

static inline uint digit_of(key_type key, uint shift) { return (uint)(key >> shift) & (DIGITS - 1); }

__kernel GROUP_SIZE void sort_count(__global const key_type *keys, const ulong len, const ulong chunk, const uint shift,
                                    __global uint *counts) {
    ulong first = get_global_id(0) * chunk, end = min(first + chunk, len);
    uint own[DIGITS];
    for (uint digit = 0; digit < DIGITS; digit++) own[digit] = 0;
    for (ulong i = first; i < end; i++) own[digit_of(keys[i], shift)]++;
    for (uint digit = 0; digit < DIGITS; digit++) counts[digit * get_global_size(0) + get_global_id(0)] = own[digit];
}

__kernel GROUP_SIZE void sort_scatter(__global const key_type *keys, __global const value_type *values, const ulong len,
                                      const ulong chunk, const uint shift, __global const uint *offsets,
                                      __global key_type *to_keys, __global value_type *to_values) {
    ulong first = get_global_id(0) * chunk, end = min(first + chunk, len);
    uint next[DIGITS];
    for (uint digit = 0; digit < DIGITS; digit++) next[digit] = offsets[digit * get_global_size(0) + get_global_id(0)];
    for (ulong i = first; i < end; i++) {
        key_type key = keys[i];
        uint to = next[digit_of(key, shift)]++;
        to_keys[to] = key;
        to_values[to] = values[i];
    }
}
