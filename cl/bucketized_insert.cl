// Adds a batch to a canonical bucketized table one partition at a time, from pairs partitioned by cl/parts.cl: the
// image is read once, and written once to a new buffer.
//
//   bucketized_insert    a group per part    writes a part of `old`, with the batch's pairs, to `image`
//
// bucketized_escapes, bucketized_restore_order and bucketized_recheck follow, as after a build.
//
//   read      the words of the part are loaded into local memory
//   settle    pairs of the batch are offered to their buckets, and displace smaller words
//   write     the words of each bucket are written in order
//
// Duplicates have the same buckets, so they meet when they are offered: no comparison is needed beforehand, unlike in
// builds, which place words by counting. A pair that meets its own key leaves the part. It is counted as a duplicate
// when it meets the key again, or by bucketized_recheck.
//
// A part contains words of any age, and tombstones, which no word displaces. A displaced word stays in the part if it
// had age 1, and leaves the part otherwise, because its later buckets may be anywhere.

// 16-byte loads in flight per work-item. More would need more registers, and reduce occupancy.
#define AT_ONCE 4

__kernel GROUP_SIZE void bucketized_insert(__global ulong *image, TABLE, __global const ulong *old,
                                           __global const ulong *batch, const ulong stride, const ulong len,
                                           __global const uint *part_counts, __global uint *touched, ESCAPES) {
    functions f = {forth, back};
    __local ulong part[PART_WORDS];
    __local ulong leaving[LEAVING];
    __local uint leaving_buckets[LEAVING];
    // The number of words of the batch that were taken, and of words that leave the part.
    __local uint claimed, left_part;
    __local ulong listed;
    uint me = get_local_id(0);
    uint2 whole = part_of(get_group_id(0) << KOEL_PART_BITS, buckets);
    ulong share = get_group_id(0) * stride;
    uint count = (uint)min((ulong)part_counts[get_group_id(0)], min(stride, len - share));
    batch += share;
    if (me == 0) claimed = left_part = 0;
    // Clears the marks of the part's buckets; PART_BUCKETS is a multiple of 32.
    if (me < (whole.y + 31) / 32) touched[whole.x / 32 + me] = 0;
    __global const ulong2 *from = (__global const ulong2 *)(old + first_slot(whole.x));
    for (uint first = me; first < whole.y * LOADS; first += AT_ONCE * KOEL_GROUP) {
        ulong2 words[AT_ONCE];
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint i = first + j * KOEL_GROUP;
            words[j] = i < whole.y * LOADS ? from[i] : (ulong2)(0, 0);
        }
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint i = first + j * KOEL_GROUP, at = place_of(i / LOADS, 2 * (i % LOADS));
            if (i >= whole.y * LOADS) continue;
            part[at] = words[j].x;
            part[at + ROW] = words[j].y;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    // A work-item takes the next pair of the batch as soon as its current chain ends.
    pair mine = {0, 0, 0, 0};
    for (;;) {
        if (mine.age == 0) {
            uint at = atomic_inc(&claimed);
            if (at >= count) break;
            mine = pair_of_mixed(batch[at], whole, buckets);
        }
        step(f, &mine, whole, buckets, part, true, LEAVERS_KEPT, ESCAPED);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    uint together = min(left_part, (uint)LEAVING);
    if (me == 0 && together) listed = atom_add(&status[KOEL_ESCAPED], (ulong)together);
    sort_buckets(part, whole.y);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < together; i += KOEL_GROUP) {
        list_leaver(f, listed + i, leaving[i], leaving_buckets[i], whole, buckets, ESCAPED);
    }
    __global ulong2 *to = (__global ulong2 *)(image + first_slot(whole.x));
    for (uint i = me; i < whole.y * LOADS; i += KOEL_GROUP) {
        uint at = place_of(i / LOADS, 2 * (i % LOADS));
        to[i] = (ulong2)(part[at], part[at + ROW]);
    }
}
