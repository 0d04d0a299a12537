//! The build: the rule of `canonical.rs`, 64 offsets at a time, on one thread.
//!
//! ```text
//! map     one bit per slot, in rows of the hash table; a row's first 64 bits are repeated after its end
//! a block of 64 offsets (one row of offsets, x to x + 63):
//!     for each point of the cell:  OR the 64 bits of the map that begin at the point's slot under x
//!     the lowest zero is the offset
//! ```
//!
//! Tens of offsets are tried for each point, and the map is a 64th of the table, so it mostly stays in a cache. Cells
//! with many points are placed first, while the table is empty. The last cells have a single point, which fits any free
//! slot, so a table can be filled to its last slot.
//!
//! The build is not parallel, because every offset depends on all that were chosen before it.

use std::cmp::Reverse;

use super::{Functions, MOST_PAIRS};
use crate::backend::Placed;
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::cuckoo::classic::{EMPTY, EMPTY_KEY, entry};

/// No offset: offsets are below 2^15 in each axis, so they never have all bits set.
const NONE: u32 = u32::MAX;

/// One point of the domain: a pair, and its slot with offset 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    base: u32,
    key: u32,
    value: u32,
}

/// Builds an image of the pairs `keys[i] -> values[i]`. Its earlier contents are ignored. `had_outside` is whether the
/// table already has a sentinel pair.
///
/// Of duplicates the greatest value is kept. Cost: a few passes over the pairs, and about `(1 - load)^-k` offsets for a
/// cell with k points, of which k reads of the map test 64. An attempt ends after too many tries (`canonical.rs`).
/// Memory: [`working_bytes`].
///
/// # Errors
/// [`Error::TooLarge`] for more pairs than [`MOST_PAIRS`]; [`Error::OutOfMemory`].
pub(crate) fn place(
    functions: &Functions,
    image: &mut [u64],
    had_outside: bool,
    keys: &[u32],
    values: &[u32],
) -> Result<Placed> {
    if keys.len() as u64 > MOST_PAIRS {
        let what = "pairs of a perfect spatial hash";
        return Err(Error::TooLarge { what, requested: keys.len() as u64, most: MOST_PAIRS });
    }
    let mut placed = Placed::default();
    let pairs = keys.iter().copied().zip(values.iter().copied());
    let outside = pairs.clone().filter(|&(key, _)| key == EMPTY_KEY);
    placed.outside = outside.clone().map(|(_, value)| value).max();
    placed.duplicates = (outside.count() as u64 + u64::from(had_outside)).saturating_sub(1);
    placed.least_duplicate = (placed.duplicates > 0).then_some(EMPTY_KEY);

    let mut groups = Groups::of(functions, pairs.filter(|&(key, _)| key != EMPTY_KEY))?;
    groups.make_distinct(&mut placed);
    if placed.unplaced > 0 {
        return Ok(placed);
    }
    let (slots, offsets) = image.split_at_mut(functions.slots as usize);
    slots.fill(EMPTY);
    offsets.fill(0);
    let order = groups.order()?;
    let points = order.iter().map(|&cell| groups.of_cell(cell).len() as u64).sum();
    // The fullest cell is first.
    let most = order.first().map_or(0, |&cell| groups.of_cell(cell).len());
    let mut search = Search::new(functions, functions.may_try(points), most)?;
    for (done, &cell) in order.iter().enumerate() {
        let points = groups.of_cell(cell);
        let Some(offset) = search.settle(cell, points) else {
            // The points of this cell and of all later ones.
            placed.unplaced = order[done..].iter().map(|&cell| groups.of_cell(cell).len() as u64).sum();
            return Ok(placed);
        };
        offsets[cell as usize / 2] |= u64::from(offset) << (32 * (cell % 2));
        for point in points {
            slots[functions.slot(point.base, offset) as usize] = entry(point.key, point.value);
        }
    }
    Ok(placed)
}

/// The bytes that [`place`] takes in addition to the image and its input, for this many pairs: the points and their
/// order; for each cell of the offset table the position and number of its points and its offset; the map.
pub(super) fn working_bytes(functions: &Functions, pairs: u64) -> u64 {
    let cells = u64::from(functions.cells);
    let points = pairs.saturating_mul(size_of::<Point>() as u64 + 4);
    points.saturating_add(12 * cells + 8 * words_a_row(functions.side.n) as u64 * u64::from(functions.rows()))
}

/// A vector of `len` copies of `value`, or a typed error.
pub(crate) fn filled<T: Clone>(len: usize, value: T) -> Result<Vec<T>> {
    let mut words = memory::reserved(len)?;
    words.resize(len, value);
    Ok(words)
}

/// Points, grouped by their cell of the offset table.
struct Groups {
    points: Vec<Point>,
    /// The start of each cell's points, and the number of distinct ones.
    starts: Vec<u32>,
    counts: Vec<u32>,
}

impl Groups {
    fn of(functions: &Functions, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Result<Groups> {
        let mut counts = filled(functions.cells as usize, 0u32)?;
        for (key, _) in pairs.clone() {
            counts[functions.home(key).0 as usize] += 1;
        }
        let mut starts = filled(counts.len(), 0u32)?;
        let mut total = 0;
        for (start, count) in starts.iter_mut().zip(&mut counts) {
            *start = total;
            total += std::mem::take(count);
        }
        let mut points = filled(total as usize, Point { base: 0, key: 0, value: 0 })?;
        for (key, value) in pairs {
            let (cell, base) = functions.home(key);
            let (start, count) = (starts[cell as usize], &mut counts[cell as usize]);
            points[(start + *count) as usize] = Point { base, key, value };
            *count += 1;
        }
        Ok(Groups { points, starts, counts })
    }

    /// Sorts the points of each cell, drops all duplicates but the one with the greatest value, and counts the points
    /// that no offset can separate from another.
    fn make_distinct(&mut self, placed: &mut Placed) {
        for (&start, count) in self.starts.iter().zip(&mut self.counts) {
            let points = &mut self.points[start as usize..(start + *count) as usize];
            points.sort_unstable();
            let mut kept = 0;
            for i in 0..points.len() {
                let point = points[i];
                let before = points[..kept].last_mut().filter(|before| before.base == point.base);
                match before {
                    Some(before) if before.key == point.key => {
                        placed.duplicates += 1;
                        placed.least_duplicate =
                            Some(placed.least_duplicate.map_or(point.key, |least| least.min(point.key)));
                        // The points are sorted, so the greater value is later.
                        *before = point;
                        continue;
                    }
                    Some(_) => placed.unplaced += 1,
                    None => {}
                }
                points[kept] = point;
                kept += 1;
            }
            *count = kept as u32;
        }
    }

    fn of_cell(&self, cell: u32) -> &[Point] {
        let start = self.starts[cell as usize] as usize;
        &self.points[start..start + self.counts[cell as usize] as usize]
    }

    /// The cells with points, by descending number of points; among equals the lesser number first.
    fn order(&self) -> Result<Vec<u32>> {
        let mut cells = filled(self.counts.iter().filter(|&&count| count > 0).count(), 0u32)?;
        let with_points = (0..self.counts.len() as u32).filter(|&cell| self.counts[cell as usize] > 0);
        cells.iter_mut().zip(with_points).for_each(|(to, cell)| *to = cell);
        // Sorts in place.
        cells.sort_unstable_by_key(|&cell| (Reverse(self.counts[cell as usize]), cell));
        Ok(cells)
    }
}

/// The search for offsets.
struct Search<'a> {
    functions: &'a Functions,
    /// The offset of each cell, or [`NONE`].
    offsets: Vec<u32>,
    map: Map,
    /// For each point of the current cell: its row in the current row of offsets, and its x with offset 0.
    at: Vec<(u32, u32)>,
    /// The remaining budget: offsets times the points that each is tried for.
    left: u64,
}

impl<'a> Search<'a> {
    /// Creates the search for cells of at most this many points.
    fn new(functions: &'a Functions, left: u64, most: usize) -> Result<Self> {
        let offsets = filled(functions.cells as usize, NONE)?;
        let map = Map::new(functions.side.n, functions.rows())?;
        Ok(Search { functions, offsets, map, at: memory::reserved(most)?, left })
    }

    /// Finds an offset for the points of a cell and takes their slots.
    fn settle(&mut self, cell: u32, points: &[Point]) -> Option<u32> {
        let offset = self.first_offset(cell, points)?;
        for point in points {
            self.map.take(self.functions.slot(point.base, offset));
        }
        self.offsets[cell as usize] = offset;
        Some(offset)
    }

    fn first_offset(&mut self, cell: u32, points: &[Point]) -> Option<u32> {
        let functions = self.functions;
        let mut first = None;
        for next in functions.neighbours(cell) {
            let offset = self.offsets[next as usize];
            if offset == NONE {
                continue;
            }
            if points.iter().all(|point| self.map.is_free(functions.slot(point.base, offset))) {
                return Some(offset);
            }
            first.get_or_insert(offset);
        }
        let (mut row, x) = functions.row_of(first.unwrap_or_else(|| functions.drawn(cell)));
        // Every cell of the order has points.
        let points_here = (points.len() as u64).max(1);
        let (most, side) = (self.left / points_here, u64::from(functions.side.n));
        // Offsets of the rows before this one.
        for before in (0..most).step_by(functions.side.n as usize).take(functions.rows() as usize) {
            // The rows for x = 0; every other x of this row of offsets leads to the same ones.
            self.at.clear();
            self.at.extend(points.iter().map(|point| functions.row_of_slot(point.base, functions.offset_at(row, 0))));
            let in_row = side.min(most - before) as u32;
            if let Some(passed) = self.passed_in_row(x, in_row) {
                self.left -= points_here * (before + u64::from(passed) + 1);
                return Some(functions.offset_at(row, wrap(x + passed, functions.side.n)));
            }
            row = functions.next_row(row);
        }
        None
    }

    /// The number of positions x, from `from` on and cyclically, before the first that is free for all points; less
    /// than `most`.
    fn passed_in_row(&self, from: u32, most: u32) -> Option<u32> {
        let side = self.functions.side.n;
        let mut tried = 0;
        while tried < most {
            let x = wrap(from + tried, side);
            let mut taken = 0;
            for &(row, base) in &self.at {
                taken |= self.map.block(row, wrap(base + x, side));
                if taken == u64::MAX {
                    break;
                }
            }
            let free = taken.trailing_ones();
            if free < 64.min(most - tried) {
                return Some(tried + free);
            }
            tried += 64;
        }
        None
    }
}

/// `x mod side` for x below 2 side.
fn wrap(x: u32, side: u32) -> u32 {
    if x < side { x } else { x - side }
}

fn words_a_row(side: u32) -> usize {
    (side as usize + 64).div_ceil(64)
}

/// The occupied slots: a row of bits for each row of slots, with its first 64 bits repeated after its end, so that any
/// 64 consecutive bits of the cyclic row can be read at once.
struct Map {
    side: u32,
    words_a_row: usize,
    words: Vec<u64>,
}

impl Map {
    fn new(side: u32, rows: u32) -> Result<Map> {
        let words_a_row = words_a_row(side);
        Ok(Map { side, words_a_row, words: filled(words_a_row * rows as usize, 0)? })
    }

    fn take(&mut self, slot: u32) {
        let (row, x) = (slot / self.side, slot % self.side);
        // In a short row one slot occurs several times among 64.
        for bit in (x..self.side + 64).step_by(self.side as usize) {
            self.words[row as usize * self.words_a_row + bit as usize / 64] |= 1 << (bit % 64);
        }
    }

    fn is_free(&self, slot: u32) -> bool {
        let (row, x) = (slot / self.side, slot % self.side);
        self.words[row as usize * self.words_a_row + x as usize / 64] >> (x % 64) & 1 == 0
    }

    /// 64 slots of a row from x on.
    #[inline(always)]
    fn block(&self, row: u32, x: u32) -> u64 {
        let at = row as usize * self.words_a_row + x as usize / 64;
        let (low, high) = (self.words[at], self.words[at + 1]);
        ((u128::from(high) << 64 | u128::from(low)) >> (x % 64)) as u64
    }
}
