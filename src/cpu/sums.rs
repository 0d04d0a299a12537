//! Sums and means of groups, from the integer sums of their values and the doubles outside of the window.

use super::{CHUNK, Cpu, Memory};
use crate::backend::numbers::bits_of;
use crate::backend::{Numbers, WideAccumulated};
use crate::error::Result;
use crate::exact::{Leftovers, Window, sums_of_runs};
use crate::parallel::{each, fold};

/// What values of groups add up to.
pub(super) struct Totals<S, C> {
    /// The sum of a group, but for leftovers; of doubles in units of the window.
    pub(super) sum: S,
    /// How many values a group has.
    pub(super) count: C,
    pub(super) window: Window,
    pub(super) leftovers: Leftovers,
}

impl Cpu {
    /// Writes the sums and means that are wanted, and the first group whose sum 64 bits do not hold.
    pub(super) fn finish_sums<S: Fn(usize) -> i128 + Sync, C: Fn(usize) -> u32 + Sync>(
        &self,
        to: &mut WideAccumulated<Cpu>,
        of: Numbers,
        totals: Totals<S, C>,
    ) -> Result<()> {
        let Totals { sum, count, window, leftovers } = totals;
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
        if leftovers.ids.is_empty() {
            return Ok(());
        }
        let (ids, values) = self.sorted(&leftovers)?;
        drop(leftovers);
        let found = self.run(|| {
            sums_of_runs(ids.words(), values.words(), |id, mut exact| {
                let group = id as usize;
                exact.add_integer(sum(group), window.unit());
                let mean = if means.is_empty() { 0 } else { bits_of(exact.mean(count(group).into())) };
                (bits_of(exact.sum()), mean)
            })
        })??;
        for (id, (sum, mean)) in found {
            sums.iter_mut().skip(id as usize).take(1).for_each(|to| *to = sum);
            means.iter_mut().skip(id as usize).take(1).for_each(|to| *to = mean);
        }
        Ok(())
    }

    fn sorted(&self, leftovers: &Leftovers) -> Result<(Memory<u32>, Memory<u64>)> {
        self.run(|| super::sort::sort_pairs(&leftovers.ids, &leftovers.values))?
    }
}
