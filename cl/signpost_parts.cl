// Builds a signpost table one partition at a time, from rows that cl/bucketized_wide_partition.cl has partitioned into
// the shares of the parts. Guests stay in the part of their home, so a group has all data of the rule in local memory,
// and each line is written once.
//
//   arrive     writes each row's word to its home line or, if that is full, to the chain of the line
//   surplus    moves the surplus of the few homes that have any to the stash
//   tokens     places tokens by their offers, which are stored in slots that no native needs
//   guests     replaces each offer by the word of its guest, sets the entry, and marks the word as gone from its home
//   fill       moves each word of a chain that stays in its home to a slot whose word has left; then lines are sorted
//   find       each row finds the position of its word, or goes to the stash
//   write      writes the words, and the values at the positions of their words
//
// Cases that this kernel does not handle are counted in status[KOEL_MOVED]: a share, a chain or a home that is too
// long, and duplicate keys. Then the image is discarded, and cl/signpost_build.cl builds it.

// Writes the sorted words of a part, and the values of its rows at the positions of their words. Values are put in
// order in the local memory of the words, after the words have been written or, if word and value are adjacent in the
// image, loaded into registers.
INLINED void write_lines(local_part p, __local const ushort *places, __global const value_type *values, uint count,
                         __global word_type *image, uint start, uint width) {
    uint me = get_local_id(0), empty = 0;
    word_type words[SLOTS_EACH];
    #pragma unroll
    for (uint j = 0; j < SLOTS_EACH; j++) {
        uint i = me + j * KOEL_GROUP, line = i / KOEL_SLOTS, slot = i % KOEL_SLOTS;
        if (line >= width) continue;
        words[j] = p.words[place_of(line, slot)];
        // A line with entries has no empty slots, so the word of an empty slot remains 0.
        empty |= (words[j] == 0) << j;
        if (KOEL_POSTS == IN_WORDS) words[j] |= two_entries(p.entries[line * ENTRY_WORDS + slot / 4], slot);
        if (KOEL_WORD_STRIDE == 1) image[word_at((ulong)start + line, slot)] = words[j];
    }
#if KOEL_VALUE_BITS
    __local value_type *values_here = (__local value_type *)p.words;
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < SLOTS_EACH; j++) {
        uint i = me + j * KOEL_GROUP;
        if (empty >> j & 1) values_here[place_of(i / KOEL_SLOTS, i % KOEL_SLOTS)] = 0;
    }
    #pragma unroll 4
    for (uint row = me; row < count; row += KOEL_GROUP) {
        if (places[row] != NOT_IN_LINES) values_here[places[row]] = values[row];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (uint j = 0; j < SLOTS_EACH; j++) {
        uint i = me + j * KOEL_GROUP, line = i / KOEL_SLOTS, slot = i % KOEL_SLOTS;
        if (line >= width) continue;
        value_type value = values_here[place_of(line, slot)];
#if KOEL_WORD_STRIDE == 1
        ((__global value_type *)image)[value_at((ulong)start + line, slot)] = value;
#elif KOEL_KEY_BITS == 64
        ((__global ulong2 *)image)[(ulong)start * KOEL_SLOTS + i] = (ulong2)(words[j], value);
#else
        ((__global uint2 *)image)[(ulong)start * KOEL_SLOTS + i] = (uint2)(words[j], value);
#endif
    }
#endif
}

__kernel GROUP_SIZE void signpost_parts(__global word_type *image, POST_TABLE, __global const word_type *shares,
                                        const uint share_lines, __global const uint *row_counts,
                                        __global uint *after_lines, __global key_type *stash_keys,
                                        __global value_type *stash_values, const ulong stash_room,
                                        __global ulong *status) {
    post_table t = THE_POST_TABLE;
    __local ulong tile[(TILE_WORDS * TILE_BITS + 63) / 64], scratch[(SCRATCH + 7) / 8];
    __local uint entries[PART_LINES * ENTRY_WORDS];
    __local ushort stashed[MAX_STASHED];
    // The number of words in chains; of those taken as tokens; of listed offers; of rows for the stash; and whether
    // this kernel cannot build this part.
    __local uint chained_words, taken, guests, stashed_rows, unfit;
    __local ulong stash_base;
    local_part p;
    p.words = (__local word_type *)tile;
    p.chained = (__local word_type *)scratch;
    p.links = (__local uint *)(p.chained + MAX_CHAINED);
    p.infos = p.links + MAX_CHAINED;
    p.chains = p.infos + LINE_INFOS;
    p.gone = p.chains + PART_LINES;
    p.entries = entries;
    __local ushort *listed = (__local ushort *)(p.gone + PART_LINES * MASKS), *places = (__local ushort *)scratch;
    uint me = get_local_id(0), number = get_group_id(0);
    uint2 whole = part_of(number << KOEL_PART_BITS, buckets);
    uint start = whole.x, width = whole.y;
    share s = share_of(number, share_lines, (number + 1) * share_lines);
    __global const key_type *keys = shares + s.keys;
    __global const value_type *values = (__global const value_type *)shares + s.values;
    uint room = min(s.room, (uint)PART_ROWS), count = min(row_counts[number], room);

    if (me == 0) {
        chained_words = taken = guests = stashed_rows = 0;
        unfit = row_counts[number] > room;
    }
    for (uint i = me; i < TILE_WORDS; i += KOEL_GROUP) p.words[i] = 0;
    for (uint i = me; i < LINE_INFOS + PART_LINES * (1 + MASKS); i += KOEL_GROUP) p.infos[i] = 0;
    for (uint i = me; i < PART_LINES * ENTRY_WORDS; i += KOEL_GROUP) entries[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    for (uint first = 0; first * KOEL_GROUP < count; first += AT_ONCE) {
        key_type mixed[AT_ONCE];
        read_rows(keys, first, count, mixed);
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            if (me + (first + j) * KOEL_GROUP >= count) continue;
            line_home home = posted_home(t, mixed[j]);
            uint line = home.home - start, rank = atomic_inc(&p.infos[line]) & 0xffff;
            ADD_TAG(p, line, tag_of(home.remainder));
            if (rank < KOEL_SLOTS) {
                p.words[place_of(line, rank)] = line_word(1, home.remainder);
                continue;
            }
            uint at = atomic_inc(&chained_words);
            if (at >= MAX_CHAINED || rank >= MAX_WORDS) {
                atomic_or(&unfit, 1u);
                continue;
            }
            p.chained[at] = line_word(1, home.remainder);
            p.links[at] = LINK(line, atomic_xchg(&p.chains[line], at), rank - KOEL_SLOTS);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    uint in_chains = chained_words;
    bool duplicate = false;
    // All work-items must reach every barrier, so loops are empty instead.
    if (unfit) width = count = in_chains = 0;

    for (uint at = me; at < in_chains; at += KOEL_GROUP) {
        uint line = LINE_OF_LINK(p.links[at]), leavers = leaving(COUNT_OF(p, line)),
             tokens = popcount(TAGS_OF(p, line));
        if (NUMBER_OF(p.links[at]) == tokens) stash_surplus(p, line, leavers - tokens, &duplicate);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    place_tokens(p, t.f, width, in_chains, &taken, &duplicate);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint line = me; line < width; line += KOEL_GROUP) {
        for (uint j = COUNT_OF(p, line); j < KOEL_SLOTS; j++) {
            if (*offer_at(p, place_of(line, j))) listed[atomic_inc(&guests)] = (ushort)place_of(line, j);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < guests; i += KOEL_GROUP) place_guest(p, listed[i], &duplicate);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint at = me; at < in_chains; at += KOEL_GROUP) fill_slot(p, at);
    barrier(CLK_LOCAL_MEM_FENCE);
    duplicate |= sort_lines(p.words, width);
    if (duplicate) atomic_or(&unfit, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);

    for (uint i = me; KOEL_POSTS != IN_WORDS && i < width * ENTRY_WORDS; i += KOEL_GROUP) {
        if (KOEL_POSTS == SPARE_BYTES) ((__global uint *)image)[((ulong)start + i) * 16 + KOEL_SPARE] = entries[i];
        else after_lines[(ulong)start * ENTRY_WORDS + i] = entries[i];
    }
    for (uint first = 0; first * KOEL_GROUP < count; first += AT_ONCE) {
        key_type mixed[AT_ONCE];
        read_rows(keys, first, count, mixed);
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint row = me + (first + j) * KOEL_GROUP;
            if (row >= count) continue;
            line_home home = posted_home(t, mixed[j]);
            uint line = home.home - start, tag = tag_of(home.remainder), entry = local_entry(p, line, tag);
            uint slot = KOEL_VALUE_BITS || entry ? local_slot(p, line, line_word(1, home.remainder)) : 0;
            if (slot == KOEL_SLOTS && entry == KOEL_SIGNPOST_STASH) {
                uint at = atomic_inc(&stashed_rows);
                if (at < MAX_STASHED) stashed[at] = row;
                else atom_add(&status[KOEL_MOVED], 1UL);
                if (KOEL_VALUE_BITS) places[row] = NOT_IN_LINES;
                continue;
            }
            if (!KOEL_VALUE_BITS) continue;
            if (slot == KOEL_SLOTS) {
                line = wrapped(line + post_step(t.f, tag, entry, width), width);
                slot = local_slot(p, line, line_word(entry + 1, home.remainder));
            }
            // A word is missing only if its key has duplicates.
            places[row] = slot < KOEL_SLOTS ? (ushort)place_of(line, slot) : NOT_IN_LINES;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me == 0 && unfit) atom_add(&status[KOEL_MOVED], 1UL);
    write_lines(p, places, values, count, image, start, width);
    if (me == 0 && stashed_rows) stash_base = atom_add(&status[KOEL_ESCAPED], (ulong)stashed_rows);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < min(stashed_rows, (uint)MAX_STASHED); i += KOEL_GROUP) {
        if (stash_base + i >= stash_room) continue;
        stash_keys[stash_base + i] = key_of_posted_home(t, posted_home(t, keys[stashed[i]]));
        if (KOEL_VALUE_BITS) stash_values[stash_base + i] = values[stashed[i]];
    }
}
