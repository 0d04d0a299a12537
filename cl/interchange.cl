// Integers of other libraries as words of tables, and bitmaps as bytes (src/opencl/cuda/convert.rs).
//
// KOEL_FROM_BITS and KOEL_TO_BITS are 32 or 64; KOEL_FROM_SIGNED and KOEL_TO_SIGNED are 0 or 1.

#if KOEL_FROM_BITS == 64
typedef ulong from_word;
#define EXTENDED(word) (word)
#define IS_NEGATIVE(word) (KOEL_FROM_SIGNED && (long)(word) < 0)
#else
typedef uint from_word;
#define EXTENDED(word) (KOEL_FROM_SIGNED ? (ulong)(long)(int)(word) : (ulong)(word))
#define IS_NEGATIVE(word) (KOEL_FROM_SIGNED && (int)(word) < 0)
#endif
#if KOEL_TO_BITS == 64
typedef ulong to_word;
#else
typedef uint to_word;
#endif

// The number of magnitude bits above which a non-negative integer does not fit.
#define TO_MAGNITUDE (KOEL_TO_BITS - KOEL_TO_SIGNED)

static inline bool fits(ulong bits, bool is_negative) {
    if (is_negative) return KOEL_TO_SIGNED && bits >= ~0UL << (KOEL_TO_BITS - 1);
    return TO_MAGNITUDE == 64 || bits >> (TO_MAGNITUDE & 63) == 0;
}

// Keys as words that ascend as the keys do: the top bit of signed ones is flipped. A key that the type does not hold is
// replaced by `absent`.
__kernel void keys_to_words(__global const from_word *from, const ulong len, const ulong absent, __global to_word *to) {
    const ulong i = get_global_id(0);
    if (i >= len) return;
    const from_word key = from[i];
    const ulong bits = EXTENDED(key);
    const ulong flip = KOEL_TO_SIGNED ? 1UL << (KOEL_TO_BITS - 1) : 0;
    to[i] = (to_word)(fits(bits, IS_NEGATIVE(key)) ? bits ^ flip : absent);
}

// Bit i of a bitmap as byte i, four a work-item; `words` is the number of words of `bytes`.
__kernel void bits_to_bytes(__global const uint *bits, const ulong words, __global uint *bytes) {
    const ulong i = get_global_id(0);
    if (i >= words) return;
    const uint four = bits[i / 8] >> (4 * (uint)(i % 8)) & 15;
    bytes[i] = (four & 1) | (four & 2) << 7 | (four & 4) << 14 | (four & 8) << 21;
}
