// Building blocks of grouping and joining: bitmaps, runs, and images of two columns. Aggregates are in accumulate.cl,
// and kernels for columns of either width in columns.cl.
//
//   mark            sets bits of a bitmap at given places
//   spans           where the run of each query begins, and its length
//   widen           counts of 32 bits become 64-bit numbers, for the prefix sums of cl/scan.cl
//   expand_borders  one work-item per border between tiles: the run at the border
//   expand          one group per tile of the list: the run of each element, and its place in the run
//   interleave      32-bit cells and values become words of 64 bits
//
// KOEL_GROUP, the work-items of a group, is a multiple of 32. All lengths have 64 bits, and the global size is a
// multiple of KOEL_GROUP: work-items past the end do nothing, but reach every barrier.

static inline bool bit_at(__global const uint *bits, ulong i) { return (bits[i / 32] >> (i % 32)) & 1; }

// If a place occurs a million times, only the work-items that do not see its bit yet issue an atomic.
__kernel GROUP_SIZE void mark(__global const uint *places, const ulong count, __global uint *bits, const ulong len) {
    ulong i = get_global_id(0);
    if (i >= count) return;
    uint place = places[i], bit = 1u << (place % 32);
    if (place < len && !(seen32(&bits[place / 32]) & bit)) atomic_or(&bits[place / 32], bit);
}

// The run of a query that is a miss has `missing_count` elements and begins at `missing`.
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

// Followed by a 0, which the prefix sums replace by the total.
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

// ---- Expanding. A tile is KOEL_EACH elements of the list per work-item of a group.
//
//   expand_borders   the runs at the two borders of a tile: a binary search in all offsets for each border
//   expand           a work-item has KOEL_EACH consecutive elements: it searches for the runs of the first and the last
//                    one between the runs at the borders, and for those of the others between these two
//                    the group writes the tile in order, so that adjacent work-items write to adjacent places
//
// So a work-item has KOEL_EACH elements however long a run is, and millions of empty runs only add a few steps to a
// search. What it is not: a walk from run to run, whose time depends on the number of empty runs.

#define TILE (KOEL_GROUP * KOEL_EACH)
// Each work-item writes KOEL_EACH consecutive elements; padding after them avoids bank conflicts in local memory.
#define PADDED(i) ((i) + (i) / KOEL_EACH)

// The last run of low..=high that begins at or before `at`, if run `low` does. Empty runs before it begin at the same
// place.
static inline uint run_of(__global const ulong *offsets, ulong at, uint low, uint high) {
    for (uint left = 32; left > 0 && low < high; left--) {
        uint middle = high - (high - low) / 2;
        bool before = offsets[middle] <= at;
        low = before ? middle : low;
        high = before ? high : middle - 1;
    }
    return low;
}

// The number of elements of the list among the `len` from `first` on. There is at least one run.
static inline ulong listed(__global const ulong *offsets, uint runs, ulong first, ulong len) {
    ulong total = offsets[runs];
    return first < total ? min(len, total - first) : 0;
}

// `count` is the number of tiles plus one. A border past the end of the list gets the run of the last element.
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
