// A probe for src/opencl/mirror_perfect.rs: every function of cl/perfect.clh on one row of inputs a work-item.

__kernel GROUP_SIZE void mirror_perfect(__global const uint *from, __global ulong *to, const ulong rows, TABLE) {
    ulong row = get_global_id(0);
    if (row >= rows) return;
    uint key = from[4 * row], n = from[4 * row + 1], reciprocal = from[4 * row + 2], offset = from[4 * row + 3];
    uint2 by = (uint2)(n, reciprocal), at = home(sizes, key), both = divide_by(by, key);
    to[4 * row] = ((ulong)at.x << 32) | at.y;
    to[4 * row + 1] = slot_at(sizes, at.y, offset);
    to[4 * row + 2] = remainder_by(by, key);
    to[4 * row + 3] = ((ulong)both.x << 32) | both.y;
}
