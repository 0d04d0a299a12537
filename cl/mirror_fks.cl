// A test kernel for src/opencl/mirror/fks.rs: each work-item applies the functions of fks.clh to its row of inputs:
// key, seed number, slot of a sub-table, upper half.

__kernel void mirror_fks(__global const uint *in, TABLE, __global ulong *out, ulong rows) {
    table t = THE_TABLE;
    ulong row = get_global_id(0);
    if (row >= rows) return;
    in += row * 4;
    uint key = in[0], seed = in[1], at = in[2], there = in[3];
    uint salt = salt_of(t, seed);
    __global ulong *to = out + row * 13;
    to[0] = bucket_of_key(t, key);
    for (uint i = 0; i < KOEL_FKS_SUBTABLES; i++) {
        place p = place_of(t, salt, i, key);
        to[1 + 4 * i] = ((ulong)slot_of(p) << 32) | p.rest;
        to[2 + 4 * i] = taken(i, there) ? key_in(t, salt, i, at, there) : 0xffffffffffffffffUL;
        to[3 + 4 * i] = stands(p, there);
        to[4 + 4 * i] = ends(p, there);
    }
}
