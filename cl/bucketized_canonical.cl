// Builds of canonical bucketized tables: src/scheme/bucketized/canonical.rs, in parallel.
//
//   bucketized_place    a work-item per pair   offers the pair, and then the pairs that are displaced, until one is
//                                              stored in an empty slot
//   bucketized_sort     a work-item per slot   sorts the words of each bucket in descending order
//   bucketized_copies   a work-item per slot   counts words whose key is stored twice
//
// and, after bucketized_parts.cl or bucketized_insert.cl has placed the parts, the same for the remaining pairs:
//
//   bucketized_escapes  bucketized_restore_order  bucketized_recheck   (not in the partial tier)
//
// No work-item waits for another. Words only increase while pairs are placed, so a conclusion from an outdated read
// remains true.

// Offers a word to a bucket. Returns the word that is left without a slot: `mine`, the word that it displaced, or
// A_COPY if `mine` is a duplicate.
//
// Terminates: in every iteration but the last, the slot had increased since it was read, and it can only increase a
// finite number of times. A rejection based on outdated words is final, because each of these words was greater than
// `mine`, and slots never decrease.
//
// A compiler that treats plain reads as reads of unshared memory may read a word twice and get two values. Therefore
// rejection tests the minimum, which was computed from all words, and not a word that is selected afterwards, which may
// have increased. If the minimum is not in its slot, the exchange fails. (Selecting a word by its index would also put
// the array on the stack.)
//
// Of two duplicates, the greater is kept and the other is dropped. If `mine` is not the greater, it needs no slot,
// because a duplicate that is at least as great is stored. If the duplicate has been displaced, then by a word that is
// greater than `mine` too, so the maximum changes nothing.
static inline rival offer(__global rival *bucket, rival mine) {
    rival words[KOEL_SLOTS];
    read_rivals(bucket, words);
    for (;;) {
        rival least = words[0], duplicate = words[0];
        uint at = 0, duplicate_at = KOEL_SLOTS;
        #pragma unroll
        for (uint j = 0; j < KOEL_SLOTS; j++) {
            at = words[j] < least ? j : at;
            least = min(words[j], least);
            duplicate_at = same_key(words[j], mine) ? j : duplicate_at;
            duplicate = same_key(words[j], mine) ? words[j] : duplicate;
        }
        if (duplicate_at < KOEL_SLOTS) {
            if (duplicate < mine) duplicate = RAISE_RIVAL(&bucket[duplicate_at], mine);
            if (same_key(duplicate, mine)) return A_COPY;
        } else {
            if (least > mine) return mine;
            if (EXCHANGE_RIVAL(&bucket[at], least, mine) == least) return least;
        }
        read_again(bucket, words);
    }
}

// Marks a bucket whose words are no longer in order.
static inline void touch(__global uint *touched, uint bucket) {
    uint bit = 1u << (bucket % 32);
    if (!(seen32(&touched[bucket / 32]) & bit)) atomic_or(&touched[bucket / 32], bit);
}

// Offers a pair, and then each displaced pair, until one is stored in an empty slot. Needs no key: home and remainder
// determine all buckets. `touched` may be 0.
INLINED void walk(functions f, __global rival *image, uint buckets, uint2 home, uint value, uint age,
                  __global uint *touched, __local uint *tally) {
    while (age <= KOEL_MAX_AGE) {
        uint bucket = bucket_for(f, turn_of(age), home, buckets);
        rival mine = RIVAL(age, home.y, value);
        rival left = offer(image + first_slot(bucket), mine);
        if (touched && left != mine) touch(touched, bucket);
        if (left == A_COPY) count_copy(tally, key_of_home(f, home, buckets));
        if (left == A_COPY || left == KOEL_SLOT_EMPTY) return;
        if (left != mine) {
            age = age_of(upper_of_rival(left));
            uint remainder = remainder_of(upper_of_rival(left));
            home = (uint2)(home_of(f, turn_of(age), bucket, remainder, buckets), remainder);
            value = (uint)left;
        }
        age++;
    }
    count_unplaced(tally);
}

__kernel GROUP_SIZE void bucketized_place(__global rival *image, TABLE, __global const uint *keys,
                                          __global const uint *values, const ulong pairs, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = from_both_ends();
    if (item < pairs) walk(f, image, buckets, home_of_key(f, keys[item], buckets), values[item], 1, 0, tally);
    report_tally(tally, status);
}

// Sorts the words of each bucket in descending order: each work-item computes the rank of one word. Work-items compare
// with the other words beginning at their own, so they access different banks of local memory.
__kernel GROUP_SIZE void bucketized_sort(__global ulong *image, TABLE) {
    __local ulong words[KOEL_GROUP];
    ulong slot = get_global_id(0);
    bool inside = slot < first_slot(buckets);
    uint me = get_local_id(0), at = me % KOEL_SLOTS;
    ulong mine = inside ? image[slot] : 0;
    words[me] = mine;
    // All words have been read before any is written.
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

// Whether another word of the same key is stored at a smaller age, or at the same age in the slot before (in a sorted
// bucket, equal upper halves are adjacent). True for all words of a key but the one that a lookup finds.
static inline bool is_duplicate(functions f, __global const ulong *image, ulong slot, uint2 home, uint buckets) {
    uint here = upper_of(image[slot]), age = age_of(here);
    bool duplicate = slot % KOEL_SLOTS > 0 && upper_of(image[slot - 1]) == here;
    for (uint turn = 0; turn < min(age - 1, 3u); turn++) {
        // No other work-item writes in this kernel, so plain loads are correct on every device.
        __global const ulong2 *bucket = (__global const ulong2 *)(image + first_slot(bucket_for(f, turn, home, buckets)));
        #pragma unroll
        for (uint j = 0; j < LOADS; j++) {
            ulong2 two = bucket[j];
            duplicate |= matches(turn, home, upper_of(two.x)) && age_of(upper_of(two.x)) < age;
            duplicate |= matches(turn, home, upper_of(two.y)) && age_of(upper_of(two.y)) < age;
        }
    }
    return duplicate;
}

INLINED void check_slot(functions f, __global const ulong *image, ulong slot, uint buckets, __local uint *tally) {
    if (!taken(image[slot])) return;
    uint here = upper_of(image[slot]);
    uint2 home = {home_of(f, turn_of(age_of(here)), bucket_of(slot), remainder_of(here), buckets), remainder_of(here)};
    if (is_duplicate(f, image, slot, home, buckets)) count_copy(tally, key_of_home(f, home, buckets));
}

// Runs after the sort. Of k words with one key, k - 1 are counted, here or when they were dropped.
//
// Work-items that read a bucket at the same time can miss each other's duplicates, so this search is necessary.
__kernel GROUP_SIZE void bucketized_copies(__global const ulong *image, TABLE, __global ulong *status) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong slot = get_global_id(0);
    if (slot < first_slot(buckets)) check_slot(f, image, slot, buckets, tally);
    report_tally(tally, status);
}

// Removes tombstones and pairs above age 1 from the image, and returns these pairs. A sort follows.
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

// ---- After a build or a batch one partition at a time (bucketized_parts.cl, bucketized_insert.cl).

#ifndef KOEL_PARTIAL

// The list of escapes is processed in a grid-stride loop, because only the device knows its length.
__kernel GROUP_SIZE void bucketized_escapes(__global ulong *image, TABLE, ESCAPES, __global uint *touched) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong end = listed_escapes(escapes, status);
    for (ulong item = get_global_id(0); item < end; item += get_global_size(0)) {
        ulong left = escaped_words[item];
        uint2 home = {escaped_homes[item], remainder_of(upper_of(left))};
        walk(f, image, buckets, home, (uint)left, age_of(upper_of(left)), touched, tally);
    }
    report_tally(tally, status);
}

// Sorts the touched buckets: a work-group lists those in its KOEL_GROUP words of marks, and its work-items share them.
__kernel GROUP_SIZE void bucketized_restore_order(__global ulong *image, TABLE, __global const uint *touched) {
    __local ushort list[32 * KOEL_GROUP];
    __local uint listed;
    uint me = get_local_id(0);
    if (me == 0) listed = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    ulong at = get_global_id(0);
    uint marks = at < (buckets + 31) / 32 ? touched[at] : 0;
    uint place = marks ? atomic_add(&listed, popcount(marks)) : 0;
    for (; marks; marks &= marks - 1) list[place++] = me * 32 + popcount((marks & (0u - marks)) - 1);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint first = get_group_id(0) * (32 * KOEL_GROUP);
    for (uint i = me; i < listed; i += KOEL_GROUP) {
        __global ulong2 *bucket = (__global ulong2 *)(image + first_slot(first + list[i]));
        ulong words[KOEL_SLOTS];
        #pragma unroll
        for (uint j = 0; j < LOADS; j++) {
            ulong2 two = bucket[j];
            words[2 * j] = two.x;
            words[2 * j + 1] = two.y;
        }
        sort_words(words);
        #pragma unroll
        for (uint j = 0; j < LOADS; j++) bucket[j] = (ulong2)(words[2 * j], words[2 * j + 1]);
    }
}

// Counts escapes up to age `oldest` whose key is stored twice. After a build, only pairs that were not in their part
// (age 1) are checked, because they were not compared there; after a batch, all escapes.
__kernel GROUP_SIZE void bucketized_recheck(__global const ulong *image, TABLE, ESCAPES, const uint oldest) {
    functions f = {forth, back};
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong end = listed_escapes(escapes, status);
    for (ulong item = get_global_id(0); item < end; item += get_global_size(0)) {
        uint there = upper_of(escaped_words[item]), occurrences = 0;
        if (age_of(there) > oldest) continue;
        uint2 home = {escaped_homes[item], remainder_of(there)};
        for (uint turn = 0; turn < 3; turn++) {
            __global const ulong *bucket = image + first_slot(bucket_for(f, turn, home, buckets));
            for (uint j = 0; j < KOEL_SLOTS; j++) occurrences += matches(turn, home, upper_of(bucket[j]));
        }
        if (occurrences > 1) count_copy(tally, key_of_home(f, home, buckets));
    }
    report_tally(tally, status);
}

#endif
