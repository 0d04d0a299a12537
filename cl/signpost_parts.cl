// A signpost table built part by part, from rows that cl/bucketized_wide_deal.cl has dealt to shares of the parts. Guests stay in
// the part of their home, so one group sees in its local memory all that the rule asks for, and each line is written once.
//
//   arrive     each row's word to its home line, or, if that is full, to a chain behind it
//   surplus    of the few homes that have any, to the stash
//   settle     tokens offer; offers go to slots that no native needs, and stand there for now
//   guests     each offer gives way to the word of its guest, sets a signpost and notes who is gone
//   close      words of the chains that are not gone take the slots of those that are; then lines are put in order
//   find       each row looks for its word, or goes to the stash
//   hand in    words are written, and values, which came to the places of their words
//
// What has no place here is counted in status[KOEL_MOVED]: a share, a chain or a home that is too long, keys that come again.
// Then the image is of no use, and cl/signpost_build.cl makes it.

// Words in all chains. The mean at load 0.95 is six standard deviations less.
#define CHAINED (PART_LINES * (KOEL_SLOTS < 8 ? 2 : KOEL_SLOTS < 16 ? 3 : 4) / 2)
// Words of a home, of which a mask has a bit each.
#define MASKS (KOEL_SLOTS < 16 ? 1 : 2)
#define MOST_WORDS (32 * MASKS)
// Rows of the stash that are listed at once.
#define STASHED 64
// The most rows of a part, whatever chance brings.
#define PART_ROWS (PART_SLOTS / 4 * 5)
// Slots of a part for each work-item.
#define SLOTS_EACH ((PART_SLOTS + KOEL_GROUP - 1) / KOEL_GROUP)
// Instead of a place: the row is no row of the lines.
#define GONE 0xffff
// What is known of lines and chains, and in the same bytes, when lines are in order, where each row's word stands.
#define BEFORE (CHAINED * (KOEL_KEY_BITS / 8 + 6) + 4 * (LINE_INFOS + PART_LINES * (1 + MASKS)))
#define AFTER (KOEL_VALUE_BITS ? 2 * PART_ROWS : 0)
#define SCRATCH (BEFORE > AFTER ? BEFORE : AFTER)
#define TILE_BITS (KOEL_VALUE_BITS > KOEL_KEY_BITS ? KOEL_VALUE_BITS : KOEL_KEY_BITS)

// What is known of a line: how many keys have it as their home, and which tags those have.
#if KOEL_TAG_BITS < 5
#define LINE_INFOS PART_LINES
#define COUNT_OF(p, line) ((p).infos[line] & 0xffff)
#define TAGS_OF(p, line) ((p).infos[line] >> 16)
#define NOTE_TAG(p, line, tag) atomic_or(&(p).infos[line], 0x10000u << (tag))
#else
#define LINE_INFOS (2 * PART_LINES)
#define COUNT_OF(p, line) (p).infos[line]
#define TAGS_OF(p, line) (p).infos[PART_LINES + (line)]
#define NOTE_TAG(p, line, tag) atomic_or(&(p).infos[PART_LINES + (line)], 1u << (tag))
#endif

// A link of a chain: [number in its chain][place of the one before][line].
#define LINK(line, place, number) ((number) << 20 | (place) << 10 | (line))
#define LINE_OF_LINK(link) ((link) & 0x3ff)
#define PLACE_BEFORE(link) ((link) >> 10 & 0x3ff)
#define NUMBER_OF(link) ((link) >> 20)

// The local memory of a group.
typedef struct {
    // Natives, offers, guests.
    __local word_type *words;
    // Of each line: what is known, the last place of its chain, its signposts, which of its words are gone.
    __local uint *infos, *chains, *entries, *gone;
    // Of each place of a chain.
    __local word_type *chained;
    __local uint *links;
} near_part;

static inline uint tag_in(word_type word) { return tag_of(posted_remainder(word)); }

INLINED uint near_entry(near_part p, uint line, uint tag) {
    return p.entries[line * ENTRY_WORDS + tag / 8] >> (tag % 8 * 4) & 0xf;
}

INLINED void set_near_entry(near_part p, uint line, uint tag, uint entry) {
    atomic_or(&p.entries[line * ENTRY_WORDS + tag / 8], entry << (tag % 8 * 4));
}

// Words of a home are numbered: those of its slots, then those of its chain. A bit for each that is gone.
INLINED void note_gone(near_part p, uint line, uint number) {
    atomic_or(&p.gone[line * MASKS + number / 32], 1u << (number % 32));
}
INLINED ulong gone_from(near_part p, uint line) {
    return p.gone[line * MASKS] | (MASKS > 1 ? (ulong)p.gone[line * MASKS + MASKS - 1] << 32 : 0);
}

// The least word of a full home with this tag, and its number. Another that is the same is a copy. All slots are read at
// once, then the chain.
INLINED word_type least_with(near_part p, uint line, uint tag, uint *number, bool *copy) {
    word_type least = ~(word_type)0;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) {
        word_type word = p.words[place_of(line, j)];
        bool less = tag_in(word) == tag && word < least;
        *copy |= word == least;
        *number = less ? j : *number;
        least = less ? word : least;
    }
    for (uint i = COUNT_OF(p, line) - KOEL_SLOTS, at = p.chains[line]; i > 0; i--) {
        word_type word = p.chained[at];
        uint link = p.links[at];
        bool less = tag_in(word) == tag && word < least;
        *copy |= word == least;
        *number = less ? KOEL_SLOTS + NUMBER_OF(link) : *number;
        least = less ? word : least;
        at = PLACE_BEFORE(link);
    }
    return least;
}

// Sends the surplus of a home to the stash: the least `surplus` of its words that are not the least of their tags, and those
// that are, of the same tags. One home in some hundred has any.
INLINED void stash_surplus(near_part p, uint line, uint surplus, bool *copy) {
    ulong first = 0, gone = 0;
    uint number = 0, stashed = 0;
    for (uint tags = TAGS_OF(p, line); tags; tags &= tags - 1) {
        least_with(p, line, nth_bit(tags, 0), &number, copy);
        first |= 1UL << number;
    }
    for (; surplus > 0; surplus--) {
        word_type least = ~(word_type)0;
        uint chosen = 0, at = p.chains[line];
        for (uint i = 0; i < COUNT_OF(p, line); i++) {
            bool chain = i >= KOEL_SLOTS;
            word_type word = chain ? p.chained[at] : p.words[place_of(line, i)];
            number = chain ? KOEL_SLOTS + NUMBER_OF(p.links[at]) : i;
            if (chain) at = PLACE_BEFORE(p.links[at]);
            if ((first | gone) >> number & 1 || word > least) continue;
            *copy |= word == least;
            least = word;
            chosen = number;
        }
        gone |= 1UL << chosen;
        stashed |= 1u << (tag_in(least) % TAGS);
    }
    for (; stashed; stashed &= stashed - 1) {
        least_with(p, line, nth_bit(stashed, 0), &number, copy);
        gone |= 1UL << number;
        set_near_entry(p, line, nth_bit(stashed, 0), KOEL_SIGNPOST_STASH);
    }
    for (uint i = 0; i < MASKS; i++) atomic_or(&p.gone[line * MASKS + i], (uint)(gone >> (32 * i)));
}

// The slot of a line where a word stands, or KOEL_SLOTS.
INLINED uint near_slot(near_part p, uint line, word_type word) {
    uint found = KOEL_SLOTS;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) found = p.words[place_of(line, j)] == word ? j : found;
    return found;
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

// The least word of a token's tag goes away: its signpost, and who is gone.
INLINED word_type send(near_part p, uint line, uint tag, uint entry, bool *copy) {
    uint number = 0;
    word_type least = least_with(p, line, tag, &number, copy);
    set_near_entry(p, line, tag, entry);
    note_gone(p, line, number);
    return least;
}

// A token on its way: whose it is, how many offers it has made, and what its home has.
typedef struct {
    uint line, number, position, tags, tokens;
} near_token;

INLINED near_token token_of(near_part p, uint line, uint number, uint position) {
    uint tags = TAGS_OF(p, line);
    near_token token = {line, number, position, tags, tokens_of(COUNT_OF(p, line), tags)};
    return token;
}

// One offer of a token. Whether there is one that goes on: the same, or whom it has displaced.
INLINED bool step(near_part p, functions f, uint width, near_token *token, bool *copy) {
    uint2 offer = offer_of(token->tags, token->tokens, token->number, token->position);
    if (offer.x == NO_OFFER) {
        send(p, token->line, nth_bit(token->tags, token->number), KOEL_SIGNPOST_STASH, copy);
        return false;
    }
    uint to = wrapped(token->line + post_step(f, offer.x, offer.y, width), width), natives = COUNT_OF(p, to);
    uint mine = packed_offer(token->line, token->number, token->position), least;
    for (;;) {
        uint at = 0;
        least = NO_OFFER;
        // All reads under way at once.
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            uint there = j < natives ? NO_OFFER : seen_offer(offer_at(p, place_of(to, j)));
            at = there < least ? place_of(to, j) : at;
            least = min(there, least);
        }
        if (least > mine || atomic_cmpxchg(offer_at(p, at), least, mine) == least) break;
    }
    if (least == 0) return false;
    if (least < mine) {
        *token = token_of(p, home_of_offer(least), token_of_offer(least), position_of_offer(least));
    }
    token->position++;
    return true;
}

// The tokens of all homes: a work-item takes the next place of a chain as soon as the token in hand rests. Word number n of a
// home's chain stands for its token number n, if it has so many.
INLINED void settle(near_part p, functions f, uint width, uint in_chains, __local uint *taken, bool *copy) {
    near_token token;
    bool on_its_way = false;
    for (;;) {
        if (!on_its_way) {
            uint at = atomic_inc(taken);
            if (at >= in_chains) return;
            token = token_of(p, LINE_OF_LINK(p.links[at]), NUMBER_OF(p.links[at]), 0);
            // Of a tag that means the stash already nothing is offered.
            bool surplus = leaving(COUNT_OF(p, token.line)) > token.tokens;
            if (token.number >= token.tokens) continue;
            if (surplus && near_entry(p, token.line, nth_bit(token.tags, token.number))) continue;
        }
        on_its_way = step(p, f, width, &token, copy);
    }
}

// Puts the word of a guest where its offer stands.
INLINED void take_guest_in(near_part p, uint at, bool *copy) {
    uint offer = *offer_at(p, at), home = home_of_offer(offer), tags = TAGS_OF(p, home);
    uint2 taken =
        offer_of(tags, tokens_of(COUNT_OF(p, home), tags), token_of_offer(offer), position_of_offer(offer));
    p.words[at] = line_word(taken.y + 1, posted_remainder(send(p, home, taken.x, taken.y, copy)));
}

// A word of a chain that is not gone takes the slot of one that is: as many are not gone here as are gone there.
INLINED void close_rank(near_part p, uint at) {
    uint link = p.links[at], line = LINE_OF_LINK(link), number = NUMBER_OF(link);
    ulong gone = gone_from(p, line), behind = gone >> KOEL_SLOTS;
    if (behind >> number & 1) return;
    uint before = number - (uint)popcount(behind & ((1UL << number) - 1));
    uint slot = nth_bit((uint)gone & ((1u << KOEL_SLOTS) - 1), before);
    // But for copies, of which the image is of no use.
    if (slot < KOEL_SLOTS) p.words[place_of(line, slot)] = p.chained[at];
}

// Writes a part's words, which are in order, and the values of its rows, each to the place of its word: they follow in the same
// local memory, when words have been written or, where both are neighbours, are in registers.
INLINED void hand_in(near_part p, __local const ushort *places, __global const value_type *values, uint count,
                     __global word_type *image, uint start, uint width) {
    uint me = get_local_id(0), empty = 0;
    word_type words[SLOTS_EACH];
    #pragma unroll
    for (uint j = 0; j < SLOTS_EACH; j++) {
        uint i = me + j * KOEL_GROUP, line = i / KOEL_SLOTS, slot = i % KOEL_SLOTS;
        if (line >= width) continue;
        words[j] = p.words[place_of(line, slot)];
        // Who has signposts has no empty slots.
        empty |= (words[j] == 0) << j;
        if (KOEL_POSTS == WITHIN) words[j] |= two_entries(p.entries[line * ENTRY_WORDS + slot / 4], slot);
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
        if (places[row] != GONE) values_here[places[row]] = values[row];
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
                                        const uint share_lines, __global const uint *dealt, __global uint *behind,
                                        __global key_type *stash_keys, __global value_type *stash_values,
                                        const ulong stash_room, __global ulong *status) {
    post_table t = THE_POST_TABLE;
    __local ulong tile[(TILE_WORDS * TILE_BITS + 63) / 64], scratch[(SCRATCH + 7) / 8];
    __local uint entries[PART_LINES * ENTRY_WORDS];
    __local ushort stashed[STASHED];
    // Words in chains; those taken; offers listed; rows of the stash; whether this part has no place here.
    __local uint late, taken, guests, stashed_rows, unfit;
    __local ulong stash_base;
    near_part p;
    p.words = (__local word_type *)tile;
    p.chained = (__local word_type *)scratch;
    p.links = (__local uint *)(p.chained + CHAINED);
    p.infos = p.links + CHAINED;
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
    uint room = min(s.room, (uint)PART_ROWS), count = min(dealt[number], room);

    if (me == 0) {
        late = taken = guests = stashed_rows = 0;
        unfit = dealt[number] > room;
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
            NOTE_TAG(p, line, tag_of(home.remainder));
            if (rank < KOEL_SLOTS) {
                p.words[place_of(line, rank)] = line_word(1, home.remainder);
                continue;
            }
            uint at = atomic_inc(&late);
            if (at >= CHAINED || rank >= MOST_WORDS) {
                atomic_or(&unfit, 1u);
                continue;
            }
            p.chained[at] = line_word(1, home.remainder);
            p.links[at] = LINK(line, atomic_xchg(&p.chains[line], at), rank - KOEL_SLOTS);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    uint in_chains = late;
    bool copy = false;
    // All reach every barrier.
    if (unfit) width = count = in_chains = 0;

    for (uint at = me; at < in_chains; at += KOEL_GROUP) {
        uint line = LINE_OF_LINK(p.links[at]), leavers = leaving(COUNT_OF(p, line)), tokens = popcount(TAGS_OF(p, line));
        if (NUMBER_OF(p.links[at]) == tokens) stash_surplus(p, line, leavers - tokens, &copy);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    settle(p, t.f, width, in_chains, &taken, &copy);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint line = me; line < width; line += KOEL_GROUP) {
        for (uint j = COUNT_OF(p, line); j < KOEL_SLOTS; j++) {
            if (*offer_at(p, place_of(line, j))) listed[atomic_inc(&guests)] = (ushort)place_of(line, j);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < guests; i += KOEL_GROUP) take_guest_in(p, listed[i], &copy);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint at = me; at < in_chains; at += KOEL_GROUP) close_rank(p, at);
    barrier(CLK_LOCAL_MEM_FENCE);
    copy |= sort_lines(p.words, width);
    if (copy) atomic_or(&unfit, 1u);
    barrier(CLK_LOCAL_MEM_FENCE);

    for (uint i = me; KOEL_POSTS != WITHIN && i < width * ENTRY_WORDS; i += KOEL_GROUP) {
        if (KOEL_POSTS == SPARE) ((__global uint *)image)[((ulong)start + i) * 16 + KOEL_SPARE] = entries[i];
        else behind[(ulong)start * ENTRY_WORDS + i] = entries[i];
    }
    for (uint first = 0; first * KOEL_GROUP < count; first += AT_ONCE) {
        key_type mixed[AT_ONCE];
        read_rows(keys, first, count, mixed);
        #pragma unroll
        for (uint j = 0; j < AT_ONCE; j++) {
            uint row = me + (first + j) * KOEL_GROUP;
            if (row >= count) continue;
            line_home home = posted_home(t, mixed[j]);
            uint line = home.home - start, tag = tag_of(home.remainder), entry = near_entry(p, line, tag);
            uint slot = KOEL_VALUE_BITS || entry ? near_slot(p, line, line_word(1, home.remainder)) : 0;
            if (slot == KOEL_SLOTS && entry == KOEL_SIGNPOST_STASH) {
                uint at = atomic_inc(&stashed_rows);
                if (at < STASHED) stashed[at] = row;
                else atom_add(&status[KOEL_MOVED], 1UL);
                if (KOEL_VALUE_BITS) places[row] = GONE;
                continue;
            }
            if (!KOEL_VALUE_BITS) continue;
            if (slot == KOEL_SLOTS) {
                line = wrapped(line + post_step(t.f, tag, entry, width), width);
                slot = near_slot(p, line, line_word(entry + 1, home.remainder));
            }
            places[row] = (ushort)place_of(line, slot);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (me == 0 && unfit) atom_add(&status[KOEL_MOVED], 1UL);
    hand_in(p, places, values, count, image, start, width);
    if (me == 0 && stashed_rows) stash_base = atom_add(&status[KOEL_ESCAPED], (ulong)stashed_rows);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = me; i < min(stashed_rows, (uint)STASHED); i += KOEL_GROUP) {
        if (stash_base + i >= stash_room) continue;
        stash_keys[stash_base + i] = key_of_posted_home(t, posted_home(t, keys[stashed[i]]));
        if (KOEL_VALUE_BITS) stash_values[stash_base + i] = values[stashed[i]];
    }
}
