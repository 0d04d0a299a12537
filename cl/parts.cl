// Partitions the pairs of a batch by the parts of a table, so that each part can be built in local memory.
//
//   partition_pairs   columns of keys and values   ->  coarse regions, one for each coarse digit
//   partition_words   the words of coarse regions  ->  the parts, each in its slice of the image, or in other memory
//
// A partitioned word is [mixed key][value]: the mixed key grows with the bucket, hence with the part, and determines
// the key. A region has some extra space for random deviations. Words that do not fit in their region, or in the slice
// of their part, escape: they are added to a list, and inserted into the image after the parts have been placed. The
// result does not depend on the order of the words in a region.
//
// What it is not: a sort, and not stable.

static inline uint digit_of(digits d, ulong partitioned, uint buckets) {
    return (part_number(home_of_mixed(upper_of(partitioned), buckets)) >> d.shift) - d.first;
}

// Writes the first `mine` words of each work-item to their regions. Region r begins at r * stride and has space for
// `stride` words, except that the last region ends with the buffer, at `len`.
INLINED void scatter_tile(const ulong *words, uint mine, digits d, uint buckets, __local ulong *staged,
                          __local uint *counts, __local uint *starts, __local sum *sums, __global uint *cursors,
                          __global ulong *out, ulong stride, ulong len, ESCAPES) {
    uint me = get_local_id(0);
    clear_counts(counts);
    uint ranks[KOEL_EACH];
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        if (j < mine) ranks[j] = atomic_inc(&counts[digit_of(d, words[j], buckets)]);
    }
    uint count = take_room(counts, starts, sums, cursors + d.first);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        if (j < mine) staged[starts[digit_of(d, words[j], buckets)] + ranks[j]] = words[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < count; i += KOEL_GROUP) {
        ulong word = staged[i];
        uint digit = digit_of(d, word, buckets);
        ulong at = counts[digit] + i, begin = (d.first + digit) * stride;
        if (at < min(stride, len - begin)) out[begin + at] = word;
        else escape_mixed(word, buckets, ESCAPED);
    }
}

// A pair's digit is its part number, shifted.
__kernel GROUP_SIZE void partition_pairs(const uint buckets, MIXERS, const uint shift, __global const uint *keys,
                                         __global const uint *values, const ulong pairs, __global uint *cursors,
                                         __global ulong *regions, const ulong stride, const ulong len, ESCAPES) {
    functions f = {forth, back};
    TILE_MEMORY;
    ulong first = (ulong)get_group_id(0) * TILE + get_local_id(0);
    ulong words[KOEL_EACH];
    uint mine = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        ulong i = first + j * KOEL_GROUP;
        bool inside = i < pairs;
        words[j] = inside ? ((ulong)keys[i] << 32) | values[i] : 0;
        mine += inside;
    }
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        words[j] = ((ulong)mix(upper_of(words[j]), keys_of(f, 0)) << 32) | (uint)words[j];
    }
    digits d = {shift, 0};
    cursors += coarse_cursors(buckets);
    scatter_tile(words, mine, d, buckets, staged, counts, starts, sums, cursors, regions, stride, len, ESCAPED);
}

// `tiles` groups per region.
__kernel GROUP_SIZE void partition_words(const uint buckets, MIXERS, const uint shift, const uint tiles,
                                         __global const ulong *regions, const ulong region_stride,
                                         __global uint *cursors, __global ulong *to, const ulong stride,
                                         const ulong len, ESCAPES) {
    TILE_MEMORY;
    uint region = get_group_id(0) / tiles;
    ulong first = (ulong)(get_group_id(0) % tiles) * TILE + get_local_id(0);
    ulong end = min((ulong)cursors[coarse_cursors(buckets) + region], region_stride);
    __global const ulong *from = regions + region * region_stride;
    ulong words[KOEL_EACH];
    uint mine = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        ulong i = first + j * KOEL_GROUP;
        bool inside = i < end;
        words[j] = inside ? from[i] : 0;
        mine += inside;
    }
    digits d = {0, region << shift};
    scatter_tile(words, mine, d, buckets, staged, counts, starts, sums, cursors, to, stride, len, ESCAPED);
}
