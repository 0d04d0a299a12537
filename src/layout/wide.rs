//! Morton codes of 64 bits, for tables of `u64` keys: cells of pictures with 2^32 cells per axis, and of boxes with
//! 2^21 cells per axis.
//!
//! With such codes too, a coherent Robin Hood table stores adjacent cells close to each other:
//!
//! ```
//! use koel::layout::wide::{morton3, morton3_cell};
//! use koel::{Cpu, HashTable, RobinHood};
//! let corner = (1 << 21) - 1;
//! let voxels = [morton3(corner, 0, 7), morton3(1, 2, 3)].map(|key| key.expect("inside"));
//! let table = HashTable::builder(RobinHood::canonical().of::<u64, u32>()).build(&Cpu::new(), &voxels, &[10, 20])?;
//! assert_eq!(table.get(&voxels)?, [Some(10), Some(20)]);
//! assert_eq!(morton3_cell(voxels[0]), Some((corner, 0, 7)));
//! # Ok::<(), koel::Error>(())
//! ```

/// The number of bits of a coordinate of [`morton3`].
pub const MORTON3_BITS: u32 = 21;

/// The Morton code of a cell of a 2^32 x 2^32 picture: bit i of `x` is bit 2i, bit i of `y` is bit 2i + 1.
pub fn morton2(x: u32, y: u32) -> u64 {
    spread2(x) | spread2(y) << 1
}

/// The cell `(x, y)` of a Morton code: the inverse of [`morton2`]. Every key is a valid code.
pub fn morton2_cell(key: u64) -> (u32, u32) {
    (gather2(key), gather2(key >> 1))
}

/// The Morton code, of 63 bits, of a cell of a box with 2^21 cells per axis: bit i of `x`, `y` and `z` is bit
/// 3i, 3i + 1 and 3i + 2. `None` for cells outside the box.
///
/// ```
/// use koel::layout::wide::morton3;
/// assert_eq!(morton3(0b11, 0b01, 0b10), Some(0b101_011));
/// assert_eq!(morton3(1 << 21, 0, 0), None);
/// ```
pub fn morton3(x: u32, y: u32, z: u32) -> Option<u64> {
    ((x | y | z) >> MORTON3_BITS == 0).then(|| spread3(x) | spread3(y) << 1 | spread3(z) << 2)
}

/// The cell `(x, y, z)` of a Morton code: the inverse of [`morton3`]. `None` for keys with 64 bits.
pub fn morton3_cell(key: u64) -> Option<(u32, u32, u32)> {
    (key >> (3 * MORTON3_BITS) == 0).then(|| (gather3(key), gather3(key >> 1), gather3(key >> 2)))
}

/// Moves bit i to bit 2i, halving the distance in each step.
fn spread2(x: u32) -> u64 {
    let x = u64::from(x);
    let x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    let x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    let x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let x = (x | x << 2) & 0x3333_3333_3333_3333;
    (x | x << 1) & 0x5555_5555_5555_5555
}

/// Moves bit 2i to bit i and drops the others.
fn gather2(x: u64) -> u32 {
    let x = x & 0x5555_5555_5555_5555;
    let x = (x | x >> 1) & 0x3333_3333_3333_3333;
    let x = (x | x >> 2) & 0x0f0f_0f0f_0f0f_0f0f;
    let x = (x | x >> 4) & 0x00ff_00ff_00ff_00ff;
    let x = (x | x >> 8) & 0x0000_ffff_0000_ffff;
    (x | x >> 16) as u32
}

/// Moves bit i to bit 3i, for the lowest 21 bits.
fn spread3(x: u32) -> u64 {
    let x = u64::from(x);
    let x = (x | x << 32) & 0x001f_0000_0000_ffff;
    let x = (x | x << 16) & 0x001f_0000_ff00_00ff;
    let x = (x | x << 8) & 0x100f_00f0_0f00_f00f;
    let x = (x | x << 4) & 0x10c3_0c30_c30c_30c3;
    (x | x << 2) & 0x1249_2492_4924_9249
}

/// Moves bit 3i to bit i and drops the others.
fn gather3(x: u64) -> u32 {
    let x = x & 0x1249_2492_4924_9249;
    let x = (x | x >> 2) & 0x10c3_0c30_c30c_30c3;
    let x = (x | x >> 4) & 0x100f_00f0_0f00_f00f;
    let x = (x | x >> 8) & 0x001f_0000_ff00_00ff;
    let x = (x | x >> 16) & 0x001f_0000_0000_ffff;
    ((x | x >> 32) & 0x001f_ffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    /// The reference: interleaves coordinates bit by bit.
    fn interleaved(coordinates: &[u32]) -> u64 {
        let dimensions = coordinates.len() as u32;
        let bit = |i: u32| u64::from(coordinates[(i % dimensions) as usize] >> (i / dimensions) & 1);
        (0..64 / dimensions * dimensions).fold(0, |key, i| key | bit(i) << i)
    }

    #[test]
    fn only_cells_within_the_box_have_keys() {
        let last = (1 << MORTON3_BITS) - 1;
        assert_eq!(morton3(last, last, last), Some(u64::MAX >> 1));
        assert_eq!(morton3_cell(u64::MAX >> 1), Some((last, last, last)));
        assert_eq!((morton3_cell(1 << 63), morton3_cell(u64::MAX)), (None, None));
        assert_eq!([(last + 1, 0, 0), (0, last + 1, 0), (0, 0, u32::MAX)].map(|(x, y, z)| morton3(x, y, z)), [None; 3]);
        assert_eq!(morton2(u32::MAX, u32::MAX), u64::MAX);
    }

    /// For cells of the 32-bit layouts, the codes are equal to those of these layouts.
    #[test]
    fn codes_equal_those_of_32_bits_where_both_exist() {
        for (x, y, z) in (0..4000u32).map(|i| (i * 7 % 1024, i * 31 % 1024, i * 113 % 1024)) {
            assert_eq!(morton3(x, y, z), super::super::morton3(x, y, z).map(u64::from));
            assert_eq!(morton2(x, y), super::super::morton2(x as u16, y as u16).into());
        }
    }

    quickcheck! {
        fn morton_codes_of_pictures_interleave(x: u32, y: u32, key: u64) -> bool {
            let (of_x, of_y) = morton2_cell(key);
            morton2(x, y) == interleaved(&[x, y])
                && morton2_cell(morton2(x, y)) == (x, y)
                && morton2(of_x, of_y) == key
        }

        fn morton_codes_of_boxes_interleave(x: u32, y: u32, z: u32, key: u64) -> bool {
            let [x, y, z] = [x, y, z].map(|c| c >> (c % 32).max(11));
            let of_cell = morton3(x, y, z);
            of_cell == Some(interleaved(&[x, y, z]))
                && of_cell.and_then(morton3_cell) == Some((x, y, z))
                && morton3_cell(key >> 1).and_then(|(x, y, z)| morton3(x, y, z)) == Some(key >> 1)
        }
    }
}
