// The cells of points, the points of each voxel, and the keys of neighbouring voxels (src/opencl/cuda/voxels.rs).
//
// KOEL_BITS is 32 or 64: the width of coordinates, which are floats or integers. A key has 21 bits per axis, with z in
// the uppermost ones. Coordinate `axis` of row i is item i * row_step + axis * column_step.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF

#if KOEL_BITS == 64
typedef double real;
typedef long integer;
typedef ulong item;
#else
typedef float real;
typedef int integer;
typedef uint item;
#endif

#define AXIS_BITS 21
#define FAR (1L << (AXIS_BITS - 1))
#define OUTSIDE (~0UL)

// The key of each point's cell, floor((point - least) / size) in each axis, or OUTSIDE. `cells` is the number of cells
// in each axis, or 0 if space is unbounded; then a cell that has no key sets `too_far`.
//
// The quotient of two floats is computed in double precision and rounded, which gives the correctly rounded quotient:
// the division of floats may have an error of 2.5 ulp.
__kernel void cells_of_points(
    __global const real *points, const ulong rows, const ulong row_step, const ulong column_step, const double4 size,
    const double4 least, const long4 cells, __global ulong *keys, __global uint *too_far
) {
    const ulong i = get_global_id(0);
    if (i >= rows) return;
    const double sizes[3] = {size.x, size.y, size.z}, leasts[3] = {least.x, least.y, least.z};
    const long counts[3] = {cells.x, cells.y, cells.z};
    ulong key = 0;
    for (int axis = 2; axis >= 0; axis--) {
        const real point = points[i * row_step + axis * column_step];
        const real from_least = point - (real)leasts[axis];
        const real place = floor((real)((double)from_least / sizes[axis]));
        const bool is_bounded = counts[axis] > 0;
        const real first = is_bounded ? 0 : -FAR, end = is_bounded ? counts[axis] : FAR;
        if (isfinite(point) && place >= first && place < end) {
            key = key << AXIS_BITS | (ulong)((long)place + (is_bounded ? 0 : FAR));
            continue;
        }
        if (isfinite(point) && !is_bounded) *too_far = 1;
        keys[i] = OUTSIDE;
        return;
    }
    keys[i] = key;
}

// A bitmap of the keys that are not OUTSIDE, one word per work-item.
__kernel void inside(__global const ulong *keys, const ulong len, __global uint *bits) {
    const ulong word = get_global_id(0);
    if (word * 32 >= len) return;
    const uint count = (uint)min(len - word * 32, 32UL);
    uint found = 0;
    for (uint i = 0; i < count; i++) found |= (uint)(keys[word * 32 + i] != OUTSIDE) << i;
    bits[word] = found;
}

// The number of points of each of `len` voxels, limited to `most`. The points of voxel i begin at starts[i].
__kernel void points_of_voxels(
    __global const uint *starts, const ulong voxels, const ulong points, const ulong most, const ulong len,
    __global uint *counts
) {
    const ulong i = get_global_id(0);
    if (i >= len) return;
    const ulong end = i + 1 < voxels ? starts[i + 1] : points;
    counts[i] = (uint)min(end - starts[i], most);
}

// Gathers the points of each voxel: `most` points of `width` items per voxel, with zeros after the last point.
__kernel void gather_points(
    __global const item *points, const ulong row_step, const ulong column_step, const ulong width,
    __global const uint *starts, __global const uint *counts, __global const uint *rows, const ulong most,
    const ulong len, __global item *to
) {
    const ulong i = get_global_id(0);
    if (i >= len) return;
    const ulong slot = i / width, column = i % width, voxel = slot / most, at = slot % most;
    if (at < counts[voxel]) {
        to[i] = points[rows[starts[voxel] + at] * row_step + column * column_step];
    } else {
        to[i] = 0;
    }
}

// The positions of keys as three integers each (z, y, x), minus `from`.
__kernel void places_of_keys(__global const ulong *keys, const ulong len, const long from, __global int *places) {
    const ulong i = get_global_id(0);
    if (i >= len) return;
    const uint axis = 2 - (uint)(i % 3);
    places[i] = (int)((long)(keys[i / 3] >> (axis * AXIS_BITS) & ((1UL << AXIS_BITS) - 1)) - from);
}

// The keys of the cells around positions from row `first` on, `span` cells in each axis, x fastest; OUTSIDE if a cell
// has no key. If `span` is 1, a position without a key sets `too_far`.
__kernel void keys_around_places(
    __global const integer *places, const ulong row_step, const ulong column_step, const ulong first, const uint span,
    const ulong len, __global ulong *keys, __global uint *too_far
) {
    const ulong i = get_global_id(0);
    if (i >= len) return;
    const uint cube = span * span * span;
    const ulong row = first + i / cube;
    const uint cell = (uint)(i % cube);
    const long reach = span / 2;
    const long offsets[3] = {cell / (span * span) - reach, cell / span % span - reach, cell % span - reach};
    ulong key = 0;
    for (int axis = 0; axis < 3; axis++) {
        const long place = places[row * row_step + axis * column_step];
        // In this range, the sum does not overflow.
        const bool is_near = place >= -2 * FAR && place < 2 * FAR;
        const long moved = is_near ? place + offsets[axis] : 2 * FAR;
        if (moved < -FAR || moved >= FAR) {
            if (span == 1) *too_far = 1;
            keys[i] = OUTSIDE;
            return;
        }
        key = key << AXIS_BITS | (ulong)(moved + FAR);
    }
    keys[i] = key;
}
