//! The invariants of multivalue tables, in addition to those of their tables of keys.
//!
//! ```text
//! starts    as many as keys, plus one; the first is 0, each is greater than the previous one, the last is the number of pairs
//! numbers   each key has a different number, below the number of keys; the numbers ascend with the keys
//! ```

use rayon::prelude::*;

use super::MultiTable;
use crate::backend::Runs;
use crate::error::Result;
use crate::memory;
use crate::scheme::{Audit, Scheme, Value, Violation};
use crate::threads;

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> MultiTable<B, S, V> {
    /// Checks every invariant of the table of keys ([`HashTable::audit`](crate::HashTable::audit)), that runs are
    /// adjacent and not empty, and that they are numbered in the order of their keys.
    ///
    /// Cost: the image, its pairs and the starts are transferred to the host, and checked there.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 5], &[1, 2])?;
    /// assert_eq!(table.audit()?.pairs, 1);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] with a violation, or what the device reports.
    pub fn audit(&self) -> Result<Audit> {
        let audit = self.table.audit()?;
        Ok(self.check_runs(&self.starts()?)?.map(|()| audit)?)
    }

    /// Checks that starts, values and the numbers in the table are consistent.
    pub(super) fn check_runs(&self, starts: &[u32]) -> Result<std::result::Result<(), Violation>> {
        threads::ready()?;
        let runs = self.table.len();
        let contradiction = |reason| Ok(Err(Violation::Contradiction { reason }));
        if starts.len() != runs.saturating_add(1) {
            return contradiction("the numbers of keys and of runs of values differ");
        }
        let ends = (starts.first().copied(), starts.last().map(|&end| end as usize));
        if ends != (Some(0), Some(self.pairs)) || !starts.par_windows(2).all(|run| run[0] < run[1]) {
            return contradiction("the runs of values do not follow each other");
        }
        let mut keys = memory::reserved(starts.len() - 1)?;
        keys.resize(starts.len() - 1, None);
        for (key, run) in self.table.to_pairs()? {
            match keys.get_mut(run as usize) {
                Some(place @ None) => *place = Some(key),
                _ => return contradiction("two keys share a run of values, or a key has none"),
            }
        }
        let every_run = keys.first().is_none_or(Option::is_some);
        if !every_run || !keys.par_windows(2).all(|pair| pair[0] < pair[1]) {
            return contradiction("a run of values has no key, or the runs are not in the order of their keys");
        }
        Ok(Ok(()))
    }
}
