// A stable radix sort of pairs by key: the least digit first, KOEL_DIGIT_BITS bits a pass.
//
//   sort_differing  in which bits keys differ: the others need no pass; and whether any pass is needed
//   sort_count      one group a chunk, which is `tiles` tiles: how many keys of each digit the chunk has before each of
//                   its tiles                                                -> befores[tile][digit]
//                   and altogether                                           -> counts[digit][chunk], totals[digit]
//   sort_starts     one group for KOEL_COUNTS_EACH counts a work-item: prefix sums -> starts[chunk][digit]
//   sort_scatter    one group a tile: puts its pairs in the order of their digits in local memory, and writes them from
//                   there, so that neighbours write to neighbours
//
// A tile is KOEL_EACH pairs for each of KOEL_GROUP work-items. Groups that run at the same time have neighbouring tiles,
// and so write to neighbouring places: a line is complete before it leaves the cache. (One group for the tiles of a chunk
// would save most of the offsets, and take half as long again.)
//
// The order within a tile: each work-item counts KOEL_EACH neighbours by half of the digit's bits, in one register.
// Prefix sums over (half digit, work-item) say how many come before its first pair with these bits; its own earlier
// pairs with the same ones come on top. That is a stable rank, without atomics. Once for the lower half and once for the
// upper one. In between only 16 bits of each pair move: the upper half, and where the pair stands.
//
// Keys past the end are greatest and come last, so they stay last in every order, and are not written.
//
// KOEL_DIGIT_BITS is 8 and KOEL_EACH is 16: half digits and the places of four neighbours fill words.
//
// Keys and values have KOEL_KEY_WORDS and KOEL_VALUE_WORDS words of 32 bits: 1 or 2. A digit lies in one word of the key,
// and ranks are made of that word alone; keys of two words are then read once more, because registers are few. Both words of
// an element leave in one store, for two stores of half of it take twice the time, and the tile goes through local memory
// in two rounds, so that it takes no more of that.

// Values of a digit.
#define DIGITS (1 << KOEL_DIGIT_BITS)
#define TILE (KOEL_GROUP * KOEL_EACH)
// Keys are read four at a time.
#define FOURS (KOEL_EACH / 4)
// Counts of half digits: two to a word, those of k and of k + COLUMNS.
#define COLUMNS 8
// The number of copies of a chunk's counters: adjacent elements of a sorted input have the same digit.
#define COPIES 4
// Places in the tile, with gaps: digits that come at regular distances would meet at one bank of local memory.
#define PADDED(i) ((i) + (i) / 32)
#define PADDED_GROUP PADDED(KOEL_GROUP)

// The digit that begins at this bit, of the word that it lies in.
static inline uint digit_of(uint word, uint shift) { return (word >> (shift % 32)) & (DIGITS - 1); }

// Word `part` of four neighbouring elements, and of one, of a column whose elements have `words` words.
INLINED uint4 words_of_four(__global const uint *column, ulong four, const uint words, const uint part) {
    __global const uint4 *from = (__global const uint4 *)column;
    if (words == 1) return from[four];
    uint4 a = from[2 * four], b = from[2 * four + 1];
    return part ? (uint4)(a.yw, b.yw) : (uint4)(a.xz, b.xz);
}

INLINED uint word_of(__global const uint *column, ulong i, const uint words, const uint part) {
    return column[words * i + part];
}

#if KOEL_KEY_WORDS == 1
typedef uint key_type;
typedef uint4 four_keys;
#else
typedef ulong key_type;
typedef ulong4 four_keys;
#endif
#if KOEL_VALUE_WORDS == 1
typedef uint value_type;
typedef uint4 four_values;
#else
typedef ulong value_type;
typedef ulong4 four_values;
#endif

// `result` has the ones, the zeros and the falls; of keys of two words these are the low ones', and behind them come the
// ones and zeros of the high ones.
__kernel GROUP_SIZE void sort_differing(__global const key_type *keys, const ulong len, __global uint *result) {
    __local key_type ones[KOEL_GROUP], zeros[KOEL_GROUP];
    __local uint falls[KOEL_GROUP];
    uint me = get_local_id(0), fall = 0;
    key_type one = 0, zero = 0;
    for (ulong i = 4 * get_global_id(0); i < len; i += 4 * get_global_size(0)) {
        key_type before = keys[i - (i > 0)];
        // Past the end the last key once more, which neither differs nor falls.
        four_keys four;
        if (i + 4 <= len) {
            four = ((__global const four_keys *)keys)[i / 4];
        } else {
            four = keys[i];
            if (i + 1 < len) four.yzw = keys[i + 1];
            if (i + 2 < len) four.zw = keys[i + 2];
        }
        one |= four.x | four.y | four.z | four.w;
        zero |= ~(four.x & four.y & four.z & four.w);
        fall |= before > four.x || four.x > four.y || four.y > four.z || four.z > four.w;
    }
    ones[me] = one;
    zeros[me] = zero;
    falls[me] = fall;
    for (uint below = KOEL_GROUP / 2; below > 0; below /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < below) {
            ones[me] |= ones[me + below];
            zeros[me] |= zeros[me + below];
            falls[me] |= falls[me + below];
        }
    }
    if (me == 0) {
        atomic_or(&result[0], (uint)ones[0]);
        atomic_or(&result[1], (uint)zeros[0]);
        atomic_or(&result[2], falls[0]);
#if KOEL_KEY_WORDS == 2
        atomic_or(&result[3], (uint)(ones[0] >> 32));
        atomic_or(&result[4], (uint)(zeros[0] >> 32));
#endif
    }
}

// ---- Where tiles begin.

// How often a digit came, over all copies.
INLINED uint count_of(__local const uint *own, uint digit) {
    uint count = 0;
    #pragma unroll
    for (uint copy = 0; copy < COPIES; copy++) count += own[copy * (DIGITS + 1) + digit];
    return count;
}

// `totals` has the digits of all passes.
__kernel GROUP_SIZE void sort_count(__global const uint *keys, const uint len, const uint tiles, const uint pass,
                                    const uint shift, __global uint *befores, __global uint *counts,
                                    __global uint *totals) {
    // Copies of one count lie in different banks.
    __local uint own[COPIES * (DIGITS + 1)];
    uint me = get_local_id(0), chunk = get_group_id(0);
    for (uint i = me; i < COPIES * (DIGITS + 1); i += KOEL_GROUP) own[i] = 0;
    __local uint *copy = own + me % COPIES * (DIGITS + 1);
    for (uint t = 0; t < tiles; t++) {
        ulong tile = (ulong)chunk * tiles + t, first = tile * TILE;
        if (first >= len) break;
        bool whole = first + TILE <= len;
        // On their way while the counts are written.
        uint4 fours[FOURS];
        #pragma unroll
        for (uint q = 0; q < FOURS; q++) {
            ulong four = first / 4 + q * KOEL_GROUP + me;
            fours[q] = whole ? words_of_four(keys, four, KOEL_KEY_WORDS, shift / 32) : 0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint digit = me; digit < DIGITS; digit += KOEL_GROUP) {
            befores[tile * DIGITS + digit] = count_of(own, digit);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (whole) {
            #pragma unroll
            for (uint q = 0; q < FOURS; q++) {
                atomic_inc(&copy[digit_of(fours[q].x, shift)]);
                atomic_inc(&copy[digit_of(fours[q].y, shift)]);
                atomic_inc(&copy[digit_of(fours[q].z, shift)]);
                atomic_inc(&copy[digit_of(fours[q].w, shift)]);
            }
        } else {
            for (ulong i = first + me; i < len; i += KOEL_GROUP) {
                atomic_inc(&copy[digit_of(word_of(keys, i, KOEL_KEY_WORDS, shift / 32), shift)]);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint digit = me; digit < DIGITS; digit += KOEL_GROUP) {
        uint count = count_of(own, digit);
        counts[(ulong)digit * get_num_groups(0) + chunk] = count;
        if (count) atomic_add(&totals[pass * DIGITS + digit], count);
    }
}

__kernel GROUP_SIZE void sort_starts(__global const uint *counts, const uint chunks, const uint pass,
                                     __global const uint *totals, __global uint *starts) {
    SUMS_MEMORY(sums);
    uint me = get_local_id(0), first = get_group_id(0) * KOEL_GROUP * KOEL_COUNTS_EACH;
    uint before = 0, at, total;
    for (uint digit = me; digit < first / chunks; digit += KOEL_GROUP) before += totals[pass * DIGITS + digit];
    for (uint i = first - first % chunks + me; i < first; i += KOEL_GROUP) before += counts[i];
    sum_before(before, sums, &at);
    uint mine[KOEL_COUNTS_EACH], count = 0;
    first += me * KOEL_COUNTS_EACH;
    #pragma unroll
    for (uint j = 0; j < KOEL_COUNTS_EACH; j++) {
        mine[j] = first + j < DIGITS * chunks ? counts[first + j] : 0;
        count += mine[j];
    }
    // The last sums have been read.
    barrier(CLK_LOCAL_MEM_FENCE);
    at += sum_before(count, sums, &total);
    #pragma unroll
    for (uint j = 0; j < KOEL_COUNTS_EACH; j++) {
        uint i = first + j;
        if (i < DIGITS * chunks) starts[i % chunks * DIGITS + i / chunks] = at;
        at += mine[j];
    }
}

// ---- The order of a tile.

// The digit's word of the tile's part of the keys: four neighbours of each KOEL_GROUP of fours.
INLINED void take_words(__global const uint *keys, const uint part, ulong first, uint len, uint *mine) {
    uint me = get_local_id(0);
    if (first + TILE <= len) {
        #pragma unroll
        for (uint q = 0; q < FOURS; q++) {
            uint4 four = words_of_four(keys, first / 4 + q * KOEL_GROUP + me, KOEL_KEY_WORDS, part);
            mine[4 * q] = four.x;
            mine[4 * q + 1] = four.y;
            mine[4 * q + 2] = four.z;
            mine[4 * q + 3] = four.w;
        }
    } else {
        #pragma unroll
        for (uint j = 0; j < KOEL_EACH; j++) {
            ulong i = first + (j / 4 * KOEL_GROUP + me) * 4 + j % 4;
            mine[j] = i < len ? word_of(keys, i, KOEL_KEY_WORDS, part) : 0xffffffffu;
        }
    }
}

// Where each of KOEL_EACH neighbours stands when the tile is in the order of half a digit; `fours` has four times that
// half. Its last reads of `columns` and `sums` have no barrier behind them.
INLINED void rank_by(const uint *fours, uint *places, __local uint *columns, __local sum *sums) {
    uint me = get_local_id(0);
    // Sixteen counts of four bits, and as many ranks.
    ulong counts = 0;
    uint2 ranks = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint rank = (uint)(counts >> fours[j]) & 15;
        if (j < 8) ranks.x |= rank << (4 * j % 32);
        else ranks.y |= rank << (4 * j % 32);
        if (j + 1 < KOEL_EACH) counts += 1UL << fours[j];
    }
    uint lower = (uint)counts, upper = (uint)(counts >> 32);
    #pragma unroll
    for (uint k = 0; k < COLUMNS; k++) {
        columns[k * KOEL_GROUP + me] = ((lower >> (4 * k)) & 15) | (((upper >> (4 * k)) & 15) << 16);
    }
    // The last one is counted here, because sixteen of a kind are more than four bits hold.
    uint last = fours[KOEL_EACH - 1];
    columns[last % 32 / 4 * KOEL_GROUP + me] += last < 32 ? 1u : 1u << 16;
    barrier(CLK_LOCAL_MEM_FENCE);
    // The counts lie in the order of the sums: COLUMNS neighbours for each work-item.
    __local uint4 *row = (__local uint4 *)(columns + me * COLUMNS);
    uint4 a = row[0], b = row[1];
    uint total;
    uint before = sum_before(a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w, sums, &total);
    // All lower half digits come before the upper ones.
    before += total << 16;
    uint4 sums_a, sums_b;
    sums_a.x = before;
    sums_a.y = sums_a.x + a.x;
    sums_a.z = sums_a.y + a.y;
    sums_a.w = sums_a.z + a.z;
    sums_b.x = sums_a.w + a.w;
    sums_b.y = sums_b.x + b.x;
    sums_b.z = sums_b.y + b.y;
    sums_b.w = sums_b.z + b.z;
    row[0] = sums_a;
    row[1] = sums_b;
    barrier(CLK_LOCAL_MEM_FENCE);
    __local const ushort *halves = (__local const ushort *)columns;
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint before_mine = halves[(fours[j] & 28) * (KOEL_GROUP / 2) + 2 * me + fours[j] / 32];
        places[j] = before_mine + (((j < 8 ? ranks.x : ranks.y) >> (4 * j % 32)) & 15);
    }
}

static inline uint byte_of(const uint *words, uint j) { return (words[j / 4] >> (8 * (j % 4))) & 0xff; }

static inline uint place_of(const uint2 *places, uint j) {
    uint two = j % 4 < 2 ? places[j / 4].x : places[j / 4].y;
    return j % 2 ? two >> 16 : two & 0xffff;
}

// How the elements of a column are moved:
//   take  the tile's part of it, in the order of take_words
//   move  mine to their places in the tile, in several rounds, and from there to their destinations. What others still read of the
//         tile before, or read of it afterwards, needs a barrier
#define MOVES(name, type, fours, rounds)                                                                               \
    INLINED void take_##name(__global const type *from, ulong first, uint len, type *mine) {                           \
        uint me = get_local_id(0);                                                                                     \
        if (first + TILE <= len) {                                                                                     \
            _Pragma("unroll")                                                                                          \
            for (uint q = 0; q < FOURS; q++) {                                                                         \
                fours four = ((__global const fours *)from)[first / 4 + q * KOEL_GROUP + me];                          \
                mine[4 * q] = four.x;                                                                                  \
                mine[4 * q + 1] = four.y;                                                                              \
                mine[4 * q + 2] = four.z;                                                                              \
                mine[4 * q + 3] = four.w;                                                                              \
            }                                                                                                          \
        } else {                                                                                                       \
            _Pragma("unroll")                                                                                          \
            for (uint j = 0; j < KOEL_EACH; j++) {                                                                     \
                ulong i = first + (j / 4 * KOEL_GROUP + me) * 4 + j % 4;                                               \
                mine[j] = i < len ? from[i] : 0;                                                                       \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    INLINED void move_##name(const type *mine, const uint2 *places, const uint *found, __local const uint *bases,      \
                             uint valid, __local type *tile, __global type *to) {                                      \
        const uint each = KOEL_EACH / (rounds), room = each * PADDED_GROUP;                                            \
        uint me = get_local_id(0), at = PADDED(me);                                                                    \
        _Pragma("unroll")                                                                                              \
        for (uint round = 0; round < (rounds); round++) {                                                              \
            if (round > 0) barrier(CLK_LOCAL_MEM_FENCE);                                                               \
            _Pragma("unroll")                                                                                          \
            for (uint j = 0; j < KOEL_EACH; j++) {                                                                     \
                uint place = place_of(places, j) - round * room;                                                       \
                if ((rounds) == 1 || place < room) tile[place] = mine[j];                                              \
            }                                                                                                          \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
            _Pragma("unroll")                                                                                          \
            for (uint j = 0; j < each; j++) {                                                                          \
                uint i = (round * each + j) * KOEL_GROUP + me;                                                         \
                if (i < valid) to[bases[byte_of(found, round * each + j)] + i] = tile[j * PADDED_GROUP + at];          \
            }                                                                                                          \
        }                                                                                                              \
    }
MOVES(keys, key_type, four_keys, KOEL_KEY_WORDS)
MOVES(values, value_type, four_values, KOEL_VALUE_WORDS)

__kernel GROUP_SIZE void sort_scatter(__global const key_type *keys, __global const value_type *values, const uint len,
                                      const uint tiles, const uint shift, __global const uint *befores,
                                      __global const uint *starts, __global key_type *to_keys,
                                      __global value_type *to_values) {
    // First the digits, then 16 bits of each pair, then 16 bits of its place, and behind these the columns; then the tile.
    __local uint tile[PADDED_GROUP * KOEL_EACH] __attribute__((aligned(16)));
    __local uint *columns = tile + TILE / 2;
    __local ushort *shorts = (__local ushort *)tile;
    SUMS_MEMORY(sums);
    // Where the tile's first pair would go if it had this digit.
    __local uint bases[DIGITS];
    uint me = get_local_id(0), chunk = get_group_id(0) / tiles;
    ulong first = (ulong)get_group_id(0) * TILE;
    uint valid = (uint)min((ulong)TILE, len - first);
    for (uint digit = me; digit < DIGITS; digit += KOEL_GROUP) {
        bases[digit] = starts[chunk * DIGITS + digit] + befores[(ulong)get_group_id(0) * DIGITS + digit];
    }
    uint heads[KOEL_EACH], fours[KOEL_EACH], ranks[KOEL_EACH];
    uint2 places[FOURS];
    take_words((__global const uint *)keys, shift / 32, first, len, heads);
    #pragma unroll
    for (uint q = 0; q < FOURS; q++) {
        uint digits = digit_of(heads[4 * q], shift) | digit_of(heads[4 * q + 1], shift) << 8;
        tile[q * KOEL_GROUP + me] =
            digits | digit_of(heads[4 * q + 2], shift) << 16 | digit_of(heads[4 * q + 3], shift) << 24;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    // The digits of KOEL_EACH neighbours.
    uint4 digits = ((__local const uint4 *)tile)[me];
    uint words[FOURS] = {digits.x, digits.y, digits.z, digits.w};
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) fours[j] = (j % 4 ? words[j / 4] >> (8 * (j % 4) - 2) : words[j / 4] << 2) & 60;
    rank_by(fours, ranks, columns, sums);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        shorts[ranks[j]] = (ushort)((byte_of(words, j) & 0xf0) << 8 | (me * KOEL_EACH + j));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint4 a = ((__local const uint4 *)tile)[2 * me], b = ((__local const uint4 *)tile)[2 * me + 1];
    uint pairs[KOEL_EACH / 2] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) fours[j] = (pairs[j / 2] >> (16 * (j % 2) + 10)) & 60;
    rank_by(fours, ranks, columns, sums);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        shorts[(pairs[j / 2] >> (16 * (j % 2))) & 0xfff] = (ushort)PADDED(ranks[j]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint q = 0; q < FOURS; q++) places[q] = ((__local const uint2 *)tile)[q * KOEL_GROUP + me];
    // Not earlier, because registers are few.
    value_type my_values[KOEL_EACH];
#if KOEL_KEY_WORDS == 1 && KOEL_VALUE_WORDS == 1
    take_values(values, first, len, my_values);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) tile[place_of(places, j)] = heads[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    // Each digit is one run in the tile; the work-item with its first pair subtracts the number of pairs before it.
    uint found[FOURS] = {0, 0, 0, 0};
    // PADDED of me and of the one before me, as of every KOEL_GROUP-th on; -1 is followed by a gap too.
    uint at = PADDED(me);
    int previous = (int)me - 1 + (((int)me - 1) >> 5);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint i = j * KOEL_GROUP + me;
        heads[j] = tile[j * PADDED_GROUP + at];
        uint digit = digit_of(heads[j], shift);
        uint before = i > 0 ? digit_of(tile[(int)(j * PADDED_GROUP) + previous], shift) : DIGITS;
        if (before != digit) bases[digit] -= i;
        found[j / 4] |= digit << (8 * (j % 4));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#if KOEL_KEY_WORDS == 1
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) {
        uint i = j * KOEL_GROUP + me;
        if (i < valid) to_keys[bases[byte_of(found, j)] + i] = heads[j];
    }
#else
    key_type my_keys[KOEL_EACH];
    take_keys(keys, first, len, my_keys);
    move_keys(my_keys, places, found, bases, valid, (__local key_type *)tile, to_keys);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if KOEL_KEY_WORDS == 2 || KOEL_VALUE_WORDS == 2
    take_values(values, first, len, my_values);
#endif
    move_values(my_values, places, found, bases, valid, (__local value_type *)tile, to_values);
}
