// A test kernel for src/opencl/mirror/horton.rs: each work-item applies every function of horton.clh to its row of
// inputs: key, home, tag, entry, age, token, mask, keys.

__kernel void mirror_horton(__global const uint *in, TABLE, __global ulong *out, ulong rows) {
    table t = THE_TABLE;
    ulong row = get_global_id(0);
    if (row >= rows) return;
    in += row * 8;
    uint key = in[0], tag = in[2], code = in[3], age = in[4], token = in[5], mask = in[6], keys = in[7];
    uint2 home = {in[1], tag}, of_key = home_of(t, key);
    ulong any = ((ulong)key << 32) | mask;
    __global ulong *to = out + row * 12;

    to[0] = ((ulong)of_key.x << 32) | of_key.y;
    to[1] = remap(t, home.x, tag, (code - 1) % KOEL_REMAPS + 1);
    to[2] = led(t, key, home, code);
    to[3] = stash(t, key);
    to[4] = ((ulong)jenkins6(key) << 32) | jenkins7(key);
    to[5] = entry(any, tag);
    to[6] = with_entry(any & ~((ulong)STASH_CODE << (tag * KOEL_BITS)), tag, code);
    to[7] = proposal(age, home.x, token);
    uint3 parts = unpacked(any);
    to[8] = ((ulong)parts.x << 32) | parts.z;
    to[9] = parts.y;
    uint tokens = token_count(keys, mask);
    to[10] = ((ulong)list_length(mask, tokens, token) << 32) | (leavers(keys) << 16) | (tokens << 8) | nth_bit(mask, token);
    uint2 next = token_step(mask, tokens, token, age);
    to[11] = ((ulong)next.x << 32) | next.y;
}
