// A test kernel for src/opencl/mirror/perfect.rs: each work-item applies every function of perfect.clh to its row of
// inputs: key and offset.

__kernel GROUP_SIZE void mirror_perfect(__global const uint *from, __global ulong *to, const ulong rows, TABLE) {
    ulong row = get_global_id(0);
    if (row >= rows) return;
    table t = {sizes};
    uint2 at = home(t, from[2 * row]);
    to[2 * row] = ((ulong)at.x << 32) | at.y;
    to[2 * row + 1] = slot_at(t, at.y, from[2 * row + 1]);
}
