// Builds a canonical bucketized table one partition at a time, from pairs partitioned by cl/parts.cl: every word of the
// image is written once, and nearly all contention is in local memory.
//
//   bucketized_parts     a group per part     the part is built in local memory and written over its slice
//   bucketized_escapes   an item per escape   pairs that do not fit in their part continue in the image
//   bucketized_restore_order      an item per bucket   buckets that they changed are sorted again
//   bucketized_recheck   an item per escape   those that never were in their part are checked for duplicates
//
// The first is in this file, the others are in bucketized_canonical.cl.
//
// Buckets 1 and 2 of a key lie in one part. A pair that needs bucket 3 leaves the part, as escapes do, and continues
// when all parts are written. This is another order of the same offers, so the image is the same.
//
//   arrive    each word takes the next slot of its bucket 1, by counting; those beyond the last are queued
//   compare   duplicates of a key arrive at one bucket: each word is compared with all others there
//   settle    the queued ones are offered to their buckets, and displace lesser words
//   write     the words of each bucket in order, over the slice
//
// So duplicates are counted before anything is displaced. Later, two duplicates may both stay, because an image with
// duplicates is discarded. Some may be counted twice.
//
// What it is not: a way to add to an image that is not empty. That is bucketized_insert.cl.

// Words that a work-item reads before it looks at the first. More would take registers that other groups need.
#define AT_ONCE 4
// Words of a part that may be queued; others escape.
#define QUEUED (PART_SLOTS * 3 / 16)
// In the chain of queued words of a bucket: these are not counts but places in the queue.
#define CHAINED 0x10000

// Copies among the words that arrived at a bucket, in its slots. Nothing moves yet.
INLINED void compare_slots(functions f, __local const ulong *part, uint bucket, uint start, uint buckets,
                           __local uint *tally) {
    uint there[KOEL_SLOTS];
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) there[j] = upper_of(part[place_of(bucket, j)]);
    uint copies = 0;
    #pragma unroll
    for (uint j = 1; j < KOEL_SLOTS; j++) {
        #pragma unroll
        for (uint i = 0; i < j; i++) copies |= (uint)(there[i] == there[j] && there[j] != 0) << j;
    }
    for (; copies; copies &= copies - 1) {
        uint copy = upper_of(part[place_of(bucket, popcount((copies & (0u - copies)) - 1))]);
        count_copy(tally, key_of_home(f, (uint2)(start + bucket, remainder_of(copy)), buckets));
    }
}

__kernel GROUP_SIZE void bucketized_parts(__global ulong *image, TABLE, __global const uint *dealt, ESCAPES) {
    functions f = {forth, back};
    __local ulong part[PART_WORDS];
    __local uint arrived[PART_BUCKETS];
    __local ushort queue[QUEUED], behind[QUEUED];
    __local ulong leaving[LEAVING];
    __local uint leaving_buckets[LEAVING];
    // Of arrivals; taken from the queue; leaving.
    __local uint late, taken, left_part;
    __local ulong listed;
    __local uint tally[KOEL_TALLY];
    uint me = get_local_id(0);
    uint2 whole = part_of(get_group_id(0) << KOEL_PART_BITS, buckets);
    uint start = whole.x, width = whole.y;
    __global ulong *slice = image + first_slot(start);
    uint count = min(dealt[get_group_id(0)], width * KOEL_SLOTS);

    if (me == 0) late = taken = left_part = 0;
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
                uint at = atomic_inc(&late);
                if (at < QUEUED) queue[at] = i;
                else escape_mixed(words[j], buckets, ESCAPED);
            }
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // Words in the queue are compared with those in the slots, and then with those queued before them: the count of
    // arrivals gives way to a chain of places in the queue.
    uint queued = min(late, (uint)QUEUED);
    for (uint bucket = me; bucket < width; bucket += KOEL_GROUP) {
        compare_slots(f, part, bucket, start, buckets, tally);
    }
    for (uint q = me; q < queued; q += KOEL_GROUP) {
        uint mixed = upper_of(slice[queue[q]]);
        uint2 home = split(mixed, buckets);
        bool copy = false;
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            copy |= upper_of(part[place_of(home.x - start, j)]) == upper(1, home.y);
        }
        if (copy) count_copy(tally, key_of_home(f, home, buckets));
        uint before = atomic_xchg(&arrived[home.x - start], CHAINED + q);
        behind[q] = before >= CHAINED ? before - CHAINED : QUEUED;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint q = me; q < queued; q += KOEL_GROUP) {
        uint mixed = upper_of(slice[queue[q]]);
        for (uint other = behind[q]; other < QUEUED; other = behind[other]) {
            if (upper_of(slice[queue[other]]) != mixed) continue;
            count_copy(tally, key_of_home(f, split(mixed, buckets), buckets));
            break;
        }
    }

    // A work-item goes on with the next of the queue as soon as the pair in hand rests, whichever it was that came to
    // rest, so that work-items in step do not wait for the longest chain of each round.
    pair mine = {0, 0, 0, 0};
    for (;;) {
        if (mine.age == 0) {
            uint q = atomic_inc(&taken);
            if (q >= queued) break;
            mine = pair_of_mixed(slice[queue[q]], whole, buckets);
        }
        step(f, &mine, whole, buckets, part, false, LEAVERS_KEPT, ESCAPED);
    }
    // All have read the slice before anyone writes it.
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
