//! What is outside of a column's window: rows of groups, which are sorted by group and added up exactly.
//!
//! ```text
//! each chunk of the sorted rows    runs that lie in it: their sums
//!                                  the runs at its ends, if they go on: their sums so far
//! in the end                       sums so far of one run are merged
//! ```
//!
//! A column with exponents of all sizes has little else than leftovers: one group of them all is added up by all threads.

use std::ops::Range;

use super::ExactSum;
use crate::error::Result;
use crate::memory;
use crate::parallel::fold_with;

/// Rows that one thread adds up at a time.
const CHUNK: usize = if cfg!(miri) { 32 } else { 1 << 14 };

/// Rows of groups: the group and the bits of the value of each.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    pub(crate) ids: Vec<u32>,
    pub(crate) values: Vec<u64>,
}

impl Leftovers {
    #[inline]
    pub(crate) fn push(&mut self, id: u32, bits: u64) -> Result<()> {
        if self.ids.len() == self.ids.capacity() || self.values.len() == self.values.capacity() {
            self.reserve(1)?;
        }
        self.ids.push(id);
        self.values.push(bits);
        Ok(())
    }

    fn reserve(&mut self, more: usize) -> Result<()> {
        memory::reserve(&mut self.ids, more)?;
        memory::reserve(&mut self.values, more)
    }

    /// These rows and others.
    pub(crate) fn and(mut self, mut others: Self) -> Result<Self> {
        self.reserve(others.ids.len())?;
        self.ids.append(&mut others.ids);
        self.values.append(&mut others.values);
        Ok(self)
    }
}

/// What `of_group` makes of each group and the sum of its values, in any order. Rows are sorted by group.
pub(crate) fn sums_of_runs<R: Send>(
    ids: &[u32],
    values: &[u64],
    of_group: impl Fn(u32, ExactSum) -> R + Sync,
) -> Result<Vec<(u32, R)>> {
    let goes_on = |at: usize| at > 0 && at < ids.len() && ids[at - 1] == ids[at];
    let of_chunk = |rows: Range<usize>| {
        let mut found = Sums { whole: Vec::new(), open: memory::reserved(2)? };
        let mut at = rows.start;
        for run in ids[rows.clone()].chunk_by(|a, b| a == b) {
            let (id, end) = (run[0], at + run.len());
            let mut sum = ExactSum::default();
            values[at..end].iter().for_each(|&bits| sum.add(f64::from_bits(bits)));
            if (at == rows.start && goes_on(at)) || (end == rows.end && goes_on(end)) {
                found.open.push((id, sum));
            } else {
                memory::reserve(&mut found.whole, 1)?;
                found.whole.push((id, of_group(id, sum)));
            }
            at = end;
        }
        Ok(found)
    };
    let join = |a: Result<Sums<R>>, b: Result<Sums<R>>| a?.and(b?);
    let Some(found) = fold_with(0..ids.len(), CHUNK, || (), |(), _, rows| of_chunk(rows), join) else {
        return Ok(Vec::new());
    };
    let Sums { mut whole, open } = found?;
    memory::reserve(&mut whole, open.len())?;
    let mut open = open.into_iter();
    let mut current = open.next();
    for next in open {
        match &mut current {
            Some((id, sum)) if *id == next.0 => sum.merge(&next.1),
            _ => whole.extend(current.replace(next).map(|(id, sum)| (id, of_group(id, sum)))),
        }
    }
    whole.extend(current.map(|(id, sum)| (id, of_group(id, sum))));
    Ok(whole)
}

/// What a piece of the rows has come to.
struct Sums<R> {
    whole: Vec<(u32, R)>,
    /// Parts of runs that begin before a chunk or end after it, in order.
    open: Vec<(u32, ExactSum)>,
}

impl<R> Sums<R> {
    fn and(mut self, mut others: Self) -> Result<Self> {
        memory::reserve(&mut self.whole, others.whole.len())?;
        memory::reserve(&mut self.open, others.open.len())?;
        self.whole.append(&mut others.whole);
        self.open.append(&mut others.open);
        Ok(self)
    }
}
