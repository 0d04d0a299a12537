// The last pass of a sort that begins with the most significant digits (src/opencl/passes/sort/runs.rs).
//
// Pairs are already in ascending order of the bits of their keys from `shift` up, and in the order of the input where
// these are equal. A run is the pairs whose bits from `shift` up are equal.
//
// Each group has `span` consecutive positions, and sorts the runs that begin there by all lower bits, in local memory:
// as many as fit in a tile at a time.
//
// It sorts words: WINDOW bits of each key, and the position of its pair, which has POSITION_BITS. Windows are sorted
// from the least significant one up. Half digits in which no keys of the column differ are skipped. A tile may have
// several runs, so the bits from `shift` up are sorted too: those of the difference from the first run. Keys and values
// are read at their old positions, and written once, to their final ones.
//
// A few bits usually determine the order of a run, so a group first sorts by the most significant ones. If keys are not
// in order afterwards, it sorts by all bits.
//
// This is not a sort for all columns: no run may be longer than a tile.

#define WINDOW (32 - POSITION_BITS)
#define POSITION_BITS 12
#define POSITIONS ((1u << POSITION_BITS) - 1)
#define WINDOW_ONES (0xffffffffu >> POSITION_BITS)
// Words are padded so that work-items that read KOEL_EACH consecutive ones, four at a time, use different banks.
#define AT(i) ((i) + (i) / 32 * 4)

// The first positions from `from` up, and from `from` + `span` up, at which a run begins, or the end of the column.
// Returns false if a run is longer than a tile.
INLINED bool ends_of(__global const key_type *keys, ulong len, uint shift, ulong from, uint span, __local uint *ends) {
    uint me = get_local_id(0);
    if (me < 2) ends[me] = (uint)len;
    bool done = false;
    for (ulong at = from; !done && at - from < TILE; at += KOEL_GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < 2; i++) {
            ulong place = at + i * span + me;
            if (place < len && (place == 0 || keys[place] >> shift != keys[place - 1] >> shift)) {
                atomic_min(&ends[i], (uint)place);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        done = at + KOEL_GROUP >= len || (ends[0] < at + KOEL_GROUP && (ends[1] < len || at + span + KOEL_GROUP >= len));
    }
    return done;
}

// The number of the first TILE keys that are in whole runs; 0 if the first run is longer. There are more than TILE.
INLINED uint whole_runs(__global const key_type *keys, uint shift, __local uint *end) {
    uint me = get_local_id(0);
    // All work-items have read the previous result.
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me == 0) *end = 0;
    for (uint at = TILE; at > 0; at -= KOEL_GROUP) {
        barrier(CLK_LOCAL_MEM_FENCE);
        uint place = at - me;
        if (keys[place] >> shift != keys[place - 1] >> shift) atomic_max(end, place);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (*end) break;
    }
    return *end;
}

// The position of a word's pair.
#define PLACE(word) ((word) & POSITIONS)

// Sorts the words of the tile by these bits of keys, less `first`; the words contain the positions of pairs.
INLINED void sort_tile(__global const key_type *keys, uint count, key_type first, key_type bits, __local uint *tile,
                       __local uint *columns, __local sum *sums) {
    uint me = get_local_id(0);
    for (uint i = me; i < TILE; i += KOEL_GROUP) tile[AT(i)] = i;
    const uint most = sizeof(key_type) * 8;
    uint end = most - (uint)clz(bits), low = most - 1 - (uint)clz(bits & -bits);
    // The window of the most significant bits is whole.
    uint base = end - (end - low + WINDOW - 1) / WINDOW * WINDOW;
    for (; (int)base < (int)end; base += WINDOW) {
        uint from = max((int)base, (int)low);
        uint window = (uint)(bits >> from) & (WINDOW_ONES >> (from - base));
        #pragma unroll
        for (uint j = 0; j < KOEL_EACH; j++) {
            uint i = j * KOEL_GROUP + me, place = PLACE(tile[AT(i)]);
            // Positions past the end have the greatest digits and are last, so they stay there.
            uint part = i < count ? (uint)((keys[place] - first) >> from) : WINDOW_ONES;
            tile[AT(i)] = part << POSITION_BITS | place;
        }
        for (uint digit = POSITION_BITS; window; digit += 4, window >>= 4) {
            if (!(window & 15)) continue;
            barrier(CLK_LOCAL_MEM_FENCE);
            uint words[KOEL_EACH], fours[KOEL_EACH], ranks[KOEL_EACH];
            #pragma unroll
            for (uint q = 0; q < KOEL_EACH / 4; q++) {
                uint4 four = *(__local const uint4 *)(tile + AT(me * KOEL_EACH + 4 * q));
                words[4 * q] = four.x;
                words[4 * q + 1] = four.y;
                words[4 * q + 2] = four.z;
                words[4 * q + 3] = four.w;
            }
            #pragma unroll
            for (uint j = 0; j < KOEL_EACH; j++) fours[j] = ((words[j] >> digit) & 15) << 2;
            rank_by(fours, ranks, columns, sums);
            // All work-items have read the tile.
            #pragma unroll
            for (uint j = 0; j < KOEL_EACH; j++) tile[AT(ranks[j])] = words[j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

// Whether any key of the sorted tile is less than the one before it. Keys whose windows differ are in order.
INLINED bool falls_in(__global const key_type *keys, uint count, __local const uint *tile, __local uint *falls) {
    uint me = get_local_id(0);
    if (me == 0) *falls = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < count; i += KOEL_GROUP) {
        uint word = tile[AT(i)], before = tile[AT(i - (i > 0))];
        if (before >> POSITION_BITS == word >> POSITION_BITS && keys[PLACE(before)] > keys[PLACE(word)]) *falls = 1;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return *falls;
}

// `later` has the bits below `shift` in which keys differ, and `sooner` the most significant ones of these. If a run is
// longer than a tile, `too_long` is set, and the results are not complete.
__kernel GROUP_SIZE void sort_runs(__global const key_type *keys, __global const value_type *values, const uint len,
                                   const uint shift, const uint span, const key_type sooner, const key_type later,
                                   __global key_type *to_keys, __global value_type *to_values,
                                   __global uint *too_long) {
    __local uint tile[AT(TILE)] __attribute__((aligned(16)));
    __local uint columns[COLUMNS * KOEL_GROUP] __attribute__((aligned(16)));
    SUMS_MEMORY(sums);
    __local uint ends[2], whole, falls;
    uint me = get_local_id(0);
    ulong from = (ulong)get_group_id(0) * span;
    if (from >= len) return;
    if (!ends_of(keys, len, shift, from, span, ends)) {
        if (me == 0) *too_long = 1;
        return;
    }
    for (uint begin = ends[0], end = ends[1]; begin < end;) {
        __global const key_type *runs = keys + begin;
        uint count = end - begin;
        if (count > TILE) count = whole_runs(runs, shift, &whole);
        if (count == 0) {
            if (me == 0) *too_long = 1;
            return;
        }
        key_type first = runs[0] >> shift << shift, above = (runs[count - 1] - first) >> shift;
        // The bits in which runs differ.
        if (above) above = ((key_type)-1 >> clz(above)) << shift;
        key_type bits = sooner | above;
        for (bool done = !bits; !done;) {
            sort_tile(runs, count, first, bits, tile, columns, sums);
            done = bits == (later | above) || !falls_in(runs, count, tile, &falls);
            if (!done) bits = later | above;
        }
        for (uint i = me; i < count; i += KOEL_GROUP) {
            uint place = begin + (bits ? PLACE(tile[AT(i)]) : i);
            to_keys[begin + i] = keys[place];
            to_values[begin + i] = values[place];
        }
        begin += count;
    }
}
