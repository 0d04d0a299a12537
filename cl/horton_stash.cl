// The last step of both builds of a canonical Horton table: sorts the stash.

// `stashed` is the number of pairs in each stash bucket, so far in any order. The words after them are undefined.
__kernel GROUP_SIZE void horton_stash_sort(__global ulong *image, TABLE, __global const uint *stashed) {
    ulong item = get_global_id(0);
    if (item >= stash_buckets) return;
    uint count = stashed[item];
    __global ulong *bucket = image + first_slot(buckets + (uint)item);
    ulong words[KOEL_SLOTS];
    load_words(bucket, words);
    #pragma unroll
    for (uint j = 0; j < KOEL_SLOTS; j++) words[j] = j < count ? words[j] : KOEL_CLASSIC_EMPTY;
    sort_words(words);
    store_ascending(bucket, words);
}
