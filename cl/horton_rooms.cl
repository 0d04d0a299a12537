// Builds a canonical Horton table one partition at a time, after horton_parts.cl has sorted the pairs by home: which
// pairs leave their homes, and where they are stored.
//
//   horton_parts_propose   a loop over tokens       deferred acceptance of the tokens, and of those they displace
//   horton_parts_entries   a loop over rooms        for each accepted proposal, sets the entry and moves the pair
//   horton_parts_close     a work-item per bucket   writes the bucket's final words; appends pairs to the stash
//
// Proposals compete in a list of all rooms instead of the image: rooms are a sixth of the slots, and the targets of
// adjacent homes' first proposals are within one stratum, so most accesses hit a cache.

// Work-items that have finished a token take their next one at once, so that work-items in lockstep do not wait for a
// long chain: setting `age` to 0xffffffff makes it 0 in the next iteration, which starts the next token.
__kernel GROUP_SIZE void horton_parts_propose(TABLE, HOMES, __global const ushort *spare,
                                              __global ulong *arrays, ROOMS, __global const ulong *tokens) {
    table t = THE_TABLE;
    ulong next = get_global_id(0), end = room_bases[all_tokens(buckets)];
    for (uint age = 0, home = 0, token = 0, mask = 0, token_total = 0;; age++) {
        if (age == 0) {
            if (next >= end) return;
            uint3 listed = unpacked(tokens[next]);
            next += get_global_size(0);
            home = listed.y;
            token = listed.z;
            mask = tags_of(homes[home]);
            token_total = token_count(pairs_of((uint)homes[home]), mask);
            age = 1;
        }
        uint2 tag_and_function = token_step(mask, token_total, token, age);
        if (tag_and_function.y == 0) {
            // The token has exceeded its last age.
            atom_or(&arrays[home], with_entry(0, nth_bit(mask, token), STASH_CODE));
            age = 0xffffffffu;
            continue;
        }
        uint target = remap(t, home, tag_and_function.x, tag_and_function.y);
        ushort there = spare[target];
        if (spare_rooms(there) == 0) continue;
        ulong mine = proposal(age, home, token);
        ulong left = offer(rooms + room_bases[part_number(target)] + first_spare(there), spare_rooms(there), mine);
        if (left == KOEL_HORTON_NO_PROPOSAL) {
            age = 0xffffffffu;
        } else if (left != mine) {
            uint3 displaced = unpacked(left);
            age = displaced.x;
            home = displaced.y;
            token = displaced.z;
            mask = tags_of(homes[home]);
            token_total = token_count(pairs_of((uint)homes[home]), mask);
        }
    }
}

__kernel GROUP_SIZE void horton_parts_entries(TABLE, REGIONS, HOMES, __global ulong *arrays, ROOMS) {
    ulong end = room_bases[all_rooms(buckets)];
    for (ulong room = get_global_id(0); room < end; room += get_global_size(0)) {
        ulong kept = rooms[room], leaver = KOEL_CLASSIC_EMPTY;
        if (kept != KOEL_HORTON_NO_PROPOSAL) {
            uint3 proposed = unpacked(kept);
            ulong home = homes[proposed.y];
            uint record = (uint)home, mask = tags_of(home);
            uint2 tag_and_function =
                token_step(mask, token_count(pairs_of(record), mask), proposed.z, proposed.x);
            // The smallest pair with the tag leaves.
            uint rank = popcount(mask & ((1u << tag_and_function.x) - 1));
            leaver = pairs_at(regions, stride, proposed.y, record)[rank];
            atom_or(&arrays[proposed.y], with_entry(0, tag_and_function.x, tag_and_function.y));
        }
        rooms[room] = leaver;
    }
}

// The position of word j of bucket i of a group: adjacent work-items with the same j access different banks.
#define PLACE(i, j) ((i) * KOEL_SLOTS + (((j) + (i)) & (KOEL_SLOTS - 1)))

// Stores the pairs that stay in a Type B home in `here`, and appends pairs to the stash. The others were moved already.
INLINED void stay_or_leave(table t, __global const ulong *pairs, uint count, uint mask, ulong array,
                           __local ulong *here, __global ulong *image, __global uint *stashed, __local uint *tally) {
    uint distinct = popcount(mask), surplus = leavers(count) - token_count(count, mask), staying = 0;
    for (uint j = 0; j < count; j++) {
        ulong pair = pairs[j];
        // The smallest pair of a tag leaves if its entry is set; surplus pairs leave for the stash.
        uint code = j < distinct ? entry(array, nth_bit(mask, 0)) : j - distinct < surplus ? STASH_CODE : 0;
        mask &= mask - 1;
        if (code == 0) {
            // S - 1 pairs stay, because each token results in one entry, in a room or the stash.
            here[PLACE(get_local_id(0), staying++)] = pair;
        } else if (code == STASH_CODE) {
            uint to = stash(t, upper_of(pair)), number = atomic_inc(&stashed[to]);
            if (number < KOEL_SLOTS) image[first_slot(t.buckets + to) + number] = pair;
            else count_unplaced(tally);
        }
    }
}

__kernel GROUP_SIZE void horton_parts_close(__global ulong *image, TABLE, REGIONS, HOMES,
                                            __global const ulong *arrays, ROOMS, __global uint *stashed,
                                            __global ulong *status) {
    table t = THE_TABLE;
    __local ulong here[KOEL_SLOTS * KOEL_GROUP];
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    uint me = get_local_id(0);
    ulong item = get_global_id(0);
    if (item < buckets) {
        uint home = (uint)item, record = (uint)homes[home], count = pairs_of(record);
        __global const ulong *pairs = pairs_at(regions, stride, home, record);
        bool type_b = count > KOEL_SLOTS;
        if (type_b) {
            stay_or_leave(t, pairs, count, tags_of(homes[home]), arrays[home], here, image, stashed, tally);
            here[PLACE(me, KOEL_SLOTS - 1)] = 0;
        } else {
            __global const ulong *room = rooms + room_bases[part_number(home)] + first_room(record);
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) here[PLACE(me, j)] = j < count ? pairs[j] : room[j - count];
        }
        ulong words[KOEL_SLOTS];
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) words[j] = here[PLACE(me, j)];
        sort_words(words);
        if (type_b) words[KOEL_SLOTS - 1] = arrays[home];
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            // Type A buckets ascend.
            here[PLACE(me, type_b ? j : KOEL_SLOTS - 1 - j)] = words[j];
            if (j == 0 || type_b) continue;
            uint key = upper_of(words[j]);
            if (key == upper_of(words[j - 1]) && key != KOEL_CLASSIC_EMPTY_KEY) count_copy(tally, key);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    ulong first = (ulong)get_group_id(0) * KOEL_GROUP * KOEL_SLOTS;
    for (uint i = me; i < KOEL_SLOTS * KOEL_GROUP; i += KOEL_GROUP) {
        if (first + i < first_slot(buckets)) image[first + i] = here[PLACE(i / KOEL_SLOTS, i % KOEL_SLOTS)];
    }
    report_tally(tally, status);
}
