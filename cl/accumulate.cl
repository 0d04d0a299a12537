// Aggregates of groups: count, sum, least and greatest value. One group of work-items a tile of rows.
//
//   each work-item   keeps what it has of one group in hand; when a row of another comes, it gives it away
//   give             to the group's entry in the tile's own table (local memory, one entry to a place; the first group
//                    that asks for it has it), or, where another group has the place, to the group's cells
//   at the end       entries to the groups' cells
//
// So a heavy group, which has its place in nearly every tile, costs its cells one atomic each a tile, not one a row,
// and its entry one a work-item where its rows follow each other. Where groups are many, and few rows of a tile
// meet, a row is dearer than without by one atomic on local memory.
//
// Which group has a place is a matter of schedule, and so is the order in which parts meet: neither shows in sums
// modulo 2^64, minima and maxima.
//
// What it is not: a hash table. Numbers of groups are dense, so their low bits spread them, and nobody looks for
// another place.
//
//   KOEL_WANT_COUNT, _SUM, _LEAST, _GREATEST   1 for each column that is wanted
//   KOEL_ENTRIES                               of a tile's table, a power of two
// A tile is KOEL_EACH rows for each of KOEL_GROUP work-items. Work-items past the end reach every barrier.

#define VALUES (KOEL_WANT_SUM || KOEL_WANT_LEAST || KOEL_WANT_GREATEST)
// The number that no group has.
#define NOBODY 0xffffffffu

// The groups' cells. Columns that are not wanted are not touched.
typedef struct {
    __global uint *counts;
    __global ulong *sums;
    __global uint *least, *greatest;
} cells_of_all;

// A tile's table.
typedef struct {
    __local uint *owners;
    __local uint *counts;
    // Two halves: 64-bit atomics on local memory are a loop on many devices.
    __local uint *sums_low, *sums_high;
    __local uint *least, *greatest;
} entries_of_tile;

// What is known of one group.
typedef struct {
    uint group, count;
    ulong sum;
    uint least, greatest;
} part;

static inline part nothing_of(uint group) {
    part none = {group, 0, 0, 0xffffffffu, 0};
    return none;
}

static inline void add_to_cells(cells_of_all cells, part p) {
#if KOEL_WANT_COUNT
    atomic_add(&cells.counts[p.group], p.count);
#endif
#if KOEL_WANT_SUM
    atom_add(&cells.sums[p.group], p.sum);
#endif
#if KOEL_WANT_LEAST
    atomic_min(&cells.least[p.group], p.least);
#endif
#if KOEL_WANT_GREATEST
    atomic_max(&cells.greatest[p.group], p.greatest);
#endif
}

INLINED void add_to_entry(entries_of_tile entries, uint at, part p) {
#if KOEL_WANT_COUNT
    atomic_add(&entries.counts[at], p.count);
#endif
#if KOEL_WANT_SUM
    // The lower half wraps as often as its carries say, whoever brings them and when.
    uint low = (uint)p.sum;
    uint before = atomic_add(&entries.sums_low[at], low);
    uint high = (uint)(p.sum >> 32) + (before + low < low);
    if (high) atomic_add(&entries.sums_high[at], high);
#endif
#if KOEL_WANT_LEAST
    atomic_min(&entries.least[at], p.least);
#endif
#if KOEL_WANT_GREATEST
    atomic_max(&entries.greatest[at], p.greatest);
#endif
}

INLINED void give(entries_of_tile entries, cells_of_all cells, part p) {
    if (p.count == 0) return;
    uint at = p.group % KOEL_ENTRIES;
    uint owner = atomic_cmpxchg(&entries.owners[at], NOBODY, p.group);
    if (owner == NOBODY || owner == p.group) {
        add_to_entry(entries, at, p);
    } else {
        add_to_cells(cells, p);
    }
}

__kernel GROUP_SIZE void accumulate(__global const uint *ids, __global const uint *values, const ulong len,
                                    const uint groups, __global uint *counts, __global ulong *sums,
                                    __global uint *least, __global uint *greatest) {
    __local uint owners[KOEL_ENTRIES];
    // Of a column that is not wanted, one: no array is empty.
    __local uint entry_counts[KOEL_WANT_COUNT ? KOEL_ENTRIES : 1];
    __local uint entry_lows[KOEL_WANT_SUM ? KOEL_ENTRIES : 1], entry_highs[KOEL_WANT_SUM ? KOEL_ENTRIES : 1];
    __local uint entry_least[KOEL_WANT_LEAST ? KOEL_ENTRIES : 1], entry_greatest[KOEL_WANT_GREATEST ? KOEL_ENTRIES : 1];
    entries_of_tile entries = {owners, entry_counts, entry_lows, entry_highs, entry_least, entry_greatest};
    cells_of_all cells = {counts, sums, least, greatest};
    uint me = get_local_id(0);
    for (uint at = me; at < KOEL_ENTRIES; at += KOEL_GROUP) {
        owners[at] = NOBODY;
#if KOEL_WANT_COUNT
        entry_counts[at] = 0;
#endif
#if KOEL_WANT_SUM
        entry_lows[at] = 0;
        entry_highs[at] = 0;
#endif
#if KOEL_WANT_LEAST
        entry_least[at] = 0xffffffffu;
#endif
#if KOEL_WANT_GREATEST
        entry_greatest[at] = 0;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    ulong first = (ulong)get_group_id(0) * KOEL_GROUP * KOEL_EACH + me;
    part hand = nothing_of(NOBODY);
    for (uint j = 0; j < KOEL_EACH; j++) {
        ulong i = first + j * KOEL_GROUP;
        if (i >= len) break;
        uint group = ids[i];
        if (group >= groups) continue;
        if (group != hand.group) {
            give(entries, cells, hand);
            hand = nothing_of(group);
        }
        hand.count++;
#if VALUES
        uint value = values[i];
        hand.sum += value;
        hand.least = min(hand.least, value);
        hand.greatest = max(hand.greatest, value);
#endif
    }
    give(entries, cells, hand);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint at = me; at < KOEL_ENTRIES; at += KOEL_GROUP) {
        if (owners[at] == NOBODY) continue;
        part all = nothing_of(owners[at]);
#if KOEL_WANT_COUNT
        all.count = entry_counts[at];
#endif
#if KOEL_WANT_SUM
        all.sum = ((ulong)entry_highs[at] << 32) | entry_lows[at];
#endif
#if KOEL_WANT_LEAST
        all.least = entry_least[at];
#endif
#if KOEL_WANT_GREATEST
        all.greatest = entry_greatest[at];
#endif
        add_to_cells(cells, all);
    }
}
