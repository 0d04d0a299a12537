// A test kernel for src/opencl/mirror/wide.rs: each work-item applies the arithmetic of 64-bit keys in wide.clh and
// bucketized_wide.clh to its row of inputs: key, the four numbers of a mixer, n, bucket, remainder.

__kernel GROUP_SIZE void mirror_wide(__global const ulong *from, __global ulong *to, const ulong rows) {
    ulong row = get_global_id(0);
    if (row >= rows) return;
    from += 8 * row;
    to += 7 * row;
    ulong key = from[0];
    ulong4 mixer = (ulong4)(from[1], from[2], from[3], from[4]);
    uint n = (uint)from[5];
    // The mixers of 32-bit keys, which are not used here.
    functions none = {(uint16)(0), (uint16)(0)};
    line_home home = home_of_line_key(none, mixer, n, key), other = {(uint)from[6], from[7]};
    to[0] = mix_64(key, mixer);
    to[1] = unmix_64(key, mixer);
    to[2] = home.home;
    to[3] = home.remainder;
    to[4] = key_of_line_home(none, mixer, n, home);
    to[5] = key_of_line_home(none, mixer, n, other);
    to[6] = folded(key);
}
