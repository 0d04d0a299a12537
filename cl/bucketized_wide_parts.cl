// Builds a table of lines one partition at a time, from rows that cl/bucketized_wide_partition.cl has partitioned into the
// lines of the parts themselves: every line is written once, and nearly all contention is in local memory.
//
//   lines_parts     a group a part      the part is placed in local memory and written over its lines
//
// and then, in cl/bucketized_wide.cl, what is left:
//
//   lines_escapes   lines_restore_order   lines_recheck   lines_settle
//
// Words go as in cl/bucketized_parts.cl, where the proofs stand: arrive, compare, settle, hand in. Values follow in the
// same local memory:
//
//   find      each row looks for its word in its two lines of the part; one that is not there leaves the part, and goes
//             on with its third line in the whole image
//   values    words go to registers; tile = 0; each row puts its value to the place of its word
//   hand in   words and values are written out
//
// Sets have no values, and who leaves is listed while words settle.
//
// Local memory is the tile of wide_part.clh. Nothing is written over the share before all have read it for the last time.

// Rows of a work-item.
#define ROWS ((PART_SLOTS + KOEL_GROUP - 1) / KOEL_GROUP)
// Rows of a part that may be queued; others leave it before they have offered at all.
#define QUEUED (PART_SLOTS / 4)
// In the chain of queued rows of a line: these are not counts but places in the queue.
#define CHAINED 0x10000
// Instead of a place: the row leaves the part; the lower bits are its number among those that do.
#define LEAVES 0x8000
// Of a set: how many of those that leave are listed at once.
#define LEAVING (PART_SLOTS / 16)
// Arrivals and the queue, and in the same bytes, when words have settled, where each row's word stands.
#define BEFORE (4 * PART_LINES + 4 * QUEUED)
#define AFTER (KOEL_VALUE_BITS ? 2 * PART_SLOTS : 0)
#define SCRATCH (BEFORE > AFTER ? BEFORE : AFTER)

// The integers of a line's words and values that are written, including those of no slot, and their number per
// work-item.
#define WORDS_WRITTEN (KOEL_KEY_BITS == 32 ? KOEL_SLOTS + 1 : KOEL_SLOTS)
#define VALUES_WRITTEN (KOEL_VALUE_BITS == 32 ? KOEL_SLOTS + 1 : KOEL_SLOTS)
#define WORDS_EACH ((PART_LINES * WORDS_WRITTEN + KOEL_GROUP - 1) / KOEL_GROUP)

// A word that others may change.
INLINED word_type word_here(__local word_type *part, uint at) {
#ifdef KOEL_WATCHED
    return READ_WORD(&part[at]);
#else
    return ((volatile __local word_type *)part)[at];
#endif
}

// Offers a word to a line of the part: what is left without a slot is the word itself, or the one that it displaced.
// Duplicates are already counted.
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

// Copies among the words that arrived at a line, in its slots. Nothing moves yet.
INLINED void compare_line(functions f, ulong4 mixer, __local const word_type *part, uint line, uint start, uint buckets,
                          __local uint *tally, __global ulong *status) {
    word_type words[KOEL_SLOTS];
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) words[j] = part[place_of(line, j)];
    #pragma unroll
    for (uint j = 1; j < KOEL_SLOTS; j++) {
        bool copy = false;
        #pragma unroll
        for (uint i = 0; i < j; i++) copy |= words[i] == words[j] && words[j] != 0;
        line_home home = {start + line, remainder_in(words[j])};
        if (copy) count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
    }
}

// The place of a word in a line of the part, or LEAVES.
INLINED uint found_here(__local const word_type *part, uint line, word_type word) {
    uint at = LEAVES;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) at = part[place_of(line, j)] == word ? place_of(line, j) : at;
    return at;
}

// The line of a pair's second offer, in the part.
static inline uint second_line(functions f, uint2 whole, uint line, key_type remainder) {
    return wrapped(line + step_in_part(f, whole, folded(remainder)), whole.y);
}

// The place of the word of a key in the part, or LEAVES.
INLINED uint found_in_part(functions f, uint2 whole, __local const word_type *part, line_home home) {
    uint line = home.home - whole.x, at = found_here(part, line, line_word(1, home.remainder));
    if (at != LEAVES) return at;
    return found_here(part, second_line(f, whole, line, home.remainder), line_word(2, home.remainder));
}

// Lists a pair without a value that leaves the part and is not listed together with others.
static inline void leave_alone(uint age, line_home home, LINE_ESCAPES) {
    // Beyond the room it does not matter how many.
    if (seen64(&status[KOEL_ESCAPED]) > escapes) return;
    list_line_escape(atom_add(&status[KOEL_ESCAPED], 1UL), age, home, 0, LINE_ESCAPED);
}

__kernel GROUP_SIZE void lines_parts(__global word_type *image, LINE_TABLE, __global const uint *dealt, LINE_ESCAPES) {
    functions f = {forth, back};
    __local ulong tile[TILE_WORDS];
    __local uint scratch[SCRATCH / 4];
    // Of arrivals; taken from the queue; leaving.
    __local uint late, taken, left_part;
    __local ulong listed;
    __local uint tally[KOEL_TALLY];
#if !KOEL_VALUE_BITS
    __local key_type leaving[LEAVING];
    __local uint leaving_homes[LEAVING];
#endif
    __local word_type *part = (__local word_type *)tile;
    __local uint *arrived = scratch;
    __local ushort *queue = (__local ushort *)(scratch + PART_LINES), *behind = queue + QUEUED;
    uint me = get_local_id(0);
    uint2 whole = part_of(get_group_id(0) << KOEL_PART_BITS, buckets);
    uint start = whole.x, width = whole.y;
    share s = share_of(get_group_id(0), PART_LINES, buckets);
    __global const key_type *keys = image + s.keys;
    uint count = min(dealt[get_group_id(0)], s.room);

    if (me == 0) late = taken = left_part = 0;
    for (uint i = me; i < TILE_WORDS; i += KOEL_GROUP) tile[i] = 0;
    for (uint i = me; i < PART_LINES; i += KOEL_GROUP) arrived[i] = 0;
    clear_tally(tally);

    // Arrive. Rows that find the queue full have yet to offer for the first time: a bit each.
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
                uint at = atomic_inc(&late);
                if (at < QUEUED) queue[at] = row;
                else untried |= 1u << (first + j);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // Compare: words in the slots with each other, rows in the queue with those, and then with those queued before them.
    // The count of arrivals gives way to a chain of places in the queue.
    uint queued = min(late, (uint)QUEUED);
    for (uint line = me; line < width; line += KOEL_GROUP) {
        compare_line(f, mixer, part, line, start, buckets, tally, status);
    }
    for (uint q = me; q < queued; q += KOEL_GROUP) {
        line_home home = split_line_key(keys[queue[q]], buckets);
        if (found_here(part, home.home - start, line_word(1, home.remainder)) != LEAVES) {
            count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
        }
        uint before = atomic_xchg(&arrived[home.home - start], CHAINED + q);
        behind[q] = before >= CHAINED ? before - CHAINED : QUEUED;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint q = me; q < queued; q += KOEL_GROUP) {
        key_type mine = keys[queue[q]];
        for (uint other = behind[q]; other < QUEUED; other = behind[other]) {
            if (keys[queue[other]] != mine) continue;
            count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, split_line_key(mine, buckets)));
            break;
        }
    }

    // Settle. A work-item goes on with the next of the queue as soon as the pair in hand rests. Who is left without a slot
    // in its first line has its second before it; who has none there leaves the part.
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
            leave_alone(3, home, LINE_ESCAPED);
        }
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sort_lines(part, width);

#if KOEL_VALUE_BITS
    // Find. Queue and arrivals are not needed any more.
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
            // Who was never compared with anybody finds its copy here, or leaves and is looked at afterwards.
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
    // Lines are in order, too, behind this barrier.
    if (me == 0 && together) listed = atom_add(&status[KOEL_ESCAPED], (ulong)together);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < together; i += KOEL_GROUP) {
        line_home home = {leaving_homes[i], leaving[i]};
        list_line_escape(listed + i, 3, home, 0, LINE_ESCAPED);
    }
    // Who was never compared with anybody finds its copy here, or leaves and is looked at afterwards.
    for (uint j = 0; j < ROWS && untried >> j; j++) {
        if (!(untried >> j & 1)) continue;
        line_home home = split_line_key(keys[me + j * KOEL_GROUP], buckets);
        if (found_in_part(f, whole, part, home) != LEAVES) {
            count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
        } else {
            leave_alone(1, home, LINE_ESCAPED);
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
        // Copies would write to one place, and then the image is of no use.
        if (places[row] < LEAVES && !tally[KOEL_COPIES]) values_here[places[row]] = values[row];
    }
#endif
    // All have read the share before anyone writes over it.
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#if KOEL_WORD_STRIDE == 2
    // Word and value of a slot are neighbours of 8 bytes each, and are written at once.
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
