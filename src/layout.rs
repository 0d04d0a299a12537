//! Key layouts: from the coordinates of a cell to its key, and back.
//!
//! ```text
//! row-major     x + width y (+ width height z)         adjacent cells of a row have adjacent keys
//! Morton        interleaved bits of x and y (and z)    cells that are close in any direction mostly have close keys
//! bit-reversed  Morton code of the bit-reversed coordinates: no locality, for comparison
//! ```
//!
//! Tables that keep the order of keys (a coherent sequence) store adjacent keys in adjacent slots, so the layout
//! determines which cells are close in memory (Garcia et al. 2011, Section 4.2). Other tables scatter all keys.
//!
//! Every layout is a bijection between its cells and its keys. All keys have 32 bits: [`Rows2`] and [`Rows3`] check
//! their sizes when they are created, and coordinates of the other layouts have limited widths. [`wide`] has Morton
//! codes of 64 bits, for larger pictures and boxes; [`kmers`] has keys of windows of DNA letters, and [`sequences`] has
//! readers of files of such letters.
//!
//! ```
//! use koel::layout::{self, Rows2};
//! let picture = Rows2::new(640, 480)?;
//! assert_eq!(picture.key(5, 2), Some(2 * 640 + 5));
//! assert_eq!(picture.cell(2 * 640 + 5), Some((5, 2)));
//! assert_eq!(layout::morton2(0b11, 0b01), 0b0111);
//! assert_eq!(layout::morton2_cell(0b0111), (0b11, 0b01));
//! # Ok::<(), koel::Error>(())
//! ```

pub mod kmers;
pub mod sequences;
pub mod wide;

use std::fmt;

use crate::error::{Error, Result};

/// The number of keys.
const KEYS: u64 = 1 << 32;

/// The cells of a picture, row by row: `x + width y`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows2 {
    width: u32,
    height: u32,
}

impl Rows2 {
    /// A picture of `width` x `height` cells. It may be empty.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if it has more than 2^32 cells.
    pub fn new(width: u32, height: u32) -> Result<Rows2> {
        let cells = u64::from(width) * u64::from(height);
        if cells > KEYS {
            return Err(Error::TooLarge { what: "cells of a picture", requested: cells, most: KEYS });
        }
        Ok(Rows2 { width, height })
    }

    /// The number of cells in a row.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The number of rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The number of cells. Their keys are `0..cells`.
    pub fn cells(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// The key of a cell; `None` if it is outside.
    pub fn key(&self, x: u32, y: u32) -> Option<u32> {
        // `new` has checked that the product fits for all cells of the picture.
        (x < self.width && y < self.height).then(|| y.wrapping_mul(self.width).wrapping_add(x))
    }

    /// The cell `(x, y)` of a key; `None` after the last cell.
    pub fn cell(&self, key: u32) -> Option<(u32, u32)> {
        (u64::from(key) < self.cells()).then(|| (key % self.width, key / self.width))
    }
}

/// The cells of a box of voxels, row by row and layer by layer: `x + width (y + height z)`.
///
/// ```
/// use koel::layout::Rows3;
/// let voxels = Rows3::new(512, 512, 512)?;
/// assert_eq!(voxels.key(1, 2, 3), Some(1 + 512 * (2 + 512 * 3)));
/// assert_eq!(voxels.key(512, 0, 0), None);
/// assert!(Rows3::new(2048, 2048, 2048).is_err());
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows3 {
    layer: Rows2,
    depth: u32,
}

impl Rows3 {
    /// A box of `width` x `height` x `depth` cells. It may be empty.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the box, or a layer of a box that is not empty, has more than 2^32 cells.
    pub fn new(width: u32, height: u32, depth: u32) -> Result<Rows3> {
        if depth == 0 {
            // No keys are computed if there are no cells, so the size of a layer does not matter.
            return Ok(Rows3 { layer: Rows2 { width, height }, depth });
        }
        let layer = Rows2::new(width, height)?;
        // The product is less than 2^64, so it does not saturate.
        let cells = layer.cells().saturating_mul(u64::from(depth));
        if cells > KEYS {
            return Err(Error::TooLarge { what: "cells of a box", requested: cells, most: KEYS });
        }
        Ok(Rows3 { layer, depth })
    }

    /// The number of cells in a row.
    pub fn width(&self) -> u32 {
        self.layer.width
    }

    /// The number of rows of a layer.
    pub fn height(&self) -> u32 {
        self.layer.height
    }

    /// The number of layers.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The number of cells. Their keys are `0..cells`.
    pub fn cells(&self) -> u64 {
        self.layer.cells() * u64::from(self.depth)
    }

    /// The key of a cell; `None` if it is outside.
    pub fn key(&self, x: u32, y: u32, z: u32) -> Option<u32> {
        let in_layer = self.layer.key(x, y)?;
        // The product is the key of the first cell of the layer, so it fits.
        (z < self.depth).then(|| z.wrapping_mul(self.layer.cells() as u32).wrapping_add(in_layer))
    }

    /// The cell `(x, y, z)` of a key; `None` after the last cell.
    pub fn cell(&self, key: u32) -> Option<(u32, u32, u32)> {
        if u64::from(key) >= self.cells() {
            return None;
        }
        let (z, in_layer) = (u64::from(key) / self.layer.cells(), u64::from(key) % self.layer.cells());
        let (x, y) = self.layer.cell(in_layer as u32)?;
        Some((x, y, z as u32))
    }
}

/// The layout of keys that represent cells, as stored in the [`KeyType`](crate::KeyType) of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// A picture row by row, [`Rows2`].
    Rows2(Rows2),
    /// A box row by row and layer by layer, [`Rows3`].
    Rows3(Rows3),
    /// A picture by [`morton2`].
    Morton2,
    /// A box by [`morton3`].
    Morton3,
    /// A picture by [`bit_reversed2`].
    BitReversed2 {
        /// The number of bits of a coordinate, at most 16.
        bits: u32,
    },
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Rows2(rows) => write!(f, "{} x {}, row-major", rows.width, rows.height),
            Layout::Rows3(rows) => {
                write!(f, "{} x {} x {}, row-major", rows.layer.width, rows.layer.height, rows.depth)
            }
            Layout::Morton2 => f.write_str("a picture, Morton"),
            Layout::Morton3 => f.write_str("a box, Morton"),
            Layout::BitReversed2 { bits } => write!(f, "a picture, bit-reversed in {bits} bits"),
        }
    }
}

/// The Morton code of a cell of a 65536 x 65536 picture: bit i of `x` is bit 2i, bit i of `y` is bit 2i + 1.
pub fn morton2(x: u16, y: u16) -> u32 {
    spread2(x) | spread2(y) << 1
}

/// The cell `(x, y)` of a Morton code: the inverse of [`morton2`]. Every key is a valid code.
pub fn morton2_cell(key: u32) -> (u16, u16) {
    (gather2(key), gather2(key >> 1))
}

/// The number of bits of a coordinate of [`morton3`].
pub const MORTON3_BITS: u32 = 10;

/// The Morton code, of 30 bits, of a cell of a 1024 x 1024 x 1024 box: bit i of `x`, `y` and `z` is bit
/// 3i, 3i + 1 and 3i + 2. `None` for cells outside the box.
///
/// ```
/// use koel::layout::{morton3, morton3_cell};
/// assert_eq!(morton3(0b11, 0b01, 0b10), Some(0b101_011));
/// assert_eq!(morton3_cell(0b101_011), Some((0b11, 0b01, 0b10)));
/// assert_eq!(morton3(1024, 0, 0), None);
/// ```
pub fn morton3(x: u32, y: u32, z: u32) -> Option<u32> {
    ((x | y | z) >> MORTON3_BITS == 0).then(|| spread3(x) | spread3(y) << 1 | spread3(z) << 2)
}

/// The cell `(x, y, z)` of a Morton code: the inverse of [`morton3`]. `None` for keys with more than 30 bits.
pub fn morton3_cell(key: u32) -> Option<(u32, u32, u32)> {
    (key >> (3 * MORTON3_BITS) == 0).then(|| (gather3(key), gather3(key >> 1), gather3(key >> 2)))
}

/// Reverses the bits of an index of `bits` bits (at most 32); `None` if it has more bits. The function is its own
/// inverse.
///
/// ```
/// use koel::layout::reversed;
/// assert_eq!(reversed(0b00011, 5), Some(0b11000));
/// assert_eq!(reversed(0b100, 2), None);
/// ```
pub fn reversed(index: u32, bits: u32) -> Option<u32> {
    // `checked_shr` returns `None` for a shift by 32: every index fits in 32 bits, and only 0 fits in 0 bits.
    let fits = bits <= 32 && index.checked_shr(bits).unwrap_or(0) == 0;
    fits.then(|| index.reverse_bits().checked_shr(32 - bits).unwrap_or(0))
}

/// The greatest number of bits of a coordinate of [`bit_reversed2`].
pub const BIT_REVERSED2_BITS: u32 = 16;

/// The Morton code of a cell of a 2^bits x 2^bits picture whose coordinates are [`reversed`]: the paper's layout
/// without any coherence. `None` for cells outside the picture, and for more than 16 bits.
///
/// ```
/// use koel::layout::{bit_reversed2, bit_reversed2_cell, morton2};
/// assert_eq!(bit_reversed2(1, 0, 13), Some(morton2(1 << 12, 0)));
/// assert_eq!(bit_reversed2_cell(morton2(1 << 12, 0), 13), Some((1, 0)));
/// ```
pub fn bit_reversed2(x: u16, y: u16, bits: u32) -> Option<u32> {
    let turned = |index: u16| reversed(index.into(), bits).and_then(|index| u16::try_from(index).ok());
    (bits <= BIT_REVERSED2_BITS).then_some(())?;
    Some(morton2(turned(x)?, turned(y)?))
}

/// The cell `(x, y)` of a key: the inverse of [`bit_reversed2`] with the same bits. `None` for keys without a cell.
pub fn bit_reversed2_cell(key: u32, bits: u32) -> Option<(u16, u16)> {
    let (x, y) = morton2_cell(key);
    let turned = |index: u16| reversed(index.into(), bits).and_then(|index| u16::try_from(index).ok());
    (bits <= BIT_REVERSED2_BITS).then_some(())?;
    Some((turned(x)?, turned(y)?))
}

/// Moves bit i to bit 2i, halving the distance in each step.
fn spread2(x: u16) -> u32 {
    let x = u32::from(x);
    let x = (x | x << 8) & 0x00ff_00ff;
    let x = (x | x << 4) & 0x0f0f_0f0f;
    let x = (x | x << 2) & 0x3333_3333;
    (x | x << 1) & 0x5555_5555
}

/// Moves bit 2i to bit i and drops the others.
fn gather2(x: u32) -> u16 {
    let x = x & 0x5555_5555;
    let x = (x | x >> 1) & 0x3333_3333;
    let x = (x | x >> 2) & 0x0f0f_0f0f;
    let x = (x | x >> 4) & 0x00ff_00ff;
    (x | x >> 8) as u16
}

/// Moves bit i to bit 3i, for the lowest ten bits.
fn spread3(x: u32) -> u32 {
    let x = (x | x << 16) & 0x0300_00ff;
    let x = (x | x << 8) & 0x0300_f00f;
    let x = (x | x << 4) & 0x030c_30c3;
    (x | x << 2) & 0x0924_9249
}

/// Moves bit 3i to bit i and drops the others.
fn gather3(x: u32) -> u32 {
    let x = x & 0x0924_9249;
    let x = (x | x >> 2) & 0x030c_30c3;
    let x = (x | x >> 4) & 0x0300_f00f;
    let x = (x | x >> 8) & 0x0300_00ff;
    (x | x >> 16) & 0x0000_03ff
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    /// The reference: interleaves coordinates bit by bit.
    fn interleaved(coordinates: &[u32]) -> u32 {
        let dimensions = coordinates.len() as u32;
        let bit = |i: u32| coordinates[(i % dimensions) as usize] >> (i / dimensions) & 1;
        (0..32 / dimensions * dimensions).fold(0, |key, i| key | bit(i) << i)
    }

    #[test]
    fn the_largest_boxes_use_every_key_and_larger_ones_are_refused() {
        for (width, height) in [(1 << 16, 1 << 16), (u32::MAX, 1), (1, u32::MAX)] {
            let rows = Rows2::new(width, height).expect("as many cells as keys");
            assert_eq!(rows.key(width - 1, height - 1), u32::try_from(rows.cells() - 1).ok());
            assert_eq!(rows.cell((rows.cells() - 1) as u32), Some((width - 1, height - 1)));
        }
        let rows = Rows3::new(1 << 11, 1 << 11, 1 << 10).expect("as many cells as keys");
        assert_eq!(rows.cell(u32::MAX), Some(((1 << 11) - 1, (1 << 11) - 1, (1 << 10) - 1)));
        assert_eq!(rows.key((1 << 11) - 1, (1 << 11) - 1, (1 << 10) - 1), Some(u32::MAX));
        assert!(matches!(Rows2::new((1 << 16) + 1, 1 << 16), Err(Error::TooLarge { .. })));
        assert!(matches!(Rows3::new(u32::MAX, 1, 2), Err(Error::TooLarge { .. })));
        assert!(matches!(Rows3::new(1 << 16, 1 << 16, u32::MAX), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn empty_boxes_have_no_cells() {
        for (width, height) in [(0, 0), (0, 7), (7, 0)] {
            let rows = Rows2::new(width, height).expect("no cells");
            assert_eq!((rows.cells(), rows.key(0, 0), rows.cell(0)), (0, None, None));
            let rows = Rows3::new(width, height, 3).expect("no cells");
            assert_eq!((rows.cells(), rows.key(0, 0, 0), rows.cell(0)), (0, None, None));
        }
        for side in [2, 1 << 20, u32::MAX] {
            let rows = Rows3::new(side, side, 0).expect("no cells");
            assert_eq!((rows.cells(), rows.key(0, 0, 0), rows.cell(0), rows.width()), (0, None, None, side));
        }
    }

    #[test]
    fn reversals_of_every_width() {
        assert_eq!((reversed(0, 0), reversed(1, 0)), (Some(0), None));
        assert_eq!((reversed(1, 32), reversed(1, 33)), (Some(1 << 31), None));
        let all: std::collections::BTreeSet<_> = (0..1 << 7).filter_map(|index| reversed(index, 7)).collect();
        assert!(all.into_iter().eq(0..1 << 7), "a permutation");
        assert_eq!((bit_reversed2(4, 0, 2), bit_reversed2_cell(16, 2)), (None, None));
        assert_eq!((bit_reversed2(0, 0, 17), bit_reversed2_cell(0, 17)), (None, None));
    }

    quickcheck! {
        fn rows_of_pictures_go_there_and_back(width: u16, height: u16, key: u32) -> bool {
            let Ok(rows) = Rows2::new(width.into(), height.into()) else { return false };
            let cell = rows.cell(key).or_else(|| rows.cell(key % (rows.cells().max(1) as u32)));
            cell.is_none_or(|(x, y)| {
                let back = rows.key(x, y);
                back.is_some_and(|key| rows.cell(key) == Some((x, y)) && key == y * rows.width() + x)
            }) && rows.key(width.into(), 0).is_none() && rows.key(0, height.into()).is_none()
        }

        fn rows_of_boxes_go_there_and_back(width: u16, height: u16, depth: u8, key: u32) -> bool {
            let Ok(rows) = Rows3::new(width.into(), height.into(), depth.into()) else {
                return u64::from(width) * u64::from(height) * u64::from(depth) > 1 << 32;
            };
            let (width, height) = (u64::from(width), u64::from(height));
            match rows.cell(key) {
                None => u64::from(key) >= rows.cells(),
                Some((x, y, z)) => {
                    let expected = u64::from(x) + width * (u64::from(y) + height * u64::from(z));
                    rows.key(x, y, z) == Some(key) && expected == u64::from(key)
                }
            }
        }

        fn morton_codes_of_pictures_interleave(x: u16, y: u16, key: u32) -> bool {
            let (of_x, of_y) = morton2_cell(key);
            morton2(x, y) == interleaved(&[x.into(), y.into()])
                && morton2_cell(morton2(x, y)) == (x, y)
                && morton2(of_x, of_y) == key
        }

        fn morton_codes_of_boxes_interleave(x: u32, y: u32, z: u32) -> bool {
            let [x, y, z] = [x, y, z].map(|c| c >> (c % 32).max(22));
            let key = morton3(x, y, z);
            key == Some(interleaved(&[x, y, z])) && key.and_then(morton3_cell) == Some((x, y, z))
                && morton3(x + 1024, y, z).is_none() && morton3_cell(x << 30 | 1 << 31).is_none()
        }

        fn reversing_twice_is_nothing(index: u32, bits: u32) -> bool {
            let bits = bits % 33;
            match reversed(index, bits) {
                None => bits < 32 && index >> bits != 0,
                Some(turned) => reversed(turned, bits) == Some(index)
                    && (0..bits).all(|i| turned >> i & 1 == index >> (bits - 1 - i) & 1),
            }
        }

        fn reversed_codes_go_there_and_back(x: u16, y: u16, bits: u32) -> bool {
            let bits = bits % 17;
            let (x, y) = ((u32::from(x) & ((1 << bits) - 1)) as u16, (u32::from(y) & ((1 << bits) - 1)) as u16);
            bit_reversed2(x, y, bits).is_some_and(|key| {
                u64::from(key) < 1 << (2 * bits) && bit_reversed2_cell(key, bits) == Some((x, y))
            })
        }
    }
}
