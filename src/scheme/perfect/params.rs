//! The parameters: the domain whose cells are the keys.

use crate::scheme::divisor::Divisor;

/// The default width of a plane: 65,536 columns, and as many rows.
pub(crate) const DEFAULT_WIDTH: u32 = 1 << 16;
/// The greatest width or height of a domain.
pub(crate) const MOST_EXTENT: u32 = Divisor::MOST;

/// The parameters of a perfect spatial hash: a domain of two or three axes, whose cells are the keys, row by row.
///
/// The last axis has as many cells as fit a `u32`, so every key is a cell.
///
/// ```
/// use koel::{Cpu, HashTable, Perfect};
/// // A disc in a picture 2048 pixels wide; a pixel's key is x + 2048 y.
/// let is_inside = |x: i32, y: i32| (x - 1000).pow(2) + (y - 700).pow(2) < 90_000;
/// let inside = (0..2048 * 1400).filter(|&key| is_inside(key % 2048, key / 2048));
/// let keys: Vec<u32> = inside.map(|key| key as u32).collect();
/// let table = HashTable::builder(Perfect::plane(2048)).build(&Cpu::new(), &keys, &keys)?;
/// assert_eq!(table.stats()?.reads_per_hit, 2.0);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Perfect {
    pub(super) width: u32,
    /// `None` in a plane.
    pub(super) height: Option<u32>,
}

impl Perfect {
    /// A plane: the cell in column x of row y has the key `x + width * y`. `width` is 1 to 2^31.
    pub fn plane(width: u32) -> Self {
        Perfect { width, height: None }
    }

    /// A volume: the cell (x, y, z) has the key `x + width * (y + height * z)`. Both are 1 to 2^31.
    pub fn volume(width: u32, height: u32) -> Self {
        Perfect { width, height: Some(height) }
    }

    /// d: 2 in a plane, 3 in a volume.
    pub fn axes(&self) -> u32 {
        if self.height.is_some() { 3 } else { 2 }
    }
}

impl Default for Perfect {
    fn default() -> Self {
        Perfect::plane(DEFAULT_WIDTH)
    }
}
