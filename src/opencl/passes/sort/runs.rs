//! A sort that begins with the most significant digits; the host side of cl/sort_runs.cl.
//!
//! ```text
//! top digits   as few as make runs short; sorted as usual, from the lowest of them up
//! runs         of pairs with equal top digits; each fits in local memory, where one pass sorts by all other digits
//! ```
//!
//! Random 64-bit keys take three passes in place of eight. But runs are short only if keys are spread over their top
//! digits: not if most exponents of doubles are equal, or few keys occur often. A sample of the keys predicts this. If
//! a run is longer than a tile nevertheless, all digits are sorted as usual, from the first.

use super::{Columns, DIGIT_BITS, Inspected, Passes, Strategy, columns};
use crate::backend::{HashBackend, Word};
use crate::error::Result;
use crate::opencl::Buffer;

/// Registers of a work-item, on devices that support a limit. Without one, `sort_runs` took 1.2 times as long on an
/// H200.
pub(super) const REGISTERS_EACH: u32 = 64;
/// The number of groups that keep any GPU busy.
const GROUPS: usize = 4096;
/// The number of differing bits by which a group sorts its runs before it checks whether they are in order. Of
/// 1,024 random keys, some two agree in all of these with a probability of 1/32.
const SOONER: u32 = 24;
/// The number of keys in a sample.
pub(super) const SAMPLES: usize = 2048;

/// The digits to sort before runs, from the lowest up; `None` if runs would be too long, or sorting all of the `all`
/// digits is as fast.
pub(super) fn top_digits(inspected: &Inspected, len: usize, tile: usize, all: usize) -> Option<Vec<u32>> {
    if inspected.sample.is_empty() {
        return None;
    }
    // Random keys have runs of a quarter of a tile or less.
    let runs = len.div_ceil(tile / 4).next_power_of_two();
    let mut shifts = Vec::new();
    let mut rest = inspected.differing;
    while (inspected.differing ^ rest).count_ones() < runs.ilog2() {
        let end = u64::BITS - rest.leading_zeros();
        // No digit is in both halves.
        let half = if end > u32::BITS { u32::BITS } else { 0 };
        let shift = end.checked_sub(DIGIT_BITS)?.max(half);
        shifts.insert(0, shift);
        rest &= (1 << shift) - 1;
    }
    let shift = *shifts.first()?;
    let half_digits = (0..shift).step_by(4).filter(|&at| rest >> at & 15 != 0).count();
    let pays = shifts.len() + 1 + half_digits.div_ceil(8) < all;
    (pays && runs_are_short(&inspected.sample, shift, len, tile)).then_some(shifts)
}

/// The `count` most significant ones of these bits.
fn highest(mut bits: u64, count: u32) -> u64 {
    let all = bits;
    for _ in 0..count {
        bits &= !(1 << bits.checked_ilog2().unwrap_or(0));
    }
    all ^ bits
}

/// Whether the runs of `len` keys are probably not longer than a tile: that of an average pair has at most half a tile,
/// and no key occurs often.
fn runs_are_short(sample: &[u64], shift: u32, len: usize, tile: usize) -> bool {
    let mut tops: Vec<_> = sample.iter().map(|key| key >> shift).collect();
    tops.sort_unstable();
    let pairs: usize = tops.chunk_by(|a, b| a == b).map(|run| run.len() * (run.len() - 1)).sum();
    let mean = pairs as f64 / (sample.len() * (sample.len() - 1)) as f64 * len as f64;
    // Up to four keys of a short run may be in the sample by chance.
    let most = tops.chunk_by(|a, b| a == b).map(|run| run.len().saturating_sub(4)).max().unwrap_or(0);
    mean <= (tile / 2) as f64 && most * len / sample.len() <= tile
}

impl Passes<'_> {
    /// Sorts by the top digits, then each run; `None` if a run is too long.
    pub(super) fn by_runs<K: Word, V: Word>(
        self,
        top: &[u32],
        differing: u64,
        keys: &Buffer<K>,
        values: &Buffer<V>,
    ) -> Result<Option<Columns<K, V>>> {
        let (device, len, group, tile) = (self.device, self.len, self.device.pass_group(), self.device.sort_tile());
        let ((keys, values), spare) = self.all(top, keys, values)?;
        let to = spare.map_or_else(|| columns(device, len), Ok)?;
        // A few tiles of runs for each group, if that leaves enough groups.
        let span = (len / GROUPS).clamp(tile / 2, 4 * tile);
        let later = differing & ((1 << top[0]) - 1);
        let sooner = highest(later, SOONER);
        let too_long = device.filled(1, 0u32)?;
        let program = device.sort_program::<K, V>(Strategy::Runs)?;
        let launch = device.kernel(&program, "sort_runs")?.buffer(&keys).buffer(&values).value(len as u32);
        let launch = launch.value(top[0]).value(span as u32);
        let launch = match K::BITS {
            u32::BITS => launch.value(sooner as u32).value(later as u32),
            _ => launch.value(sooner).value(later),
        };
        let launch = launch.buffer(&to.0).buffer(&to.1).buffer(&too_long);
        launch.over_groups_of(group, group * len.div_ceil(span), len)?;
        let mut found = [0u32];
        device.read(&too_long, 0, &mut found)?;
        Ok((found == [0]).then_some(to))
    }
}
