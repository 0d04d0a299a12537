// Builds a signpost table from rows that are sorted by mixed key, so by home, and within a home by remainder and tag.
// It implements the rule of src/scheme/signpost/rule.rs with one kernel per step, for any number of pairs, duplicates
// and crowds, on any device.
//
//   signpost_mix       a work-item per key      its mixed key; the rows are then sorted by these
//   signpost_copies    a work-item per row      counts rows with the key of the row before; the host removes them
//   signpost_starts    a work-item per row      the first row of each home
//   signpost_leavers   a work-item per home     its tags; sets the entries of the surplus
//   signpost_offers    a work-item per home     its tokens make offers; rejected and displaced tokens continue
//   signpost_entries   a work-item per bucket   sets the entries of the guests that it accepted
//   signpost_lines     a work-item per bucket   its line; lists the keys of its home that go to the stash
//
// `kept` has an element per slot of the table: offers are stored in those of slots that no native needs.

#define GROUPS __global const key_type *rows, __global const uint *starts

__kernel GROUP_SIZE void signpost_mix(__global key_type *mixed, POST_TABLE, __global const key_type *keys,
                                      const ulong count) {
    post_table t = THE_POST_TABLE;
    ulong item = get_global_id(0);
    if (item < count) mixed[item] = mix_line_key(t.f, mixer, keys[item]);
}

__kernel GROUP_SIZE void signpost_copies(__global const key_type *rows, POST_TABLE, const ulong count,
                                         __global ulong *status) {
    post_table t = THE_POST_TABLE;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong row = get_global_id(0);
    if (row > 0 && row < count && rows[row] == rows[row - 1]) {
        count_wide_copy(tally, status, key_of_posted_home(t, posted_home(t, rows[row])));
    }
    report_tally(tally, status);
}

// There is one more work-item than rows: the element after the last home is the number of rows.
__kernel GROUP_SIZE void signpost_starts(__global uint *starts, POST_TABLE, __global const key_type *rows,
                                         const ulong count) {
    ulong row = get_global_id(0);
    if (row > count) return;
    ulong home = row < count ? split_line_key(rows[row], buckets).home : buckets;
    for (ulong next = row ? split_line_key(rows[row - 1], buckets).home + 1UL : 0; next <= home; next++) {
        starts[next] = (uint)row;
    }
}

static inline uint tag_of_row(post_table t, key_type row) { return tag_of(posted_home(t, row).remainder); }

// Sets an entry that is 0.
static inline void set_entry(__global uint *entries, uint home, uint tag, uint entry) {
    atomic_or(&entries[(ulong)home * ENTRY_WORDS + tag / 8], entry << (tag % 8 * 4));
}

static inline uint entry_here(__global const uint *entries, uint home, uint tag) {
    return entries[(ulong)home * ENTRY_WORDS + tag / 8] >> (tag % 8 * 4) & 0xf;
}

// status[KOEL_ESCAPED] counts the keys that go to the stash.
__kernel GROUP_SIZE void signpost_leavers(__global uint *tags, POST_TABLE, GROUPS, __global uint *entries,
                                          __global ulong *status) {
    post_table t = THE_POST_TABLE;
    if (get_global_id(0) >= buckets) return;
    uint home = (uint)get_global_id(0), first = starts[home], end = starts[home + 1], present = 0;
    for (uint row = first; row < end; row++) present |= 1u << tag_of_row(t, rows[row]);
    tags[home] = present;
    uint surplus = leaving(end - first) - tokens_of(end - first, present);
    if (surplus == 0) return;
    uint stashed = surplus, before = TAGS, before_that = TAGS;
    for (uint row = first; row < end && surplus; row++) {
        uint tag = tag_of_row(t, rows[row]);
        if (tag == before) {
            surplus--;
            if (tag != before_that) {
                set_entry(entries, home, tag, KOEL_SIGNPOST_STASH);
                stashed++;
                before_that = tag;
            }
        }
        before = tag;
    }
    add_to_sum(&status[KOEL_ESCAPED], stashed);
}

// Makes the offers of a token, and then those of the tokens that are displaced, until each is placed or goes to the
// stash.
static inline void make_offers(post_table t, GROUPS, __global const uint *tags, __global uint *entries,
                               __global uint *kept, uint home, uint token, __global ulong *status) {
    uint start = part_of(home, t.buckets).x, position = 0;
    for (;;) {
        uint home_tags = tags[home];
        uint2 offer = offer_of(home_tags, tokens_of(starts[home + 1] - starts[home], home_tags), token, position);
        if (offer.x == NO_OFFER) {
            set_entry(entries, home, nth_bit(home_tags, token), KOEL_SIGNPOST_STASH);
            add_to_sum(&status[KOEL_ESCAPED], 1);
            return;
        }
        uint to = guest_bucket(t, home, offer.x, offer.y), natives = starts[to + 1] - starts[to];
        uint mine = packed_offer(home - start, token, position);
        for (;;) {
            uint least = 0xffffffffu;
            ulong at = 0;
            for (uint j = natives; j < KOEL_SLOTS; j++) {
                uint there = seen32(&kept[first_slot(to) + j]);
                at = there < least ? first_slot(to) + j : at;
                least = min(there, least);
            }
            if (least > mine) break;
            if (atomic_cmpxchg(&kept[at], least, mine) != least) continue;
            if (least == 0) return;
            home = start + home_of_offer(least);
            token = token_of_offer(least);
            position = position_of_offer(least);
            break;
        }
        position++;
    }
}

// If a home has surplus keys, its tokens whose tag has a stash entry make no offers. Such entries were set by
// signpost_leavers. This kernel sets entries as well, but only those of other tags.
__kernel GROUP_SIZE void signpost_offers(__global uint *kept, POST_TABLE, GROUPS, __global const uint *tags,
                                         __global uint *entries, __global ulong *status) {
    post_table t = THE_POST_TABLE;
    if (get_global_id(0) >= buckets) return;
    uint home = (uint)get_global_id(0), count = starts[home + 1] - starts[home], tokens = tokens_of(count, tags[home]);
    bool surplus = leaving(count) > tokens;
    for (uint token = 0; token < tokens; token++) {
        uint tag = nth_bit(tags[home], token);
        if (surplus && seen32(&entries[(ulong)home * ENTRY_WORDS + tag / 8]) >> (tag % 8 * 4) & 0xf) continue;
        make_offers(t, rows, starts, tags, entries, kept, home, token, status);
    }
}

__kernel GROUP_SIZE void signpost_entries(__global const uint *kept, POST_TABLE, GROUPS, __global const uint *tags,
                                          __global uint *entries) {
    if (get_global_id(0) >= buckets) return;
    uint bucket = (uint)get_global_id(0), start = part_of(bucket, buckets).x;
    for (uint j = starts[bucket + 1] - starts[bucket]; j < KOEL_SLOTS; j++) {
        uint offer = kept[first_slot(bucket) + j], home = start + home_of_offer(offer);
        if (offer == 0) continue;
        uint tokens = tokens_of(starts[home + 1] - starts[home], tags[home]);
        uint2 taken = offer_of(tags[home], tokens, token_of_offer(offer), position_of_offer(offer));
        set_entry(entries, home, taken.x, taken.y);
    }
}

// Writes a pair to a slot of a line.
static inline void put_pair(__global word_type *words, ulong line, uint slot, word_type word, value_type value) {
    words[word_at(line, slot)] = word;
    if (KOEL_VALUE_BITS) ((__global value_type *)words)[value_at(line, slot)] = value;
}

// The entries that are stored in the word of a slot.
static inline word_type entries_in_word(__global const uint *entries, uint bucket, uint slot) {
    return KOEL_POSTS == IN_WORDS ? two_entries(entries[(ulong)bucket * ENTRY_WORDS + slot / 4], slot) : 0;
}

// The row of the smallest key of a home with this tag.
static inline uint least_row(post_table t, GROUPS, uint home, uint tag) {
    uint row = starts[home];
    while (row + 1 < starts[home + 1] && tag_of_row(t, rows[row]) != tag) row++;
    return row;
}

// Writes the line of a bucket with at most KOEL_SLOTS natives: guests in descending order, natives in descending order,
// then empty slots.
static inline void fill_line(post_table t, __global word_type *words, GROUPS, __global const value_type *values,
                             __global const uint *tags, __global const uint *kept, uint bucket) {
    uint first = starts[bucket], natives = starts[bucket + 1] - first, start = part_of(bucket, t.buckets).x, guests = 0;
    word_type guest_words[KOEL_SLOTS];
    uint guest_rows[KOEL_SLOTS];
    for (uint j = natives; j < KOEL_SLOTS; j++) {
        uint offer = kept[first_slot(bucket) + j], home = start + home_of_offer(offer);
        if (offer == 0) continue;
        uint tokens = tokens_of(starts[home + 1] - starts[home], tags[home]);
        uint2 taken = offer_of(tags[home], tokens, token_of_offer(offer), position_of_offer(offer));
        uint row = least_row(t, rows, starts, home, taken.x), at = guests++;
        word_type word = line_word(taken.y + 1, posted_home(t, rows[row]).remainder);
        for (; at > 0 && guest_words[at - 1] < word; at--) {
            guest_words[at] = guest_words[at - 1];
            guest_rows[at] = guest_rows[at - 1];
        }
        guest_words[at] = word;
        guest_rows[at] = row;
    }
    for (uint slot = 0; slot < KOEL_SLOTS; slot++) {
        bool guest = slot < guests, pair = slot < guests + natives;
        uint row = guest ? guest_rows[slot] : pair ? first + natives - 1 - (slot - guests) : 0;
        word_type native = pair ? line_word(1, posted_home(t, rows[row]).remainder) : 0;
        put_pair(words, bucket, slot, guest ? guest_words[slot] : native, pair && KOEL_VALUE_BITS ? values[row] : 0);
    }
}

__kernel GROUP_SIZE void signpost_lines(__global word_type *words, POST_TABLE, GROUPS,
                                        __global const value_type *values, __global const uint *tags,
                                        __global const uint *entries, __global const uint *kept,
                                        __global key_type *stash_keys, __global value_type *stash_values,
                                        __global ulong *status) {
    post_table t = THE_POST_TABLE;
    if (get_global_id(0) >= buckets) return;
    uint bucket = (uint)get_global_id(0), first = starts[bucket], count = starts[bucket + 1] - first;
    if (KOEL_POSTS == SPARE_BYTES) ((__global uint *)words)[(ulong)bucket * 16 + KOEL_SPARE] = entries[bucket];
    if (count <= KOEL_SLOTS) {
        fill_line(t, words, rows, starts, values, tags, kept, bucket);
        return;
    }
    uint surplus = leaving(count) - tokens_of(count, tags[bucket]), before = TAGS, slot = KOEL_SLOTS;
    for (uint row = first; row < first + count; row++) {
        line_home home = posted_home(t, rows[row]);
        uint tag = tag_of(home.remainder), entry = entry_here(entries, bucket, tag);
        bool least = tag != before, over = !least && surplus;
        before = tag;
        if (over) surplus--;
        if (over || (least && entry == KOEL_SIGNPOST_STASH)) {
            // The arrays have space for all keys that were counted.
            ulong at = next_of(&status[KOEL_MOVED]);
            stash_keys[at] = key_of_posted_home(t, home);
            if (KOEL_VALUE_BITS) stash_values[at] = values[row];
        } else if ((!least || entry == 0) && slot > 0) {
            slot--;
            word_type word = line_word(1, home.remainder) | entries_in_word(entries, bucket, slot);
            put_pair(words, bucket, slot, word, KOEL_VALUE_BITS ? values[row] : 0);
        }
    }
}
