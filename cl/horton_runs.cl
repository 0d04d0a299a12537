// Lookups of runs of keys in Horton tables (runs.clh, lines.clh). A key has at most one bucket besides its home: the
// one that its remap entry means.

__kernel BY_ITSELF void horton_lookup(__global const uint *image, TABLE, const uint outside, const uint outside_value,
                                       __global const uint *queries, const ulong count, __global uint *values,
                                       __global uint *found) {
    table t = THE_TABLE;
    ulong start = get_global_id(0) * KOEL_RUN;
    if (start >= count) return;
    uint len = (uint)min(count - start, (ulong)KOEL_RUN);
    queries += start;
    values += start;
    found += start / 32;
    uint homes[KOEL_RUN], tags[KOEL_RUN], codes[KOEL_RUN], bits[KOEL_RUN / 32];
    ushort continued[KOEL_RUN];
    for (uint k = 0; k < len; k++) {
        uint2 home = home_of(t, queries[k]);
        homes[k] = home.x;
        tags[k] = home.y;
    }
    for (uint k = 0; k < len; k++) ask_for_bucket(image, homes[k]);
    for (uint k = 0; k < KOEL_RUN / 32; k++) bits[k] = 0;
    uint left = 0;
    for (uint k = 0; k < len; k++) {
        uint key = queries[k], type_b = 0;
        ulong reply = 0, last = 0;
        #pragma unroll
        for (uint n = 0; n < LINES; n++) {
            line there = LINE_OF(image, homes[k], n);
            words ones = UPPERS(there == (line)(key));
            if (n == 0) type_b = is_type_b(there.s1, there.s3);
            last = LAST_OF(AS_WORDS(there));
            // The last word of a Type B bucket is not a pair.
            if (n == LINES - 1) ones &= ALL_BUT_LAST | ((ulong)type_b - 1);
            reply |= chosen(there, ones);
        }
        uint code = entry(last, tags[k]) & (0 - type_b);
        values[k] = (uint)reply;
        bits[k / 32] |= upper_of(reply) << (k % 32);
        continued[left] = (ushort)k;
        codes[left] = code;
        left += !reply & (code - 1 < STASH_CODE);
    }
    uint at[KOEL_RUN];
    for (uint j = 0; j < left; j++) {
        uint k = continued[j];
        at[j] = led(t, queries[k], (uint2)(homes[k], tags[k]), codes[j]);
    }
    for (uint j = 0; j < left; j++) ask_for_bucket(image, at[j]);
    for (uint j = 0; j < left; j++) {
        uint k = continued[j], key = queries[k];
        ulong reply = 0;
        #pragma unroll
        for (uint n = 0; n < LINES; n++) {
            line there = LINE_OF(image, at[j], n);
            reply |= chosen(there, UPPERS(there == (line)(key)));
        }
        values[k] = (uint)reply;
        bits[k / 32] |= upper_of(reply) << (k % 32);
    }
    // In an image, this key marks empty slots.
    answer_outside(queries, len, outside, outside_value, values, bits);
    for (uint k = 0; k < len; k += 32) found[k / 32] = bits[k / 32];
}
