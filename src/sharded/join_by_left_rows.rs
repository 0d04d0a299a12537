//! Joins of columns where each device has an index of all right rows, so that nothing is partitioned.
//!
//! ```text
//! indices      an index of the right column on each device that gets left rows
//! round        a part of the left rows for each device; computes the number of result rows first
//! rows         each device writes its rows to their final positions: parts are in the order of left rows
//! unmatched    at the end of right and full joins, the right rows without a match
//! ```
//!
//! This is not used if a device lacks memory for the right column (join.rs).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::devices::{map_shards, on_devices};
use super::join::{NO_ROW, WideJoinRows};
use crate::backend::Runs;
use crate::error::Result;
use crate::join::{self, ColumnIndex, ColumnJoin, JoinKind};
use crate::memory;
use crate::parallel::{append, each};
use crate::scheme::Key;
use crate::threads;

/// Left rows of a device in a round.
const LEFT_ROWS: usize = if cfg!(test) { 1 << 10 } else { 1 << 24 };

/// Result rows that a device creates at a time.
const PIECE: usize = if cfg!(test) { 1 << 9 } else { 1 << 24 };

/// Rows that a thread writes at a time.
const ROWS_AT_ONCE: usize = 1 << 14;

/// The join of a part of the left rows, the number of its first left row, and the destination of the result.
struct Part<'a, B: Runs<K::Rows>, K: Key> {
    join: ColumnJoin<'a, B, K>,
    first: u64,
    left: &'a mut [u64],
    /// Empty if the result has no right rows.
    right: &'a mut [u64],
}

/// Joins columns; there must be fewer than 2^32 right rows.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory) if a device lacks memory for the right column or its part of the left
/// one, or the host for the result; or what a device reports.
pub(super) fn join_by_left_rows<B: Runs<K::Rows>, K: Key>(
    devices: &[B],
    left: &[K],
    right: &[K],
    kind: JoinKind,
) -> Result<WideJoinRows> {
    threads::ready()?;
    let matched = if kind.keeps_right() { Some(Matched::none(right.len())?) } else { None };
    let kind_of_rounds = match kind {
        JoinKind::Right => JoinKind::Inner,
        JoinKind::Full => JoinKind::Left,
        other => other,
    };
    let devices = &devices[..devices.len().min(left.len())];
    let indices = map_shards(devices.len(), devices.len(), &|device| ColumnIndex::build(&devices[device], right))?;
    let (mut all, mut first) = (WideJoinRows::default(), 0);
    for round in left.chunks((devices.len() * LEFT_ROWS).max(1)) {
        let share = round.len().div_ceil(devices.len());
        let joins = on_devices(devices.len(), round.chunks(share).collect(), &|device, part: &[K]| {
            indices[device].join(part, kind_of_rounds)
        })?;
        let (mut to_left, mut to_right) = all.more(joins.iter().map(ColumnJoin::len).sum(), kind.has_right())?;
        let mut parts = memory::reserved(joins.len())?;
        for (join, first) in joins.into_iter().zip((first..).step_by(share)) {
            let len = join.len() as usize;
            let left = to_left.split_off_mut(..len).unwrap_or_default();
            parts.push(Part { join, first, left, right: to_right.split_off_mut(..len).unwrap_or_default() });
        }
        on_devices(devices.len(), parts, &|_, part: Part<'_, B, K>| part.write(matched.as_ref()))?;
        first += round.len() as u64;
    }
    if let Some(matched) = matched {
        matched.add_others(right.len(), &mut all)?;
    }
    Ok(all)
}

impl WideJoinRows {
    /// Appends this number of rows, and returns the new parts of both columns.
    fn more(&mut self, rows: u64, has_right: bool) -> Result<(&mut [u64], &mut [u64])> {
        let rows = usize::try_from(rows).map_err(|_| memory::out_of_memory::<u64>(usize::MAX))?;
        let before = self.left.len();
        for (column, rows) in [(&mut self.left, rows), (&mut self.right, if has_right { rows } else { 0 })] {
            memory::reserve(column, rows)?;
            append(column, rows, ROWS_AT_ONCE, |_| 0);
        }
        let of_right = if has_right { before } else { 0 };
        Ok((&mut self.left[before..], &mut self.right[of_right..]))
    }
}

impl<B: Runs<K::Rows>, K: Key> Part<'_, B, K> {
    fn write(self, matched: Option<&Matched>) -> Result<()> {
        let Part { join, first, mut left, mut right } = self;
        for rows in join.chunks(PIECE) {
            let rows = rows?;
            if let Some(matched) = matched {
                matched.add(&rows.right);
            }
            widen(&rows.left, first, left.split_off_mut(..rows.left.len()).unwrap_or_default());
            widen(&rows.right, 0, right.split_off_mut(..rows.right.len()).unwrap_or_default());
        }
        Ok(())
    }
}

/// Converts row numbers to 64 bits, and adds `first` to them.
fn widen(rows: &[u32], first: u64, to: &mut [u64]) {
    each((to, rows), ROWS_AT_ONCE, |_, (to, rows): (&mut [u64], &[u32])| {
        to.iter_mut().zip(rows).for_each(|(to, &row)| {
            *to = if row == join::NO_ROW { NO_ROW } else { first + u64::from(row) };
        });
    });
}

/// Right rows that have a match, one bit each.
struct Matched(Vec<AtomicU64>);

impl Matched {
    fn none(rows: usize) -> Result<Matched> {
        let mut bits = memory::reserved(rows.div_ceil(64))?;
        bits.resize_with(rows.div_ceil(64), AtomicU64::default);
        Ok(Matched(bits))
    }

    fn add(&self, rows: &[u32]) {
        each(rows, ROWS_AT_ONCE, |_, rows: &[u32]| {
            for &row in rows.iter().filter(|&&row| row != join::NO_ROW) {
                let (word, bit) = (&self.0[row as usize / 64], 1 << (row % 64));
                // Rows of a heavy key occur many times.
                if word.load(Relaxed) & bit == 0 {
                    word.fetch_or(bit, Relaxed);
                }
            }
        });
    }

    /// Adds the right rows without a match, ascending.
    fn add_others(&self, rows: usize, all: &mut WideJoinRows) -> Result<()> {
        let others = rows - self.0.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum::<usize>();
        for column in [&mut all.left, &mut all.right] {
            // At most this many rows are added.
            column.try_reserve_exact(others).map_err(|_| memory::out_of_memory::<u64>(others))?;
        }
        append(&mut all.left, others, ROWS_AT_ONCE, |_| NO_ROW);
        let is_other = |row: &usize| self.0[row / 64].load(Relaxed) >> (row % 64) & 1 == 0;
        all.right.extend((0..rows).filter(is_other).map(|row| row as u64));
        Ok(())
    }
}
