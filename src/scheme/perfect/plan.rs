//! The integers that define the meaning of a perfect image, and the computation of the sizes of its two tables.

use bytemuck::NoUninit;

use super::{Functions, Perfect};
use crate::scheme::cuckoo::classic::{EMPTY, EMPTY_KEY};
use crate::scheme::head::{head, outside};
use crate::scheme::stored::{equal_to_planned, stored};
use crate::scheme::{Plan, Scheme};

/// The integers that determine a perfect image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct PerfectPlan {
    pub(super) kind: u32,
    pub(super) axes: u32,
    pub(super) width: u32,
    /// 0 in a plane.
    pub(super) height: u32,
    pub(super) side: u32,
    pub(super) offset_side: u32,
    pub(super) attempt: u32,
    pub(super) outside: u32,
    pub(super) outside_value: u32,
    pub(super) reserved: u32,
    pub(super) seed: u64,
}

impl PerfectPlan {
    /// The functions with their constants.
    pub fn functions(&self) -> Functions {
        Functions::new(self)
    }

    /// d: 2 in a plane, 3 in a volume.
    pub fn axes(&self) -> u32 {
        self.axes
    }

    /// Cells of a row of the domain.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows of a layer of the domain; `None` in a plane, which has one layer.
    pub fn height(&self) -> Option<u32> {
        (self.axes == 3).then_some(self.height)
    }

    /// M: slots along an axis of the hash table.
    pub fn side(&self) -> u32 {
        self.side
    }

    /// R: cells along an axis of the offset table.
    pub fn offset_side(&self) -> u32 {
        self.offset_side
    }

    /// The number of offsets, R^d: one for each cell of the offset table.
    pub fn offset_count(&self) -> u64 {
        power(self.offset_side, self.axes)
    }

    /// The plan, if its fields are valid together.
    pub(super) fn checked(self) -> std::result::Result<Self, String> {
        if ![2, 3].contains(&self.axes) {
            return Err(format!("a domain of {} axes is unknown", self.axes));
        }
        equal_to_planned(&Perfect::from_plan(&self), self, 0)
    }
}

impl Plan for PerfectPlan {
    type Key = u32;
    type Value = u32;

    head!();
    outside!(EMPTY_KEY);
    stored!(Perfect, [kind, axes, width, height, side, offset_side, attempt, outside, outside_value, reserved, seed]);

    fn slots(&self) -> u64 {
        power(self.side, self.axes)
    }
    fn words(&self) -> u64 {
        self.slots().saturating_add(self.offset_count().div_ceil(2))
    }
    /// Offsets are not counted, because they are not pairs.
    fn cells(&self) -> u64 {
        self.slots()
    }
    fn empty_word(&self) -> u64 {
        EMPTY
    }
}

/// `side^axes`, which does not saturate for the side of a valid plan.
pub(super) fn power(side: u32, axes: u32) -> u64 {
    u64::from(side).saturating_pow(axes)
}

/// The smallest side with this many cells, at least 1; for up to 2^32 cells.
pub(super) fn side_for(cells: u64, axes: u32) -> u32 {
    let (mut least, mut enough) = (1, 1 << 16);
    while least < enough {
        let middle = least + (enough - least) / 2;
        if power(middle, axes) < cells { least = middle + 1 } else { enough = middle }
    }
    enough
}

/// The number of cells that an offset table may have however small its hash table. A few keys that are far apart need a
/// large R to be separated.
const FREE_CELLS: u64 = 1 << 12;
/// The maximum number of cells of an offset table. Cell numbers fit 32 bits.
const MOST_CELLS: u64 = 1 << 31;
/// The number of sides that are tried in turn once the offset table has its maximum size, down to three quarters of it.
const LAST_SIDES: u32 = 16;

fn most_offsets(slots: u64) -> u64 {
    slots.saturating_mul(4).saturating_add(FREE_CELLS).min(MOST_CELLS)
}

/// An upper bound of R in all attempts.
pub(super) fn largest_offset_side(side: u32, axes: u32) -> u32 {
    side_for(most_offsets(power(side, axes)), axes)
}

/// R at an attempt, for a hash table with this side.
///
/// ```text
/// cells   as many as slots at attempt 4 (a volume: at attempt 5), and from one attempt to the next sqrt(2) times as
///         many: at first slots / 4 in a plane and slots / 5.7 in a volume, about slots / 2 d; at most 4 slots + 4096
/// R       the least side with this many cells, then down to the next number without a common divisor with M
/// ```
///
/// So R takes the values M - 1 and, in a plane, 2 M - 1. With these, the points of an offset cell that are in one row
/// of the domain are stored next to each other, so sets that are long and thin, and leave most offsets without points,
/// can be packed.
///
/// At the maximum number of cells, the remaining attempts try the sides below it in turn, because different keys are
/// congruent modulo each.
pub(super) fn offset_side(side: u32, axes: u32, attempt: u32) -> u32 {
    let slots = power(side, axes);
    let most = most_offsets(slots);
    let equal = if axes == 2 { 4 } else { 5 };
    let cells = grown(slots, i64::from(attempt) - equal);
    let mut offset_side = side_for(cells.min(most), axes);
    if cells > most {
        offset_side -= attempt % LAST_SIDES.min(offset_side / 4 + 1);
    }
    // 1 has no common divisor with any number.
    while common_divisor(offset_side, side) > 1 {
        offset_side -= 1;
    }
    offset_side
}

/// `count` times the square root of two to this power.
fn grown(count: u64, halves: i64) -> u64 {
    let odd = halves.rem_euclid(2) == 1;
    // In 128ths; 181 is the root.
    let count = u128::from(count) * if odd { 181 } else { 128 };
    let doublings = halves.div_euclid(2);
    let scaled = if doublings < 0 { count >> -doublings } else { count << doublings.min(64) };
    u64::try_from(scaled.div_ceil(128)).unwrap_or(u64::MAX)
}

pub(super) fn common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_minimal() {
        for axes in [2, 3] {
            for cells in (0..3000).chain([1 << 20, (1 << 30) - 1, 1 << 30, (1 << 31) + 1]) {
                let side = side_for(cells, axes);
                assert!(side >= 1 && power(side, axes) >= cells, "{cells}");
                assert!(side == 1 || power(side - 1, axes) < cells, "{cells}");
            }
        }
    }

    #[test]
    fn the_offset_table_grows_within_its_bound() {
        for axes in [2, 3] {
            for side in (1..200).chain([1000, 1024]).chain((axes == 2).then_some(1 << 15)) {
                let sides: Vec<_> = (0..64).map(|attempt| offset_side(side, axes, attempt)).collect();
                assert!(sides.iter().all(|&r| common_divisor(r, side) == 1), "{side}: {sides:?}");
                let slots = power(side, axes);
                let first = side_for(slots.div_ceil(2 * u64::from(axes)), axes);
                assert!(sides[0] <= first + first / 30 + 1 && sides[0] + 8 >= first, "{side}: {sides:?}");
                let most = largest_offset_side(side, axes);
                assert!(sides.iter().all(|&r| r <= most), "{side}: {sides:?}");
                assert!(side < 3 || sides.contains(&(side - 1)), "{side}: {sides:?}");
                assert!(
                    axes == 3 || !(3..=1 << 14).contains(&side) || sides.contains(&(2 * side - 1)),
                    "{side}: {sides:?}"
                );
                // Enough different sides to scatter keys that are congruent modulo one of them.
                let different: std::collections::BTreeSet<_> = sides[..32].iter().collect();
                assert!(different.len() >= 6, "{side}: {sides:?}");
                assert!(offset_side(side, axes, u32::MAX) <= most);
            }
        }
    }
}
