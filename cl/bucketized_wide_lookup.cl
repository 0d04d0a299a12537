// Lookups in lines of 64 bytes, in two variants for different devices (src/opencl/passes/shape.rs). Lines and lanes are
// in wide_lookup.clh.

#if KOEL_LANES == 1

// One work-item per key, with all loads of a line in flight at once.
__kernel GROUP_SIZE void lines_lookup(__global const ulong8 *image, LINE_TABLE, __global const key_type *queries,
                                      const ulong count, LINE_ANSWERS) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        line_home home = home_of_line_key(f, mixer, buckets, queries[item]);
        value_type value = 0;
        for (uint turn = 0; turn < 3; turn++) {
            whole_line line;
            line.all = image[line_for(f, turn, home, buckets)];
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) {
                bool mine = is_of(turn, home.remainder, line.words[j * KOEL_WORD_STRIDE]);
                hit |= mine;
                if (WANT_VALUES) value = mine ? line.values[KOEL_FIRST_VALUE + j * KOEL_VALUE_STRIDE] : value;
            }
            word_type last = line.words[(KOEL_SLOTS - 1) * KOEL_WORD_STRIDE];
            if (hit || last < line_word(turn + 1, home.remainder)) break;
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

// Few keys need a further line: these are listed, and four adjacent work-items read the line of each.

// Searches 16 bytes of a line for query number `query`. Sets its slot plus one, whether it may be in a further line,
// and values.
INLINED void search_words(ulong2 here, uint turn, key_type remainder, uint query, __local uint *slots,
                         __local uint *further, __local value_type *kept) {
    uint lane = get_local_id(0) % KOEL_LANES;
    word_type words[WORDS_OF_A_LANE] = WORDS_IN(here);
    value_type values[VALUES_OF_A_LANE] = VALUES_IN(here);
    #pragma unroll
    for (uint i = 0; i < WORDS_OF_A_LANE; i += KOEL_WORD_STRIDE) {
        uint slot = (lane * WORDS_OF_A_LANE + i) / KOEL_WORD_STRIDE;
        if (slot >= KOEL_SLOTS) break;
        if (is_of(turn, remainder, words[i])) {
            slots[query] = slot + 1;
            KEEP_NEIGHBOUR(i, query);
        }
        if (slot == KOEL_SLOTS - 1) further[query] = words[i] >= line_word(turn + 1, remainder);
    }
    keep_values(here, query, kept);
}

__kernel GROUP_SIZE void lines_lookup(__global const ulong2 *image, LINE_TABLE, __global const key_type *queries,
                                      const ulong count, LINE_ANSWERS) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    __local key_type remainders[KOEL_GROUP] ALIGNED;
    __local uint at[KOEL_GROUP] ALIGNED, slots[KOEL_GROUP], further[KOEL_GROUP], waiting[2];
    __local value_type kept[KEPT_VALUES];
    __local ushort listed[KOEL_GROUP];
    ulong item = get_global_id(0);
    uint me = get_local_id(0), lane = me % KOEL_LANES, base = me - lane;
    bool is_query = item < count;
    line_home home = home_of_line_key(f, mixer, buckets, is_query ? queries[item] : 0);
    remainders[me] = home.remainder;
    at[me] = home.home;
    slots[me] = 0;
    if (me < 2) waiting[me] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    ulong2 here[KOEL_LANES];
    uint lines[KOEL_LANES];
    vstore4(*(__local const uint4 *)&at[base], 0, lines);
    #pragma unroll
    for (uint k = 0; k < KOEL_LANES; k++) here[k] = image[(ulong)lines[k] * KOEL_LANES + lane];
    key_type remainders_of[KOEL_LANES];
    four_words(remainders, base, remainders_of);
    #pragma unroll
    for (uint k = 0; k < KOEL_LANES; k++) search_words(here[k], 0, remainders_of[k], base + k, slots, further, kept);
    barrier(CLK_LOCAL_MEM_FENCE);

    uint found_in = is_query ? slots[me] : 0;
    bool open = is_query && !found_in && further[me];
    value_type value = 0;
    if (WANT_VALUES && found_in) value = kept[KEPT_AT(found_in - 1, me)];
    #pragma unroll
    for (uint turn = 1; turn < 3; turn++) {
        if (open) {
            uint place = atomic_inc(&waiting[turn - 1]);
            listed[place] = (ushort)me;
            at[place] = line_for(f, turn, home, buckets);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint task = me; task < waiting[turn - 1] * KOEL_LANES; task += KOEL_GROUP) {
            uint query = listed[task / KOEL_LANES];
            ulong2 more = image[(ulong)at[task / KOEL_LANES] * KOEL_LANES + lane];
            search_words(more, turn, remainders[query], query, slots, further, kept);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (open) {
            found_in = slots[me];
            if (WANT_VALUES && found_in) value = kept[KEPT_AT(found_in - 1, me)];
            open = !found_in && further[me];
        }
    }
    put_answer(answers, found_in != 0);
#if !KOEL_BITS_ALONE
    if (is_query) values[item] = value;
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#endif
