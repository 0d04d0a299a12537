// Kernels that do not belong to a scheme: sequences, ranks in a bitmap, the counts of a selection, and benchmarks of
// random access.
//
// KOEL_GROUP, the work-items of a group, is a power of two and at least 64. All lengths have 64 bits, and the global
// size is a multiple of KOEL_GROUP: work-items past the end do nothing, but reach every barrier.


// Four consecutive elements per work-item.
__kernel GROUP_SIZE void iota(__global uint *to, const ulong len) {
    ulong i = 4 * get_global_id(0);
    if (i + 4 <= len) {
        ((__global uint4 *)to)[i / 4] = (uint)i + (uint4)(0, 1, 2, 3);
    } else {
        for (; i < len; i++) to[i] = (uint)i;
    }
}

// Short buffers are filled by the driver instead (src/opencl/passes/primitives.rs). `four` is the value, repeated to
// fill 16 bytes.
__kernel GROUP_SIZE void fill(__global uint *to, const ulong len, const uint4 four) {
    for (ulong i = 4 * get_global_id(0); i < len; i += 4 * get_global_size(0)) {
        if (i + 4 <= len) {
            ((__global uint4 *)to)[i / 4] = four;
        } else {
            to[i] = four.x;
            if (i + 1 < len) to[i + 1] = four.y;
            if (i + 2 < len) to[i + 2] = four.x;
        }
    }
}

__kernel GROUP_SIZE void complement(__global uint *words, const ulong len) {
    ulong i = get_global_id(0);
    if (i < len) words[i] = ~words[i];
}

// Each 32-bit cell becomes the upper half of a word, whose lower half is 0.
__kernel GROUP_SIZE void upper_halves(__global const uint *cells, const ulong len, __global ulong *words) {
    ulong i = get_global_id(0);
    if (i < len) words[i] = (ulong)cells[i] << 32;
}

// ---- Selection and ranks. A tile is one word of the bitmap per work-item of a group: 32 * KOEL_GROUP elements.
//
//   select_count   one group per tile: the number of selected elements       -> offsets[tile]
//   (cl/scan.cl    exclusive prefix sums of these, in place                 -> offsets[tiles]: the total)
//   (select_move   of columns.cl writes the selected elements from offsets[tile] on)
//   ranks          one group per tile: the number of ones up to and including each element, minus one

__kernel GROUP_SIZE void select_count(__global const uint *bits, const ulong len, const uint flip,
                                      __global sum *offsets) {
    __local sum sums[KOEL_GROUP];
    uint me = get_local_id(0);
    sums[me] = popcount(kept(bits, get_global_id(0), len, flip));
    prefix_sums(sums);
    if (me == KOEL_GROUP - 1) offsets[get_group_id(0)] = sums[me];
}

__kernel GROUP_SIZE void ranks(__global const uint *bits, const ulong len, __global const sum *offsets,
                               __global uint *to) {
    __local sum sums[KOEL_GROUP];
    __local uint words[KOEL_GROUP];
    uint me = get_local_id(0);
    words[me] = kept(bits, get_global_id(0), len, 0);
    sums[me] = popcount(words[me]);
    prefix_sums(sums);
    ulong first = (ulong)get_group_id(0) * KOEL_GROUP * 32;
    // For elements before the first one bit, the rank is UINT_MAX.
    uint before = (uint)offsets[get_group_id(0)] - 1;
    for (uint round = 0; round < 32; round++) {
        uint element = round * KOEL_GROUP + me;
        if (first + element >= len) break;
        // Two shifts, because a shift by 32 bits would be a shift by 0.
        uint later = popcount((words[element / 32] >> (element % 32)) >> 1);
        to[first + element] = before + (uint)sums[element / 32] - later;
    }
}

// ---- Benchmarks of random access. The places are those of `Probe::random_reads`.

static inline ulong random_place(ulong i, uint len) {
    mix_keys none = {0, 1, 1, 0};
    return reduce(mix((uint)i, none), len);
}

// Combines the parts of all work-items of a group by XOR, and updates the result with one atomic.
INLINED void xor_parts(__local ulong *parts, ulong part, __global ulong *result) {
    uint me = get_local_id(0);
    parts[me] = part;
    for (uint below = KOEL_GROUP / 2; below > 0; below /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < below) parts[me] ^= parts[me + below];
    }
#ifdef KOEL_PARTIAL
    if (me == 0) {
        atomic_xor((__global uint *)result, (uint)parts[0]);
        atomic_xor((__global uint *)result + 1, upper_of(parts[0]));
    }
#else
    if (me == 0) atom_xor(result, parts[0]);
#endif
}

// Several reads per work-item, so that the cost of one atomic per group is negligible.
__kernel GROUP_SIZE void random_reads(__global const ulong *words, const uint len, const ulong reads,
                                      __global ulong *result) {
    __local ulong parts[KOEL_GROUP];
    ulong part = 0;
    for (ulong i = get_global_id(0); i < reads; i += get_global_size(0)) part ^= words[random_place(i, len)];
    xor_parts(parts, part, result);
}

// Eight work-items per line, one word each. Each work-item loads from four lines before it uses the first word, to have
// more loads in flight.
__kernel GROUP_SIZE void random_lines(__global const ulong *words, const uint lines, const ulong reads,
                                      __global ulong *result) {
    __local ulong parts[KOEL_GROUP];
    ulong part = 0, lane = get_global_id(0) % 8, stride = get_global_size(0) / 8;
    for (ulong first = get_global_id(0) / 8; first < reads; first += 4 * stride) {
        ulong found[4];
        for (uint k = 0; k < 4; k++) {
            ulong i = first + k * stride;
            found[k] = i < reads ? words[8 * random_place(i, lines) + lane] : 0;
        }
        part ^= found[0] ^ found[1] ^ found[2] ^ found[3];
    }
    xor_parts(parts, part, result);
}

#ifndef KOEL_PARTIAL
__kernel GROUP_SIZE void random_updates(__global ulong *words, const uint len, const ulong writes) {
    ulong i = get_global_id(0);
    if (i < writes) atom_max(&words[random_place(i, len)], i + 1);
}
#endif

// ---- Strided updates of 32 and of 64 bits, with an atomic or with a read and a write. Lengths are below 2^32, so the
// product does not overflow.

#define STRIDED(NAME, WORD, UPDATE)                                                                                    \
    __kernel GROUP_SIZE void NAME(__global WORD *words, const ulong len, const uint stride) {                          \
        ulong i = get_global_id(0);                                                                                    \
        if (i >= len) return;                                                                                          \
        __global WORD *word = words + i * stride % len;                                                                \
        UPDATE;                                                                                                        \
    }

STRIDED(strided_32, uint, *word += 1)
STRIDED(strided_64, ulong, *word += 1)
STRIDED(strided_32_atomic, uint, atomic_inc(word))
#ifndef KOEL_PARTIAL
STRIDED(strided_64_atomic, ulong, atom_inc(word))
#endif
