// Signpost tables: all operations except builds and lookups.
//
//   signpost_assign   a work-item per key    overwrites its value
//   signpost_decode   a work-item per cell   returns its pair
//
// All lengths have 64 bits. The global size is a multiple of KOEL_GROUP: work-items past the end do nothing, but reach
// every barrier.

// The keys are distinct, so each slot has one writer. Values are not read.
__kernel GROUP_SIZE void signpost_assign(__global word_type *words, POST_TABLE, __global const key_type *keys,
                                         __global const value_type *new_values, const ulong count) {
    post_table t = THE_POST_TABLE;
    ulong item = get_global_id(0);
    if (item >= count) return;
    ulong to = posted_cell(t, words, keys[item]);
    if (to != NOWHERE) ((__global value_type *)words)[value_at(to / KOEL_SLOTS, to % KOEL_SLOTS)] = new_values[item];
}

__kernel GROUP_SIZE void signpost_decode(__global const word_type *words, POST_TABLE, __global key_type *keys,
                                         __global value_type *values, __global uint *taken_bits) {
    post_table t = THE_POST_TABLE;
    __local ulong answers[KOEL_GROUP / 8];
    ulong cell = get_global_id(0), line = cell / KOEL_SLOTS;
    uint slot = cell % KOEL_SLOTS;
    bool inside = line < (ulong)buckets + stash_buckets, pair = false;
    if (inside) {
        word_type word = words[word_at(line, slot)];
        key_type key = 0;
        if (line < buckets) {
            pair = is_posted_pair(word);
            if (pair) key = key_of_posted(t, (uint)line, word);
        } else {
            pair = holds_pair(word);
            uint bucket = (uint)(line - buckets);
            line_home home = home_of_word(of_stash(t.f), bucket, word, stash_buckets);
            if (pair) key = key_of_line_home(of_stash(t.f), stash_mixer, stash_buckets, home);
        }
        keys[cell] = key;
        values[cell] = pair && KOEL_VALUE_BITS ? ((__global const value_type *)words)[value_at(line, slot)] : 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (cell % 32 == 0 && inside) taken_bits[cell / 32] = pack_answers(answers);
}
