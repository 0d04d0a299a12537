// A stable radix sort of pairs by key: the least digit first, KOEL_DIGIT_BITS bits a pass.
//
//   sort_differing  in which bits keys differ: the others need no pass; and whether any pass is needed
//   sort_count      one group a tile: how many keys it has of each digit          -> counts[digit][tile]
//   (cl/scan.cl     exclusive prefix sums over digits and tiles: where each tile's keys of a digit go)
//   sort_scatter    one group a tile: puts its pairs in the order of their digits in local memory, and writes them from
//                   there, so that neighbours write to neighbours
//
// A tile is KOEL_EACH pairs for each of KOEL_GROUP work-items.
//
// The order within a tile: each work-item holds KOEL_EACH neighbours and counts them by half of the digit's bits, in a
// column of its own. Prefix sums over (half digit, work-item) say how many come before its first pair with these bits;
// its own earlier pairs with the same ones come on top. That is a stable rank, without atomics. Once for the lower half
// and once for the upper one.
//
// Keys past the end are greatest and come last, so they stay last in every order, and are not written.

// Values of a digit, and of a half of it.
#define DIGITS (1 << KOEL_DIGIT_BITS)
#define HALF_BITS (KOEL_DIGIT_BITS / 2)
#define HALVES (1 << HALF_BITS)
// Work-items read KOEL_EACH neighbours each; a gap behind these keeps them from meeting at one bank of local memory.
#define PADDED(i) ((i) + (i) / KOEL_EACH)
// Counts of a tile are spread over so many copies, because neighbours of a sorted input have one digit.
#define COPIES 4

static inline uint digit_of(uint key, uint shift) { return (key >> shift) & (DIGITS - 1); }

__kernel GROUP_SIZE void sort_differing(__global const uint *keys, const ulong len, __global uint *result) {
    __local uint ones[KOEL_GROUP], zeros[KOEL_GROUP], falls[KOEL_GROUP];
    uint me = get_local_id(0);
    uint one = 0, zero = 0, fall = 0;
    for (ulong i = get_global_id(0); i < len; i += get_global_size(0)) {
        one |= keys[i];
        zero |= ~keys[i];
        fall |= i > 0 && keys[i - 1] > keys[i];
    }
    ones[me] = one;
    zeros[me] = zero;
    falls[me] = fall;
    for (uint below = KOEL_GROUP / 2; below > 0; below /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < below) {
            ones[me] |= ones[me + below];
            zeros[me] |= zeros[me + below];
            falls[me] |= falls[me + below];
        }
    }
    if (me == 0) {
        atomic_or(&result[0], ones[0]);
        atomic_or(&result[1], zeros[0]);
        atomic_or(&result[2], falls[0]);
    }
}

__kernel GROUP_SIZE void sort_count(__global const uint *keys, const uint len, const uint shift,
                                    __global uint *counts) {
    // Copies of one count lie in different banks.
    __local uint own[COPIES * (DIGITS + 1)];
    uint me = get_local_id(0);
    for (uint i = me; i < COPIES * (DIGITS + 1); i += KOEL_GROUP) own[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    ulong first = (ulong)get_group_id(0) * KOEL_GROUP * KOEL_EACH;
    for (uint j = 0; j < KOEL_EACH; j++) {
        ulong i = first + j * KOEL_GROUP + me;
        if (i < len) atomic_inc(&own[me % COPIES * (DIGITS + 1) + digit_of(keys[i], shift)]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint digit = me; digit < DIGITS; digit += KOEL_GROUP) {
        uint count = 0;
        for (uint copy = 0; copy < COPIES; copy++) count += own[copy * (DIGITS + 1) + digit];
        counts[(ulong)digit * get_num_groups(0) + get_group_id(0)] = count;
    }
}

// The group's part of a column, KOEL_EACH neighbours for each work-item.
INLINED void take(__global const uint *from, ulong first, uint len, uint past, __local uint *tile, uint *mine) {
    uint me = get_local_id(0);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint i = j * KOEL_GROUP + me;
        tile[PADDED(i)] = first + i < len ? from[first + i] : past;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) mine[j] = tile[PADDED(me * KOEL_EACH + j)];
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Where each of my keys stands when the tile is in the order of half a digit.
INLINED void rank_by(uint shift, const uint *keys, uint *ranks, __local ushort *counts, __local sum *sums) {
    uint me = get_local_id(0);
    #pragma unroll
    for (uint half_digit = 0; half_digit < HALVES; half_digit++) counts[half_digit * KOEL_GROUP + me] = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint at = ((keys[j] >> shift) & (HALVES - 1)) * KOEL_GROUP + me;
        ranks[j] = counts[at];
        counts[at] = (ushort)(ranks[j] + 1);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // The counts lie in the order of the sums: HALVES neighbours for each work-item.
    __local ushort *row = counts + me * HALVES;
    sum total = 0;
    #pragma unroll
    for (uint j = 0; j < HALVES; j++) total += row[j];
    sums[me] = total;
    prefix_sums(sums);
    uint before = sums[me] - total;
    #pragma unroll
    for (uint j = 0; j < HALVES; j++) {
        uint count = row[j];
        row[j] = (ushort)before;
        before += count;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        ranks[j] += counts[((keys[j] >> shift) & (HALVES - 1)) * KOEL_GROUP + me];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Mine to their ranks.
INLINED void put(const uint *mine, const uint *ranks, __local uint *tile) {
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) tile[PADDED(ranks[j])] = mine[j];
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Mine to their ranks; those that stand in my places then are mine.
INLINED void exchange(uint *mine, const uint *ranks, __local uint *tile) {
    put(mine, ranks, tile);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) mine[j] = tile[PADDED(get_local_id(0) * KOEL_EACH + j)];
    barrier(CLK_LOCAL_MEM_FENCE);
}

__kernel GROUP_SIZE void sort_scatter(__global const uint *keys, __global const uint *values, const uint len,
                                      const uint shift, __global const uint *offsets, __global uint *to_keys,
                                      __global uint *to_values) {
    __local uint tile[PADDED(KOEL_GROUP * KOEL_EACH)];
    __local ushort counts[HALVES * KOEL_GROUP];
    __local sum sums[KOEL_GROUP];
    // Where the tile's first pair would go if it had this digit.
    __local uint bases[DIGITS];
    uint me = get_local_id(0);
    ulong first = (ulong)get_group_id(0) * KOEL_GROUP * KOEL_EACH;
    uint valid = (uint)min((ulong)KOEL_GROUP * KOEL_EACH, len - first);
    for (uint digit = me; digit < DIGITS; digit += KOEL_GROUP) {
        bases[digit] = offsets[(ulong)digit * get_num_groups(0) + get_group_id(0)];
    }
    uint my_keys[KOEL_EACH], my_values[KOEL_EACH], ranks[KOEL_EACH];
    take(keys, first, len, 0xffffffffu, tile, my_keys);
    take(values, first, len, 0, tile, my_values);
    rank_by(shift, my_keys, ranks, counts, sums);
    exchange(my_keys, ranks, tile);
    exchange(my_values, ranks, tile);
    rank_by(shift + HALF_BITS, my_keys, ranks, counts, sums);
    put(my_keys, ranks, tile);
    // Each digit is one run in the tile; whoever has its first pair takes what stands before it off.
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint i = j * KOEL_GROUP + me;
        my_keys[j] = tile[PADDED(i)];
        uint digit = digit_of(my_keys[j], shift);
        if (i == 0 || digit_of(tile[PADDED(i - 1)], shift) != digit) bases[digit] -= i;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    put(my_values, ranks, tile);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint i = j * KOEL_GROUP + me;
        if (i >= valid) continue;
        uint to = bases[digit_of(my_keys[j], shift)] + i;
        to_keys[to] = my_keys[j];
        to_values[to] = tile[PADDED(i)];
    }
}
