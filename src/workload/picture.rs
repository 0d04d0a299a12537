//! Pictures in which some cells are defined, for experiments with tables that keep the order of keys.
//!
//! ```text
//! strength(cell)   blobs: the sum of a few waves, and a dome that is highest in the middle   random: mix(index)
//! defined          the `count` cells with the greatest strengths; of equal strengths, the first cells
//! ```
//!
//! Blobs have smooth outlines, holes and islands, like a photograph cut out on white; random cells have no structure.
//! All arithmetic is on integers, so a picture is the same on every machine.

use std::cmp::Ordering;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::layout::Rows2;
use crate::scheme::hash::{SplitMix64, mix};

/// A picture with a given number of defined cells.
///
/// ```
/// use koel::workload::Picture;
/// let picture = Picture::blobs(200, 100, 5000, 1)?;
/// let cells = (0..100).flat_map(|y| (0..200).map(move |x| (x, y)));
/// assert_eq!(cells.filter(|&(x, y)| picture.is_defined(x, y)).count(), 5000);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    rows: Rows2,
    count: u32,
    /// Bit i % 32 of word i / 32 is set if cell i is defined; cells are numbered row by row.
    defined: Vec<u32>,
}

impl Picture {
    /// Creates a picture with smooth shapes of exactly `count` cells, around the middle of the picture.
    ///
    /// Cost: 4 bytes and a bit per cell during construction, and the bit afterwards.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if there are more than 2^32 cells, [`Error::InvalidParameter`] if there are fewer than
    /// `count`.
    pub fn blobs(width: u32, height: u32, count: u32, seed: u64) -> Result<Picture> {
        let landscape = Landscape::new(width, height, seed);
        Picture::strongest(Rows2::new(width, height)?, count, |x, y| landscape.strength(x, y))
    }

    /// Creates a picture with exactly `count` random cells.
    ///
    /// # Errors
    /// As [`blobs`](Self::blobs).
    pub fn random(width: u32, height: u32, count: u32, seed: u64) -> Result<Picture> {
        let (rows, keys) = (Rows2::new(width, height)?, SplitMix64::new(seed).next_mix_keys());
        Picture::strongest(rows, count, |x, y| rows.key(x, y).map_or(0, |index| mix(index, keys)))
    }

    fn strongest(rows: Rows2, count: u32, strength: impl Fn(u32, u32) -> u32 + Sync) -> Result<Picture> {
        if u64::from(count) > rows.cells() {
            return Err(Error::parameter("defined cells", count, "use at most as many as the picture has"));
        }
        if count == 0 {
            return Ok(Picture { rows, count, defined: vec![0; (rows.cells() as usize).div_ceil(32)] });
        }
        // Allocated at its full size: collecting the strengths from parts would need twice the memory.
        let mut strengths = vec![0; rows.cells() as usize];
        strengths.par_chunks_mut(rows.width() as usize).zip(0..rows.height()).for_each(|(row, y)| {
            row.iter_mut().zip(0..).for_each(|(cell, x)| *cell = strength(x, y));
        });
        let count_from = |least: u32| strengths.par_iter().filter(|&&strength| strength >= least).count();
        // The greatest threshold that enough cells reach, determined from its highest bit down.
        let threshold = (0..32).rev().fold(0, |threshold, bit| {
            let higher = threshold | 1 << bit;
            if count_from(higher) >= count as usize { higher } else { threshold }
        });
        let above = threshold.checked_add(1).map_or(0, count_from);
        let mut level = count as usize - above;
        let mut is_defined = |strength: u32| match strength.cmp(&threshold) {
            Ordering::Greater => true,
            Ordering::Equal if level > 0 => {
                level -= 1;
                true
            }
            _ => false,
        };
        let mut word =
            |cells: &[u32]| cells.iter().zip(0..).fold(0, |word, (&cell, i)| word | u32::from(is_defined(cell)) << i);
        let defined = strengths.chunks(32).map(&mut word).collect();
        Ok(Picture { rows, count, defined })
    }

    /// The size, as the row-major layout of the cells.
    pub fn rows(&self) -> Rows2 {
        self.rows
    }

    /// The number of defined cells.
    pub fn defined(&self) -> u32 {
        self.count
    }

    /// Whether a cell is defined; false for cells outside.
    pub fn is_defined(&self, x: u32, y: u32) -> bool {
        self.rows.key(x, y).is_some_and(|at| self.defined[at as usize / 32] >> (at % 32) & 1 == 1)
    }
}

/// The greatest number of whole cycles of each wave over the longer side of the picture.
const CYCLES: [u64; 8] = [1, 2, 3, 5, 8, 13, 21, 34];

/// A dome with waves on it.
struct Landscape {
    width: i64,
    height: i64,
    /// For each wave: the steps of its phase to the right and down, and its initial phase; 2^32 is a cycle.
    waves: [(u32, u32, u32); CYCLES.len()],
}

impl Landscape {
    fn new(width: u32, height: u32, seed: u64) -> Landscape {
        let mut stream = SplitMix64::new(seed);
        let cell = (1 << 32) / u64::from(width.max(height).max(1));
        let waves = CYCLES.map(|cycles| {
            // Up to this number of cycles in either direction, in steps of 2^-8.
            let mut step = || {
                let draw = stream.next_u32();
                let step = ((cell * cycles * u64::from(draw >> 24)) >> 8) as u32;
                if draw & 1 == 0 { step } else { step.wrapping_neg() }
            };
            (step(), step(), stream.next_u32())
        });
        Landscape { width: width.into(), height: height.into(), waves }
    }

    fn strength(&self, x: u32, y: u32) -> u32 {
        let side = self.width.max(self.height).max(1);
        // From -2^10 to 2^10 over the longer side, and 0 in the middle.
        let off = |at: u32, side_here: i64| (2 * i64::from(at) - side_here) * (1 << 10) / side;
        let (right, down) = (off(x, self.width), off(y, self.height));
        let dome = -(right * right + down * down) / 24;
        let waves = self.waves.iter().zip(1..).map(|(&(to_right, to_down, start), order)| {
            let phase = start.wrapping_add(x.wrapping_mul(to_right)).wrapping_add(y.wrapping_mul(to_down));
            wave(phase) / order
        });
        let sum = dome + waves.sum::<i64>();
        // The sum is far within 32 bits; 2^31 is the middle of the unsigned range.
        (sum + (1 << 31)) as u32
    }
}

/// Two parabolas in place of a sine: from -2^14 to 2^14.
fn wave(phase: u32) -> i64 {
    let t = i64::from((phase >> 16) as i16);
    (t * ((1 << 15) - t.abs())) >> 14
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(picture: &Picture) -> Vec<(u32, u32)> {
        let rows = picture.rows();
        let all = (0..rows.height()).flat_map(|y| (0..rows.width()).map(move |x| (x, y)));
        all.filter(|&(x, y)| picture.is_defined(x, y)).collect()
    }

    #[test]
    fn pictures_have_exactly_the_given_number_of_defined_cells() {
        for (width, height) in [(0, 5), (1, 1), (33, 31), (200, 100), (1, 4096), (3000, 7)] {
            let all: u32 = width * height;
            for count in [0, 1, all / 3, all.saturating_sub(1), all].into_iter().filter(|&count| count <= all) {
                for picture in [Picture::blobs, Picture::random].map(|make| make(width, height, count, 9)) {
                    let picture = picture.expect("enough cells");
                    assert_eq!((cells(&picture).len(), picture.defined()), (count as usize, count));
                }
            }
            assert!(matches!(Picture::blobs(width, height, all + 1, 9), Err(Error::InvalidParameter { .. })));
        }
        assert!(matches!(Picture::random(1 << 31, 4, 1, 9), Err(Error::TooLarge { .. })));
    }

    /// In both pictures a third of the cells are defined. In the one with blobs, nearly all defined cells have a
    /// defined left neighbour; in the random one, a third of them have.
    #[test]
    fn blobs_have_neighbours_and_random_cells_do_not() {
        let adjacent = |picture: &Picture| {
            let all = cells(picture);
            let adjacent = all.iter().filter(|&&(x, y)| x > 0 && picture.is_defined(x - 1, y));
            adjacent.count() as f64 / all.len() as f64
        };
        let (blobs, random) = (Picture::blobs(512, 512, 87_000, 1), Picture::random(512, 512, 87_000, 1));
        let (blobs, random) = (blobs.expect("a picture"), random.expect("a picture"));
        assert!(adjacent(&blobs) > 0.95, "{}", adjacent(&blobs));
        assert!((0.31..0.35).contains(&adjacent(&random)), "{}", adjacent(&random));
        assert_eq!(Picture::blobs(512, 512, 87_000, 1).as_ref().ok(), Some(&blobs), "the same once more");
        assert_ne!(Picture::blobs(512, 512, 87_000, 2).ok(), Some(blobs), "another seed, another picture");
    }
}
