//! Queries in host memory, and the destination of their answers there.

use std::fmt;

use super::{Word, bitmap_words};
use crate::error::{Error, Result};
use crate::parallel::{Per, each};

/// Flags that one thread writes at a time: a multiple of 32.
const FLAGS_AT_ONCE: usize = 1 << 16;

/// Queries on the host.
#[derive(Clone, Copy)]
pub enum Queries<'a, Q> {
    /// Queries in memory.
    Words(&'a [Q]),
    /// Queries that are computed, in memory from which a device reads them.
    Computed {
        /// The number of queries.
        len: usize,
        /// `write(first, to)` writes query `first` and those that follow it to the whole slice. Several threads call it
        /// at the same time.
        write: &'a (dyn Fn(usize, &mut [Q]) + Sync),
    },
}

impl<'a, Q: Word> Queries<'a, Q> {
    /// The number of queries.
    pub(crate) fn len(&self) -> usize {
        match self {
            Queries::Words(words) => words.len(),
            Queries::Computed { len, .. } => *len,
        }
    }

    /// The queries, if they are in memory.
    pub(crate) fn words(&self) -> Option<&'a [Q]> {
        match self {
            Queries::Words(words) => Some(words),
            Queries::Computed { .. } => None,
        }
    }

    /// Writes query `first` and those that follow it, by all threads. A thread writes `at_once` queries at a time.
    pub(crate) fn write(&self, first: usize, to: &mut [Q], at_once: usize) {
        each(to, at_once, |number, to| {
            let first = first + number * at_once;
            match self {
                Queries::Words(words) => to.copy_from_slice(&words[first..][..to.len()]),
                Queries::Computed { write, .. } => write(first, to),
            }
        });
    }
}

impl<Q> fmt::Debug for Queries<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Queries::Words(_) => "Words",
            Queries::Computed { .. } => "Computed",
        })
    }
}

/// The destination of a column of answers.
#[derive(Debug)]
pub(crate) enum Column<'a, A> {
    /// As the device returns them.
    Words(&'a mut [A]),
    /// Bits that the device returns, as a flag per query.
    Flags(&'a mut [bool]),
}

impl<'a, A> Column<'a, A> {
    /// The length for this many words and flags.
    fn check(&self, words: usize, flags: usize) -> Result<()> {
        let (found, wanted) = match self {
            Column::Words(to) => (to.len(), words),
            Column::Flags(to) => (to.len(), flags),
        };
        Error::check_length("the answers", found, wanted)
    }

    /// The place of the first answers, which is removed from this column.
    pub(crate) fn next(&mut self, words: usize, flags: usize) -> Column<'a, A> {
        match self {
            Column::Words(to) => Column::Words(to.split_off_mut(..words.min(to.len())).unwrap_or_default()),
            Column::Flags(to) => Column::Flags(to.split_off_mut(..flags.min(to.len())).unwrap_or_default()),
        }
    }

    /// The number of words that the device returns for it.
    #[cfg(feature = "opencl")]
    pub(crate) fn words(&self) -> usize {
        match self {
            Column::Words(to) => to.len(),
            Column::Flags(to) => bitmap_words(to.len()),
        }
    }
}

/// The destination of answers on the host: whether queries were found, columns of words, or both.
#[derive(Debug)]
pub struct Answers<'a, A> {
    /// One bit or flag per query.
    pub(crate) found: Option<Column<'a, u32>>,
    /// Columns of one word per query.
    pub(crate) words: Vec<&'a mut [A]>,
}

impl<'a, A> Answers<'a, A> {
    /// One word per query in each column.
    pub fn words<const N: usize>(columns: [&'a mut [A]; N]) -> Self {
        Answers { found: None, words: columns.into() }
    }

    /// One bit per query.
    pub fn bits(to: &'a mut [u32]) -> Self {
        Answers { found: Some(Column::Words(to)), words: Vec::new() }
    }

    /// One flag per query.
    pub fn flags(to: &'a mut [bool]) -> Self {
        Answers { found: Some(Column::Flags(to)), words: Vec::new() }
    }

    /// The same, and one word per query.
    pub fn and_words(mut self, words: &'a mut [A]) -> Self {
        self.words.push(words);
        self
    }

    /// The destination of the first answers, which is removed from this one.
    pub(crate) fn next(&mut self, queries: usize) -> Self {
        let found = self.found.as_mut().map(|found| found.next(bitmap_words(queries), queries));
        let words = |to: &mut &'a mut [A]| to.split_off_mut(..queries.min(to.len())).unwrap_or_default();
        Answers { found, words: self.words.iter_mut().map(words).collect() }
    }

    /// Returns an error if a column's length does not match this number of queries.
    pub(crate) fn check(&self, queries: usize) -> Result<()> {
        self.found.iter().try_for_each(|found| found.check(bitmap_words(queries), queries))?;
        self.words.iter().try_for_each(|words| Error::check_length("the answers", words.len(), queries))
    }
}

/// Writes a flag for each bit, by all threads.
pub(crate) fn set_flags(bits: &[u32], flags: &mut [bool]) {
    each((flags, Per(32, bits)), FLAGS_AT_ONCE, |_, (flags, Per(_, bits))| {
        for (flags, bits) in flags.chunks_mut(32).zip(bits) {
            flags.iter_mut().enumerate().for_each(|(i, flag)| *flag = bits >> i & 1 == 1);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_is_a_flag() {
        let bits: Vec<u32> = (0..5_000_u32).map(|i| i.wrapping_mul(0x9e37_79b1) ^ i).collect();
        for len in [0, 1, 7, 8, 31, 32, 33, 100, 160_000 - 17, 160_000] {
            let mut flags = vec![true; len];
            set_flags(&bits[..bitmap_words(len)], &mut flags);
            assert!((0..len).all(|i| flags[i] == (bits[i / 32] >> (i % 32) & 1 == 1)), "{len}");
        }
    }
}
