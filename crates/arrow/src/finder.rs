//! Numbers for words: the first row that has each.

use koel::scheme::BucketizedOf;
use koel::{Any, Bucketized, Duplicates, HashTable, NO_ROW};

use crate::error::Result;

/// A column of 64-bit words, made ready to say in which row a word stands first.
pub(crate) struct Finder {
    table: HashTable<Any, BucketizedOf<u64, u32>>,
}

impl Finder {
    /// Of a column, with the first row of each row's word.
    pub(crate) fn build(device: &Any, words: &[u64]) -> Result<(Self, Vec<u32>)> {
        let rows: Vec<u32> = (0..words.len() as u32).collect();
        let table = HashTable::builder(Bucketized::canonical(4).of::<u64, u32>())
            .duplicates(Duplicates::KeepFirst)
            .build(device, words, &rows)?;
        let finder = Finder { table };
        let firsts = finder.find(words)?;
        Ok((finder, firsts))
    }

    /// The first row that has each of these words, or [`NO_ROW`].
    pub(crate) fn find(&self, words: &[u64]) -> Result<Vec<u32>> {
        Ok(self.table.get(words)?.into_iter().map(|row| row.unwrap_or(NO_ROW)).collect())
    }
}
