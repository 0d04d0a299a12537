//! Aggregates groups on all threads.
//!
//! ```text
//! few groups   each thread aggregates a chunk of the rows, with a state per group; states of later chunks are merged
//!              into those of the first chunk, in the order of rows
//! many groups  each thread aggregates the rows of a range of the groups: no states are merged
//!              blocks of rows are skipped if all of their groups are in other ranges; that is common if groups are
//!              numbered by first occurrence and equal keys are close to each other
//! ```

use std::ops::Range;

use rayon::prelude::*;

use crate::encode::CHUNK;
use crate::group::NO_GROUP;
use crate::written::written;

/// The least number of rows per group in a chunk. With fewer rows, merging takes as long as aggregating.
const ROWS_OF_A_GROUP: usize = 8;
/// The number of rows of a block.
const BLOCK: usize = 1 << 10;

/// Returns a state per group. `add` adds the row with a given number to the state of its group, and `merge` adds the
/// state of later rows to that of earlier rows. Rows whose id is not less than `groups` are ignored.
pub(crate) fn by_group<S: Copy + Default + Send>(
    ids: &[u32],
    groups: usize,
    add: impl Fn(&mut S, usize) + Sync,
    merge: impl Fn(&mut S, S),
) -> Vec<S> {
    let threads = rayon::current_num_threads();
    let rows = ids.len().div_ceil(threads).max(CHUNK);
    match rows < groups.saturating_mul(ROWS_OF_A_GROUP) && rows < ids.len() {
        true => in_ranges(ids, groups, groups.div_ceil(threads), add),
        false => in_chunks(ids, groups, rows, add, merge),
    }
}

/// Computes the states in ranges of `size` groups.
fn in_ranges<S: Copy + Default + Send>(
    ids: &[u32],
    groups: usize,
    size: usize,
    add: impl Fn(&mut S, usize) + Sync,
) -> Vec<S> {
    // The least and the greatest group of each block; `u32::MAX` and 0 if no row of the block has a group.
    let ends = |block: &[u32]| {
        let ends = (u32::MAX, 0);
        block.iter().filter(|&&id| id != NO_GROUP).fold(ends, |(least, most), &id| (least.min(id), most.max(id)))
    };
    let blocks: Vec<(u32, u32)> = ids.par_chunks(BLOCK).with_min_len(CHUNK / BLOCK).map(ends).collect();
    let mut states = written(groups, |_, to| to.fill(S::default()));
    states.par_chunks_mut(size.max(1)).enumerate().for_each(|(number, states)| {
        let first = number * size;
        for (block, &(least, most)) in blocks.iter().enumerate() {
            if (most as usize) < first || least as usize >= first + states.len() {
                continue;
            }
            let start = block * BLOCK;
            for (row, &id) in (start..).zip(&ids[start..ids.len().min(start + BLOCK)]) {
                if let Some(state) = states.get_mut((id as usize).wrapping_sub(first)) {
                    add(state, row);
                }
            }
        }
    });
    states
}

/// Computes the states in chunks of this number of rows.
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

/// A sum of up to 2^63 numbers of 128 bits. It does not depend on the order of additions, and intermediate sums cannot
/// overflow.
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

    /// The sum, if it fits in 128 bits.
    pub(crate) fn sum(self) -> Option<i128> {
        let upper = self.upper + (self.lower >> 64) as i128;
        i64::try_from(upper).ok().map(|upper| i128::from(upper) << 64 | (self.lower & u128::from(u64::MAX)) as i128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_do_not_depend_on_chunks() {
        let groups = 7;
        let ids: Vec<u32> = (0..1000_u32).map(|row| if row % 10 == 9 { NO_GROUP } else { row * row % 6 }).collect();
        // Encodes the rows of a group as digits of a hash that depends on their order.
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
        for size in [1, 3, 7] {
            assert_eq!(in_ranges(&ids, groups, size, add), expected, "ranges of {size}");
        }
        assert_eq!(in_ranges(&[], groups, 3, add), [(0, 0); 7]);
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
