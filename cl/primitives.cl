// The primitives that no scheme owns. Lengths are 64 bits wide; work-items past the end do nothing but reach every barrier.

__kernel void iota(__global uint *out, const ulong len) {
    ulong i = get_global_id(0);
    if (i < len) out[i] = (uint)i;
}

__kernel void complement(__global uint *x, const ulong len) {
    ulong i = get_global_id(0);
    if (i < len) x[i] = ~x[i];
}

__kernel void gather(__global const uint *from, const ulong from_len, __global const uint *index, __global uint *out,
                     const ulong len) {
    ulong i = get_global_id(0);
    if (i < len) out[i] = index[i] < from_len ? from[index[i]] : 0;
}

// ---- select: which elements stay is a bitmap; `flip` is all ones to keep those whose bit is 0.

// Bits of a word that belong to elements, of `len` in all.
static inline uint kept(uint bits, uint flip, ulong word, ulong len) {
    ulong rest = len - word * 32;
    return (bits ^ flip) & (rest >= 32 ? 0xffffffffu : (1u << rest) - 1);
}

__kernel void count_bits(__global const uint *bits, const uint flip, const ulong len, __global uint *counts,
                         const ulong words) {
    ulong i = get_global_id(0);
    if (i < words) counts[i] = popcount(kept(bits[i], flip, i, len));
}

__kernel void select_column(__global const uint *bits, const uint flip, __global const uint *offsets,
                            __global const uint *column, const ulong len, __global uint *out) {
    ulong i = get_global_id(0);
    if (i >= len) return;
    uint word = kept(bits[i / 32], flip, i / 32, len);
    uint bit = 1u << (i % 32);
    if (word & bit) out[offsets[i / 32] + popcount(word & (bit - 1))] = column[i];
}

// ---- scan: each group turns its numbers into the sums of those before, and leaves the sum of all.

// Doubling steps (Hillis and Steele): lg(group) of them, each reading what the one before wrote.
__kernel __attribute__((reqd_work_group_size(KOEL_GROUP, 1, 1)))
void scan_groups(__global uint *numbers, const ulong len, __global uint *sums) {
    __local uint sum[KOEL_GROUP];
    uint local_id = get_local_id(0);
    ulong i = get_global_id(0);
    uint mine = i < len ? numbers[i] : 0;
    sum[local_id] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < KOEL_GROUP; step *= 2) {
        uint before = local_id >= step ? sum[local_id - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        sum[local_id] += before;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < len) numbers[i] = sum[local_id] - mine;
    if (local_id == KOEL_GROUP - 1) sums[get_group_id(0)] = sum[local_id];
}

__kernel __attribute__((reqd_work_group_size(KOEL_GROUP, 1, 1)))
void add_sums(__global uint *numbers, const ulong len, __global const uint *sums) {
    ulong i = get_global_id(0);
    if (i < len) numbers[i] += sums[get_group_id(0)];
}

// ---- The limit of random access: what any lookup and any build by atomics must stay under.

static inline uint random_place(ulong i, uint places) {
    mix_keys none = {0, 1, 1, 0};
    return reduce(mix((uint)i, none), places);
}

// Several independent reads a work-item, their addresses a grid apart; the XOR of all is the same in any order.
__kernel __attribute__((reqd_work_group_size(KOEL_GROUP, 1, 1)))
void random_reads(__global const ulong *words, const uint places, const ulong reads, __global ulong *sum) {
    __local ulong sums[KOEL_GROUP];
    uint local_id = get_local_id(0);
    ulong mine = 0;
    #pragma unroll
    for (uint k = 0; k < KOEL_READS_AN_ITEM; k++) {
        ulong i = get_global_id(0) + k * get_global_size(0);
        if (i < reads) mine ^= words[random_place(i, places)];
    }
    sums[local_id] = mine;
    for (uint step = KOEL_GROUP / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (local_id < step) sums[local_id] ^= sums[local_id + step];
    }
    if (local_id == 0) atom_xor(sum, sums[0]);
}

__kernel void random_updates(__global ulong *words, const uint places, const ulong writes) {
    ulong i = get_global_id(0);
    if (i < writes) atom_max(&words[random_place(i, places)], i + 1);
}
