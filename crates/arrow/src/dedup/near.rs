//! Similar documents.
//!
//! ```text
//! for each band    rows with equal words in the band form a group (koel's factorize of a hash of the words)
//!                  each row of a group is compared with the group's first row, and united with it if the fraction of equal
//!                  words of their signatures reaches the threshold
//!                  the remaining rows are compared with the first one of them, and so on, at most LEADERS times
//! unite            union-find, in which the root of a cluster is its first row
//! ```
//!
//! Rows are compared in the order of rows, and bands are processed one after the other, so the clusters are the same on
//! every device and thread count. Hashes that are equal by chance only cost a comparison.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_buffer::NullBuffer;
use koel::IdOrder;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::signatures::Signatures;
use super::sketch::{Sketcher, Word};
use super::text::Texts;
use super::{Dedup, Duplicates, Near};
use crate::error::{Error, Result};
use crate::group::{NullKeys, factorize};
use crate::keys::Keys;

/// The greatest number of rows of a group with which the other rows of the group are compared. It bounds the work on
/// groups whose rows share a band, but are not similar.
const LEADERS: usize = 64;
/// The number of rows that a task sketches: their signatures are in one allocation.
const ROWS: usize = 1 << 8;
/// The greatest number of words of all signatures of a task.
const WORDS: usize = 1 << 18;
/// Bytes per row for clusters, hashes of a band, and their groups.
const OF_A_ROW: u64 = 64;

impl Dedup<'_> {
    pub(super) fn similar<E: From<Error>>(
        &self,
        near: &Near,
        at: usize,
        table: impl Iterator<Item = std::result::Result<RecordBatch, E>>,
    ) -> std::result::Result<Duplicates, E> {
        let mut signatures = Signatures::new(near.num_perm, self.limit);
        let mut is_text: Vec<bool> = Vec::new();
        for batch in table {
            let texts = Texts::of(batch?.column(at))?;
            let rows = texts.rows();
            let normalize = self.normalize;
            let sketch = |rows: &[Option<&str>]| {
                let mut sketcher = Sketcher::new(near);
                let mut words: Vec<Word> = vec![0; rows.len() * near.num_perm];
                for (text, signature) in rows.iter().zip(words.chunks_exact_mut(near.num_perm)) {
                    if let Some(text) = text {
                        sketcher.sketch(&normalize.apply(text), signature);
                    }
                }
                words
            };
            // Only a few tasks at a time, because signatures may be longer than texts.
            let each = (WORDS / near.num_perm).clamp(1, ROWS);
            for rows in rows.chunks(each * rayon::current_num_threads()) {
                for words in rows.par_chunks(each).map(sketch).collect::<Vec<_>>() {
                    signatures.push(&words)?;
                }
            }
            is_text.extend(rows.iter().map(Option::is_some));
            self.check_rows(is_text.len() as u64)?;
        }
        signatures.finish()?;
        Ok(self.clusters(near, &signatures, &is_text)?)
    }

    fn check_rows(&self, rows: u64) -> Result<()> {
        const MOST: u64 = u32::MAX as u64 - 1;
        if rows > MOST {
            let what = "documents of one table (deduplicate it in parts)";
            return Err(koel::Error::TooLarge { what, requested: rows, most: MOST }.into());
        }
        // A quarter of the limit is for signatures.
        let needed = (rows * OF_A_ROW).saturating_mul(4) / 3;
        if needed > self.limit.bytes() {
            return Err(Error::LimitTooSmall { rows, needed, limit: self.limit.bytes() });
        }
        Ok(())
    }

    fn clusters(&self, near: &Near, signatures: &Signatures, is_text: &[bool]) -> Result<Duplicates> {
        let Some(device) = self.devices.first() else {
            let advice = "name at least one device";
            return Err(koel::Error::InvalidParameter { what: "devices", given: "none".into(), advice }.into());
        };
        let mut clusters = Clusters::new(is_text.len());
        let nulls = Some(NullBuffer::from(is_text.to_vec())).filter(|nulls| nulls.null_count() > 0);
        let (bands, words) = near.banding();
        for band in 0..bands {
            let range = band * words..(band + 1) * words;
            let hash = |signature: &[Word]| {
                let words = &signature[range.clone()];
                // The byte order of words depends on the machine. The result does not, because it depends only on which
                // hashes are equal.
                xxh3_64(bytemuck::cast_slice(words))
            };
            let keys: ArrayRef = Arc::new(UInt64Array::new(signatures.map(hash)?.into(), nulls.clone()));
            let groups = factorize(device, &Keys::of_arrays(&[keys])?, IdOrder::FirstSeen, NullKeys::Drop)?;
            let pairs: Vec<(u32, u32)> = (0..is_text.len() as u32)
                .into_par_iter()
                .filter(|&row| is_text[row as usize])
                .map(|row| (groups.rows.value(groups.codes.value(row as usize) as usize), row))
                .filter(|(first, row)| first != row)
                .collect();
            clusters.unite_similar(pairs, signatures, near.least_equal())?;
        }
        let kept_rows = clusters.kept_rows();
        let rows = kept_rows.len() as u64;
        let mut found = Duplicates { rows, units: rows, spilled: signatures.bytes(), ..Duplicates::default() };
        for (row, &first) in (0..).zip(&kept_rows) {
            if row == first {
                found.keep(row.into());
            } else {
                found.duplicates += 1;
            }
        }
        found.kept_rows = Some(kept_rows);
        Ok(found)
    }
}

/// Clusters of rows: each row refers to itself or to an earlier row of its cluster, and the first row to itself.
struct Clusters {
    parents: Vec<u32>,
}

impl Clusters {
    fn new(rows: usize) -> Clusters {
        Clusters { parents: (0..rows as u32).collect() }
    }

    /// The first row of a row's cluster.
    fn first(&self, mut row: u32) -> u32 {
        while self.parents[row as usize] != row {
            row = self.parents[row as usize];
        }
        row
    }

    fn unite(&mut self, a: u32, b: u32) {
        let [a, b] = [a, b].map(|row| self.halved(row));
        self.parents[a.max(b) as usize] = a.min(b);
    }

    /// As [`first`](Self::first), but also halves the path of the row, so that paths remain short.
    fn halved(&mut self, mut row: u32) -> u32 {
        while self.parents[row as usize] != row {
            let parent = self.parents[self.parents[row as usize] as usize];
            self.parents[row as usize] = parent;
            row = parent;
        }
        row
    }

    /// Unites rows with similar rows of their groups. A pair consists of the first row of a group and another row of
    /// it; pairs are ordered by the latter.
    fn unite_similar(&mut self, mut pairs: Vec<(u32, u32)>, signatures: &Signatures, least: usize) -> Result<()> {
        for _ in 0..LEADERS {
            if pairs.is_empty() {
                break;
            }
            let compared = pairs.par_iter().map(|&(first, row)| {
                Ok(self.first(first) == self.first(row) || signatures.equal(first, row)? >= least)
            });
            let are_similar = compared.collect::<Result<Vec<bool>>>()?;
            // The first row that differs is the one with which the other remaining rows are compared.
            let mut others = std::collections::HashMap::new();
            let mut rest = Vec::new();
            for (&(first, row), is_similar) in pairs.iter().zip(are_similar) {
                if is_similar {
                    self.unite(first, row);
                    continue;
                }
                let leader = *others.entry(first).or_insert(row);
                if leader != row {
                    rest.push((leader, row));
                }
            }
            pairs = rest;
            self.shorten();
        }
        Ok(())
    }

    /// Makes each row refer to the first row of its cluster.
    fn shorten(&mut self) {
        for row in 0..self.parents.len() {
            self.parents[row] = self.parents[self.parents[row] as usize];
        }
    }

    fn kept_rows(mut self) -> Vec<u32> {
        self.shorten();
        self.parents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_of_a_cluster_is_its_least() {
        let mut clusters = Clusters::new(6);
        for (a, b) in [(4, 5), (3, 4), (1, 5), (2, 2)] {
            clusters.unite(a, b);
        }
        assert_eq!(clusters.kept_rows(), [0, 1, 2, 1, 1, 1]);
    }
}
