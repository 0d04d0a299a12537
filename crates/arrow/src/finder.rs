//! Numbers words by the first row with each word.

use koel::Any;
use koel::group::FirstRows;

use crate::error::Result;

/// An index of a column of 64-bit words, which finds the first row with a word.
pub(crate) struct Finder {
    first: FirstRows<Any, u64>,
}

impl Finder {
    /// Indexes a column, and returns the first row with each row's word.
    pub(crate) fn build(device: &Any, words: &[u64]) -> Result<(Self, Vec<u32>)> {
        let first = FirstRows::build(device, words)?;
        let rows = first.rows()?;
        Ok((Finder { first }, rows))
    }

    /// The first row with each of these words, or [`NO_ROW`](koel::NO_ROW).
    pub(crate) fn find(&self, words: &[u64]) -> Result<Vec<u32>> {
        Ok(self.first.find(words)?)
    }
}
