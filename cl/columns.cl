// Kernels for columns of 32 or 64 bits: moving elements by index or by a bitmap, and comparing adjacent elements.
//
//   KOEL_WORD_BITS   bits of an element: 32 or 64
//
//   gather         to[i] = from[index[i]]
//   scatter        to[places[i]] = values[i]
//   greatest       the greatest element
//   select_move    one group per tile: writes the selected elements from offsets[tile] on (counts: primitives.cl)
//   shards         the shard of each key (src/scheme/shard.rs)
//   heads, tails   bitmaps of the elements that differ from the previous one, and from the next one
//
// KOEL_GROUP, the work-items of a group, is a power of two and at least 32. All lengths have 64 bits, and the global
// size is a multiple of the group size: work-items past the end do no work, but reach every barrier.

#if KOEL_WORD_BITS == 64
typedef ulong cell;
typedef ulong4 cell4;
#ifdef KOEL_PARTIAL
// One result per group, because there are no 64-bit atomics.
#define REPORT_GREATEST(result, value) result[get_group_id(0)] = value
#else
#define REPORT_GREATEST(result, value) atom_max(result, value)
#endif
#else
typedef uint cell;
typedef uint4 cell4;
#define REPORT_GREATEST(result, value) atomic_max(result, value)
#endif

__kernel GROUP_SIZE void gather(__global const cell *from, const ulong from_len, __global const uint *index,
                                __global cell *to, const ulong len) {
    ulong i = get_global_id(0);
    if (i >= len) return;
    uint at = index[i];
    to[i] = at < from_len ? from[at] : 0;
}

// `mixer` has the constants of the mixer of either width.
__kernel GROUP_SIZE void shards(__global const cell *keys, const ulong len, const ulong4 mixer, const uint count,
                                __global uint *to) {
    ulong i = get_global_id(0);
    if (i >= len) return;
#if KOEL_WORD_BITS == 64
    uint mixed = upper_of(mix_64(keys[i], mixer));
#else
    mix_keys narrow = {(uint)mixer.x, (uint)mixer.y, (uint)mixer.z, (uint)mixer.w};
    uint mixed = mix(keys[i], narrow);
#endif
    to[i] = reduce(mixed, count);
}

// Several words per work-item, and one atomic per group.
__kernel GROUP_SIZE void greatest(__global const cell *words, const ulong len, __global cell *result) {
    __local cell parts[KOEL_GROUP];
    uint me = get_local_id(0);
    cell part = 0;
    for (ulong i = get_global_id(0); i < len; i += get_global_size(0)) part = max(part, words[i]);
    parts[me] = part;
    for (uint below = KOEL_GROUP / 2; below > 0; below /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < below) parts[me] = max(parts[me], parts[me + below]);
    }
    if (me == 0) REPORT_GREATEST(result, parts[0]);
}

// The bitmap's words and their prefix sums are in local memory. The group processes its elements in order, so accesses
// of adjacent work-items are coalesced.
__kernel GROUP_SIZE void select_move(__global const uint *bits, const ulong len, const uint flip,
                                     __global const sum *offsets, __global const cell *from, __global cell *to) {
    __local sum sums[KOEL_GROUP];
    __local uint words[KOEL_GROUP];
    uint me = get_local_id(0);
    words[me] = kept(bits, get_global_id(0), len, flip);
    sums[me] = popcount(words[me]);
    prefix_sums(sums);
    ulong first = (ulong)get_group_id(0) * KOEL_GROUP * 32;
    ulong out = offsets[get_group_id(0)];
    for (uint round = 0; round < 32; round++) {
        uint element = round * KOEL_GROUP + me;
        // The bits of this word from this element on.
        uint rest = words[element / 32] >> (element % 32);
        if (!(rest & 1)) continue;
        to[out + sums[element / 32] - popcount(rest)] = from[first + element];
    }
}

// Each work-item writes one byte of the bitmap, for eight adjacent elements: bits of those that differ from the element
// before (`heads`) or after (`tails`) them. Bytes past the end of the column, up to the end of the last word, are 0.

__kernel GROUP_SIZE void heads(__global const cell *column, const ulong len, __global uint *bits) {
    ulong first = 8 * get_global_id(0);
    if (first >= (len + 31) / 32 * 32) return;
    uint ones = 0;
    if (first + 8 <= len) {
        cell4 a = ((__global const cell4 *)(column + first))[0], b = ((__global const cell4 *)(column + first))[1];
        cell before = first > 0 ? column[first - 1] : ~a.x;
        ones = (a.x != before) | (a.y != a.x) << 1 | (a.z != a.y) << 2 | (a.w != a.z) << 3 | (b.x != a.w) << 4 |
               (b.y != b.x) << 5 | (b.z != b.y) << 6 | (b.w != b.z) << 7;
    } else {
        for (ulong i = first; i < len; i++) ones |= (uint)(i == 0 || column[i] != column[i - 1]) << (i - first);
    }
    ((__global uchar *)bits)[first / 8] = (uchar)ones;
}

__kernel GROUP_SIZE void tails(__global const cell *column, const ulong len, __global uint *bits) {
    ulong first = 8 * get_global_id(0);
    if (first >= (len + 31) / 32 * 32) return;
    uint ones = 0;
    if (first + 8 <= len) {
        cell4 a = ((__global const cell4 *)(column + first))[0], b = ((__global const cell4 *)(column + first))[1];
        cell after = first + 8 < len ? column[first + 8] : ~b.w;
        ones = (a.x != a.y) | (a.y != a.z) << 1 | (a.z != a.w) << 2 | (a.w != b.x) << 3 | (b.x != b.y) << 4 |
               (b.y != b.z) << 5 | (b.z != b.w) << 6 | (b.w != after) << 7;
    } else {
        for (ulong i = first; i < len; i++) ones |= (uint)(i + 1 == len || column[i] != column[i + 1]) << (i - first);
    }
    ((__global uchar *)bits)[first / 8] = (uchar)ones;
}

__kernel GROUP_SIZE void scatter(__global const cell *values, __global const uint *places, const ulong count,
                                 __global cell *to, const ulong len) {
    ulong i = get_global_id(0);
    if (i < count && places[i] < len) to[places[i]] = values[i];
}
