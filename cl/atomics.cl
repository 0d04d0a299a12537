// The self-test of 64-bit atomics: src/opencl/runtime/selftest.rs runs it on a device before the first table.
//
// Every work-item leaves its token in cells that all or some others use as well. The host knows what must remain
// whatever the order was: a sum, a maximum, a XOR, a multiset of tokens, and one winner for each cell that four compete
// for.

__kernel void atomics(__global ulong *cells, __global ulong *exchanged, __global ulong *before) {
    uint item = get_global_id(0);
    // Both halves differ from zero, so that an atomic of 32 bits cannot pass for one of 64; and every other token has
    // the highest bit, so that a signed comparison cannot pass for an unsigned one.
    ulong token = ((ulong)(item % 2) << 63) | ((ulong)(item + 1) << 33) | (item + 1);
    atom_add(&cells[0], token);
    atom_max(&cells[1], token);
    atom_xor(&cells[2], token);
    exchanged[item] = atom_xchg(&cells[3], token);
    before[item] = atom_cmpxchg(&cells[4 + item / 4], 0UL, token);
}
