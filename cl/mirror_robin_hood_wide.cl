// A test kernel for src/opencl/mirror/robin_hood_wide.rs: each work-item applies every function of robin_hood_wide.clh
// to its row of inputs: key, slot, age, word.

__kernel GROUP_SIZE void mirror_robin_hood_wide(__global const ulong *from, SLOT_TABLE, __global ulong *to,
                                                const ulong rows) {
    slot_functions f = SLOT_FUNCTIONS;
    ulong row = get_global_id(0);
    if (row >= rows) return;
    from += 4 * row;
    to += 8 * row;
    uint slot = (uint)from[1], age = (uint)from[2];
    word_type word = (word_type)from[3];
    goal_type goal = goal_of(f, (key_type)from[0]), other = goal_in_slot(f, slot, word);
    line_home at = probe(f, goal, age);
    to[0] = goal.home;
    to[1] = goal.remainder;
    to[2] = key_of_goal(f, goal);
    to[3] = at.home;
    to[4] = line_word(age, at.remainder);
    to[5] = other.home;
    to[6] = key_of_goal(f, other);
    to[7] = ((ulong)age_in(word) << 1) | holds_pair(word);
}
