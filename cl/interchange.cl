// Conversions between the numbers of other libraries and the words and values of tables, between row numbers and
// integers, and between bitmaps and bytes (src/opencl/cuda/convert.rs).
//
// KOEL_FROM_BITS and KOEL_TO_BITS are 32 or 64; KOEL_FROM_BITS is also 8 or 16, for columns of tuples. KOEL_FROM_SIGNED
// and KOEL_TO_SIGNED are 0 or 1.

#if KOEL_FROM_BITS == 64
typedef ulong from_word;
typedef long from_integer;
#elif KOEL_FROM_BITS == 32
typedef uint from_word;
typedef int from_integer;
#elif KOEL_FROM_BITS == 16
typedef ushort from_word;
typedef short from_integer;
#else
typedef uchar from_word;
typedef char from_integer;
#endif
#define EXTENDED(word) (KOEL_FROM_SIGNED ? (ulong)(long)(from_integer)(word) : (ulong)(word))
#define IS_NEGATIVE(word) (KOEL_FROM_SIGNED && (from_integer)(word) < 0)
// XOR with this converts keys to words of the same order, and back.
#define FROM_FLIP (KOEL_FROM_SIGNED ? 1UL << (KOEL_FROM_BITS - 1) : 0UL)
#if KOEL_TO_BITS == 64
typedef ulong to_word;
#else
typedef uint to_word;
#endif

// Whether the bits are those of a double that is NaN.
#define IS_NAN(bits) ((bits) << 1 > 0xffe0000000000000UL)
// The number of magnitude bits above which a non-negative integer does not fit.
#define TO_MAGNITUDE (KOEL_TO_BITS - KOEL_TO_SIGNED)

static inline bool fits(ulong bits, bool is_negative) {
    if (is_negative) return KOEL_TO_SIGNED && bits >= ~0UL << (KOEL_TO_BITS - 1);
    return TO_MAGNITUDE == 64 || bits >> (TO_MAGNITUDE & 63) == 0;
}

// Converts keys to words of the same order, by flipping the top bit of signed keys. A key that does not fit in the type
// becomes `absent`.
__kernel void keys_to_words(__global const from_word *from, const ulong len, const ulong absent, __global to_word *to) {
    const ulong i = get_global_id(0);
    if (i >= len) return;
    const from_word key = from[i];
    const ulong bits = EXTENDED(key);
    const ulong flip = KOEL_TO_SIGNED ? 1UL << (KOEL_TO_BITS - 1) : 0;
    to[i] = (to_word)(fits(bits, IS_NEGATIVE(key)) ? bits ^ flip : absent);
}

// Converts integers to another width. The upper bits are cut off.
__kernel void resized(__global const from_word *from, const ulong len, __global to_word *to) {
    const ulong i = get_global_id(0);
    if (i < len) to[i] = (to_word)EXTENDED(from[i]);
}

// Appends a column to the words of composite keys: the earlier columns move up.
__kernel void append_column(
    __global const from_word *from, const ulong len, const uint is_first, __global to_word *words
) {
    const ulong i = get_global_id(0);
    if (i >= len) return;
    const ulong before = is_first ? 0 : (ulong)words[i] << (KOEL_FROM_BITS & 63);
    words[i] = (to_word)(before | ((ulong)from[i] ^ FROM_FLIP));
}

// Extracts the column whose lowest bit is `shift` from the words of composite keys.
__kernel void column_of(__global const to_word *words, const ulong len, const uint shift, __global from_word *column) {
    const ulong i = get_global_id(0);
    if (i < len) column[i] = (from_word)(((ulong)words[i] >> shift) ^ FROM_FLIP);
}

// Converts row numbers to integers of 64 bits. The number that means "no row" becomes -1.
__kernel void rows_to_integers(__global const uint *rows, const ulong len, __global ulong *to) {
    const ulong i = get_global_id(0);
    if (i < len) to[i] = rows[i] == UINT_MAX ? ~0UL : rows[i];
}

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

// Converts the bits of floats to the bits of doubles, and back.
__kernel void floats_to_doubles(__global const uint *from, const ulong len, __global ulong *to) {
    const ulong i = get_global_id(0);
    if (i < len) to[i] = as_ulong((double)as_float(from[i]));
}

__kernel void doubles_to_floats(__global const ulong *from, const ulong len, __global uint *to) {
    const ulong i = get_global_id(0);
    if (i >= len) return;
    // The bits of a converted NaN depend on the device, so a fixed NaN is written.
    to[i] = IS_NAN(from[i]) ? 0x7fc00000U : as_uint((float)as_double(from[i]));
}
#endif

// Sets `found` if a value, the bits of a double, is NaN.
__kernel void find_nan(__global const ulong *values, const ulong len, __global uint *found) {
    const ulong i = get_global_id(0);
    if (i < len && IS_NAN(values[i])) *found = 1;
}

// The group of each row, or UINT_MAX if its value (the bits of a double) is NaN.
__kernel void without_nan(__global const uint *ids, __global const ulong *values, const ulong len, __global uint *to) {
    const ulong i = get_global_id(0);
    if (i < len) to[i] = IS_NAN(values[i]) ? UINT_MAX : ids[i];
}

// Replaces -0.0 by 0.0 in the bits of doubles.
__kernel void without_negative_zero(__global const ulong *from, const ulong len, __global ulong *to) {
    const ulong i = get_global_id(0);
    if (i < len) to[i] = from[i] == 1UL << 63 ? 0 : from[i];
}

// Sets the value of each group without rows to NaN.
__kernel void nan_if_empty(__global const uint *counts, const ulong len, __global ulong *values) {
    const ulong i = get_global_id(0);
    if (i < len && counts[i] == 0) values[i] = 0x7ff8000000000000UL;
}

// Bit i of a bitmap becomes byte i, four per work-item. `words` is the number of 32-bit words of `bytes`.
__kernel void bits_to_bytes(__global const uint *bits, const ulong words, __global uint *bytes) {
    const ulong i = get_global_id(0);
    if (i >= words) return;
    const uint four = bits[i / 8] >> (4 * (uint)(i % 8)) & 15;
    bytes[i] = (four & 1) | (four & 2) << 7 | (four & 4) << 14 | (four & 8) << 21;
}
