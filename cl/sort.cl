// A stable radix sort of pairs by key: least significant digit first, KOEL_DIGIT_BITS bits per pass.
//
//   sort_differing  the bits in which keys differ, because the others need no pass; and whether the keys are in order
//   sort_count      one group per chunk of `tiles` tiles: for each digit, the number of keys in the chunk
//                   before each of its tiles                                 -> befores[tile][digit]
//                   and in the whole chunk                                   -> counts[digit][chunk], totals[digit]
//   sort_starts     one group per KOEL_GROUP * KOEL_COUNTS_EACH counts: prefix sums -> starts[chunk][digit]
//   sort_scatter    one group per tile: sorts its pairs by digit in local memory, and writes them from there, so that
//                   adjacent work-items write to adjacent places
//
// A tile is KOEL_EACH pairs for each of KOEL_GROUP work-items. Groups that run concurrently have adjacent tiles, so
// they write to adjacent places, and a cache line is complete before it is evicted. (With one group for all tiles of a
// chunk, most offsets would be unnecessary, but it takes 1.5 times as long.)
//
// Within a tile, pairs are ranked by half a digit at a time (sort.clh): first by the lower halves, then by the upper
// halves. In between, only 16 bits of each pair are moved: the upper half digit, and the position of the pair.
//
// Elements past the end have the greatest key and are last in the input, so they are last in every order. They are not
// written.
//
// KOEL_DIGIT_BITS is 8 and KOEL_EACH is 16: the packing of half digits and places into words depends on these values.
//
// Keys and values have KOEL_KEY_WORDS and KOEL_VALUE_WORDS words of 32 bits: 1 or 2. A digit is in one word of the key,
// and ranks are computed from that word alone; keys of two words are loaded again later, to save registers. Both words
// of an element are written with one store, because two stores of half the size take twice as long. Such tiles pass
// through local memory in two rounds, so they need no more local memory.

// The number of values of a digit.
#define DIGITS (1 << KOEL_DIGIT_BITS)
// Keys are read four at a time.
#define FOURS (KOEL_EACH / 4)
// The number of copies of a chunk's counters, which reduce contention: adjacent elements of sorted input have the same
// digit.
#define COPIES 4
// Positions in the tile, padded to avoid bank conflicts between digits at regular distances.
#define PADDED(i) ((i) + (i) / 32)
#define PADDED_GROUP PADDED(KOEL_GROUP)

// The digit that begins at bit `shift` of the key, from the word that contains it.
static inline uint digit_of(uint word, uint shift) { return (word >> (shift % 32)) & (DIGITS - 1); }

// Word `part` of four consecutive elements, and of one, in a column whose elements have `words` words.
INLINED uint4 words_of_four(__global const uint *column, ulong four, const uint words, const uint part) {
    __global const uint4 *from = (__global const uint4 *)column;
    if (words == 1) return from[four];
    uint4 a = from[2 * four], b = from[2 * four + 1];
    return part ? (uint4)(a.yw, b.yw) : (uint4)(a.xz, b.xz);
}

INLINED uint word_of(__global const uint *column, ulong i, const uint words, const uint part) {
    return column[words * i + part];
}

// `result` is the OR of all keys, the OR of their complements, and whether any key is less than the one before. For
// keys of two words, these ORs are those of the low words, and are followed by those of the high words. After these
// five words there are `samples` keys of pseudo-random rows.
__kernel GROUP_SIZE void sort_differing(__global const key_type *keys, const ulong len, const uint samples,
                                        __global uint *result) {
    __local key_type ones[KOEL_GROUP], zeros[KOEL_GROUP];
    __local uint falls[KOEL_GROUP];
    uint me = get_local_id(0), fall = 0;
    key_type one = 0, zero = 0;
    for (ulong i = 4 * get_global_id(0); i < len; i += 4 * get_global_size(0)) {
        key_type before = keys[i - (i > 0)];
        // Past the end, the last key is repeated, which changes no result.
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
    for (uint i = get_global_id(0); i < samples; i += get_global_size(0)) {
        uint random = i + 0x9e3779b9u;
        random = (random ^ random >> 16) * 0x7feb352du;
        random = (random ^ random >> 15) * 0x846ca68bu;
        random ^= random >> 16;
        key_type key = keys[random * len >> 32];
        result[5 + KOEL_KEY_WORDS * i] = (uint)key;
#if KOEL_KEY_WORDS == 2
        result[6 + KOEL_KEY_WORDS * i] = (uint)(key >> 32);
#endif
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

// ---- The destinations of tiles.

// The count of a digit: the sum over all copies of its counter.
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
    // The copies of a counter are in different banks.
    __local uint own[COPIES * (DIGITS + 1)];
    uint me = get_local_id(0), chunk = get_group_id(0);
    for (uint i = me; i < COPIES * (DIGITS + 1); i += KOEL_GROUP) own[i] = 0;
    __local uint *copy = own + me % COPIES * (DIGITS + 1);
    for (uint t = 0; t < tiles; t++) {
        ulong tile = (ulong)chunk * tiles + t, first = tile * TILE;
        if (first >= len) break;
        bool whole = first + TILE <= len;
        // These loads are in flight while the counts are written.
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
    // All work-items have read the previous sums.
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

// Loads the word that contains the digit, of the keys of the tile: four consecutive keys per work-item, FOURS times.
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

static inline uint byte_of(const uint *words, uint j) { return (words[j / 4] >> (8 * (j % 4))) & 0xff; }

static inline uint place_of(const uint2 *places, uint j) {
    uint two = j % 4 < 2 ? places[j / 4].x : places[j / 4].y;
    return j % 2 ? two >> 16 : two & 0xffff;
}

// The functions that move the elements of a column:
//   take  loads the elements of the tile, in the order of take_words
//   move  writes the loaded elements to their positions in the tile, in several rounds, and from there to their
//         destinations. The caller needs a barrier if other work-items read the tile before or after this
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
    // Contains in turn: the digits; 16 bits of each pair, then of its position, both followed by `columns`; the
    // elements.
    __local uint tile[PADDED_GROUP * KOEL_EACH] __attribute__((aligned(16)));
    __local uint *columns = tile + TILE / 2;
    __local ushort *shorts = (__local ushort *)tile;
    SUMS_MEMORY(sums);
    // For each digit, the destination of its first pair in the tile, minus (later) the position of that pair in the
    // tile.
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
    // The digits of KOEL_EACH consecutive pairs.
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
    // Loaded only here, to save registers.
    value_type my_values[KOEL_EACH];
#if KOEL_KEY_WORDS == 1 && KOEL_VALUE_WORDS == 1
    take_values(values, first, len, my_values);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < KOEL_EACH; j++) tile[place_of(places, j)] = heads[j];
    barrier(CLK_LOCAL_MEM_FENCE);
    // The pairs of a digit are adjacent in the tile. The work-item with the first of them subtracts its position.
    uint found[FOURS] = {0, 0, 0, 0};
    // The padded positions of element `me` and of the one before it; plus j * PADDED_GROUP, those of round j. The
    // element at -1 is followed by padding, too.
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
