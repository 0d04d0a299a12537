// Both kinds of bucketized table, but for lookups: src/spec/bucketized/canonical.rs and classic.rs.
//
// Besides what bucketized.clh lists:
//   KOEL_LOAD_BALANCING   1, or 0 for first-fit      (classic)
//   KOEL_WATCHED          1 where a plain read of what others change by atomics is reported as a race
//
// No work-item waits for another. Place and remove look at a whole bucket with plain loads while others change words of
// it by atomics. What they see may be old, but was there: words only grow (canonical), a taken slot stays taken while
// pairs are placed (classic), and a pair is removed once. So they draw conclusions only from what cannot pass away (a
// greater word, a taken slot), and let an atomic decide the rest. The loads are of 64-bit words, which none tears in
// two. Sixteen bytes a load, because one atomic read for each word would cost more than all else. Simulators are given
// those.
//
// All lengths are 64 bits wide. The global size is a multiple of the group's: work-items past the end do nothing, but
// reach every barrier.

static inline void read_bucket(__global ulong *bucket, ulong *words) {
    #pragma unroll
    for (uint i = 0; i < LOADS; i++) {
#ifdef KOEL_WATCHED
        words[2 * i] = atom_or(&bucket[2 * i], 0UL);
        words[2 * i + 1] = atom_or(&bucket[2 * i + 1], 0UL);
#else
        ulong2 two = ((__global const ulong2 *)bucket)[i];
        words[2 * i] = two.x;
        words[2 * i + 1] = two.y;
#endif
    }
}

#if KOEL_CLASSIC

// ---- Building, classic.

#define NOWHERE 0xffffffffu

#define NO_ROOM 0
#define SETTLED 1
#define A_COPY 2

// A bit for each free slot of a bucket.
static inline uint free_slots(const ulong *words) {
    uint free = 0;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) free |= (uint)(words[j] == KOEL_CLASSIC_EMPTY) << j;
    return free;
}

static inline bool holds(const ulong *words, uint key) {
    bool there = false;
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) there |= upper_of(words[j]) == key;
    return there;
}

// Tries to take the first of these slots that is still free. 1.2 has no count of trailing zeros.
static inline bool take(__global ulong *bucket, uint *free, ulong moving) {
    uint lowest = *free & (0u - *free);
    *free ^= lowest;
    return atom_cmpxchg(&bucket[popcount(lowest - 1)], KOEL_CLASSIC_EMPTY, moving) == KOEL_CLASSIC_EMPTY;
}

// Puts a pair into a free slot of one of its buckets by the table's policy. It was just evicted from bucket `from`,
// which has no room; or it is new, and then it is dropped where its key stands already. (Only then: of two copies that
// were both evicted, each could drop out because of the other.)
static inline int settle(__global ulong *image, functions f, ulong moving, uint from, uint buckets) {
    uint key = upper_of(moving);
    ulong words[KOEL_SLOTS];
#if KOEL_LOAD_BALANCING
    // The free slots of all candidates, KOEL_SLOTS bits each; 64 at the most.
    ulong all = 0;
    #pragma unroll
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        uint at = location(f, i, key, buckets);
        if (at == from) continue;
        read_bucket(image + first_slot(at), words);
        if (from == NOWHERE && holds(words, key)) return A_COPY;
        all |= (ulong)free_slots(words) << (i * KOEL_SLOTS);
    }
    uint first = first_choice(f, key);
    // Each turn strikes a slot off.
    while (all) {
        uint best = 0, free = 0;
        for (uint n = 0; n < KOEL_FUNCTIONS; n++) {
            uint i = (first + n) % KOEL_FUNCTIONS;
            uint room = (uint)(all >> (i * KOEL_SLOTS)) & ((1u << KOEL_SLOTS) - 1);
            best = popcount(room) > popcount(free) ? i : best;
            free = popcount(room) > popcount(free) ? room : free;
        }
        all ^= (ulong)(free & (0u - free)) << (best * KOEL_SLOTS);
        if (take(image + first_slot(location(f, best, key, buckets)), &free, moving)) return SETTLED;
    }
#else
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        uint at = location(f, i, key, buckets);
        if (at == from) continue;
        __global ulong *bucket = image + first_slot(at);
        read_bucket(bucket, words);
        if (from == NOWHERE && holds(words, key)) return A_COPY;
        uint free = free_slots(words);
        while (free) {
            if (take(bucket, &free, moving)) return SETTLED;
        }
    }
#endif
    return NO_ROOM;
}

__kernel GROUP_SIZE void bucketized_place(__global ulong *image, TABLE, const uint reach, __global const uint *keys,
                                          __global const uint *values, const ulong pairs, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < pairs) {
        uint key = keys[item], value = values[item];
        if (key == KOEL_CLASSIC_EMPTY_KEY) {
            count_outside(tally, value);
        } else {
            // A walk and no search: a pair without room takes the place of another, which goes on in its stead.
            ulong moving = ((ulong)key << 32) | value;
            uint from = NOWHERE;
            int became = NO_ROOM;
            for (uint moves = 0; ; moves++) {
                became = settle(image, f, moving, from, buckets);
                if (became != NO_ROOM || moves == reach) break;
                // One pair left over fails the attempt, so those who have been at it for long ask now and then whether
                // there is one, and stop.
                if (moves % 64 == 63 && seen64(&status[KOEL_UNPLACED])) break;
                key = upper_of(moving);
                mix_keys drawn = {moves, 1, 1, from};
                uint random = mix(key, drawn);
                uint i = reduce(random, KOEL_FUNCTIONS), to = location(f, i, key, buckets);
                for (uint n = 1; n < KOEL_FUNCTIONS && to == from; n++) {
                    i = (i + 1) % KOEL_FUNCTIONS;
                    to = location(f, i, key, buckets);
                }
                moving = atom_xchg(&image[first_slot(to) + random % KOEL_SLOTS], moving);
                from = to;
            }
            if (became == A_COPY) count_copy(tally, key);
            // Counted at once and not with the group's tally, so that others see it while this group goes on.
            if (became == NO_ROOM) atom_add(&status[KOEL_UNPLACED], 1UL);
        }
    }
    report_tally(tally, status);
}

// After all pairs have settled: one work-item a slot counts it if a lookup of its key ends elsewhere. Of k pairs with
// one key a lookup finds one, so k - 1 are counted, here or when they were dropped.
__kernel GROUP_SIZE void bucketized_copies(__global const ulong *image, TABLE, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong slot = get_global_id(0);
    if (slot < first_slot(buckets) && taken(image[slot])) {
        uint key = upper_of(image[slot]);
        for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
            ulong first = first_slot(location(f, i, key, buckets)), found = first + KOEL_SLOTS;
            #pragma unroll
            for (uint j = KOEL_SLOTS; j-- > 0;) found = upper_of(image[first + j]) == key ? first + j : found;
            if (found == first + KOEL_SLOTS) continue;
            if (found != slot) count_copy(tally, key);
            break;
        }
    }
    report_tally(tally, status);
}

#else

// ---- Building, canonical.

// What no offer displaces, so it says that the pair met its own key.
#define A_COPY KOEL_TOMBSTONE

// Offers a word to a bucket, and returns what is left without a slot: the word itself, or the one that it displaced.
//
// Every turn but the last saw a slot that had grown meanwhile, and a slot can only grow so often; so this ends. The
// words are kept up to date with what the atomics return. A refusal by words that may be old is final, since each of
// them was greater, and no slot ever holds less than it did.
static inline ulong offer(__global ulong *bucket, ulong mine) {
    ulong words[KOEL_SLOTS];
    read_bucket(bucket, words);
    for (;;) {
        ulong least = words[0];
        uint at = 0, copy_at = KOEL_SLOTS;
        // No word is picked by its index here and below: that would put them on the stack.
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            at = words[j] < least ? j : at;
            least = min(words[j], least);
            copy_at = upper_of(words[j]) == upper_of(mine) ? j : copy_at;
        }
        ulong there = KOEL_SLOT_EMPTY;
        if (copy_at < KOEL_SLOTS) {
            // My own key at my own age: the greater word stays, the other is dropped. Unless it was displaced
            // meanwhile, by a word that is greater than mine too; then the maximum changes nothing. Where mine is not
            // the greater it need not be asked: who drops out for a copy as great leaves that copy behind.
            at = copy_at;
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) there = j == at ? words[j] : there;
            if (there < mine) there = atom_max(&bucket[at], mine);
            if (upper_of(there) == upper_of(mine)) return A_COPY;
        } else {
            if (least > mine) return mine;
            there = atom_cmpxchg(&bucket[at], least, mine);
            if (there == least) return least;
        }
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) words[j] = j == at ? there : words[j];
    }
}

__kernel GROUP_SIZE void bucketized_place(__global ulong *image, TABLE, __global const uint *keys,
                                          __global const uint *values, const ulong pairs, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < pairs) {
        // The key itself is not needed on the way: home and remainder lead to all buckets.
        uint2 home = home_of_key(f, keys[item], buckets);
        uint value = values[item], age = 1;
        while (age <= KOEL_MAX_AGE) {
            uint bucket = bucket_for(f, turn_of(age), home, buckets);
            ulong mine = word(age, home.y, value);
            ulong left = offer(image + first_slot(bucket), mine);
            if (left == A_COPY) count_copy(tally, key_of_home(f, home, buckets));
            if (left == A_COPY || left == KOEL_SLOT_EMPTY) break;
            if (left != mine) {
                age = age_of(upper_of(left));
                uint remainder = remainder_of(upper_of(left));
                home = (uint2)(home_of(f, turn_of(age), bucket, remainder, buckets), remainder);
                value = (uint)left;
            }
            age++;
        }
        if (age > KOEL_MAX_AGE) count_unplaced(tally);
    }
    report_tally(tally, status);
}

// The words of each bucket in descending order: each work-item ranks its own among them. Neighbours look at the others
// from their own on, and so never at one bank of local memory together.
__kernel GROUP_SIZE void bucketized_sort(__global ulong *image, TABLE) {
    __local ulong words[KOEL_GROUP];
    ulong slot = get_global_id(0);
    bool inside = slot < first_slot(buckets);
    uint me = get_local_id(0), at = me % KOEL_SLOTS;
    ulong mine = inside ? image[slot] : 0;
    words[me] = mine;
    // All have read before anyone writes.
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    uint rank = 0;
    #pragma unroll
    for (uint step = 1; step < KOEL_SLOTS; step++) {
        uint other = (at + step) % KOEL_SLOTS;
        ulong there = words[me - at + other];
        rank += there > mine || (there == mine && other < at);
    }
    if (inside && rank != at) image[slot - at + rank] = mine;
}

// After the sort: one work-item a slot counts its word if another of the same key stands at a smaller age, or at the
// same one just before it (equal upper halves are neighbours). Of k words with one key this spares the one that a
// lookup finds, so k - 1 are counted, here or when they were dropped.
//
// Several work-items that look at one bucket at once can miss each other's copies; hence this.
__kernel GROUP_SIZE void bucketized_copies(__global const ulong *image, TABLE, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong slot = get_global_id(0);
    if (slot < first_slot(buckets) && taken(image[slot])) {
        uint here = upper_of(image[slot]), age = age_of(here);
        uint2 home = {home_of(f, turn_of(age), bucket_of(slot), remainder_of(here), buckets), remainder_of(here)};
        bool copy = slot % KOEL_SLOTS > 0 && upper_of(image[slot - 1]) == here;
        for (uint turn = 0; turn < min(age - 1, 3u); turn++) {
            ulong first = first_slot(bucket_for(f, turn, home, buckets));
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) {
                uint there = upper_of(image[first + j]);
                copy |= stands(turn, home, there) && age_of(there) < age;
            }
        }
        if (copy) count_copy(tally, key_of_home(f, home, buckets));
    }
    report_tally(tally, status);
}

// Tombstones and pairs above age 1 leave the image; the pairs are handed out. A sort follows.
__kernel GROUP_SIZE void bucketized_lift(__global ulong *image, TABLE, __global uint *keys, __global uint *values,
                                         __global uint *taken_bits) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    ulong slot = get_global_id(0);
    bool inside = slot < first_slot(buckets), pair = false;
    if (inside) {
        ulong there = image[slot];
        bool lifted = age_of(upper_of(there)) > 1;
        pair = lifted && taken(there);
        keys[slot] = pair ? key_in(f, slot, buckets, there) : 0;
        values[slot] = pair ? (uint)there : 0;
        if (lifted) image[slot] = KOEL_SLOT_EMPTY;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slot % 32 == 0 && inside) taken_bits[slot / 32] = pack_answers(answers);
}

#endif

// ---- Both kinds, by the names at the end of each part of bucketized.clh.

// The keys are distinct, so each slot has one writer. Others may read it meanwhile on their way; therefore the image
// comes as halves: only upper ones (odd) are read, only lower ones (even, the values) are written.
__kernel GROUP_SIZE void bucketized_assign(__global uint *halves, TABLE, __global const uint *keys,
                                           __global const uint *values, const ulong count) {
    functions f = {forth, back};
    ulong item = get_global_id(0);
    if (item >= count) return;
    uint key = keys[item];
#if KOEL_CLASSIC
    if (key == KOEL_CLASSIC_EMPTY_KEY) return;
#endif
    uint2 search = search_of(f, key, buckets);
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        __global uint *bucket = halves + 2 * first_slot(candidate(f, i, search, buckets));
        uint found = KOEL_SLOTS, least = 0;
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            least = bucket[2 * j + 1];
            found = stands(i, search, least) ? j : found;
        }
        if (found < KOEL_SLOTS) bucket[2 * found] = values[item];
        if (found < KOEL_SLOTS || ends(i, search, least)) return;
    }
}

// Several work-items may be after one key. Each exchanges the word it found for the mark; the one that takes the pair
// out counts it.
__kernel GROUP_SIZE void bucketized_remove(__global ulong *image, TABLE, __global const uint *keys, const ulong count,
                                           __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < count) {
        uint key = keys[item];
        uint2 search = search_of(f, key, buckets);
#if KOEL_CLASSIC
        if (key == KOEL_CLASSIC_EMPTY_KEY) atomic_inc(&tally[KOEL_OUTSIDE_COUNT]);
        else
#endif
        for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
            __global ulong *bucket = image + first_slot(candidate(f, i, search, buckets));
            ulong words[KOEL_SLOTS];
            read_bucket(bucket, words);
            uint found = KOEL_SLOTS;
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) found = stands(i, search, upper_of(words[j])) ? j : found;
            if (found < KOEL_SLOTS && atom_xchg(&bucket[found], VACANT) != VACANT) atomic_inc(&tally[KOEL_REMOVED]);
            if (found < KOEL_SLOTS || ends(i, search, upper_of(words[KOEL_SLOTS - 1]))) break;
        }
    }
    report_tally(tally, status);
}

__kernel GROUP_SIZE void bucketized_decode(__global const ulong *image, TABLE, __global uint *keys,
                                           __global uint *values, __global uint *taken_bits) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    ulong slot = get_global_id(0);
    bool inside = slot < first_slot(buckets), pair = false;
    if (inside) {
        ulong there = image[slot];
        pair = taken(there);
        keys[slot] = pair ? key_in(f, slot, buckets, there) : 0;
        values[slot] = pair ? (uint)there : 0;
    }
    put_answer(answers, pair);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slot % 32 == 0 && inside) taken_bits[slot / 32] = pack_answers(answers);
}
