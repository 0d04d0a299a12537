// Partitions the pairs of a batch by the parts of a table of lines: cl/parts.cl for rows of two columns.
//
//   lines_partition_columns   columns of keys and values   ->  coarse regions, one per coarse digit
//   lines_partition_regions   the rows of coarse regions   ->  the shares of the parts
//
// Both columns of a tile are staged in the same local memory, keys first. The work-item that writes a key remembers its
// digit, and writes the value of the same row after the values have been staged.

static inline uint line_digit(digits d, key_type mixed, uint buckets) {
    return (split_line_key(mixed, buckets).home >> KOEL_PART_BITS >> d.shift) - d.first;
}

// Cursors: the number of rows of each part, including rows that do not fit, and then of each coarse region.
static inline uint coarse_line_cursors(uint buckets) { return ((buckets - 1) >> KOEL_PART_BITS) + 1; }

// Writes the rows of a tile to their shares. The first `mine` of a work-item's rows exist; `values` points to the first
// value, and the others are KOEL_GROUP apart.
INLINED void partition_rows(const key_type *mixed, __global const value_type *values, uint mine, digits d, uint buckets,
                       __local ulong *staged, __local uint *counts, __local uint *starts, __local sum *sums,
                       __global uint *cursors, __global word_type *to, uint share_lines, uint lines, LINE_ESCAPES) {
    uint me = get_local_id(0);
    __local key_type *staged_keys = (__local key_type *)staged;
    __local value_type *staged_values = (__local value_type *)staged;
    clear_counts(counts);
    uint at[KOEL_EACH];
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        if (j < mine) at[j] = atomic_inc(&counts[line_digit(d, mixed[j], buckets)]);
    }
    uint count = take_room(counts, starts, sums, cursors + d.first);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        if (j >= mine) continue;
        uint digit = line_digit(d, mixed[j], buckets);
        at[j] += starts[digit];
        staged_keys[at[j]] = mixed[j];
        if (counts[digit] + at[j] < share_of(d.first + digit, share_lines, lines).room) continue;
        // The count need not be exact if the list is full.
        if (seen64(&status[KOEL_ESCAPED]) > escapes) continue;
        value_type value = KOEL_VALUE_BITS ? values[j * KOEL_GROUP] : 0;
        list_line_escape(atom_add(&status[KOEL_ESCAPED], 1UL), 1, split_line_key(mixed[j], buckets), value, LINE_ESCAPED);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    ushort digit_at[KOEL_EACH];
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint i = j * KOEL_GROUP + me;
        if (i >= count) continue;
        uint digit = line_digit(d, staged_keys[i], buckets), place = counts[digit] + i;
        share s = share_of(d.first + digit, share_lines, lines);
        if (place < s.room) to[s.keys + place] = staged_keys[i];
        digit_at[j] = digit;
    }
#if KOEL_VALUE_BITS
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        if (j < mine) staged_values[at[j]] = values[j * KOEL_GROUP];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint i = j * KOEL_GROUP + me;
        if (i >= count) continue;
        uint digit = digit_at[j], place = counts[digit] + i;
        share s = share_of(d.first + digit, share_lines, lines);
        if (place < s.room) ((__global value_type *)to)[s.values + place] = staged_values[i];
    }
#endif
}

// The digit of a row is the number of its part, shifted.
__kernel GROUP_SIZE void lines_partition_columns(__global word_type *to, LINE_TABLE, const uint shift, const uint share_lines,
                                            const uint lines, __global const key_type *keys,
                                            __global const value_type *values, const ulong count,
                                            __global uint *cursors, LINE_ESCAPES) {
    functions f = {forth, back};
    TILE_MEMORY;
    ulong first = (ulong)get_group_id(0) * TILE + get_local_id(0);
    key_type mixed[KOEL_EACH];
    uint mine = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        ulong i = first + j * KOEL_GROUP;
        mixed[j] = i < count ? keys[i] : 0;
        mine += i < count;
    }
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) mixed[j] = mix_line_key(f, mixer, mixed[j]);
    digits d = {shift, 0};
    cursors += coarse_line_cursors(buckets);
    partition_rows(mixed, values + first, mine, d, buckets, staged, counts, starts, sums, cursors, to, share_lines, lines,
              LINE_ESCAPED);
}

// `tiles` work-groups per region.
__kernel GROUP_SIZE void lines_partition_regions(__global word_type *to, LINE_TABLE, const uint shift, const uint share_lines,
                                            const uint lines, const uint tiles, __global const word_type *from,
                                            const uint from_share_lines, const uint from_lines,
                                            __global uint *cursors, LINE_ESCAPES) {
    TILE_MEMORY;
    uint region = get_group_id(0) / tiles;
    share s = share_of(region, from_share_lines, from_lines);
    uint first = get_group_id(0) % tiles * TILE + get_local_id(0);
    uint end = min(cursors[coarse_line_cursors(buckets) + region], s.room);
    key_type mixed[KOEL_EACH];
    uint mine = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint i = first + j * KOEL_GROUP;
        mixed[j] = i < end ? from[s.keys + i] : 0;
        mine += i < end;
    }
    digits d = {0, region << shift};
    partition_rows(mixed, (__global const value_type *)from + s.values + first, mine, d, buckets, staged, counts, starts, sums,
              cursors, to, share_lines, lines, LINE_ESCAPED);
}
