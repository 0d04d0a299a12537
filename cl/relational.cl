// What grouping and joining are made of, but for aggregates (accumulate.cl) and what columns of either width share
// (columns.cl): bitmaps, runs, and images of two columns.
//
//   mark            ones at some places of a bitmap
//   spans           where the run of each query stands, and how long it is
//   widen           counts of 32 bits as sums of 64, which cl/scan.cl adds up
//   expand_borders  one work-item a border between tiles: the run that stands there
//   expand          one group a tile of the list: the run of each element, and its place in it
//   interleave      cells of 32 bits and values to words of 64
//
// KOEL_GROUP, the work-items of a group, is a multiple of 32. All lengths are 64 bits wide, and the global size is a
// multiple of the group's: work-items past the end do nothing, but reach every barrier.

static inline bool bit_at(__global const uint *bits, ulong i) { return (bits[i / 32] >> (i % 32)) & 1; }

// One place a million times is one atomic, and those that come before it is seen.
__kernel GROUP_SIZE void mark(__global const uint *places, const ulong count, __global uint *bits, const ulong len) {
    ulong i = get_global_id(0);
    if (i >= count) return;
    uint place = places[i], bit = 1u << (place % 32);
    if (place < len && !(seen32(&bits[place / 32]) & bit)) atomic_or(&bits[place / 32], bit);
}

// Queries without a run have `missing_count` elements from `missing` on.
__kernel GROUP_SIZE void spans(__global const uint *starts, const ulong starts_len, __global const uint *ids,
                               __global const uint *found, const uint missing, const uint missing_count,
                               const ulong len, __global uint *to_starts, __global uint *to_counts) {
    ulong i = get_global_id(0);
    if (i >= len) return;
    ulong id = ids[i];
    uint start = missing, count = missing_count;
    if (bit_at(found, i) && id + 1 < starts_len) {
        start = starts[id];
        count = starts[id + 1] - start;
    }
    to_starts[i] = start;
    to_counts[i] = count;
}

// With a 0 behind them, where the sum of all will be.
__kernel GROUP_SIZE void widen(__global const uint *counts, const ulong len, __global ulong *to) {
    ulong i = get_global_id(0);
    if (i <= len) to[i] = i < len ? counts[i] : 0;
}

__kernel GROUP_SIZE void interleave(__global const ulong *cells, __global const uint *lower, const ulong len,
                                    __global const uint *bits, const ulong empty, __global ulong *words) {
    ulong i = get_global_id(0);
    if (i >= len) return;
    ulong cell = (uint)(cells[i / 2] >> (32 * (i % 2)));
    words[i] = bit_at(bits, i) ? (cell << 32) | lower[i] : empty;
}

// ---- Expanding. A tile is KOEL_EACH elements of the list for each work-item of a group.
//
//   expand_borders   the runs at the two borders of a tile: one search each among all offsets
//   expand           a work-item has KOEL_EACH neighbours: a search for the run of the first and of the last, between
//                    the borders' runs, and searches for the others between these two
//                    the group writes the tile in order: neighbours write to neighbours
//
// So a run of millions is KOEL_EACH elements to each work-item as any other, and millions of empty runs are a few steps
// more of a search. What it is not: a walk from run to run, which empty runs would stop.

#define TILE (KOEL_GROUP * KOEL_EACH)
// Work-items write KOEL_EACH neighbours each; a gap behind these keeps them from meeting at one bank of local memory.
#define PADDED(i) ((i) + (i) / KOEL_EACH)

// The last run of low..=high that begins at `at` or before, if `low` does. Empty runs before it begin there too.
static inline uint run_of(__global const ulong *offsets, ulong at, uint low, uint high) {
    for (uint left = 32; left > 0 && low < high; left--) {
        uint middle = high - (high - low) / 2;
        bool before = offsets[middle] <= at;
        low = before ? middle : low;
        high = before ? high : middle - 1;
    }
    return low;
}

// How many of `len` elements from `first` on the list has. There is a run.
static inline ulong listed(__global const ulong *offsets, uint runs, ulong first, ulong len) {
    ulong total = offsets[runs];
    return first < total ? min(len, total - first) : 0;
}

// `borders` is one more than tiles. Of a border past the end of the list it is the run of the last element.
__kernel GROUP_SIZE void expand_borders(__global const ulong *offsets, const uint runs, const ulong first,
                                        const ulong len, __global uint *borders, const ulong count) {
    ulong border = get_global_id(0);
    if (border >= count) return;
    ulong live = listed(offsets, runs, first, len);
    ulong at = first + min(border * TILE, live - (live > 0));
    borders[border] = run_of(offsets, at, 0, runs - 1);
}

__kernel GROUP_SIZE void expand(__global const ulong *offsets, const uint runs, __global const uint *starts,
                                const ulong first, const ulong len, __global const uint *borders,
                                __global uint *to_runs, __global uint *to_places) {
    __local uint tile[PADDED(TILE)];
    uint me = get_local_id(0);
    ulong begin = (ulong)get_group_id(0) * TILE;
    ulong live = listed(offsets, runs, first, len);
    ulong mine = begin + me * KOEL_EACH;
    if (mine < live) {
        uint last = (uint)min(live - mine, (ulong)KOEL_EACH) - 1;
        uint low = run_of(offsets, first + mine, borders[get_group_id(0)], borders[get_group_id(0) + 1]);
        uint high = run_of(offsets, first + mine + last, low, borders[get_group_id(0) + 1]);
        for (uint j = 0; j < KOEL_EACH; j++) {
            low = run_of(offsets, first + mine + min(j, last), low, high);
            tile[PADDED(me * KOEL_EACH + j)] = low;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint i = j * KOEL_GROUP + me;
        if (begin + i >= len) break;
        bool there = begin + i < live;
        uint run = there ? tile[PADDED(i)] : 0;
        to_runs[begin + i] = run;
        to_places[begin + i] = there ? starts[run] + (uint)(first + begin + i - offsets[run]) : 0;
    }
}
