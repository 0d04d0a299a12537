// The canonical build of Horton tables: src/scheme/horton/canonical.rs and group.rs, in parallel.
//
//   horton_distribute   a work-item per pair            counts the pairs of a home; the first S are stored in its slots
//   horton_group        a work-item per bucket          finds duplicates and tags of a home, and initialises its state
//   horton_propose      a work-item per Type B bucket   deferred acceptance of its tokens, and of those they displace
//   horton_entries      a work-item per slot            for each accepted proposal, sets the entry and moves the pair
//   horton_close        a work-item per bucket          writes the bucket's final words; appends pairs to the stash
//   horton_stash_sort   a work-item per stash bucket    (horton_stash.cl)
//
// Until `horton_close`, the first S pairs of a home are in its slots, and those from the S-th on (which is in both) in
// a linked list, from `heads[home]` through `next[pair]`; `counts[home]` is the number of pairs. So the last word of a
// Type B bucket is free, and contains the remap entries from the start. The free slots of Type A buckets contain
// proposals.
//
// No work-item waits for another. Words that others change by atomics in the same kernel are read by `seen32` and
// `seen64`; heavy.clh explains why this is correct.

// Parameters besides `TABLE`: counts, the pairs of each home; heads, the last pair of each home's list; next, the pair
// that follows each in its list. Also stashed, the pairs in each stash bucket.
#define COUNTS __global uint *counts
#define CHAINS __global const uint *keys, __global const uint *values, __global const uint *heads, __global const uint *next

// ---- The keys of one Type B home, from S + 1 to KOEL_HORTON_GROUP_MAX, and which of them leave.

typedef struct {
    uint keys;
    ulong words[KOEL_HORTON_GROUP_MAX];
    uchar tags[KOEL_HORTON_GROUP_MAX];
} group;

static inline void read_group(group *g, table t, __global const ulong *bucket, uint count, uint head,
                              __global const uint *keys, __global const uint *values, __global const uint *next) {
    g->keys = count;
    uint at = head;
    for (uint j = 0; j < count; j++) {
        if (j < KOEL_SLOTS - 1) {
            g->words[j] = bucket[j];
        } else {
            g->words[j] = ((ulong)keys[at] << 32) | values[at];
            at = next[at];
        }
        g->tags[j] = (uchar)home_of(t, upper_of(g->words[j])).y;
    }
}

// Whether a pair is the smallest with its tag.
static inline bool is_least(const group *g, uint at) {
    bool least = true;
    for (uint j = 0; j < g->keys; j++) least &= g->tags[j] != g->tags[at] || g->words[j] >= g->words[at];
    return least;
}

// A bit for each pair that leaves because there are more leaving pairs than tags: the first, by tag and key, of those
// that are not the smallest with their tag.
static inline ulong surplus_of(const group *g, uint surplus) {
    ulong others = 0, chosen = 0;
    for (uint j = 0; j < g->keys; j++) others |= (ulong)!is_least(g, j) << j;
    for (uint j = 0; j < g->keys; j++) {
        if (!((others >> j) & 1)) continue;
        uint before = 0;
        for (uint k = 0; k < g->keys; k++) {
            bool earlier = g->tags[k] < g->tags[j] || (g->tags[k] == g->tags[j] && g->words[k] < g->words[j]);
            before += ((others >> k) & 1) && earlier;
        }
        chosen |= (ulong)(before < surplus) << j;
    }
    return chosen;
}

// ---- The kernels.

__kernel GROUP_SIZE void horton_distribute(__global ulong *image, TABLE, __global const uint *keys,
                                           __global const uint *values, const ulong pairs, COUNTS,
                                           __global uint *heads, __global uint *next, __global ulong *status) {
    table t = THE_TABLE;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < pairs) {
        uint key = keys[item], value = values[item], home = home_of(t, key).x;
        if (key == KOEL_CLASSIC_EMPTY_KEY) {
            count_outside(tally, value);
        } else if (seen32(&counts[home]) <= KOEL_HORTON_GROUP_MAX) {
            uint number = atomic_inc(&counts[home]);
            if (number < KOEL_SLOTS) image[first_slot(home) + number] = ((ulong)key << 32) | value;
            // `next` of the pair that was added first is never read, because pairs are counted.
            if (number >= KOEL_SLOTS - 1) next[item] = atomic_xchg(&heads[home], (uint)item);
        }
        // If there are more, the attempt has failed, and these pairs are never read.
    }
    report_tally(tally, status);
}

__kernel GROUP_SIZE void horton_group(__global ulong *image, TABLE, CHAINS, COUNTS, __global uint *masks,
                                      __global ulong *status) {
    table t = THE_TABLE;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < buckets) {
        uint home = (uint)item, count = counts[home];
        __global ulong *bucket = image + first_slot(home);
        if (count > KOEL_HORTON_GROUP_MAX) {
            // The attempt has failed. The pairs of this home are dropped, because processing that many would be slow.
            count_unplaced(tally);
            counts[home] = count = 0;
        }
        if (count <= KOEL_SLOTS) {
            ulong words[KOEL_SLOTS];
            load_words(bucket, words);
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) {
                bool duplicate = false;
                #pragma unroll
                for (uint k = 0; k < KOEL_SLOTS; k++) duplicate |= k < j && upper_of(words[k]) == upper_of(words[j]);
                if (duplicate && j < count) count_copy(tally, upper_of(words[j]));
                if (j >= count) bucket[j] = KOEL_HORTON_NO_PROPOSAL;
            }
        } else {
            group g;
            read_group(&g, t, bucket, count, heads[home], keys, values, next);
            uint mask = 0;
            for (uint j = 0; j < count; j++) {
                bool duplicate = false;
                for (uint k = 0; k < j; k++) duplicate |= upper_of(g.words[k]) == upper_of(g.words[j]);
                if (duplicate) count_copy(tally, upper_of(g.words[j]));
                mask |= 1u << g.tags[j];
            }
            masks[home] = mask;
            ulong array = 0;
            uint surplus = leavers(count) - token_count(count, mask);
            if (surplus > 0) {
                ulong chosen = surplus_of(&g, surplus);
                for (uint j = 0; j < count; j++) {
                    if ((chosen >> j) & 1) array = with_entry(array, g.tags[j], STASH_CODE);
                }
            }
            bucket[KOEL_SLOTS - 1] = array;
        }
    }
    report_tally(tally, status);
}

// Each iteration makes one proposal, of any token. A work-item processes the tokens of its bucket one by one, each
// followed by all tokens that are displaced in turn. Setting `age` to 0xffffffff makes it 0 in the next iteration,
// which starts the next token. So work-items that run in lockstep diverge by whole proposals only.
__kernel GROUP_SIZE void horton_propose(__global ulong *image, TABLE, __global const uint *counts,
                                        __global const uint *masks) {
    table t = THE_TABLE;
    ulong item = get_global_id(0);
    if (item >= buckets) return;
    uint own_keys = counts[item];
    if (own_keys <= KOEL_SLOTS) return;
    uint own_mask = masks[item], own_tokens = token_count(own_keys, own_mask);
    bool surplus = leavers(own_keys) > own_tokens;
    for (uint started = 0, age = 0, home = 0, token = 0, mask = 0, tokens = 0;; age++) {
        if (age == 0) {
            if (started == own_tokens) return;
            token = started++;
            home = (uint)item;
            mask = own_mask;
            tokens = own_tokens;
            age = 1;
            // With surplus pairs, each token has one tag, and tokens whose entry already means the stash do not
            // propose.
            if (surplus) {
                ulong array = atom_or(&image[first_slot(home) + KOEL_SLOTS - 1], 0UL);
                if (entry(array, nth_bit(mask, token)) != 0) {
                    age = 0xffffffffu;
                    continue;
                }
            }
        }
        uint2 tag_and_function = token_step(mask, tokens, token, age);
        if (tag_and_function.y == 0) {
            // The token has exceeded its last age.
            ulong stashed = with_entry(0, nth_bit(mask, token), STASH_CODE);
            atom_or(&image[first_slot(home) + KOEL_SLOTS - 1], stashed);
            age = 0xffffffffu;
            continue;
        }
        uint target = remap(t, home, tag_and_function.x, tag_and_function.y), own = counts[target];
        if (own >= KOEL_SLOTS) continue;
        ulong mine = proposal(age, home, token), left = offer(image + first_slot(target) + own, KOEL_SLOTS - own, mine);
        if (left == KOEL_HORTON_NO_PROPOSAL) {
            age = 0xffffffffu;
        } else if (left != mine) {
            uint3 displaced = unpacked(left);
            age = displaced.x;
            home = displaced.y;
            token = displaced.z;
            mask = masks[home];
            tokens = token_count(counts[home], mask);
        }
    }
}

// The pairs of Type B homes are only read. Free slots of Type A buckets are only written, each by its own work-item.
__kernel GROUP_SIZE void horton_entries(__global ulong *image, TABLE, CHAINS, __global const uint *counts,
                                        __global const uint *masks) {
    table t = THE_TABLE;
    ulong slot = get_global_id(0);
    if (slot >= first_slot(buckets) || slot % KOEL_SLOTS < counts[slot / KOEL_SLOTS]) return;
    ulong kept = image[slot], leaver = KOEL_CLASSIC_EMPTY;
    if (kept != KOEL_HORTON_NO_PROPOSAL) {
        uint3 proposed = unpacked(kept);
        uint home = proposed.y, mask = masks[home], count = counts[home];
        uint2 tag_and_function = token_step(mask, token_count(count, mask), proposed.z, proposed.x);
        __global ulong *bucket = image + first_slot(home);
        atom_or(&bucket[KOEL_SLOTS - 1], with_entry(0, tag_and_function.x, tag_and_function.y));
        // The smallest pair with the tag leaves.
        uint at = heads[home];
        for (uint j = 0; j < count; j++) {
            ulong pair;
            if (j < KOEL_SLOTS - 1) {
                pair = bucket[j];
            } else {
                pair = ((ulong)keys[at] << 32) | values[at];
                at = next[at];
            }
            bool candidate = home_of(t, upper_of(pair)).y == tag_and_function.x;
            leaver = candidate ? min(leaver, pair) : leaver;
        }
    }
    image[slot] = leaver;
}

__kernel GROUP_SIZE void horton_close(__global ulong *image, TABLE, CHAINS, __global const uint *counts,
                                      __global uint *stashed, __global ulong *status) {
    table t = THE_TABLE;
    __local uint tally[KOEL_TALLY];
    clear_tally(tally);
    ulong item = get_global_id(0);
    if (item < buckets) {
        uint home = (uint)item, count = counts[home];
        __global ulong *bucket = image + first_slot(home);
        ulong words[KOEL_SLOTS];
        if (count <= KOEL_SLOTS) {
            load_words(bucket, words);
            sort_words(words);
            store_ascending(bucket, words);
        } else {
            group g;
            read_group(&g, t, bucket, count, heads[home], keys, values, next);
            ulong array = bucket[KOEL_SLOTS - 1], gone = 0;
            uint mask = 0;
            for (uint j = 0; j < count; j++) {
                mask |= 1u << g.tags[j];
                if (entry(array, g.tags[j]) != 0) gone |= (ulong)is_least(&g, j) << j;
            }
            uint surplus = leavers(count) - token_count(count, mask);
            if (surplus > 0) gone |= surplus_of(&g, surplus);
            // The remaining pairs are inserted into `words`, which stay in descending order.
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) words[j] = 0;
            for (uint j = 0; j < count; j++) {
                ulong pair = g.words[j];
                if (!((gone >> j) & 1)) {
                    #pragma unroll
                    for (uint k = 0; k < KOEL_SLOTS - 1; k++) {
                        ulong greater = max(words[k], pair);
                        pair = min(words[k], pair);
                        words[k] = greater;
                    }
                } else if (entry(array, g.tags[j]) == STASH_CODE) {
                    uint to = stash(t, upper_of(pair)), number = atomic_inc(&stashed[to]);
                    if (number < KOEL_SLOTS) image[first_slot(buckets + to) + number] = pair;
                    else count_unplaced(tally);
                }
            }
            words[KOEL_SLOTS - 1] = array;
            store_words(bucket, words);
        }
    }
    report_tally(tally, status);
}
