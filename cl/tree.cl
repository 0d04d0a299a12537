// Sums of runs of doubles, by the tree over the positions in a run that src/backend/tree.rs describes: so that sums have
// the same bits everywhere.
//
//   tree_short    one work-item a run: adds up a run of KOEL_LEAVES leaves or fewer, and marks those that are longer
//   tree_long     where each of these begins, and how many leaves it has
//   then, until each long run is one sum:
//   tree_blocks   how many blocks of KOEL_LEAVES leaves each has
//   tree_level    one work-item a block: its sum, which is a leaf of the next round
//   tree_put      the sums to their places
//
// Blocks are dealt to work-items by cl/relational.cl's `expand`, so a run of millions is as many work-items as millions of
// values in runs of their own; and rounds after the first are a sixteenth of the one before.
//
// Doubles lie in memory as their bits. There are additions and nothing else, each rounded once. A sum that is NaN has one
// form, given where it is written for good.
//
// What it is not: a segmented scan. That adds up from wherever a tile of the column begins, so its order depends on
// where a group stands, and sums of one group would change with rows of others.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF

// The leaves `from..to` that exist.
static inline ulong2 run_at(__global const ulong *offsets, ulong run, ulong len) {
    ulong from = min(offsets[run], len);
    return (ulong2)(from, max(min(offsets[run + 1], len), from));
}

// The sum of `count` leaves of one block; 0 of none.
static inline double sum_of_few(__global const ulong *leaves, uint count) {
    double sums[KOEL_LEAVES];
    #pragma unroll
    for (uint i = 0; i < KOEL_LEAVES; i++) sums[i] = i < count ? as_double(leaves[i]) : 0.0;
    #pragma unroll
    for (uint apart = 1; apart < KOEL_LEAVES; apart *= 2) {
        #pragma unroll
        for (uint i = 0; i < KOEL_LEAVES; i += 2 * apart) {
            // A half without leaves adds nothing: plus 0.0 would take the sign from -0.0.
            double both = sums[i] + sums[i + apart];
            sums[i] = i + apart < count ? both : sums[i];
        }
    }
    return sums[0];
}

static inline ulong final_bits(ulong bits) {
    return (bits & 0x7fffffffffffffffUL) > 0x7ff0000000000000UL ? 0x7ff8000000000000UL : bits;
}

__kernel GROUP_SIZE void tree_short(__global const ulong *values, const ulong len, __global const ulong *offsets,
                                    const ulong runs, __global ulong *sums, __global uint *is_long) {
    ulong run = get_global_id(0);
    if (run >= runs) return;
    ulong2 at = run_at(offsets, run, len);
    if (at.y - at.x > KOEL_LEAVES) {
        atomic_or(&is_long[run / 32], 1u << (run % 32));
    } else {
        sums[run] = final_bits(as_ulong(sum_of_few(values + at.x, (uint)(at.y - at.x))));
    }
}

__kernel GROUP_SIZE void tree_long(__global const ulong *offsets, const ulong len, __global const uint *runs,
                                   const ulong count, __global ulong *begins, __global uint *leaves) {
    ulong i = get_global_id(0);
    if (i >= count) return;
    ulong2 at = run_at(offsets, runs[i], len);
    begins[i] = at.x;
    leaves[i] = (uint)(at.y - at.x);
}

__kernel GROUP_SIZE void tree_blocks(__global const uint *leaves, const ulong count, __global uint *blocks) {
    ulong i = get_global_id(0);
    if (i < count) blocks[i] = leaves[i] / KOEL_LEAVES + (leaves[i] % KOEL_LEAVES != 0);
}

// Block `blocks[i]` of run `runs[i]`.
__kernel GROUP_SIZE void tree_level(__global const ulong *values, __global const ulong *begins,
                                    __global const uint *leaves, __global const uint *runs,
                                    __global const uint *blocks, const ulong count, __global ulong *sums) {
    ulong i = get_global_id(0);
    if (i >= count) return;
    uint first = blocks[i] * KOEL_LEAVES;
    uint of_block = min(leaves[runs[i]] - first, (uint)KOEL_LEAVES);
    sums[i] = as_ulong(sum_of_few(values + begins[runs[i]] + first, of_block));
}

__kernel GROUP_SIZE void tree_put(__global const ulong *found, __global const uint *runs, const ulong count,
                                  __global ulong *sums) {
    ulong i = get_global_id(0);
    if (i < count) sums[runs[i]] = final_bits(found[i]);
}
