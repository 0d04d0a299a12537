// A test kernel for src/opencl/mirror/robin_hood.rs: each work-item applies every function of robin_hood.clh to its row
// of inputs: key, place, age, value.

__kernel void mirror_robin_hood(__global const uint *in, TABLE, __global ulong *out, ulong rows) {
    lists t = THE_LISTS;
    ulong row = get_global_id(0);
    if (row >= rows) return;
    in += row * 4;
    uint key = in[0], place = in[1], age = in[2], value = in[3];
    __global ulong *to = out + row * 9;

    uint2 parts = split_key(t, key), goal = home_and_name(t, key);
    to[0] = ((ulong)parts.x << 32) | parts.y;
    to[1] = ((ulong)goal.x << 32) | goal.y;
    to[2] = ((ulong)place_of(t, place, age) << 32) | home_of(t, place, age);
    to[3] = key_of(t, place, parts.y);
    cell made = cell_of(age, goal.y, value), any = (cell)(((ulong)key << 32) | value);
    to[4] = made;
    to[5] = ((ulong)age_in(any) << 32) | name_in(any);
    to[6] = ((ulong)value_in(any) << 32) | ((uint)has_age(any) << 1) | taken(any);
    to[7] = with_age(any, age) ^ upper_part(any);
#if KOEL_ARRAY || KOEL_PACKED
    to[8] = ((ulong)bound_of(age) << 32) | code_of(age);
#else
    to[8] = key_in(t, place, made);
#endif
}
