// Lookups of runs of keys in both kinds of bucketized table (runs.clh, lines.clh).
//
// Besides the parameters of bucketized.clh, runs.clh and lines.clh:
//   KOEL_AT_ONCE   buckets that are prefetched at once: 1, or all buckets of a key (classic, latency-optimized)

// `matches` for each word of a line.
INLINED words matching(uint i, uint mark, line there) {
#if KOEL_CLASSIC
    return UPPERS(there == (line)(mark));
#else
    line above = rotate(there - (line)(upper(i + 1, mark)), (line)(KOEL_AGE_BITS));
    return UPPERS(above * (line)(0xaaaaaaabu) <= (line)((KOEL_MAX_AGE - 1 - i) / 3));
#endif
}

__kernel BY_ITSELF void bucketized_lookup(__global const uint *image, TABLE, const uint outside,
                                           const uint outside_value, __global const uint *queries, const ulong count,
                                           __global uint *values, __global uint *found) {
    functions f = {forth, back};
    ulong start = get_global_id(0) * KOEL_RUN;
    if (start >= count) return;
    uint len = (uint)min(count - start, (ulong)KOEL_RUN);
    queries += start;
    values += start;
    found += start / 32;
    uint homes[KOEL_RUN], marks[KOEL_RUN], at[KOEL_RUN], bits[KOEL_RUN / 32];
    ushort open[KOEL_RUN];
    for (uint k = 0; k < len; k++) {
        uint2 search = search_of(f, queries[k], buckets);
        homes[k] = search.x;
        marks[k] = search.y;
    }
    for (uint k = 0; k < KOEL_RUN / 32; k++) bits[k] = 0;
    uint left = len;
    for (uint i = 0; i < KOEL_FUNCTIONS; i++) {
        for (uint j = 0; j < left; j++) {
            uint k = i ? open[j] : j;
            at[j] = candidate(f, i, (uint2)(homes[k], marks[k]), buckets);
        }
        if (i % KOEL_AT_ONCE == 0) {
            for (uint j = 0; j < left; j++) ask_for_bucket(image, at[j]);
            for (uint n = 1; n < KOEL_AT_ONCE; n++) {
                for (uint k = 0; k < len; k++) ask_for_bucket(image, candidate(f, n, (uint2)(homes[k], marks[k]), buckets));
            }
        }
        uint now = left;
        left = 0;
        for (uint j = 0; j < now; j++) {
            uint k = i ? open[j] : j;
            ulong reply = 0, last = 0;
            #pragma unroll
            for (uint n = 0; n < LINES; n++) {
                line there = LINE_OF(image, at[j], n);
                reply |= chosen(there, matching(i, marks[k], there));
                last = LAST_OF(AS_WORDS(there));
            }
            values[k] = (uint)reply;
            bits[k / 32] |= upper_of(reply) << (k % 32);
            open[left] = (ushort)k;
            left += !reply & !ends(i, (uint2)(homes[k], marks[k]), upper_of(last));
        }
    }
#if KOEL_CLASSIC
    // The search takes empty slots for pairs with this key.
    answer_outside(queries, len, outside, outside_value, values, bits);
#endif
    for (uint k = 0; k < len; k += 32) found[k / 32] = bits[k / 32];
}
