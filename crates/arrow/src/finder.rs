//! Numbers for words: the first row that has each.

use koel::Any;
use koel::group::FirstRows;

use crate::error::Result;

/// A column of 64-bit words, made ready to say in which row a word stands first.
pub(crate) struct Finder {
    first: FirstRows<Any, u64>,
}

impl Finder {
    /// Of a column, with the first row of each row's word.
    pub(crate) fn build(device: &Any, words: &[u64]) -> Result<(Self, Vec<u32>)> {
        let first = FirstRows::build(device, words)?;
        let rows = first.rows()?;
        Ok((Finder { first }, rows))
    }

    /// The first row that has each of these words, or [`NO_ROW`](koel::NO_ROW).
    pub(crate) fn find(&self, words: &[u64]) -> Result<Vec<u32>> {
        Ok(self.first.find(words)?)
    }
}
