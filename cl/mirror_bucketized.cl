// A test kernel for src/opencl/mirror/mod.rs: each work-item applies the functions of bucketized.clh to its row of
// inputs: key, bucket, remainder.

__kernel void mirror_bucketized(__global const uint *in, __global ulong *out, ulong rows, TABLE) {
    functions f = {forth, back};
    ulong row = get_global_id(0);
    if (row >= rows) return;
    uint key = in[row * 3], bucket = in[row * 3 + 1], remainder = in[row * 3 + 2];
    __global ulong *to = out + row * 10;
#if KOEL_CLASSIC
    for (uint i = 0; i < 4; i++) to[i] = i < KOEL_FUNCTIONS ? location(f, i, key, buckets) : 0;
    to[4] = first_choice(f, key);
    for (uint i = 5; i < 10; i++) to[i] = 0;
#else
    uint2 home = home_of_key(f, key, buckets);
    to[0] = ((ulong)home.x << 32) | home.y;
    for (uint turn = 0; turn < 3; turn++) {
        to[1 + turn] = bucket_for(f, turn, home, buckets);
        to[4 + turn] = home_of(f, turn, bucket, remainder, buckets);
        to[7 + turn] = key_at(f, turn, bucket, remainder, buckets);
    }
#endif
}
