//! Aggregates on all threads: each aggregates one chunk of the rows, and the partial results are merged.
//!
//! ```text
//! chunks    one per thread, but with several rows for each group: otherwise merging takes as long as aggregating
//! chunk     a state per group, to which the chunk's rows are added in their order
//! merge     states of later chunks are merged into those of the first chunk, in the order of rows
//! ```

use std::ops::Range;

use rayon::prelude::*;

use crate::encode::CHUNK;

/// Rows of a chunk for each group.
const ROWS_OF_A_GROUP: usize = 8;

/// Returns a state per group: `add` adds the row at a position to the state of its group, and `merge` adds the state of
/// later rows. Rows whose id is not that of a group are ignored.
pub(crate) fn by_group<S: Copy + Default + Send>(
    ids: &[u32],
    groups: usize,
    add: impl Fn(&mut S, usize) + Sync,
    merge: impl Fn(&mut S, S),
) -> Vec<S> {
    in_chunks(ids, groups, chunk_rows(ids.len(), groups), add, merge)
}

/// Rows of a chunk, so that each thread has one at most.
fn chunk_rows(rows: usize, groups: usize) -> usize {
    rows.div_ceil(rayon::current_num_threads()).max(groups.saturating_mul(ROWS_OF_A_GROUP)).max(CHUNK)
}

fn in_chunks<S: Copy + Default + Send>(
    ids: &[u32],
    groups: usize,
    rows: usize,
    add: impl Fn(&mut S, usize) + Sync,
    merge: impl Fn(&mut S, S),
) -> Vec<S> {
    let of_chunk = |chunk: Range<usize>| {
        let mut states = vec![S::default(); groups];
        for row in chunk {
            if let Some(state) = states.get_mut(ids[row] as usize) {
                add(state, row);
            }
        }
        states
    };
    let chunks = (0..ids.len()).into_par_iter().step_by(rows).map(|start| start..ids.len().min(start + rows));
    let partial: Vec<Vec<S>> = chunks.map(of_chunk).collect();
    let merged = partial.into_iter().reduce(|mut states, later| {
        states.iter_mut().zip(later).for_each(|(state, later)| merge(state, later));
        states
    });
    merged.unwrap_or_else(|| vec![S::default(); groups])
}

/// A sum of up to 2^63 numbers of 128 bits. It does not depend on the order of additions, and does not overflow on the
/// way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exact {
    upper: i128,
    lower: u128,
}

impl Exact {
    #[inline]
    pub(crate) fn add(&mut self, value: i128) {
        self.upper += value >> 64;
        self.lower += u128::from(value as u64);
    }

    pub(crate) fn merge(&mut self, other: Exact) {
        self.upper += other.upper;
        self.lower += other.lower;
    }

    /// The sum, if 128 bits hold it.
    pub(crate) fn sum(self) -> Option<i128> {
        let upper = self.upper + (self.lower >> 64) as i128;
        i64::try_from(upper).ok().map(|upper| i128::from(upper) << 64 | (self.lower & u128::from(u64::MAX)) as i128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::NO_GROUP;

    #[test]
    fn states_do_not_depend_on_chunks() {
        let groups = 7;
        let ids: Vec<u32> = (0..1000_u32).map(|row| if row % 10 == 9 { NO_GROUP } else { row * row % 6 }).collect();
        // The rows of a group in their order, as digits of a hash that depends on it.
        let (digit, base) = (|row: usize| row as u64 + 1, 1_000_003_u64);
        let add = |state: &mut (u64, u64), row: usize| {
            *state = (state.0.wrapping_mul(base).wrapping_add(digit(row)), state.1 + 1);
        };
        let merge = |state: &mut (u64, u64), later: (u64, u64)| {
            let shifted = (0..later.1).fold(state.0, |hash, _| hash.wrapping_mul(base));
            *state = (shifted.wrapping_add(later.0), state.1 + later.1);
        };
        let expected = in_chunks(&ids, groups, ids.len(), add, merge);
        assert_eq!(expected.iter().map(|state| state.1).sum::<u64>(), 900);
        for rows in [1, 64, 999] {
            assert_eq!(in_chunks(&ids, groups, rows, add, merge), expected, "{rows} rows");
        }
        assert_eq!(in_chunks(&[], groups, 1, add, merge), [(0, 0); 7]);
    }

    #[test]
    fn intermediate_sums_may_exceed_their_type() {
        let values = [i128::MAX, i128::MAX, -5, i128::MIN, i128::MIN, 9];
        let sum = by_group(&[0; 6], 1, |sum: &mut Exact, row| sum.add(values[row]), Exact::merge);
        assert_eq!(sum[0].sum(), Some(2));
        let mut sum = Exact::default();
        sum.merge(sum_of(&[i128::MAX]));
        sum.merge(sum_of(&[1]));
        assert_eq!(sum.sum(), None);
    }

    fn sum_of(values: &[i128]) -> Exact {
        let mut sum = Exact::default();
        values.iter().for_each(|&value| sum.add(value));
        sum
    }
}
