//! The slot of a key, and the order in which offsets are tried, for one key or for eight.
//!
//! ```text
//! p       = the key's coordinates:  x = key mod width,  y = key / width    (a volume: y mod height, z = y / height)
//! cell    = p mod R, row by row: the position of the offset
//! base    = p mod M, packed like an offset
//! slot    = (base + offset) mod M in each axis, row by row
//! packed  = x + 2^16 y  in a plane,  x + 2^10 y + 2^20 z  in a volume
//! ```
//!
//! M and R have no common divisor, so `p mod M` and `p mod R` together are p modulo M R. Cells of the domain that agree
//! in both are at least M R apart, and no offset can separate them.

use super::PerfectPlan;
use super::plan::{common_divisor, power};
use crate::scheme::Plan;
use crate::scheme::divisor::Divisor;
use crate::scheme::hash::{Lane, MixKeys, SplitMix64, mix, reduce, wrapped};

/// The minimum of [`Functions::tries`]. Sets that are packed row by row need one row of offsets per point, which is
/// more in a large table; the limit there is two rows.
const TRIES: u64 = 1 << 12;

/// The sizes of a table and the constants derived from them.
#[derive(Clone, Copy, Debug)]
pub struct Functions {
    /// d: 2 or 3.
    pub axes: u32,
    /// Cells of a row of the domain.
    pub width: Divisor,
    /// Rows of a layer of the domain; 1 in a plane.
    pub height: Divisor,
    /// M.
    pub side: Divisor,
    /// R.
    pub offset_side: Divisor,
    /// M^d.
    pub slots: u32,
    /// R^d.
    pub cells: u32,
    /// The number of offsets that a build tries per point, on average, before it gives up.
    pub(super) tries: u64,
    /// The distance between one row of offsets and the next one that is tried.
    row_step: u32,
    /// The offset at which the search begins if no neighbour has one.
    start: MixKeys,
}

impl Functions {
    pub(super) fn new(plan: &PerfectPlan) -> Self {
        let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Functions {
            axes: plan.axes,
            width: Divisor::new(plan.width),
            height: Divisor::new(plan.height),
            side: Divisor::new(plan.side),
            offset_side: Divisor::new(plan.offset_side),
            slots: number(plan.slots()),
            cells: number(plan.offset_count()),
            tries: TRIES.max(2 * u64::from(plan.side)),
            row_step: row_step(power(plan.side, plan.axes.saturating_sub(1)), plan.side),
            start: SplitMix64::for_attempt(plan.seed, plan.attempt).next_mix_keys(),
        }
    }

    /// The cell of the offset table and the packed base of a key.
    #[inline(always)]
    pub fn home<L: Lane>(&self, key: L) -> (L, L) {
        let (y, x) = self.width.divide(key);
        let (m, r) = (self.side, self.offset_side);
        let row = L::splat(r.n);
        if self.axes == 2 {
            let cell = r.remainder(x).plus(r.remainder(y).times(row));
            return (cell, pack_plane(m.remainder(x), m.remainder(y)));
        }
        let (z, y) = self.height.divide(y);
        let cell = r.remainder(x).plus(r.remainder(y).plus(r.remainder(z).times(row)).times(row));
        (cell, pack_volume(m.remainder(x), m.remainder(y), m.remainder(z)))
    }

    /// The slot of a base under an offset. Offsets that no build sets are cut off, so any image leads to some slot.
    #[inline(always)]
    pub fn slot<L: Lane>(&self, base: L, offset: L) -> L {
        let side = L::splat(self.side.n);
        let last = L::splat(self.side.n - 1);
        let axis = |base: L, offset: L| wrapped(base.plus(offset.lesser(last)), side);
        if self.axes == 2 {
            let x = axis(base.low_bits(16), offset.low_bits(16));
            let y = axis(base.shifted::<16>(), offset.shifted::<16>());
            return x.plus(y.times(side));
        }
        let x = axis(base.low_bits(10), offset.low_bits(10));
        let y = axis(base.shifted::<10>().low_bits(10), offset.shifted::<10>().low_bits(10));
        let z = axis(base.shifted::<20>(), offset.shifted::<20>());
        x.plus(y.plus(z.times(side)).times(side))
    }

    /// The offset in a cell; a word after the slots contains two, the even one in the lower half.
    #[inline(always)]
    pub fn offset(&self, image: &[u64], cell: u32) -> u32 {
        half(image.get(self.offset_word(cell)).copied().unwrap_or(0), cell)
    }

    /// The word that contains a cell's offset.
    #[inline(always)]
    pub fn offset_word(&self, cell: u32) -> usize {
        self.slots as usize + (cell / 2) as usize
    }

    /// The slot of a key.
    pub fn location(&self, image: &[u64], key: u32) -> u32 {
        let (cell, base) = self.home(key);
        self.slot(base, self.offset(image, cell))
    }

    // ---- The order in which a build tries offsets.

    /// The limit of tries for all offsets, for a set of this many points.
    pub(super) fn may_try(&self, points: u64) -> u64 {
        self.tries.saturating_mul(points)
    }

    /// The cells next to a cell; the offset table wraps around, as the domain does.
    pub(super) fn neighbours(&self, cell: u32) -> impl Iterator<Item = u32> {
        let side = self.offset_side.n;
        (0..self.axes).flat_map(move |axis| {
            let step = side.pow(axis);
            let at = cell / step % side;
            let rest = cell - at * step;
            [(at + side - 1) % side, (at + 1) % side].map(|at| rest + at * step)
        })
    }

    /// The offset at which a search begins if no neighbour has one.
    pub(super) fn drawn(&self, cell: u32) -> u32 {
        self.slot_offset(reduce(mix(cell, self.start), self.slots))
    }

    /// The rows of offsets: an offset is an x in one of them.
    pub(super) fn rows(&self) -> u32 {
        self.slots / self.side.n
    }

    /// The row after this one. The sequence visits all rows before it repeats; consecutive ones are far apart, so that
    /// a search leaves a full region at once.
    pub(super) fn next_row(&self, row: u32) -> u32 {
        let rows = u64::from(self.rows());
        ((u64::from(row) + u64::from(self.row_step)) % rows) as u32
    }

    /// The row and the x of an offset.
    pub(super) fn row_of(&self, offset: u32) -> (u32, u32) {
        let at = self.slot(0, offset);
        (at / self.side.n, at % self.side.n)
    }

    /// The row of a base's slot under an offset with x = 0, and the x there.
    #[inline(always)]
    pub(super) fn row_of_slot(&self, base: u32, offset: u32) -> (u32, u32) {
        self.side.divide(self.slot(base, offset))
    }

    /// Whether a build could have set this offset.
    pub(super) fn is_offset(&self, offset: u32) -> bool {
        let (row, x) = self.row_of(offset);
        self.offset_at(row, x) == offset
    }

    /// The offset of a row and an x.
    pub(super) fn offset_at(&self, row: u32, x: u32) -> u32 {
        if self.axes == 2 {
            return pack_plane(x, row);
        }
        pack_volume(x, row % self.side.n, row / self.side.n)
    }

    /// The offset that leads from base 0 to a slot.
    fn slot_offset(&self, slot: u32) -> u32 {
        self.offset_at(slot / self.side.n, slot % self.side.n)
    }
}

/// A step of about the golden section of the number of rows, and without a common divisor with that number, which is a
/// power of M.
fn row_step(rows: u64, side: u32) -> u32 {
    let near = u32::try_from(rows.saturating_mul(618) / 1000).unwrap_or(u32::MAX).max(1);
    (near..=u32::MAX).find(|&step| common_divisor(step, side) == 1).unwrap_or(1)
}

/// The half of a word of the offset table that belongs to a cell.
#[inline(always)]
pub(crate) fn half(word: u64, cell: u32) -> u32 {
    (word >> (32 * (cell % 2))) as u32
}

#[inline(always)]
fn pack_plane<L: Lane>(x: L, y: L) -> L {
    x.plus(y.times(L::splat(1 << 16)))
}

#[inline(always)]
fn pack_volume<L: Lane>(x: L, y: L, z: L) -> L {
    x.plus(y.times(L::splat(1 << 10))).plus(z.times(L::splat(1 << 20)))
}
