// Exclusive prefix sums of any number of counts, in place: reduce, then scan.
//
//   scan_sums   one group per tile: the sum of the tile         -> sums[tile]
//               (the sums are scanned in the same way, until one tile contains all of them)
//   scan_tiles  one group per tile: the prefix sums of the tile, plus the sum of all earlier tiles
//
// A tile is KOEL_EACH counts for each of KOEL_GROUP work-items. No group waits for another: sums of other groups are
// read from the results of an earlier kernel.
//
// What it is not: a single pass ("decoupled look-back"), in which groups wait for the results of other groups. OpenCL
// 1.2 does not guarantee that those groups make progress.

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

// `before` contains the sum of all earlier tiles, for each tile. It is not read if there is only one tile.
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
