// A signpost table built part by part, from rows that cl/bucketized_wide_deal.cl has dealt to shares of the parts. Guests stay in
// the part of their home, so one group sees in its local memory all that the rule asks for, and each line is written once.
//
//   arrive     each row's word to its home line, or, if that is full, to a chain behind it
//   leavers    of each full home the tags, the signposts of the surplus, and a list of tokens
//   offer      tokens, as they come, to slots that no native needs: offers stand there for now
//   guests     each offer gives way to the word of its guest, and sets a signpost; then words of the chains take the places of
//              those that left
//   find       lines are in order: each row looks for its word and writes where it stands, or goes to the stash
//
// What has no place here is counted in status[KOEL_MOVED]: a share, a chain or a home that is too long, keys that come again.
// Then the image is of no use, and cl/signpost_build.cl makes it.

// Words in all chains. The mean at load 0.95 is six standard deviations less.
#define CHAINED (PART_LINES * (KOEL_SLOTS < 8 ? 2 : KOEL_SLOTS < 16 ? 3 : 4) / 2)
// Words of a home that a mask has bits for.
#define MOST_WORDS 64
// Rows of the stash that are listed at once.
#define STASHED 64

// The local memory of a group.
typedef struct {
    // Natives, offers, guests.
    __local word_type *words;
    // Of each line: its keys, the first place of its chain, its tags, its signposts.
    __local uint *counts, *heads, *tags, *entries;
    // Of each place of a chain: the word, and the place before it.
    __local word_type *chained;
    __local ushort *behind;
} near_part;

// Word number i of a home, in turn from 0: those of its slots, then those of its chain, whose next place `chain` holds.
INLINED word_type word_in_turn(near_part p, uint line, uint i, uint *chain) {
    if (i < KOEL_SLOTS) return p.words[place_of(line, i)];
    word_type word = p.chained[*chain];
    *chain = p.behind[*chain];
    return word;
}

static inline uint tag_in(word_type word) { return tag_of(posted_remainder(word)); }

INLINED uint near_entry(near_part p, uint line, uint tag) {
    return p.entries[line * ENTRY_WORDS + tag / 8] >> (tag % 8 * 4) & 0xf;
}

INLINED void set_near_entry(near_part p, uint line, uint tag, uint entry) {
    atomic_or(&p.entries[line * ENTRY_WORDS + tag / 8], entry << (tag % 8 * 4));
}

// Whether no word of a home with the same tag is less.
INLINED bool is_least(near_part p, uint line, word_type word) {
    uint chain = p.heads[line];
    for (uint i = 0; i < p.counts[line]; i++) {
        word_type other = word_in_turn(p, line, i, &chain);
        if (other < word && tag_in(other) == tag_in(word)) return false;
    }
    return true;
}

// Whether a word is among the `surplus` least of a home that are not the least of their tags.
INLINED bool is_surplus(near_part p, uint line, word_type word, uint surplus) {
    if (surplus == 0 || is_least(p, line, word)) return false;
    uint before = 0, chain = p.heads[line];
    for (uint i = 0; i < p.counts[line]; i++) {
        word_type other = word_in_turn(p, line, i, &chain);
        before += other < word && !is_least(p, line, other);
    }
    return before < surplus;
}

INLINED uint surplus_of(near_part p, uint line) {
    return leaving(p.counts[line]) - tokens_of(p.counts[line], p.tags[line]);
}

// Whether a key comes again among the words of a line and its chain.
INLINED bool has_copies(near_part p, uint line) {
    word_type words[KOEL_SLOTS];
    bool copy = false;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) {
        words[j] = p.words[place_of(line, j)];
        #pragma unroll
        for (uint i = 0; i < j; i++) copy |= words[i] == words[j] && words[j] != 0;
    }
    uint chain = p.heads[line];
    for (uint i = KOEL_SLOTS; i < p.counts[line]; i++) {
        word_type mine = word_in_turn(p, line, i, &chain);
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) copy |= words[j] == mine;
        for (uint j = i + 1, others = chain; j < p.counts[line]; j++) copy |= word_in_turn(p, line, j, &others) == mine;
    }
    return copy;
}

// The tags of a home, and the signposts of its surplus.
INLINED void prepare_home(near_part p, uint line) {
    uint present = 0, chain = p.heads[line];
    for (uint i = 0; i < p.counts[line]; i++) present |= 1u << tag_in(word_in_turn(p, line, i, &chain));
    p.tags[line] = present;
    uint surplus = surplus_of(p, line);
    chain = p.heads[line];
    for (uint i = 0; surplus && i < p.counts[line]; i++) {
        word_type word = word_in_turn(p, line, i, &chain);
        if (is_surplus(p, line, word, surplus)) set_near_entry(p, line, tag_in(word), KOEL_SIGNPOST_STASH);
    }
}

// An offer stands in the lower half of a word.
INLINED __local uint *offer_at(near_part p, uint at) { return (__local uint *)p.words + at * (KOEL_KEY_BITS / 32); }

// An offer that others may change.
INLINED uint seen_offer(__local uint *offer) {
#ifdef KOEL_WATCHED
    return atomic_or(offer, 0u);
#else
    return *(volatile __local uint *)offer;
#endif
}

// Tag and function of an offer.
INLINED uint2 offer_in(near_part p, uint line, uint token, uint position) {
    return offer_of(p.tags[line], tokens_of(p.counts[line], p.tags[line]), token, position);
}

// Follows a token, and all whom it displaces, to the end.
INLINED void follow(near_part p, functions f, uint width, uint line, uint token) {
    uint position = 0;
    for (;;) {
        uint2 offer = offer_in(p, line, token, position);
        if (offer.x == NO_OFFER) {
            set_near_entry(p, line, nth_bit(p.tags[line], token), KOEL_SIGNPOST_STASH);
            return;
        }
        uint to = wrapped(line + post_step(f, offer.x, offer.y, width), width);
        uint mine = packed_offer(line, token, position), least;
        for (;;) {
            uint at = 0;
            least = NO_OFFER;
            for (uint j = p.counts[to]; j < KOEL_SLOTS; j++) {
                uint there = seen_offer(offer_at(p, place_of(to, j)));
                at = there < least ? place_of(to, j) : at;
                least = min(there, least);
            }
            if (least > mine || atomic_cmpxchg(offer_at(p, at), least, mine) == least) break;
        }
        if (least == 0) return;
        if (least < mine) {
            line = home_of_offer(least);
            token = token_of_offer(least);
            position = position_of_offer(least);
        }
        position++;
    }
}

// Puts the words of guests where their offers stand, and sets their signposts.
INLINED void take_guests_in(near_part p, uint line) {
    for (uint j = p.counts[line]; j < KOEL_SLOTS; j++) {
        uint offer = *offer_at(p, place_of(line, j));
        if (offer == 0) continue;
        uint home = home_of_offer(offer), chain = p.heads[home];
        uint2 taken = offer_in(p, home, token_of_offer(offer), position_of_offer(offer));
        set_near_entry(p, home, taken.x, taken.y);
        word_type least = ~(word_type)0;
        for (uint i = 0; i < p.counts[home]; i++) {
            word_type word = word_in_turn(p, home, i, &chain);
            if (tag_in(word) == taken.x) least = min(least, word);
        }
        p.words[place_of(line, j)] = line_word(taken.y + 1, posted_remainder(least));
    }
}

// Which words of a home leave it.
INLINED ulong gone_from(near_part p, uint line) {
    ulong gone = 0;
    uint surplus = surplus_of(p, line), chain = p.heads[line];
    for (uint i = 0; i < p.counts[line]; i++) {
        word_type word = word_in_turn(p, line, i, &chain);
        bool led = near_entry(p, line, tag_in(word)) && is_least(p, line, word);
        if (led || is_surplus(p, line, word, surplus)) gone |= 1UL << i;
    }
    return gone;
}

// Words of a home's chain that stay take the slots of those that leave.
INLINED void close_ranks(near_part p, uint line) {
    ulong gone = gone_from(p, line);
    uint chain = p.heads[line], next = KOEL_SLOTS;
    for (uint j = 0; j < KOEL_SLOTS; j++) {
        if (!(gone >> j & 1)) continue;
        word_type word;
        // As many of the chain stay as in the slots leave.
        do word = word_in_turn(p, line, next, &chain);
        while (gone >> next++ & 1);
        p.words[place_of(line, j)] = word;
    }
}

// The slot of a line where a word stands, or KOEL_SLOTS.
INLINED uint near_slot(near_part p, uint line, word_type word) {
    uint found = KOEL_SLOTS;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) found = p.words[place_of(line, j)] == word ? j : found;
    return found;
}

INLINED word_type with_entries(near_part p, uint line, uint slot, word_type word) {
    return KOEL_POSTS == WITHIN ? word | two_entries(p.entries[line * ENTRY_WORDS + slot / 4], slot) : word;
}

// Word and value of a slot are written at once where they are neighbours, and otherwise the value alone: by whoever has it.
INLINED void write_row(near_part p, __global word_type *image, uint start, uint line, uint slot, word_type word,
                       value_type value) {
#if KOEL_WORD_STRIDE == 2
    word = with_entries(p, line, slot, word);
#if KOEL_KEY_BITS == 64
    ((__global ulong2 *)image)[((ulong)start + line) * KOEL_SLOTS + slot] = (ulong2)(word, value);
#else
    ((__global uint2 *)image)[((ulong)start + line) * KOEL_SLOTS + slot] = (uint2)(word, value);
#endif
#elif KOEL_VALUE_BITS
    ((__global value_type *)image)[value_at((ulong)start + line, slot)] = value;
#endif
}

// Whatever no row writes: words, where they are not beside values; values of empty slots; signposts outside of words.
INLINED void write_rest(near_part p, __global word_type *image, __global uint *behind, uint start, uint width) {
    for (uint i = get_local_id(0); i < width * KOEL_SLOTS; i += KOEL_GROUP) {
        uint line = i / KOEL_SLOTS, slot = i % KOEL_SLOTS;
        word_type word = p.words[place_of(line, slot)];
        if (word == 0) write_row(p, image, start, line, slot, 0, 0);
        if (KOEL_WORD_STRIDE == 1) image[word_at((ulong)start + line, slot)] = with_entries(p, line, slot, word);
    }
    for (uint i = get_local_id(0); KOEL_POSTS != WITHIN && i < width * ENTRY_WORDS; i += KOEL_GROUP) {
        if (KOEL_POSTS == SPARE) ((__global uint *)image)[((ulong)start + i) * 16 + KOEL_SPARE] = p.entries[i];
        else behind[(ulong)start * ENTRY_WORDS + i] = p.entries[i];
    }
}

__kernel GROUP_SIZE void signpost_parts(__global word_type *image, POST_TABLE, __global const word_type *shares,
                                        const uint share_lines, __global const uint *dealt, __global uint *behind,
                                        __global key_type *stash_keys, __global value_type *stash_values,
                                        const ulong stash_room, __global ulong *status) {
    post_table t = THE_POST_TABLE;
    __local ulong tile[(TILE_WORDS * KOEL_KEY_BITS + 63) / 64];
    __local word_type chained[CHAINED];
    __local ushort before[CHAINED], listed[CHAINED], stashed[STASHED];
    __local uint counts[PART_LINES], heads[PART_LINES], tags[PART_LINES], entries[PART_LINES * ENTRY_WORDS];
    // Words in chains; tokens listed and taken; rows of the stash; whether this part has no place here.
    __local uint late, tokens, taken, leave, unfit;
    __local ulong stash_base;
    near_part p = {(__local word_type *)tile, counts, heads, tags, entries, chained, before};
    uint me = get_local_id(0), number = get_group_id(0);
    uint2 whole = part_of(number << KOEL_PART_BITS, buckets);
    uint start = whole.x, width = whole.y;
    share s = share_of(number, share_lines, (number + 1) * share_lines);
    __global const key_type *keys = shares + s.keys;
    __global const value_type *values = (__global const value_type *)shares + s.values;
    uint count = min(dealt[number], s.room);

    if (me == 0) {
        late = tokens = taken = leave = 0;
        unfit = dealt[number] > s.room;
    }
    for (uint i = me; i < TILE_WORDS; i += KOEL_GROUP) p.words[i] = 0;
    for (uint i = me; i < PART_LINES; i += KOEL_GROUP) counts[i] = heads[i] = tags[i] = 0;
    for (uint i = me; i < PART_LINES * ENTRY_WORDS; i += KOEL_GROUP) entries[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    for (uint first = 0; first * KOEL_GROUP < count; first += AT_ONCE) {
        key_type mixed[AT_ONCE];
        read_rows(keys, first, count, mixed);
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            if (me + (first + j) * KOEL_GROUP >= count) continue;
            line_home home = posted_home(t, mixed[j]);
            uint line = home.home - start, rank = atomic_inc(&counts[line]);
            if (rank < KOEL_SLOTS) {
                p.words[place_of(line, rank)] = line_word(1, home.remainder);
                continue;
            }
            uint at = atomic_inc(&late);
            if (at >= CHAINED) continue;
            chained[at] = line_word(1, home.remainder);
            before[at] = (ushort)atomic_xchg(&heads[line], at);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (uint line = me; line < width; line += KOEL_GROUP) {
        if (counts[line] > MOST_WORDS || late > CHAINED || has_copies(p, line)) {
            atomic_or(&unfit, 1u);
            continue;
        }
        if (counts[line] <= KOEL_SLOTS) continue;
        prepare_home(p, line);
        uint of_home = tokens_of(counts[line], tags[line]);
        for (uint token = 0; token < of_home; token++) {
            // Of a tag that means the stash from the start none is listed.
            if (near_entry(p, line, nth_bit(tags[line], token))) continue;
            listed[atomic_inc(&tokens)] = (ushort)(line << OFFER_TOKEN_BITS | token);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (unfit) {
        if (me == 0) atom_add(&status[KOEL_MOVED], 1UL);
        return;
    }

    for (uint i = atomic_inc(&taken); i < tokens; i = atomic_inc(&taken)) {
        follow(p, t.f, width, listed[i] >> OFFER_TOKEN_BITS, LOW(listed[i], OFFER_TOKEN_BITS));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint line = me; line < width; line += KOEL_GROUP) take_guests_in(p, line);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint line = me; line < width; line += KOEL_GROUP) {
        if (counts[line] > KOEL_SLOTS) close_ranks(p, line);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    sort_lines(p.words, width);
    barrier(CLK_LOCAL_MEM_FENCE);

    write_rest(p, image, behind, start, width);
    for (uint first = 0; first * KOEL_GROUP < count; first += AT_ONCE) {
        key_type mixed[AT_ONCE];
        read_rows(keys, first, count, mixed);
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint row = me + (first + j) * KOEL_GROUP;
            if (row >= count) continue;
            line_home home = posted_home(t, mixed[j]);
            uint line = home.home - start, age = 1, slot = near_slot(p, line, line_word(1, home.remainder));
            if (slot == KOEL_SLOTS) {
                uint tag = tag_of(home.remainder), entry = near_entry(p, line, tag);
                if (entry == KOEL_SIGNPOST_STASH) {
                    uint at = atomic_inc(&leave);
                    if (at < STASHED) stashed[at] = row;
                    else atom_add(&status[KOEL_MOVED], 1UL);
                    continue;
                }
                age = entry + 1;
                line = wrapped(line + post_step(t.f, tag, entry, width), width);
                slot = near_slot(p, line, line_word(age, home.remainder));
            }
            write_row(p, image, start, line, slot, line_word(age, home.remainder), KOEL_VALUE_BITS ? values[row] : 0);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (leave == 0) return;
    if (me == 0) stash_base = atom_add(&status[KOEL_ESCAPED], (ulong)leave);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < min(leave, (uint)STASHED); i += KOEL_GROUP) {
        if (stash_base + i >= stash_room) continue;
        stash_keys[stash_base + i] = key_of_posted_home(t, posted_home(t, keys[stashed[i]]));
        if (KOEL_VALUE_BITS) stash_values[stash_base + i] = values[stashed[i]];
    }
}
