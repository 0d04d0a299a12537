// A table of lines built part by part, from rows that cl/bucketized_wide_deal.cl has dealt to the lines of the parts
// themselves: every line is written once, and nearly all that races is in local memory.
//
//   lines_parts     a group a part      the part is placed in local memory and written over its lines
//
// and then, in cl/bucketized_wide.cl, what is left:
//
//   lines_escapes   lines_mend   lines_recheck   lines_settle
//
// Words go as in cl/bucketized_parts.cl, where the proofs stand: arrive, compare, settle, hand in. Values follow in the
// same local memory, when words have been written:
//
//   find      each row looks for its word in its two buckets of the part; one that is not there leaves the part, and goes
//             on with its third bucket in the whole image
//   values    tile = 0; each row puts its value to the place of its word; the tile is written out
//
// Local memory is a tile of one integer a slot. A work-item keeps its rows in registers from the first to the last step.

#define PART_SLOTS (KOEL_SLOTS << KOEL_PART_BITS)
#define PART_LINES (1 << KOEL_PART_BITS)
// From one slot of a line to the next: neighbours look at the same slot of different lines.
#define ROW (PART_LINES + 2)
#define TILE_WORDS (KOEL_SLOTS * ROW)
// Rows of a work-item.
#define ROWS ((PART_SLOTS + KOEL_GROUP - 1) / KOEL_GROUP)
// Rows of a part that may be queued; others leave it before they have offered at all.
#define QUEUED (PART_SLOTS / 4)
// In the chain of queued rows of a line: these are no counts but places in the queue.
#define CHAINED 0x10000
// Instead of a place: the row leaves the part, as number so many of those that do.
#define LEAVES 0x8000

// Word and value of a slot are neighbours of 8 bytes each.
#define SIDE_BY_SIDE (KOEL_WORD_STRIDE == 2)
// Words and values of a line that are written, with those that belong to no slot.
#define WORDS_WRITTEN (KOEL_KEY_BITS == 32 ? KOEL_SLOTS + 1 : KOEL_SLOTS)
#define VALUES_WRITTEN (KOEL_VALUE_BITS == 32 ? KOEL_SLOTS + 1 : KOEL_SLOTS)

static inline uint place_of(uint line, uint slot) { return slot * ROW + line; }

// A word that others may change.
INLINED word_type word_here(__local word_type *part, uint at) {
#ifdef KOEL_WATCHED
    return READ_WORD(&part[at]);
#else
    return ((volatile __local word_type *)part)[at];
#endif
}

// Offers a word to a line of the part: what is left without a slot is the word itself, or the one that it displaced.
// Nobody asks for copies, which have been told.
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

INLINED void sort_lines(__local word_type *part, uint width) {
    for (uint line = get_local_id(0); line < width; line += KOEL_GROUP) {
        word_type words[KOEL_SLOTS];
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) words[j] = part[place_of(line, j)];
        #pragma unroll
        for (uint round = 0; round < KOEL_SLOTS; round++) {
            #pragma unroll
            for (uint j = round % 2; j + 1 < KOEL_SLOTS; j += 2) {
                word_type a = words[j], b = words[j + 1];
                words[j] = max(a, b);
                words[j + 1] = min(a, b);
            }
        }
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) part[place_of(line, j)] = words[j];
    }
}

// Where a word stands in a line of the part, or LEAVES.
INLINED uint found_here(__local const word_type *part, uint line, word_type word) {
    uint at = LEAVES;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) at = part[place_of(line, j)] == word ? place_of(line, j) : at;
    return at;
}

__kernel GROUP_SIZE void lines_parts(__global word_type *image, LINE_TABLE, __global const uint *dealt, LINE_ESCAPES) {
    functions f = {forth, back};
    __local ulong tile[TILE_WORDS];
    __local uint arrived[PART_LINES];
    __local ushort queue[QUEUED], behind[QUEUED];
    // Of arrivals; taken from the queue; leaving.
    __local uint late, taken, left_part;
    __local ulong listed;
    __local uint tally[KOEL_TALLY];
    __local word_type *part = (__local word_type *)tile;
    __local value_type *values_here = (__local value_type *)tile;
    uint me = get_local_id(0);
    uint2 whole = part_of(get_group_id(0) << KOEL_PART_BITS, buckets);
    uint start = whole.x, width = whole.y;
    share s = share_of(get_group_id(0), PART_LINES, buckets);
    __global const key_type *keys = image + s.keys;
    __global const value_type *values = (__global const value_type *)image + s.values;
    uint count = min(dealt[get_group_id(0)], s.room);

    if (me == 0) late = taken = left_part = 0;
    for (uint i = me; i < TILE_WORDS; i += KOEL_GROUP) tile[i] = 0;
    for (uint i = me; i < PART_LINES; i += KOEL_GROUP) arrived[i] = 0;
    clear_tally(tally);

    // Arrive. Rows that find the queue full have yet to offer for the first time: a bit each.
    key_type mixed[ROWS];
    uint untried = 0;
    #pragma unroll
    for (uint j = 0; j < ROWS; j++) mixed[j] = me + j * KOEL_GROUP < count ? keys[me + j * KOEL_GROUP] : 0;
    #pragma unroll
    for (uint j = 0; j < ROWS; j++) {
        if (me + j * KOEL_GROUP >= count) continue;
        line_home home = split_line_key(mixed[j], buckets);
        uint line = home.home - start, rank = atomic_inc(&arrived[line]);
        if (rank < KOEL_SLOTS) {
            part[place_of(line, rank)] = line_word(1, home.remainder);
        } else {
            uint at = atomic_inc(&late);
            if (at < QUEUED) queue[at] = me + j * KOEL_GROUP;
            else untried |= 1u << j;
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
        uint line = mine.home;
        if (age == 2) line = wrapped(line + step_in_part(f, whole, folded(mine.remainder)), width);
        word_type left = offer_here(part, line, line_word(age, mine.remainder));
        age = age_in(left) == 1 ? 2 : 0;
        mine.home = line;
        mine.remainder = remainder_in(left);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sort_lines(part, width);
    barrier(CLK_LOCAL_MEM_FENCE);

    // Find.
    ushort at[ROWS];
    value_type brought[ROWS];
    #pragma unroll
    for (uint j = 0; j < ROWS; j++) {
        if (me + j * KOEL_GROUP >= count) continue;
        line_home home = split_line_key(mixed[j], buckets);
        uint line = home.home - start, there = found_here(part, line, line_word(1, home.remainder));
        if (there == LEAVES) {
            line = wrapped(line + step_in_part(f, whole, folded(home.remainder)), width);
            there = found_here(part, line, line_word(2, home.remainder));
        }
        // Who was never compared with anybody finds its copy here, or leaves and is looked at afterwards.
        if (untried >> j & 1 && there != LEAVES) {
            count_wide_copy(tally, status, key_of_line_home(f, mixer, buckets, home));
        }
        at[j] = there == LEAVES ? LEAVES + atomic_inc(&left_part) : there;
        brought[j] = KOEL_VALUE_BITS ? values[me + j * KOEL_GROUP] : 0;
    }
    // All have read the share before anyone writes over it.
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    if (me == 0 && left_part) listed = atom_add(&status[KOEL_ESCAPED], (ulong)left_part);
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < ROWS; j++) {
        if (me + j * KOEL_GROUP >= count || at[j] < LEAVES) continue;
        uint next = untried >> j & 1 ? 1 : 3;
        list_line_escape(listed + (at[j] - LEAVES), next, split_line_key(mixed[j], buckets), brought[j], LINE_ESCAPED);
    }
#if SIDE_BY_SIDE
    // A word waits in a register for its value, so that both are written at once.
    word_type words[ROWS];
    #pragma unroll
    for (uint j = 0; j < ROWS; j++) {
        uint i = me + j * KOEL_GROUP;
        words[j] = i < width * KOEL_SLOTS ? part[place_of(i / KOEL_SLOTS, i % KOEL_SLOTS)] : 0;
    }
#else
    for (uint i = me; i < width * WORDS_WRITTEN; i += KOEL_GROUP) {
        uint line = i / WORDS_WRITTEN, slot = i % WORDS_WRITTEN;
        image[word_at(start + line, slot)] = slot < KOEL_SLOTS ? part[place_of(line, slot)] : 0;
    }
#endif
#if KOEL_VALUE_BITS
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < TILE_WORDS; i += KOEL_GROUP) tile[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < ROWS; j++) {
        // Copies would write to one place, and then the image is of no use.
        if (me + j * KOEL_GROUP < count && at[j] < LEAVES && !tally[KOEL_COPIES]) values_here[at[j]] = brought[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if SIDE_BY_SIDE
    __global ulong2 *pairs = (__global ulong2 *)image + (ulong)start * KOEL_SLOTS;
    #pragma unroll
    for (uint j = 0; j < ROWS; j++) {
        uint i = me + j * KOEL_GROUP;
        if (i < width * KOEL_SLOTS) pairs[i] = (ulong2)(words[j], values_here[place_of(i / KOEL_SLOTS, i % KOEL_SLOTS)]);
    }
#elif KOEL_VALUE_BITS
    __global value_type *out = (__global value_type *)image;
    for (uint i = me; i < width * VALUES_WRITTEN; i += KOEL_GROUP) {
        uint line = i / VALUES_WRITTEN, slot = i % VALUES_WRITTEN;
        out[value_at(start + line, slot)] = slot < KOEL_SLOTS ? values_here[place_of(line, slot)] : 0;
    }
#endif
    report_tally(tally, status);
}
