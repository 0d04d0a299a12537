// Lookups in lines of 64 bytes, in the two shapes that devices want (src/opencl/passes/shape.rs).
//
//   KOEL_LANES        work-items that read a line together: 1, or 4 of 16 bytes each
//   KOEL_BITS_ALONE   1 where values are not wanted

#if KOEL_BITS_ALONE
#define LINE_ANSWERS __global uint *found
#define WANT_VALUES 0
#else
#define LINE_ANSWERS __global value_type *values, __global uint *found
#define WANT_VALUES (KOEL_VALUE_BITS > 0)
#endif

#if KOEL_LANES == 1

// One work-item a key, and all loads of a line under way at once.
__kernel GROUP_SIZE void lines_lookup(__global const ulong8 *image, LINE_TABLE, __global const key_type *queries,
                                      const ulong count, LINE_ANSWERS) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    ulong item = get_global_id(0);
    bool hit = false;
    if (item < count) {
        line_home home = home_of_line_key(f, mixer, buckets, queries[item]);
        value_type value = 0;
        for (uint turn = 0; turn < 3; turn++) {
            union {
                ulong8 all;
                word_type words[WORDS_OF_A_LINE];
                value_type values[VALUES_OF_A_LINE];
            } line;
            line.all = image[line_for(f, turn, home, buckets)];
            #pragma unroll
            for (uint j = 0; j < KOEL_SLOTS; j++) {
                bool mine = is_of(turn, home.remainder, line.words[j * KOEL_WORD_STRIDE]);
                hit |= mine;
                if (WANT_VALUES) value = mine ? line.values[KOEL_FIRST_VALUE + j * KOEL_VALUE_STRIDE] : value;
            }
            word_type last = line.words[(KOEL_SLOTS - 1) * KOEL_WORD_STRIDE];
            if (hit || last < line_word(turn + 1, home.remainder)) break;
        }
#if !KOEL_BITS_ALONE
        values[item] = value;
#endif
    }
    put_answer(answers, hit);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#else

// Four work-items serve as many keys: of each key's line, every one of them reads its 16 bytes. A line is then one access,
// and a work-item has four of them under way. Lines and answers meet in local memory, because OpenCL 1.2 has no other way
// between work-items. Few keys need a further line: those are listed, and each is the work of four neighbours.
//
// Where a slot's value stands in another work-item's bytes than its word, it is handed over: who finds the word says
// which slot it is, and who has that slot's value puts it where the key's own work-item takes it.

#define WORDS_OF_A_LANE (WORDS_OF_A_LINE / KOEL_LANES)
#define VALUES_OF_A_LANE (VALUES_OF_A_LINE / KOEL_LANES)
// Word and value of a slot are neighbours.
#define SIDE_BY_SIDE (KOEL_WORD_STRIDE == 2)
#define HANDED_OVER (WANT_VALUES && !SIDE_BY_SIDE)

// Words and values in 16 bytes of a line: vectors, which every compiler keeps in registers across barriers.
#if KOEL_KEY_BITS == 64
#define WORDS_IN(share) {share.x, share.y}
#else
#define WORDS_IN(share) {as_uint4(share).x, as_uint4(share).y, as_uint4(share).z, as_uint4(share).w}
#endif
#if KOEL_VALUE_BITS == 64
#define VALUES_IN(share) {share.x, share.y}
#else
#define VALUES_IN(share) {as_uint4(share).x, as_uint4(share).y, as_uint4(share).z, as_uint4(share).w}
#endif

// What the work-items of a group tell each other of each key.
typedef struct {
    // 0, or one more than the slot where it stands.
    uint slots[KOEL_GROUP];
    word_type least[KOEL_GROUP];
    value_type values[KOEL_GROUP];
} replies;

INLINED void look(ulong2 here, uint turn, key_type remainder, uint whose, __local replies *told) {
    uint lane = get_local_id(0) % KOEL_LANES;
    word_type words[WORDS_OF_A_LANE] = WORDS_IN(here);
    #pragma unroll
    for (uint i = 0; i < WORDS_OF_A_LANE; i += KOEL_WORD_STRIDE) {
        uint slot = (lane * WORDS_OF_A_LANE + i) / KOEL_WORD_STRIDE;
        if (slot >= KOEL_SLOTS) break;
        if (is_of(turn, remainder, words[i])) {
            told->slots[whose] = slot + 1;
            if (WANT_VALUES && SIDE_BY_SIDE) told->values[whose] = (value_type)here.y;
        }
        if (slot == KOEL_SLOTS - 1) told->least[whose] = words[i];
    }
}

INLINED void hand_over(ulong2 here, uint whose, __local replies *told) {
    uint lane = get_local_id(0) % KOEL_LANES, place = KOEL_FIRST_VALUE + (told->slots[whose] - 1) * KOEL_VALUE_STRIDE;
    if (told->slots[whose] == 0 || place / VALUES_OF_A_LANE != lane) return;
    value_type values[VALUES_OF_A_LANE] = VALUES_IN(here), value = 0;
    #pragma unroll
    for (uint i = 0; i < VALUES_OF_A_LANE; i++) value = place % VALUES_OF_A_LANE == i ? values[i] : value;
    told->values[whose] = value;
}

__kernel GROUP_SIZE void lines_lookup(__global const ulong2 *image, LINE_TABLE, __global const key_type *queries,
                                      const ulong count, LINE_ANSWERS) {
    functions f = {forth, back};
    __local ulong answers[KOEL_GROUP / 8];
    __local replies told;
    __local key_type remainders[KOEL_GROUP];
    __local uint at[KOEL_GROUP], waiting[2];
    __local ushort listed[KOEL_GROUP];
    ulong item = get_global_id(0);
    uint me = get_local_id(0), lane = me % KOEL_LANES, base = me - lane;
    bool ask = item < count;
    line_home home = home_of_line_key(f, mixer, buckets, ask ? queries[item] : 0);
    remainders[me] = home.remainder;
    at[me] = home.home;
    told.slots[me] = 0;
    told.values[me] = 0;
    if (me < 2) waiting[me] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);

    ulong2 here[KOEL_LANES];
    #pragma unroll
    for (uint k = 0; k < KOEL_LANES; k++) here[k] = image[(ulong)at[base + k] * KOEL_LANES + lane];
    #pragma unroll
    for (uint k = 0; k < KOEL_LANES; k++) look(here[k], 0, remainders[base + k], base + k, &told);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (HANDED_OVER) {
        #pragma unroll
        for (uint k = 0; k < KOEL_LANES; k++) hand_over(here[k], base + k, &told);
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    bool hit = ask && told.slots[me] != 0;
    bool open = ask && !hit && told.least[me] >= line_word(1, home.remainder);
    value_type value = told.values[me];
    #pragma unroll
    for (uint turn = 1; turn < 3; turn++) {
        if (open) {
            uint place = atomic_inc(&waiting[turn - 1]);
            listed[place] = (ushort)me;
            at[place] = line_for(f, turn, home, buckets);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        // In as many rounds as it takes if all wait, so that barriers stand outside of loops.
        #pragma unroll
        for (uint k = 0; k < KOEL_LANES; k++) {
            uint task = k * (KOEL_GROUP / KOEL_LANES) + me / KOEL_LANES;
            if (task < waiting[turn - 1]) {
                here[k] = image[(ulong)at[task] * KOEL_LANES + lane];
                look(here[k], turn, remainders[listed[task]], listed[task], &told);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (HANDED_OVER) {
            #pragma unroll
            for (uint k = 0; k < KOEL_LANES; k++) {
                uint task = k * (KOEL_GROUP / KOEL_LANES) + me / KOEL_LANES;
                if (task < waiting[turn - 1]) hand_over(here[k], listed[task], &told);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (open) {
            hit = told.slots[me] != 0;
            value = told.values[me];
            open = !hit && told.least[me] >= line_word(turn + 1, home.remainder);
        }
    }
    put_answer(answers, hit);
#if !KOEL_BITS_ALONE
    if (ask) values[item] = hit ? value : 0;
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item % 32 == 0 && item < count) found[item / 32] = pack_answers(answers);
}

#endif
