// Builds a canonical bucketized table one partition at a time, from pairs partitioned by cl/parts.cl: every word of the
// image is written once, and nearly all contention is in local memory.
//
//   bucketized_parts           a group per part         builds the part in local memory, and writes it over its slice
//   bucketized_escapes         a work-item per escape   offers pairs that do not fit in their part to the whole image
//   bucketized_restore_order   a work-item per bucket   sorts the buckets that these changed
//   bucketized_recheck         a work-item per escape   checks those that were not in their part for duplicates
//
// The first is in this file, the others are in bucketized_canonical.cl.
//
// Buckets 1 and 2 of a key are in one part. A pair that needs bucket 3 leaves the part as an escape, and continues
// after all parts are written. This is another order of the same offers, so the image is the same.
//
//   arrive    each word takes the next slot of its bucket 1, by counting; if the bucket is full, it is queued
//   compare   duplicates arrive at the same bucket, so each word is compared with all others of its bucket
//   settle    queued words are offered to their buckets, and displace smaller words
//   write     the words of each bucket are written in order, over the slice
//
// So duplicates are counted before any word is displaced. Two duplicates may both be stored, because an image with
// duplicates is discarded. Some may be counted twice.
//
// This does not add pairs to an image that is not empty: see bucketized_insert.cl.

// Words that a work-item loads before it uses the first. More would need more registers, and reduce occupancy.
#define AT_ONCE 4
// The maximum number of queued words of a part; others escape.
#define QUEUED (PART_SLOTS * 3 / 16)
// Entries of `arrived` from here on are positions in the queue (the chain of a bucket's queued words), not counts.
#define CHAINED 0x10000

// Counts duplicates among the words in the slots of a bucket. No word is displaced yet.
INLINED void compare_slots(functions f, __local const ulong *part, uint bucket, uint start, uint buckets,
                           __local uint *tally) {
    uint there[KOEL_SLOTS];
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) there[j] = upper_of(part[place_of(bucket, j)]);
    uint duplicates = 0;
    #pragma unroll
    for (uint j = 1; j < KOEL_SLOTS; j++) {
        #pragma unroll
        for (uint i = 0; i < j; i++) duplicates |= (uint)(there[i] == there[j] && there[j] != 0) << j;
    }
    for (; duplicates; duplicates &= duplicates - 1) {
        uint duplicate = upper_of(part[place_of(bucket, popcount((duplicates & (0u - duplicates)) - 1))]);
        count_copy(tally, key_of_home(f, (uint2)(start + bucket, remainder_of(duplicate)), buckets));
    }
}

__kernel GROUP_SIZE void bucketized_parts(__global ulong *image, TABLE, __global const uint *part_counts, ESCAPES) {
    functions f = {forth, back};
    __local ulong part[PART_WORDS];
    __local uint arrived[PART_BUCKETS];
    __local ushort queue[QUEUED], previous[QUEUED];
    __local ulong leaving[LEAVING];
    __local uint leaving_buckets[LEAVING];
    // The number of words that found their bucket full, that were taken from the queue, and that leave the part.
    __local uint overflowed, taken, left_part;
    __local ulong listed;
    __local uint tally[KOEL_TALLY];
    uint me = get_local_id(0);
    uint2 whole = part_of(get_group_id(0) << KOEL_PART_BITS, buckets);
    uint start = whole.x, width = whole.y;
    __global ulong *slice = image + first_slot(start);
    uint count = min(part_counts[get_group_id(0)], width * KOEL_SLOTS);

    if (me == 0) overflowed = taken = left_part = 0;
    for (uint i = me; i < PART_WORDS; i += KOEL_GROUP) part[i] = KOEL_SLOT_EMPTY;
    for (uint i = me; i < PART_BUCKETS; i += KOEL_GROUP) arrived[i] = 0;
    clear_tally(tally);

    for (uint first = me; first < count; first += AT_ONCE * KOEL_GROUP) {
        ulong words[AT_ONCE];
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint i = first + j * KOEL_GROUP;
            words[j] = i < count ? slice[i] : 0;
        }
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint i = first + j * KOEL_GROUP;
            if (i >= count) continue;
            uint2 home = split(upper_of(words[j]), buckets);
            uint bucket = home.x - start, rank = atomic_inc(&arrived[bucket]);
            if (rank < KOEL_SLOTS) {
                part[place_of(bucket, rank)] = word(1, home.y, (uint)words[j]);
            } else {
                uint at = atomic_inc(&overflowed);
                if (at < QUEUED) queue[at] = i;
                else escape_mixed(words[j], buckets, ESCAPED);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // Queued words are compared with those in the slots, and then with those of the same bucket that were queued before
    // them. The counts in `arrived` are replaced by the heads of chains in the queue.
    uint queued = min(overflowed, (uint)QUEUED);
    for (uint bucket = me; bucket < width; bucket += KOEL_GROUP) {
        compare_slots(f, part, bucket, start, buckets, tally);
    }
    for (uint q = me; q < queued; q += KOEL_GROUP) {
        uint mixed = upper_of(slice[queue[q]]);
        uint2 home = split(mixed, buckets);
        bool duplicate = false;
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            duplicate |= upper_of(part[place_of(home.x - start, j)]) == upper(1, home.y);
        }
        if (duplicate) count_copy(tally, key_of_home(f, home, buckets));
        uint before = atomic_xchg(&arrived[home.x - start], CHAINED + q);
        previous[q] = before >= CHAINED ? before - CHAINED : QUEUED;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint q = me; q < queued; q += KOEL_GROUP) {
        uint mixed = upper_of(slice[queue[q]]);
        for (uint other = previous[q]; other < QUEUED; other = previous[other]) {
            if (upper_of(slice[queue[other]]) != mixed) continue;
            count_copy(tally, key_of_home(f, split(mixed, buckets), buckets));
            break;
        }
    }

    // A work-item takes the next queued word as soon as its current chain ends, so that work-items that run in lockstep
    // do not wait for the longest chain of each round.
    pair mine = {0, 0, 0, 0};
    for (;;) {
        if (mine.age == 0) {
            uint q = atomic_inc(&taken);
            if (q >= queued) break;
            mine = pair_of_mixed(slice[queue[q]], whole, buckets);
        }
        step(f, &mine, whole, buckets, part, false, LEAVERS_KEPT, ESCAPED);
    }
    // All work-items have read the slice before any writes to it.
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    uint together = min(left_part, (uint)LEAVING);
    if (me == 0 && together) listed = atom_add(&status[KOEL_ESCAPED], (ulong)together);
    sort_buckets(part, width);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < together; i += KOEL_GROUP) {
        list_leaver(f, listed + i, leaving[i], leaving_buckets[i], whole, buckets, ESCAPED);
    }
    for (uint i = me; i < width * KOEL_SLOTS; i += KOEL_GROUP) slice[i] = part[place_of(i / KOEL_SLOTS, i % KOEL_SLOTS)];
    report_tally(tally, status);
}
