// A test kernel for src/opencl/mirror/signpost.rs: each work-item applies the functions of signpost.clh to its row of
// inputs: key, function, tags, number of keys of a home, token, position.

__kernel GROUP_SIZE void mirror_signpost(__global const ulong *from, POST_TABLE, __global ulong *to, const ulong rows) {
    post_table t = THE_POST_TABLE;
    ulong row = get_global_id(0);
    if (row >= rows) return;
    from += 6 * row;
    to += 8 * row;
    line_home home = posted_home_of_key(t, (key_type)from[0]);
    uint function = (uint)from[1], tags = (uint)from[2], keys = (uint)from[3], token = (uint)from[4];
    uint tag = tag_of(home.remainder), guest = guest_bucket(t, home.home, tag, function);
    uint2 offer = offer_of(tags, tokens_of(keys, tags), token, (uint)from[5]);
    uint packed = packed_offer(home.home % 512, token, (uint)from[5]);
    to[0] = home.home;
    to[1] = home.remainder;
    to[2] = tag;
    to[3] = guest;
    to[4] = key_of_posted(t, home.home, line_word(1, home.remainder));
    to[5] = key_of_posted(t, guest, line_word(function + 1, home.remainder));
    to[6] = (ulong)offer.x << 32 | offer.y;
    to[7] = (ulong)home_of_offer(packed) << 32 | token_of_offer(packed) << 16 | position_of_offer(packed);
}
