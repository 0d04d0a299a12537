//! Exact sums of many groups, whose states can be merged in any order.
//!
//! ```text
//! window       72 exponents, low .. low + 71; low is 1 + 16 * k, so parts of a column usually have the same window
//! group        an integer of 128 bits, in units of the window, and a superaccumulator if necessary: for values outside
//!              of the window, infinities and NaN, and if the integer would overflow
//! state        low and the integer in 18 bytes; the superaccumulator, if there is one, in 552 bytes
//!
//! merge(state)    same window      add the integers
//!                 higher low       shift the integer up, if it then fits 128 bits
//!                 lower low        lower the own window first, by at most 32; or shift down, if no bit is lost
//!                 otherwise        add the integer to the superaccumulator
//! ```
//!
//! All of this is exact. The window only determines speed and memory. It is chosen from the first values such that it
//! contains at least 32 exponents below the greatest of them, and at least 24 above it, because the values of sorted
//! columns grow.

use super::window::{exponent, integer, unit};
use super::{ExactSum, nearest, quotient, signed};

/// The number of exponents of a window. A double in units of the window is below 2^124.
const WIDTH: u32 = 72;
/// The number of exponents of a window below the greatest one of the first values, before `low` is rounded down.
const BELOW: u32 = 32;
/// The distance between the low ends of adjacent windows.
const GRID: u32 = 16;
/// The maximum of `low`: no window contains the exponent of infinity and NaN.
const HIGHEST: u32 = 1969;
/// The maximum by which a merge lowers the window.
const LOWERED: u32 = 32;

/// Exact sums of doubles, one per group, that are merged by their states. Groups are numbered from 0.
///
/// ```
/// let (mut a, mut b) = (koel::SumStates::default(), koel::SumStates::default());
/// a.resize(1);
/// a.add([(0, 1e308), (0, 0.1)].into_iter());
/// b.resize(1);
/// b.add([(0, 0.2), (0, -1e308)].into_iter());
/// assert!(a.merge(0, &b.state(0), b.leftovers(0).as_deref()));
/// assert_eq!((a.sum(0), a.mean(0, 3)), (0.30000000000000004, 0.1));
/// ```
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct SumStates {
    /// The lowest exponent of the window, encoded as in a double. `None` while all sums are zero or consist only of
    /// leftovers.
    low: Option<u32>,
    sums: Vec<i128>,
    /// Empty, or one for each group.
    leftovers: Vec<Option<Box<ExactSum>>>,
    /// The number of groups with leftovers.
    with_leftovers: usize,
}

impl SumStates {
    /// The number of bytes of a [`state`](Self::state).
    pub const BYTES: usize = 18;

    /// The number of groups.
    pub fn len(&self) -> usize {
        self.sums.len()
    }

    /// Whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Sets the number of groups. New ones have the sum 0.
    pub fn resize(&mut self, groups: usize) {
        self.sums.resize(groups, 0);
        if !self.leftovers.is_empty() {
            self.leftovers.resize(groups, None);
        }
    }

    /// Adds values to the sums of their groups, which must exist.
    pub fn add(&mut self, rows: impl Iterator<Item = (usize, f64)> + Clone) {
        if self.low.is_none() {
            let exponents = rows.clone().filter(|&(_, value)| value != 0.0 && value.is_finite());
            self.low = exponents.map(|(_, value)| exponent(value.to_bits())).max().map(low_for);
        }
        // If there is no window, all values are zero, infinite or NaN.
        let low = self.low.unwrap_or(1);
        for (group, value) in rows {
            let sum = &mut self.sums[group];
            match integer(value.to_bits(), low, WIDTH).and_then(|integer| sum.checked_add(integer)) {
                Some(next) => *sum = next,
                None => self.add_leftover(group, value),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn add_leftover(&mut self, group: usize, value: f64) {
        // The integer is moved to the superaccumulator and starts again from 0, because it may be about to overflow.
        let sum = std::mem::take(&mut self.sums[group]);
        let low = self.low.unwrap_or(1);
        let leftovers = self.leftovers_of(group);
        if sum != 0 {
            leftovers.add_integer(sum, unit(low));
        }
        leftovers.add(value);
    }

    fn leftovers_of(&mut self, group: usize) -> &mut ExactSum {
        if self.leftovers.is_empty() {
            self.leftovers.resize(self.sums.len(), None);
        }
        let leftovers = &mut self.leftovers[group];
        self.with_leftovers += usize::from(leftovers.is_none());
        leftovers.get_or_insert_default()
    }

    /// Adds the state of another group to an existing one. Returns false, and adds nothing, if `state` is not a valid
    /// state.
    pub fn merge(&mut self, group: usize, state: &[u8; Self::BYTES], leftovers: Option<&[u8]>) -> bool {
        let [a, b, bytes @ ..] = *state;
        let low = u32::from(u16::from_le_bytes([a, b]));
        if !(1..=HIGHEST).contains(&low) || low % GRID != 1 {
            return false;
        }
        if let Some(bytes) = leftovers {
            let Some(leftovers) = ExactSum::from_bytes(bytes) else { return false };
            self.leftovers_of(group).merge(&leftovers);
        }
        self.merge_integer(group, i128::from_le_bytes(bytes), low);
        true
    }

    fn merge_integer(&mut self, group: usize, integer: i128, low: u32) {
        if integer == 0 {
            return;
        }
        let mut own = *self.low.get_or_insert(low);
        if low < own && own - low <= LOWERED {
            self.lower(low);
            own = low;
        }
        let moved = if low >= own { shifted_up(integer, low - own) } else { shifted_down(integer, own - low) };
        match moved.and_then(|integer| self.sums[group].checked_add(integer)) {
            Some(sum) => self.sums[group] = sum,
            None => self.leftovers_of(group).add_integer(integer, unit(low)),
        }
    }

    /// Moves the sums to a lower window.
    fn lower(&mut self, low: u32) {
        let Some(own) = self.low.replace(low) else { return };
        for group in 0..self.sums.len() {
            let sum = self.sums[group];
            self.sums[group] = shifted_up(sum, own - low).unwrap_or_else(|| {
                self.leftovers_of(group).add_integer(sum, unit(own));
                0
            });
        }
    }

    /// The part of a group's state that contains the window and the integer, for [`merge`](Self::merge).
    pub fn state(&self, group: usize) -> [u8; Self::BYTES] {
        let low = self.low.unwrap_or(1) as u16;
        let (low, integer) = (low.to_le_bytes(), self.sums[group].to_le_bytes());
        std::array::from_fn(|at| if at < 2 { low[at] } else { integer[at - 2] })
    }

    /// The rest of a group's state, if there is any.
    pub fn leftovers(&self, group: usize) -> Option<Vec<u8>> {
        self.leftovers.get(group)?.as_ref().map(|leftovers| leftovers.to_bytes())
    }

    /// The sum of a group.
    pub fn sum(&self, group: usize) -> f64 {
        self.result(group, |sum, unit| signed(sum < 0, nearest(sum.unsigned_abs(), unit, false)), ExactSum::sum)
    }

    /// The sum of a group, if it is a double without being rounded, and the group has no leftovers.
    pub fn exact(&self, group: usize) -> Option<f64> {
        let sum = self.sums[group].unsigned_abs();
        let odd = sum >> sum.trailing_zeros().min(u128::BITS - 1);
        let has_leftovers = matches!(self.leftovers.get(group), Some(Some(_)));
        (!has_leftovers && odd >> f64::MANTISSA_DIGITS == 0).then(|| self.sum(group)).filter(|sum| sum.is_finite())
    }

    /// The sum of a group divided by `count`, rounded once. NaN if the count is 0.
    pub fn mean(&self, group: usize, count: u64) -> f64 {
        self.result(group, |sum, unit| quotient(sum, unit, count), |all| all.mean(count))
    }

    fn result(&self, group: usize, of: impl Fn(i128, i32) -> f64, of_all: impl Fn(&ExactSum) -> f64) -> f64 {
        let (sum, unit) = (self.sums[group], unit(self.low.unwrap_or(1)));
        match self.leftovers.get(group) {
            Some(Some(leftovers)) => {
                let mut all = leftovers.clone();
                all.add_integer(sum, unit);
                of_all(&all)
            }
            _ => of(sum, unit),
        }
    }

    /// Removes the first groups, and numbers the others from 0.
    pub fn remove_first(&mut self, groups: usize) {
        self.sums.drain(..groups);
        self.leftovers.drain(..groups.min(self.leftovers.len()));
        self.with_leftovers = self.leftovers.iter().flatten().count();
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>()
            + self.leftovers.capacity() * size_of::<usize>()
            + self.with_leftovers * size_of::<ExactSum>()
    }
}

/// The low end of the window for values whose greatest exponent is `exponent`.
fn low_for(exponent: u32) -> u32 {
    let low = exponent.saturating_sub(BELOW).clamp(1, HIGHEST);
    low - (low - 1) % GRID
}

fn shifted_up(integer: i128, shift: u32) -> Option<i128> {
    let moved = integer.checked_shl(shift)?;
    (moved >> shift == integer).then_some(moved)
}

fn shifted_down(integer: i128, shift: u32) -> Option<i128> {
    (integer.trailing_zeros() >= shift).then(|| integer.checked_shr(shift))?
}

#[cfg(test)]
mod tests;
