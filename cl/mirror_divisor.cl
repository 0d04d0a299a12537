// A probe for src/opencl/mirror/divisor.rs: every function of cl/divisor.clh on one row of inputs a work-item, which is
// x, n, reciprocal, times, ratio.

__kernel GROUP_SIZE void mirror_divisor(__global const uint *from, __global ulong *to, const ulong rows) {
    ulong row = get_global_id(0);
    if (row >= rows) return;
    from += 5 * row;
    to += 3 * row;
    uint x = from[0];
    uint2 by = (uint2)(from[1], from[2]), factor = (uint2)(from[3], from[4]), both = divide_by(by, x);
    to[0] = remainder_by(by, x);
    to[1] = ((ulong)both.x << 32) | both.y;
    to[2] = product_by(factor, x, by.x);
}
