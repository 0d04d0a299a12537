// Aggregates of groups of rows: count, sum, mean, minimum and maximum. Each work-group processes one tile of rows.
//
//   each work-item   accumulates rows of one group in registers, until a row of another group follows
//   add              the result is added to the group's entry in the tile's table (local memory; the first group that
//                    uses an entry owns it) or, if another group owns the entry, to the group's cells (global memory)
//   at the end       the entries are added to the cells of their groups
//
// So a heavy group, which owns its entry in nearly every tile, needs one atomic per tile on its cells instead of one
// per row, and one per work-item on its entry if its rows are adjacent. With many groups, each of which has few rows in
// a tile, every row costs one additional atomic, in local memory.
//
// Which group owns an entry, and the order of additions, depend on timing. Neither affects sums modulo 2^64, minima and
// maxima.
//
// Sums of 64-bit values have 128 bits, in two words: a carry of the lower word increments the upper one, so the result
// does not depend on the order either. Doubles are summed as integers, in units of a window around the greatest
// exponent of the column (src/exact/window.rs). Rows outside of the window are marked, and the host adds them. Minima
// and maxima are computed on integers that have the order of the numbers (src/backend/numbers.rs). `settle` converts
// all of these to values, and finds the first group whose sum overflows.
//
// This is not a hash table: group numbers are dense, so their low bits distribute them, and there is no probing.
//
//   KOEL_WANT_COUNT, _SUM, _LEAST, _GREATEST   1 for each requested column; a mean needs the sum and the count
//   KOEL_VALUE_BITS                            bits of a value: 32 or 64
//   KOEL_NUMBERS                               the type of 64-bit values: 0 unsigned, 1 signed, 2 doubles
//   KOEL_ENTRIES                               entries of a tile's table, a power of two
// A tile has KOEL_EACH rows for each of KOEL_GROUP work-items. Work-items past the end reach every barrier.

#define VALUES (KOEL_WANT_SUM || KOEL_WANT_LEAST || KOEL_WANT_GREATEST)
// Not the number of any group.
#define NO_GROUP 0xffffffffu

#if KOEL_VALUE_BITS == 64
#define WIDE_SUM KOEL_WANT_SUM
#define SUMS_OF_DOUBLES (KOEL_WANT_SUM && KOEL_NUMBERS == 2)
typedef ulong number;
#define NUMBER_MAX 0xffffffffffffffffUL
#define MIN_CELL(at, number) atom_min(at, number)
#define MAX_CELL(at, number) atom_max(at, number)
// Many devices emulate 64-bit atomics on local memory by a loop, and few values are a new minimum: see heavy.clh.
#ifdef KOEL_WATCHED
#define MIN_ENTRY(at, number) atom_min(at, number)
#define MAX_ENTRY(at, number) atom_max(at, number)
#else
#define MIN_ENTRY(at, number) if (number < *(volatile __local ulong *)(at)) atom_min(at, number)
#define MAX_ENTRY(at, number) if (number > *(volatile __local ulong *)(at)) atom_max(at, number)
#endif
#else
#define WIDE_SUM 0
#define SUMS_OF_DOUBLES 0
typedef uint number;
#define NUMBER_MAX 0xffffffffu
#define MIN_CELL(at, number) atomic_min(at, number)
#define MAX_CELL(at, number) atomic_max(at, number)
#define MIN_ENTRY(at, number) atomic_min(at, number)
#define MAX_ENTRY(at, number) atomic_max(at, number)
#endif

// Conversions between values and the integers with which minima and maxima are computed.
#if KOEL_VALUE_BITS == 64 && KOEL_NUMBERS == 1
static inline ulong low_code(ulong bits) { return bits ^ SIGN; }
static inline ulong high_code(ulong bits) { return bits ^ SIGN; }
static inline ulong of_low_code(ulong code) { return code ^ SIGN; }
static inline ulong of_high_code(ulong code) { return code ^ SIGN; }
#elif KOEL_VALUE_BITS == 64 && KOEL_NUMBERS == 2
static inline bool nan_bits(ulong bits) { return (bits & ~SIGN) > INFINITE; }
static inline ulong ordered(ulong bits) { return bits ^ (bits & SIGN ? NUMBER_MAX : SIGN); }
static inline ulong unordered(ulong code) { return code ^ (code & SIGN ? SIGN : NUMBER_MAX); }
static inline ulong low_code(ulong bits) { return nan_bits(bits) ? 0 : ordered(bits); }
static inline ulong high_code(ulong bits) { return nan_bits(bits) ? NUMBER_MAX : ordered(bits); }
static inline ulong of_low_code(ulong code) {
    return code == 0 ? ONE_NAN : code == NUMBER_MAX ? INFINITE : unordered(code);
}
static inline ulong of_high_code(ulong code) {
    return code == NUMBER_MAX ? ONE_NAN : code == 0 ? INFINITE | SIGN : unordered(code);
}
#else
#define low_code(bits) (bits)
#define high_code(bits) (bits)
#define of_low_code(code) (code)
#define of_high_code(code) (code)
#endif

// The cells of the groups. Columns that were not requested are not accessed.
typedef struct {
    __global uint *counts;
    __global ulong *sums;
    __global number *least, *greatest;
#if WIDE_SUM
    // The upper words of sums.
    __global ulong *highs;
#endif
} cells_of_all;

// The table of a tile.
typedef struct {
    __local uint *owners;
    __local uint *counts;
    // Two halves, because many devices emulate 64-bit atomics on local memory by a loop.
    __local uint *sums_low, *sums_high;
    __local number *least, *greatest;
#if WIDE_SUM
    // The halves of the upper word.
    __local uint *thirds, *fourths;
#endif
} entries_of_tile;

// Partial aggregates of one group.
typedef struct {
    uint group, count;
    ulong sum;
    number least, greatest;
#if WIDE_SUM
    ulong high;
#endif
} partial;

static inline partial empty_partial(uint group) {
    partial none = {group, 0, 0, NUMBER_MAX, 0};
    return none;
}

static inline void add_to_cells(cells_of_all cells, partial p) {
#if KOEL_WANT_COUNT
    atomic_add(&cells.counts[p.group], p.count);
#endif
#if WIDE_SUM
    ulong before = atom_add(&cells.sums[p.group], p.sum);
    ulong high = p.high + (before + p.sum < before);
    if (high) atom_add(&cells.highs[p.group], high);
#elif KOEL_WANT_SUM
    add_to_sum(&cells.sums[p.group], p.sum);
#endif
#if KOEL_WANT_LEAST
    MIN_CELL(&cells.least[p.group], p.least);
#endif
#if KOEL_WANT_GREATEST
    MAX_CELL(&cells.greatest[p.group], p.greatest);
#endif
}

INLINED void add_to_entry(entries_of_tile entries, uint at, partial p) {
#if KOEL_WANT_COUNT
    atomic_add(&entries.counts[at], p.count);
#endif
#if KOEL_WANT_SUM
    // In two halves, as in `add_to_sum`.
    uint low = (uint)p.sum;
    uint before = low ? atomic_add(&entries.sums_low[at], low) : 0;
    uint high = (uint)(p.sum >> 32) + (before + low < low);
#if WIDE_SUM
    ulong upper = p.high + (high < (uint)(p.sum >> 32));
    if (high) {
        uint before_high = atomic_add(&entries.sums_high[at], high);
        upper += before_high + high < high;
    }
    uint third = (uint)upper, fourth = (uint)(upper >> 32);
    if (third) {
        uint before_third = atomic_add(&entries.thirds[at], third);
        fourth += before_third + third < third;
    }
    if (fourth) atomic_add(&entries.fourths[at], fourth);
#else
    if (high) atomic_add(&entries.sums_high[at], high);
#endif
#endif
#if KOEL_WANT_LEAST
    MIN_ENTRY(&entries.least[at], p.least);
#endif
#if KOEL_WANT_GREATEST
    MAX_ENTRY(&entries.greatest[at], p.greatest);
#endif
}

INLINED void flush(entries_of_tile entries, cells_of_all cells, partial p) {
    if (p.count == 0) return;
    uint at = p.group % KOEL_ENTRIES;
    uint owner = atomic_cmpxchg(&entries.owners[at], NO_GROUP, p.group);
    if (owner == NO_GROUP || owner == p.group) {
        add_to_entry(entries, at, p);
    } else {
        add_to_cells(cells, p);
    }
}

__kernel GROUP_SIZE void accumulate(__global const uint *ids, __global const number *values, const ulong len,
                                    const uint groups, __global uint *counts, __global ulong *sums,
                                    __global number *least, __global number *greatest
#if KOEL_VALUE_BITS == 64
                                    , __global ulong *highs
#endif
#if SUMS_OF_DOUBLES
                                    , __global uint *about, __global uint *left
#endif
) {
    __local uint owners[KOEL_ENTRIES];
    // Columns that were not requested have one entry, because an array must not be empty.
    __local uint entry_counts[KOEL_WANT_COUNT ? KOEL_ENTRIES : 1];
    __local uint entry_lows[KOEL_WANT_SUM ? KOEL_ENTRIES : 1], entry_highs[KOEL_WANT_SUM ? KOEL_ENTRIES : 1];
    __local number entry_least[KOEL_WANT_LEAST ? KOEL_ENTRIES : 1];
    __local number entry_greatest[KOEL_WANT_GREATEST ? KOEL_ENTRIES : 1];
#if WIDE_SUM
    __local uint entry_thirds[KOEL_ENTRIES], entry_fourths[KOEL_ENTRIES];
    entries_of_tile entries = {owners,      entry_counts,   entry_lows,   entry_highs,
                               entry_least, entry_greatest, entry_thirds, entry_fourths};
    cells_of_all cells = {counts, sums, least, greatest, highs};
#else
    entries_of_tile entries = {owners, entry_counts, entry_lows, entry_highs, entry_least, entry_greatest};
    cells_of_all cells = {counts, sums, least, greatest};
#endif
    uint me = get_local_id(0);
    for (uint at = me; at < KOEL_ENTRIES; at += KOEL_GROUP) {
        owners[at] = NO_GROUP;
#if KOEL_WANT_COUNT
        entry_counts[at] = 0;
#endif
#if KOEL_WANT_SUM
        entry_lows[at] = 0;
        entry_highs[at] = 0;
#endif
#if WIDE_SUM
        entry_thirds[at] = 0;
        entry_fourths[at] = 0;
#endif
#if KOEL_WANT_LEAST
        entry_least[at] = NUMBER_MAX;
#endif
#if KOEL_WANT_GREATEST
        entry_greatest[at] = 0;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    ulong first = (ulong)get_group_id(0) * KOEL_GROUP * KOEL_EACH + me;
    partial current = empty_partial(NO_GROUP);
#if SUMS_OF_DOUBLES
    uint lowest = window_around(about[0]);
    bool has_left = false;
#endif
    for (uint j = 0; j < KOEL_EACH; j++) {
        ulong i = first + j * KOEL_GROUP;
        if (i >= len) break;
        uint group = ids[i];
        if (group >= groups) continue;
        if (group != current.group) {
            flush(entries, cells, current);
            current = empty_partial(group);
        }
        current.count++;
#if VALUES
        number value = values[i];
#if SUMS_OF_DOUBLES
        sum128 integer;
        if (!in_window(value, lowest, &integer)) {
            atomic_or(&left[i / 32], 1u << (i % 32));
            has_left = true;
        }
        current.sum += integer.low;
        current.high += integer.high + (current.sum < integer.low);
#else
        current.sum += value;
#if WIDE_SUM
        // The upper word of a negative number is all ones.
        current.high += (ulong)(current.sum < value) - (KOEL_NUMBERS == 1 && value >= SIGN);
#endif
#endif
        current.least = min(current.least, low_code(value));
        current.greatest = max(current.greatest, high_code(value));
#endif
    }
    flush(entries, cells, current);
#if SUMS_OF_DOUBLES
    if (has_left) atomic_or(&about[1], 1u);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint at = me; at < KOEL_ENTRIES; at += KOEL_GROUP) {
        if (owners[at] == NO_GROUP) continue;
        partial all = empty_partial(owners[at]);
#if KOEL_WANT_COUNT
        all.count = entry_counts[at];
#endif
#if KOEL_WANT_SUM
        all.sum = ((ulong)entry_highs[at] << 32) | entry_lows[at];
#endif
#if WIDE_SUM
        all.high = ((ulong)entry_fourths[at] << 32) | entry_thirds[at];
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

#if KOEL_VALUE_BITS == 64
// Writes the greatest exponent of a sample of doubles to about[0].
__kernel GROUP_SIZE void sample(__global const ulong *values, const ulong len, const ulong step, __global uint *about) {
    ulong i = get_global_id(0) * step;
    if (i >= len) return;
    uint exponent = exponent_of(values[i]);
    if (exponent < 0x7ffu) atomic_max(about, exponent);
}

// One work-item per group. `overflow` is set to the first group whose sum does not fit, or stays 2^32 - 1.
__kernel GROUP_SIZE void settle(const ulong groups, __global ulong *sums, __global const ulong *highs,
                                __global const uint *counts, __global ulong *means, __global ulong *least,
                                __global ulong *greatest, __global uint *overflow, __global const uint *about,
                                const uint has_means) {
    ulong group = get_global_id(0);
    if (group >= groups) return;
#if WIDE_SUM
    sum128 sum = {sums[group], highs[group]};
#if SUMS_OF_DOUBLES
    int unit = (int)window_around(about[0]) - 1 + UNIT;
    sums[group] = rounded(sum, unit);
#else
    int unit = 0;
    if (sum.high != (KOEL_NUMBERS == 1 && sum.low >= SIGN ? NUMBER_MAX : 0)) atomic_min(overflow, (uint)group);
#endif
    if (has_means) means[group] = quotient(sum, unit, counts[group]);
#endif
#if KOEL_WANT_LEAST
    least[group] = of_low_code(least[group]);
#endif
#if KOEL_WANT_GREATEST
    greatest[group] = of_high_code(greatest[group]);
#endif
}

// Writes the results of some groups to their positions.
__kernel GROUP_SIZE void put(__global const ulong *found, __global const uint *places, const ulong count,
                             __global ulong *to) {
    ulong i = get_global_id(0);
    if (i < count) to[places[i]] = found[i];
}
#endif
