// Lookups in signpost tables, in two variants for different devices (src/opencl/passes/shape.rs). Lines and lanes are
// defined in wide_lookup.clh.
//
// A query reads its home line. If the key is not there and the entry of its tag is not 0, the query reads the line to
// which the entry leads, or, rarely, the stash.

#if KOEL_LANES == 1

// The entry of a tag, from this line or from the entries after all lines.
static inline uint entry_in(const whole_line *line, __global const uint *image, post_table t, uint home, uint tag) {
#if KOEL_POSTS == IN_WORDS
    word_type word = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) word = j == tag / 2 ? line->words[j * KOEL_WORD_STRIDE] : word;
    return (uint)(word >> (REMAINDER_BITS + tag % 2 * 4)) & 0xf;
#elif KOEL_POSTS == SPARE_BYTES
    return line->integers[KOEL_SPARE] >> (tag * 4) & 0xf;
#else
    return entry_of((__global const word_type *)image, home, tag, t.buckets, t.stash_buckets);
#endif
}

// Returns whether a word is in a line, and its value.
static inline bool line_contains(const whole_line *line, word_type wanted, value_type *value) {
    bool hit = false;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) {
        bool mine = ((line->words[j * KOEL_WORD_STRIDE] ^ wanted) & OF_PAIR) == 0;
        hit |= mine;
        if (WANT_VALUES) *value = mine ? line->values[KOEL_FIRST_VALUE + j * KOEL_VALUE_STRIDE] : *value;
    }
    return hit;
}

__kernel GROUP_SIZE void signpost_lookup(__global ulong8 *image, POST_TABLE, __global const key_type *queries,
                                         const ulong count, LINE_ANSWERS) {
    post_table t = THE_POST_TABLE;
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        key_type key = queries[item];
        line_home home = posted_home_of_key(t, key);
        value_type value = 0;
        whole_line line;
        line.all = image[home.home];
        hit = line_contains(&line, line_word(1, home.remainder), &value);
        uint tag = tag_of(home.remainder), entry = 0;
        if (!hit) entry = entry_in(&line, (__global const uint *)image, t, home.home, tag);
        if (entry >= KOEL_SIGNPOST_STASH) {
            ulong cell = stash_cell(t, (__global word_type *)image, key);
            hit = cell != NOWHERE;
            ulong at = value_at(buckets + cell / KOEL_SLOTS, cell % KOEL_SLOTS);
            if (WANT_VALUES && hit) value = ((__global const value_type *)image)[at];
        } else if (entry) {
            line.all = image[guest_bucket(t, home.home, tag, entry)];
            hit = line_contains(&line, line_word(entry + 1, home.remainder), &value);
        }
#if !KOEL_BITS_ALONE
        values[item] = value;
#endif
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#else

// Compares 16 bytes of a line with the word of query number `query`. If the word is there, stores its slot plus one.
// Also stores the values.
INLINED void compare_lane(ulong2 here, word_type wanted, uint query, __local uint *slots, __local value_type *kept) {
    uint lane = get_local_id(0) % KOEL_LANES;
    word_type words[WORDS_OF_A_LANE] = WORDS_IN(here);
    value_type values[VALUES_OF_A_LANE] = VALUES_IN(here);
    #pragma unroll
    for (uint i = 0; i < WORDS_OF_A_LANE; i += KOEL_WORD_STRIDE) {
        uint slot = (lane * WORDS_OF_A_LANE + i) / KOEL_WORD_STRIDE;
        if (slot >= KOEL_SLOTS || ((words[i] ^ wanted) & OF_PAIR) != 0) continue;
        slots[query] = slot + 1;
        KEEP_NEIGHBOUR(i, query);
    }
    keep_values(here, query, kept);
}

// The work-item that has the entry of a tag, of the four that read the line, stores it for query number `query`.
INLINED void read_entry(ulong2 here, uint tag, uint query, __local uchar *entries) {
    uint lane = get_local_id(0) % KOEL_LANES;
#if KOEL_POSTS == IN_WORDS
    word_type words[WORDS_OF_A_LANE] = WORDS_IN(here);
    #pragma unroll
    for (uint i = 0; i < WORDS_OF_A_LANE; i += KOEL_WORD_STRIDE) {
        uint slot = (lane * WORDS_OF_A_LANE + i) / KOEL_WORD_STRIDE;
        if (slot == tag / 2) entries[query] = (uchar)(words[i] >> (REMAINDER_BITS + tag % 2 * 4) & 0xf);
    }
#elif KOEL_POSTS == SPARE_BYTES
    uint integers[4] = {as_uint4(here).x, as_uint4(here).y, as_uint4(here).z, as_uint4(here).w};
    if (lane == KOEL_SPARE / 4) entries[query] = (uchar)(integers[KOEL_SPARE % 4] >> (tag * 4) & 0xf);
#endif
}

__kernel GROUP_SIZE void signpost_lookup(__global ulong2 *image, POST_TABLE, __global const key_type *queries,
                                         const ulong count, LINE_ANSWERS) {
    post_table t = THE_POST_TABLE;
    __local ulong answers[KOEL_GROUP / 8];
    __local word_type wanted[KOEL_GROUP] ALIGNED;
    __local uint at[KOEL_GROUP] ALIGNED, slots[KOEL_GROUP], waiting;
    __local uchar entries[KOEL_GROUP];
    __local value_type kept[KEPT_VALUES];
    __local ushort listed[KOEL_GROUP];
    ulong item = get_global_id(0);
    uint me = get_local_id(0), lane = me % KOEL_LANES, base = me - lane;
    bool is_query = item < count;
    line_home home = posted_home_of_key(t, is_query ? queries[item] : 0);
    wanted[me] = line_word(1, home.remainder);
    at[me] = home.home;
    slots[me] = 0;
    if (me == 0) waiting = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    ulong2 here[KOEL_LANES];
    uint lines[KOEL_LANES];
    vstore4(*(__local const uint4 *)&at[base], 0, lines);
    #pragma unroll
    for (uint k = 0; k < KOEL_LANES; k++) here[k] = image[(ulong)lines[k] * KOEL_LANES + lane];
    word_type four[KOEL_LANES];
    four_words(wanted, base, four);
    #pragma unroll
    for (uint k = 0; k < KOEL_LANES; k++) {
        compare_lane(here[k], four[k], base + k, slots, kept);
        read_entry(here[k], tag_of(posted_remainder(four[k])), base + k, entries);
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    uint found_in = is_query ? slots[me] : 0, tag = tag_of(home.remainder), entry = 0;
    bool hit = found_in != 0;
    value_type value = 0;
    if (WANT_VALUES && hit) value = kept[KEPT_AT(found_in - 1, me)];
    if (is_query && !hit) {
        entry = KOEL_POSTS == AFTER_LINES
            ? entry_of((__global const word_type *)image, home.home, tag, buckets, stash_buckets) : entries[me];
    }
    bool has_guest = entry - 1 < KOEL_SIGNPOST_FUNCTIONS;
    if (has_guest) {
        uint place = atomic_inc(&waiting);
        listed[place] = (ushort)me;
        at[place] = guest_bucket(t, home.home, tag, entry);
        wanted[me] = line_word(entry + 1, home.remainder);
    } else if (entry) {
        ulong cell = stash_cell(t, (__global word_type *)image, queries[item]);
        hit = cell != NOWHERE;
        ulong there = value_at(buckets + cell / KOEL_SLOTS, cell % KOEL_SLOTS);
        if (WANT_VALUES && hit) value = ((__global const value_type *)image)[there];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint task = me; task < waiting * KOEL_LANES; task += KOEL_GROUP) {
        uint query = listed[task / KOEL_LANES];
        compare_lane(image[(ulong)at[task / KOEL_LANES] * KOEL_LANES + lane], wanted[query], query, slots, kept);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (has_guest && slots[me]) {
        hit = true;
        if (WANT_VALUES) value = kept[KEPT_AT(slots[me] - 1, me)];
    }
    put_answer(answers, hit);
#if !KOEL_BITS_ALONE
    if (is_query) values[item] = value;
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#endif
