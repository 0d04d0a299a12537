//! Sums and means of groups, from the integer sums of their values and the doubles outside of the window.

use std::sync::atomic::Ordering::Relaxed;

use super::memory::atomic;
use super::{CHUNK, Cpu, Memory};
use crate::backend::numbers::bits_of;
use crate::backend::{HashBackend, Numbers, WideAccumulated};
use crate::error::Result;
use crate::exact::{ExactSum, Leftovers, Rest, Window, sums_of_runs};
use crate::parallel::{each, fold};

/// The sums and counts of groups.
pub(super) struct Totals<S, C> {
    /// The sum of a group without leftovers; for doubles, in units of the window.
    pub(super) sum: S,
    /// The number of values of a group.
    pub(super) count: C,
    pub(super) window: Window,
    pub(super) leftovers: Leftovers,
    /// The sums of the leftovers that are not in `leftovers`: one per group, or empty.
    pub(super) exact: Vec<ExactSum>,
}

impl Cpu {
    /// Writes the requested sums and means. Returns the first group whose sum does not fit in 64 bits.
    pub(super) fn finish_sums<S: Fn(usize) -> i128 + Sync, C: Fn(usize) -> u32 + Sync>(
        &self,
        to: &mut WideAccumulated<Cpu>,
        of: Numbers,
        totals: Totals<S, C>,
    ) -> Result<()> {
        let Totals { sum, count, window, leftovers, exact } = totals;
        let (sums, means) = (to.sums.words_mut()?, to.means.words_mut()?);
        to.overflow = self.run(|| {
            let first = fold(
                (0..sums.len(), &mut *sums),
                CHUNK,
                |_, (groups, sums)| {
                    let mut first = None;
                    for (group, to) in groups.zip(sums) {
                        let sum = sum(group);
                        *to = of.sum(sum, window).unwrap_or_else(|| {
                            first = first.or(Some(group as u32));
                            sum as u64
                        });
                    }
                    first
                },
                Option::or,
            );
            each((0..means.len(), &mut *means), CHUNK, |_, (groups, means)| {
                groups.zip(means).for_each(|(group, to)| *to = of.mean(sum(group), window, count(group)));
            });
            first
        })?;
        let (sums, means) = (atomic(sums), atomic(means));
        let put = |group: usize, rest: Rest<'_>| {
            let count = if means.is_empty() { 0 } else { count(group) };
            let [found, mean] = rest.results(sum(group), window.unit(), count.into());
            if let Some(to) = sums.get(group) {
                to.store(bits_of(found), Relaxed);
            }
            if let Some(to) = means.get(group) {
                to.store(bits_of(mean), Relaxed);
            }
        };
        (0..).zip(exact).for_each(|(group, mut exact)| put(group, Rest::Sum(&mut exact)));
        if leftovers.len() == 0 {
            return Ok(());
        }
        let (ids, values) = self.sorted(leftovers)?;
        self.run(|| sums_of_runs(ids.words(), values.words(), |id, rest| put(id as usize, rest)))?
    }

    /// The rows by group.
    fn sorted(&self, leftovers: Leftovers) -> Result<(Memory<u32>, Memory<u64>)> {
        let (mut ids, mut values) = (self.unwritten(leftovers.len())?, self.unwritten(leftovers.len())?);
        let (to_ids, to_values) = (ids.words_mut()?, values.words_mut()?);
        self.run(|| leftovers.copy_to(to_ids, to_values))??;
        drop(leftovers);
        self.run(|| super::sort::sort_pairs(ids.words(), values.words()))?
    }
}
