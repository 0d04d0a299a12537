// The self-test of atomics, which src/opencl/runtime/selftest.rs runs on a device before the first table: of 64 bits,
// or of 32 in the partial tier.
//
// Each work-item applies its token to cells that all or some other work-items use as well. The host knows the results
// that are correct for every order: a sum, a maximum, a XOR, a multiset of tokens, and one winner for each cell for
// which four work-items compete.

#ifdef KOEL_PARTIAL
typedef uint cell;
#define OPERATION(name) atomic_##name
#else
typedef ulong cell;
#define OPERATION(name) atom_##name
#endif

// Every other token has the highest bit, which detects signed comparisons. Both halves of a 64-bit token differ from
// zero, which detects atomics of 32 bits.
static inline cell token_of(uint item) {
#ifdef KOEL_PARTIAL
    return (item % 2) << 31 | (item + 1);
#else
    return ((ulong)(item % 2) << 63) | ((ulong)(item + 1) << 33) | (item + 1);
#endif
}

__kernel void atomics(__global cell *cells, __global cell *exchanged, __global cell *before) {
    uint item = get_global_id(0);
    cell token = token_of(item);
    OPERATION(add)(&cells[0], token);
    OPERATION(max)(&cells[1], token);
    OPERATION(xor)(&cells[2], token);
    exchanged[item] = OPERATION(xchg)(&cells[3], token);
    before[item] = OPERATION(cmpxchg)(&cells[4 + item / 4], (cell)0, token);
}
