// A test kernel for src/opencl/mirror/mod.rs: each work-item applies every function of scheme.clh to its row of inputs.

__kernel void mirror(__global const uint *in, __global ulong *out, ulong rows) {
    ulong row = get_global_id(0);
    if (row >= rows) return;
    uint x = in[row * 6], n = in[row * 6 + 1], a = in[row * 6 + 2], b = in[row * 6 + 5];
    mix_keys keys = {a, in[row * 6 + 3], in[row * 6 + 4], b};
    __global ulong *to = out + row * 12;

    uint mixed = mix(x, keys);
    uint2 at = split(x, n);
    to[0] = mixed;
    to[1] = unmix(x, keys);
    to[2] = unmix(mixed, keys);
    to[3] = reduce(x, n);
    to[4] = ((ulong)at.x << 32) | at.y;
    to[5] = join(at.x, at.y, n);
    to[6] = join(a, b, n);
    // `max`, because the result for a modulus of 0 is undefined on both sides.
    to[7] = linear_family(x, a, b, KOEL_ALCANTARA_PRIME, max(n, 1u));
    to[8] = xor_family(x, a, b, KOEL_ALCANTARA_PRIME, max(n, 1u));
    to[9] = word(a % 16, at.y, x);
    ulong any = ((ulong)x << 32) | n;
    to[10] = ((ulong)age_of(upper_of(any)) << 32) | remainder_of(upper_of(any));
    to[11] = upper(a % 16, at.y);
}

// Each work-item returns the parity of its input, and the group packs the answers into a bitmap.
__kernel void mirror_bitmap(__global const uint *in, __global uint *bitmap, ulong count) {
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    put_answer(answers, item < count && (in[item] & 1));
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) bitmap[item / 32] = pack_answers(answers);
}
