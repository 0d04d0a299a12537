// Builds a table of lines one partition at a time, from rows that cl/bucketized_wide_partition.cl has partitioned into
// the lines of the parts themselves: every line is written once, and nearly all contention is in local memory.
//
//   lines_parts     a group per part      builds the part in local memory, and writes it over its lines
//
// and then, for the remaining pairs, the kernels of cl/bucketized_wide.cl:
//
//   lines_escapes   lines_restore_order   lines_recheck   lines_settle
//
// Words are placed as in cl/bucketized_parts.cl, which has the proofs: arrive, compare, settle, write. Values follow in
// the same local memory:
//
//   find      each row searches for its word in its two lines of the part; if the word is not there, the pair leaves
//             the part, and continues with its third line in the whole image
//   values    words are loaded into registers; tile = 0; each row stores its value at the place of its word
//   write     words and values are written to the image
//
// Sets have no values, and pairs that leave are listed while words settle.
//
// Local memory is the tile of wide_part.clh. The share is overwritten only after all work-items have read it for the
// last time.

// Rows of a work-item.
#define ROWS ((PART_SLOTS + KOEL_GROUP - 1) / KOEL_GROUP)
// The maximum number of queued rows of a part; others leave the part before their first offer.
#define QUEUED (PART_SLOTS / 4)
// Entries of `arrived` from here on are positions in the queue (the chain of a line's queued rows), not counts.
#define CHAINED 0x10000
// Instead of a place: the row leaves the part. The lower bits are its number among those that leave.
#define LEAVES 0x8000
// For sets: the number of leaving pairs that are listed with one atomic.
#define LEAVING (PART_SLOTS / 16)
// Scratch space: arrivals and the queue (BEFORE) and, after words have settled, the places of the rows' words (AFTER).
#define BEFORE (4 * PART_LINES + 4 * QUEUED)
#define AFTER (KOEL_VALUE_BITS ? 2 * PART_SLOTS : 0)
#define SCRATCH (BEFORE > AFTER ? BEFORE : AFTER)

// The words, and the values, that are written per line, including padding, and the number of words per work-item.
#define WORDS_WRITTEN (KOEL_KEY_BITS == 32 ? KOEL_SLOTS + 1 : KOEL_SLOTS)
#define VALUES_WRITTEN (KOEL_VALUE_BITS == 32 ? KOEL_SLOTS + 1 : KOEL_SLOTS)
#define WORDS_EACH ((PART_LINES * WORDS_WRITTEN + KOEL_GROUP - 1) / KOEL_GROUP)

// A word that other work-items may change.
INLINED word_type word_here(__local word_type *part, uint at) {
#ifdef KOEL_WATCHED
    return READ_WORD(&part[at]);
#else
    return ((volatile __local word_type *)part)[at];
#endif
}

// Offers a word to a line of the part. Returns the word that is left without a slot: `mine`, or the word that it
// displaced. Duplicates have already been counted.
INLINED word_type offer_here(__local word_type *part, uint line, word_type mine) {
    for (;;) {
        word_type least = word_here(part, place_of(line, 0));
        uint at = place_of(line, 0);
        #pragma unroll
        for (uint j = 1; j < KOEL_SLOTS; j++) {
            word_type there = word_here(part, place_of(line, j));
            at = there < least ? place_of(line, j) : at;
            least = min(there, least);
        }
        if (least >= mine) return mine;
        if (EXCHANGE_WORD(&part[at], least, mine) == least) return least;
    }
}

// Counts duplicates among the words in the slots of a line. No word is displaced yet.
INLINED void compare_line(functions f, ulong4 mixer, __local const word_type *part, uint line, uint start, uint buckets,
                          __local uint *tally, __global ulong *status) {
    word_type words[KOEL_SLOTS];
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) words[j] = part[place_of(line, j)];
    #pragma unroll
    for (uint j = 1; j < KOEL_SLOTS; j++) {
        bool duplicate = false;
        #pragma unroll
        for (uint i = 0; i < j; i++) duplicate |= words[i] == words[j] && words[j] != 0;
        line_home home = {start + line, remainder_in(words[j])};
        if (duplicate) count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
    }
}

// The place of a word in a line of the part, or LEAVES.
INLINED uint found_here(__local const word_type *part, uint line, word_type word) {
    uint at = LEAVES;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) at = part[place_of(line, j)] == word ? place_of(line, j) : at;
    return at;
}

// The line of a pair's second offer, relative to the part.
static inline uint second_line(functions f, uint2 whole, uint line, key_type remainder) {
    return wrapped(line + step_in_part(f, whole, folded(remainder)), whole.y);
}

// The place of a key's word in the part, or LEAVES.
INLINED uint found_in_part(functions f, uint2 whole, __local const word_type *part, line_home home) {
    uint line = home.home - whole.x, at = found_here(part, line, line_word(1, home.remainder));
    if (at != LEAVES) return at;
    return found_here(part, second_line(f, whole, line, home.remainder), line_word(2, home.remainder));
}

// Lists a pair without a value that leaves the part, with an atomic of its own.
static inline void list_single(uint age, line_home home, LINE_ESCAPES) {
    // The count need not be exact if the list is full.
    if (seen64(&status[KOEL_ESCAPED]) > escapes) return;
    list_line_escape(atom_add(&status[KOEL_ESCAPED], 1UL), age, home, 0, LINE_ESCAPED);
}

__kernel GROUP_SIZE void lines_parts(__global word_type *image, LINE_TABLE, __global const uint *part_counts, LINE_ESCAPES) {
    functions f = {forth, back};
    __local ulong tile[TILE_WORDS];
    __local uint scratch[SCRATCH / 4];
    // The number of rows that found their line full, that were taken from the queue, and that leave the part.
    __local uint overflowed, taken, left_part;
    __local ulong listed;
    __local uint tally[KOEL_TALLY];
#if !KOEL_VALUE_BITS
    __local key_type leaving[LEAVING];
    __local uint leaving_homes[LEAVING];
#endif
    __local word_type *part = (__local word_type *)tile;
    __local uint *arrived = scratch;
    __local ushort *queue = (__local ushort *)(scratch + PART_LINES), *previous = queue + QUEUED;
    uint me = get_local_id(0);
    uint2 whole = part_of(get_group_id(0) << KOEL_PART_BITS, buckets);
    uint start = whole.x, width = whole.y;
    share s = share_of(get_group_id(0), PART_LINES, buckets);
    __global const key_type *keys = image + s.keys;
    uint count = min(part_counts[get_group_id(0)], s.room);

    if (me == 0) overflowed = taken = left_part = 0;
    for (uint i = me; i < TILE_WORDS; i += KOEL_GROUP) tile[i] = 0;
    for (uint i = me; i < PART_LINES; i += KOEL_GROUP) arrived[i] = 0;
    clear_tally(tally);

    // Arrive. A bit is set for each row that finds the queue full, because it has not made its first offer.
    uint untried = 0;
    for (uint first = 0; first < ROWS; first += AT_ONCE) {
        key_type mixed[AT_ONCE];
        read_rows(keys, first, count, mixed);
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint row = me + (first + j) * KOEL_GROUP;
            if (row >= count) continue;
            line_home home = split_line_key(mixed[j], buckets);
            uint line = home.home - start, rank = atomic_inc(&arrived[line]);
            if (rank < KOEL_SLOTS) {
                part[place_of(line, rank)] = line_word(1, home.remainder);
            } else {
                uint at = atomic_inc(&overflowed);
                if (at < QUEUED) queue[at] = row;
                else untried |= 1u << (first + j);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // Compare: words in the slots with each other, queued rows with those, and then with those of the same line that
    // were queued before them. The counts in `arrived` are replaced by the heads of chains in the queue.
    uint queued = min(overflowed, (uint)QUEUED);
    for (uint line = me; line < width; line += KOEL_GROUP) {
        compare_line(f, mixer, part, line, start, buckets, tally, status);
    }
    for (uint q = me; q < queued; q += KOEL_GROUP) {
        line_home home = split_line_key(keys[queue[q]], buckets);
        if (found_here(part, home.home - start, line_word(1, home.remainder)) != LEAVES) {
            count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
        }
        uint before = atomic_xchg(&arrived[home.home - start], CHAINED + q);
        previous[q] = before >= CHAINED ? before - CHAINED : QUEUED;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint q = me; q < queued; q += KOEL_GROUP) {
        key_type mine = keys[queue[q]];
        for (uint other = previous[q]; other < QUEUED; other = previous[other]) {
            if (keys[queue[other]] != mine) continue;
            count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, split_line_key(mine, buckets)));
            break;
        }
    }

    // Settle. A work-item takes the next queued row as soon as its current chain ends. A pair without a slot in its
    // first line continues with its second line, and leaves the part if it has no slot there.
    line_home mine = {0, 0};
    uint age = 0;
    for (;;) {
        if (age == 0) {
            uint q = atomic_inc(&taken);
            if (q >= queued) break;
            mine = split_line_key(keys[queue[q]], buckets);
            mine.home -= start;
            age = 1;
        }
        uint line = age == 2 ? second_line(f, whole, mine.home, mine.remainder) : mine.home;
        word_type left = offer_here(part, line, line_word(age, mine.remainder));
        age = age_in(left) == 1 ? 2 : 0;
        mine.home = line;
        mine.remainder = remainder_in(left);
#if !KOEL_VALUE_BITS
        if (age_in(left) != 2) continue;
        line_home home = home_of_word(f, start + line, left, buckets);
        uint at = atomic_inc(&left_part);
        if (at < LEAVING) {
            leaving[at] = home.remainder;
            leaving_homes[at] = home.home;
        } else {
            list_single(3, home, LINE_ESCAPED);
        }
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sort_lines(part, width);

#if KOEL_VALUE_BITS
    // Find. The queue and the arrivals are no longer needed.
    __global const value_type *values = (__global const value_type *)image + s.values;
    __local ushort *places = (__local ushort *)scratch;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint first = 0; first < ROWS; first += AT_ONCE) {
        key_type mixed[AT_ONCE];
        read_rows(keys, first, count, mixed);
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint row = me + (first + j) * KOEL_GROUP;
            if (row >= count) continue;
            line_home home = split_line_key(mixed[j], buckets);
            uint there = found_in_part(f, whole, part, home);
            // A row that was not compared yet finds its duplicate here, or leaves the part and is checked afterwards.
            if (untried >> (first + j) & 1 && there != LEAVES) {
                count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
            }
            places[row] = there == LEAVES ? LEAVES + atomic_inc(&left_part) : there;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me == 0 && left_part) listed = atom_add(&status[KOEL_ESCAPED], (ulong)left_part);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint j = 0; j < ROWS; j++) {
        uint row = me + j * KOEL_GROUP;
        if (row >= count || places[row] < LEAVES) continue;
        uint next = untried >> j & 1 ? 1 : 3;
        line_home home = split_line_key(keys[row], buckets);
        list_line_escape(listed + (places[row] - LEAVES), next, home, values[row], LINE_ESCAPED);
    }
#else
    uint together = min(left_part, (uint)LEAVING);
    // After this barrier, lines are in order, too.
    if (me == 0 && together) listed = atom_add(&status[KOEL_ESCAPED], (ulong)together);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < together; i += KOEL_GROUP) {
        line_home home = {leaving_homes[i], leaving[i]};
        list_line_escape(listed + i, 3, home, 0, LINE_ESCAPED);
    }
    // A row that was not compared yet finds its duplicate here, or leaves the part and is checked afterwards.
    for (uint j = 0; j < ROWS && untried >> j; j++) {
        if (!(untried >> j & 1)) continue;
        line_home home = split_line_key(keys[me + j * KOEL_GROUP], buckets);
        if (found_in_part(f, whole, part, home) != LEAVES) {
            count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
        } else {
            list_single(1, home, LINE_ESCAPED);
        }
    }
#endif

    word_type words[WORDS_EACH];
    #pragma unroll
    for (uint j = 0; j < WORDS_EACH; j++) {
        uint i = me + j * KOEL_GROUP, line = i / WORDS_WRITTEN, slot = i % WORDS_WRITTEN;
        words[j] = line < width && slot < KOEL_SLOTS ? part[place_of(line, slot)] : 0;
    }
#if KOEL_VALUE_BITS
    __local value_type *values_here = (__local value_type *)tile;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < TILE_WORDS; i += KOEL_GROUP) tile[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll 4
    for (uint row = me; row < count; row += KOEL_GROUP) {
        // Duplicates would write to the same place, but then the image is discarded.
        if (places[row] < LEAVES && !tally[KOEL_COPIES]) values_here[places[row]] = values[row];
    }
#endif
    // All work-items have read the share before any writes to it.
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#if KOEL_WORD_STRIDE == 2
    // The word and the value of a slot are adjacent, 8 bytes each, and are written by one store.
    __global ulong2 *pairs = (__global ulong2 *)image + (ulong)start * KOEL_SLOTS;
    #pragma unroll
    for (uint j = 0; j < WORDS_EACH; j++) {
        uint i = me + j * KOEL_GROUP;
        if (i < width * KOEL_SLOTS) pairs[i] = (ulong2)(words[j], values_here[place_of(i / KOEL_SLOTS, i % KOEL_SLOTS)]);
    }
#else
    #pragma unroll
    for (uint j = 0; j < WORDS_EACH; j++) {
        uint i = me + j * KOEL_GROUP;
        if (i < width * WORDS_WRITTEN) image[word_at(start + i / WORDS_WRITTEN, i % WORDS_WRITTEN)] = words[j];
    }
#if KOEL_VALUE_BITS
    __global value_type *out = (__global value_type *)image;
    for (uint i = me; i < width * VALUES_WRITTEN; i += KOEL_GROUP) {
        uint line = i / VALUES_WRITTEN, slot = i % VALUES_WRITTEN;
        out[value_at(start + line, slot)] = slot < KOEL_SLOTS ? values_here[place_of(line, slot)] : 0;
    }
#endif
#endif
    report_tally(tally, status);
}
