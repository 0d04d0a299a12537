// Exclusive prefix sums of any number of counts, in place: reduce, then scan.
//
//   scan_sums   one group a tile: the sum of the tile         -> sums[tile]
//               (the sums are scanned in the same way, until one tile holds them all)
//   scan_tiles  one group a tile: its prefix sums, on top of what stands before it
//
// A tile is KOEL_EACH counts for each of KOEL_GROUP work-items. No group waits for another: a sum that must be known is
// that of an earlier kernel.
//
// What it is not: one pass ("decoupled look-back"), in which groups wait for what others write. OpenCL 1.2 does not
// promise that those others run.

// Counts past the end are 0.
static inline sum own_counts(__global const sum *counts, ulong len, sum *mine) {
    ulong first = get_global_id(0) * KOEL_EACH;
    sum total = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        mine[j] = first + j < len ? counts[first + j] : 0;
        total += mine[j];
    }
    return total;
}

__kernel GROUP_SIZE void scan_sums(__global const sum *counts, const ulong len, __global sum *sums) {
    __local sum parts[KOEL_GROUP];
    sum mine[KOEL_EACH];
    uint me = get_local_id(0);
    parts[me] = own_counts(counts, len, mine);
    for (uint below = KOEL_GROUP / 2; below > 0; below /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < below) parts[me] += parts[me + below];
    }
    if (me == 0) sums[get_group_id(0)] = parts[0];
}

// `before` has a sum for each tile; where there is one tile, nothing stands before it and `before` is not read.
__kernel GROUP_SIZE void scan_tiles(__global sum *counts, const ulong len, __global const sum *before) {
    __local sum parts[KOEL_GROUP];
    sum mine[KOEL_EACH];
    uint me = get_local_id(0);
    sum total = own_counts(counts, len, mine);
    parts[me] = total;
    prefix_sums(parts);
    sum at = parts[me] - total + (get_num_groups(0) > 1 ? before[get_group_id(0)] : 0);
    ulong first = get_global_id(0) * KOEL_EACH;
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        if (first + j < len) counts[first + j] = at;
        at += mine[j];
    }
}
