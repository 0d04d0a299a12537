// The last step of a canonical Horton table's build, whichever way: the stash in its last form.

// `stashed`: pairs in each stash bucket, so far in any order; the words after them do not belong to the table.
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
