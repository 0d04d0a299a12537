// Benchmark of the two shapes of a lookup: src/opencl/passes/shape.rs measures which one is faster on a device.
//
// Each of `reads` keys is searched in one block of 64 bytes at a pseudo-random place, which does not contain it. The
// loads, comparisons, local-memory traffic and answers are those of a lookup.

#define LOADS 4

static inline uint place_of(uint i, uint blocks) {
    mix_keys none = {0, 1, 1, 0};
    return reduce(mix(i, none), blocks);
}

// One work-item per block.
__kernel GROUP_SIZE void shape_alone(__global const uint4 *buffer, const uint blocks, const uint reads,
                                     __global uint *to) {
    uint item = get_global_id(0);
    if (item >= reads) return;
    __global const uint4 *block = buffer + (ulong)place_of(item, blocks) * LOADS;
    uint4 two[LOADS];
    #pragma unroll
    for (uint j = 0; j < LOADS; j++) two[j] = block[j];
    uint got = 0;
    #pragma unroll
    for (uint j = 0; j < LOADS; j++) {
        got = two[j].y == item + 1 ? two[j].x : got;
        got = two[j].w == item + 1 ? two[j].z : got;
    }
    to[item] = got;
}

// Four work-items per block, with 16 bytes each.
__kernel GROUP_SIZE void shape_together(__global const uint4 *buffer, const uint blocks, const uint reads,
                                        __global uint *to) {
    __local uint at[KOEL_GROUP], wanted[KOEL_GROUP], got[KOEL_GROUP], last[KOEL_GROUP];
    uint item = get_global_id(0), me = get_local_id(0), lane = me % LOADS, base = me - lane;
    at[me] = place_of(item, blocks);
    wanted[me] = item + 1;
    got[me] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint4 two[LOADS];
    #pragma unroll
    for (uint k = 0; k < LOADS; k++) two[k] = buffer[(ulong)at[base + k] * LOADS + lane];
    #pragma unroll
    for (uint k = 0; k < LOADS; k++) {
        if (two[k].y == wanted[base + k]) got[base + k] = two[k].x;
        if (two[k].w == wanted[base + k]) got[base + k] = two[k].z;
        if (lane == LOADS - 1) last[base + k] = two[k].w;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item < reads) to[item] = got[me] + last[me];
}
