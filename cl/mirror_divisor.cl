// A test kernel for src/opencl/mirror/divisor.rs: each work-item applies every function of divisor.clh to its row of
// inputs: x, n, reciprocal, times, ratio; and x, n, reciprocal of 64 bits.

__kernel GROUP_SIZE void mirror_divisor(__global const uint *from, __global const ulong *from_long,
                                        __global ulong *to, const ulong rows) {
    ulong row = get_global_id(0);
    if (row >= rows) return;
    from += 5 * row;
    from_long += 3 * row;
    to += 5 * row;
    uint x = from[0];
    uint2 by = (uint2)(from[1], from[2]), factor = (uint2)(from[3], from[4]), both = divide_by(by, x);
    to[0] = remainder_by(by, x);
    to[1] = ((ulong)both.x << 32) | both.y;
    to[2] = product_by(factor, x, by.x);
    ulong2 of_long = divide_long_by((uint)from_long[1], from_long[2], from_long[0]);
    to[3] = of_long.x;
    to[4] = of_long.y;
}
