// Builds a canonical Horton table one partition at a time, from pairs partitioned by cl/parts.cl: the contents of the
// homes.
//
//   horton_parts           a group per part      this file
//   horton_parts_propose   \
//   horton_parts_entries    > horton_rooms.cl
//   horton_parts_close     /
//
// The pairs of a part are sorted into the order of horton_parts.clh in local memory:
//
//   count    the pairs of each home; prefix sums determine where each home's pairs, and its rooms, begin
//   gather   each pair is moved to its home; the tags of each home, and the tags that occur repeatedly, are recorded
//   write    pairs are written to the region: those of a Type A home in any order, those with a unique tag by its rank
//   doubts   pairs whose tag occurs repeatedly, one in seven at load 0.9: each is compared with all of its home
//   tokens   the tokens of each Type B home are listed, for horton_rooms.cl
//
// Duplicates have the same tag, so those of a Type B home are found among the doubts. Those of a Type A home are found
// when the bucket is sorted at the end.
//
// The order in which pairs arrive determines the positions of rooms and tokens in their lists, and of pairs in a Type A
// home. The image does not depend on it.
//
//   KOEL_CAPACITY    the number of words of a part that fit in local memory, fewer than 2^12
//   KOEL_PART_BITS   the base-2 logarithm of the buckets of a part, at most 11; a part has at most 2^11 slots

#define PART_BUCKETS (1 << KOEL_PART_BITS)
#define BUCKETS_EACH ((PART_BUCKETS + KOEL_GROUP - 1) / KOEL_GROUP)
// Words that a work-item loads before it uses the first.
#define AT_ONCE 4
// The maximum number of listed doubts. If there are more, all pairs are searched again.
#define DOUBTS (KOEL_CAPACITY / 4)
// The cursor of a home that has too many pairs.
#define CROWDED 0x80000000u

// Sums of pairs in the lower half, of rooms in the upper half.
static inline uint pairs_and_rooms(uint pairs) { return pairs | (free_rooms(pairs) << 16); }

// Loads the next AT_ONCE words of a work-item; words past the end are 0.
static inline void read_words(__global const ulong *region, uint first, uint count, ulong *words) {
    #pragma unroll
    for (uint j = 0; j < AT_ONCE; j++) {
        uint i = first + j * KOEL_GROUP;
        words[j] = i < count ? region[i] : 0;
    }
}

// The position of pair `p` in its home. Pairs that are the smallest with their tag come first, in the order of tags,
// and then all others, by tag and key.
INLINED uint place_in_home(__local const ulong *words, __local const ushort *tags, uint p, uint record, uint mask,
                           bool *duplicate) {
    ulong mine = words[p];
    uint tag = tags[p] & 31, first = first_pair(record), before = 0;
    bool least = true;
    *duplicate = false;
    for (uint j = first; j < first + pairs_of(record); j++) {
        uint its = tags[j] & 31;
        ulong other = words[j];
        bool less = other < mine || (other == mine && j < p);
        before += its < tag || (its == tag && less);
        least &= its != tag || !less;
        *duplicate |= upper_of(other) == upper_of(mine) && j < p;
    }
    uint lower = popcount(mask & ((1u << tag) - 1));
    return least ? lower : popcount(mask) + before - lower - 1;
}

__kernel GROUP_SIZE void horton_parts(__global ulong *regions, const ulong stride, TABLE,
                                      __global const uint *part_counts, __global ulong *homes,
                                      __global ushort *spare, __global ulong *arrays,
                                      __global ulong *rooms, __global uint *room_bases, __global ulong *tokens,
                                      __global ulong *status) {
    table t = THE_TABLE;
    __local ulong words[KOEL_CAPACITY];
    // [bucket][tag:5] of each word.
    __local ushort bucket_and_tag[KOEL_CAPACITY], doubts[DOUBTS];
    // For each bucket: the end of its pairs so far; its record; its tags; the tags that occurred repeatedly and, later,
    // its tokens.
    __local uint cursors[PART_BUCKETS], records[PART_BUCKETS], masks[PART_BUCKETS], repeated[PART_BUCKETS];
    __local sum sums[KOEL_GROUP];
    __local uint tally[KOEL_TALLY];
    __local uint room_base, token_base, doubt_count, needed;
    uint me = get_local_id(0);
    uint start = get_group_id(0) << KOEL_PART_BITS, width = min(buckets - start, (uint)PART_BUCKETS);
    __global ulong *region = regions + get_group_id(0) * stride;
    uint count = (uint)min((ulong)part_counts[get_group_id(0)], min(stride, (ulong)KOEL_CAPACITY));
    // The pair with this mixed key is stored outside of the image.
    uint outside = mix(KOEL_CLASSIC_EMPTY_KEY, keys_of(t.f, 0));

    if (me == 0) doubt_count = needed = 0;
    for (uint b = me; b < PART_BUCKETS; b += KOEL_GROUP) cursors[b] = masks[b] = repeated[b] = 0;
    clear_tally(tally);
    for (uint first = me; first < count; first += AT_ONCE * KOEL_GROUP) {
        ulong there[AT_ONCE];
        read_words(region, first, count, there);
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            if (first + j * KOEL_GROUP >= count) continue;
            uint mixed = upper_of(there[j]);
            if (mixed == outside) count_outside(tally, (uint)there[j]);
            else atomic_inc(&cursors[home_of_mixed(mixed, buckets) - start]);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    uint total = 0;
    #pragma unroll
    for (uint i = 0; i < BUCKETS_EACH; i++) {
        uint b = me * BUCKETS_EACH + i;
        if (b >= width) continue;
        if (cursors[b] > KOEL_HORTON_GROUP_MAX) {
            // The attempt has failed. The pairs of this home are dropped, because processing that many would be slow.
            count_unplaced(tally);
            cursors[b] = CROWDED;
        }
        total += pairs_and_rooms(cursors[b] == CROWDED ? 0 : cursors[b]);
    }
    sums[me] = total;
    prefix_sums(sums);
    uint before = sums[me] - total;
    #pragma unroll
    for (uint i = 0; i < BUCKETS_EACH; i++) {
        uint b = me * BUCKETS_EACH + i;
        if (b >= width) continue;
        bool crowded = cursors[b] == CROWDED;
        uint pairs = crowded ? 0 : cursors[b];
        records[b] = home_record(before & 0xffff, pairs, before >> 16);
        if (!crowded) cursors[b] = before & 0xffff;
        if (pairs > KOEL_SLOTS) arrays[start + b] = 0;
        before += pairs_and_rooms(pairs);
    }
    uint kept = sums[KOEL_GROUP - 1] & 0xffff, room_count = sums[KOEL_GROUP - 1] >> 16;
    if (me == 0) {
        room_base = atomic_add(&room_bases[all_rooms(buckets)], room_count);
        room_bases[get_group_id(0)] = room_base;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (uint first = me; first < count; first += AT_ONCE * KOEL_GROUP) {
        ulong there[AT_ONCE];
        read_words(region, first, count, there);
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint mixed = upper_of(there[j]);
            if (first + j * KOEL_GROUP >= count || mixed == outside) continue;
            uint b = home_of_mixed(mixed, buckets) - start, at = atomic_inc(&cursors[b]);
            if (at >= CROWDED) continue;
            uint tag = mul_hi(mixed * buckets, (uint)KOEL_TAGS);
            words[at] = ((ulong)unmix(mixed, keys_of(t.f, 0)) << 32) | (uint)there[j];
            bucket_and_tag[at] = (ushort)((b << 5) | tag);
            if (pairs_of(records[b]) <= KOEL_SLOTS) continue;
            if ((atomic_or(&masks[b], 1u << tag) >> tag) & 1) atomic_or(&repeated[b], 1u << tag);
        }
    }
    for (uint i = me; i < room_count; i += KOEL_GROUP) rooms[room_base + i] = KOEL_HORTON_NO_PROPOSAL;
    // All work-items have read the region before any writes to it.
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (uint b = me; b < width; b += KOEL_GROUP) {
        homes[start + b] = ((ulong)masks[b] << 32) | records[b];
        spare[start + b] = spare_record(first_room(records[b]), free_rooms(pairs_of(records[b])));
    }
    for (uint p = me; p < kept; p += KOEL_GROUP) {
        uint b = bucket_and_tag[p] >> 5, tag = bucket_and_tag[p] & 31, at = p;
        if ((repeated[b] >> tag) & 1) {
            uint place = atomic_inc(&doubt_count);
            if (place < DOUBTS) doubts[place] = (ushort)p;
            continue;
        }
        if (masks[b]) at = first_pair(records[b]) + popcount(masks[b] & ((1u << tag) - 1));
        region[at] = words[p];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    bool listed = doubt_count <= DOUBTS;
    for (uint i = me; i < (listed ? doubt_count : kept); i += KOEL_GROUP) {
        uint p = listed ? doubts[i] : i, b = bucket_and_tag[p] >> 5, tag = bucket_and_tag[p] & 31;
        if (!((repeated[b] >> tag) & 1)) continue;
        uint record = records[b], mask = masks[b], pairs = pairs_of(record), distinct = popcount(mask);
        bool duplicate;
        uint at = place_in_home(words, bucket_and_tag, p, record, mask, &duplicate);
        if (duplicate) count_copy(tally, upper_of(words[p]));
        region[first_pair(record) + at] = words[p];
        // Surplus pairs: the first ones after the smallest pairs of all tags.
        if (at >= distinct && at - distinct < leavers(pairs) - token_count(pairs, mask)) {
            atom_or(&arrays[start + b], with_entry(0, tag, STASH_CODE));
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

    for (uint b = me; b < width; b += KOEL_GROUP) {
        uint pairs = pairs_of(records[b]), tokens_here = token_count(pairs, masks[b]);
        // 32 tokens at most.
        uint live = (uint)((1UL << tokens_here) - 1);
        if (leavers(pairs) > tokens_here) {
            // Each token has one tag, and tokens whose entry already means the stash do not propose.
            ulong array = atom_or(&arrays[start + b], 0UL);
            for (uint token = 0; token < tokens_here; token++) {
                if (entry(array, nth_bit(masks[b], token)) != 0) live &= ~(1u << token);
            }
        }
        repeated[b] = live;
        if (live) cursors[b] = atomic_add(&needed, popcount(live));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me == 0) token_base = atomic_add(&room_bases[all_tokens(buckets)], needed);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint b = me; b < width; b += KOEL_GROUP) {
        uint at = token_base + cursors[b];
        for (uint live = repeated[b]; live; live &= live - 1) tokens[at++] = proposal(0, start + b, nth_bit(live, 0));
    }
    report_tally(tally, status);
}
