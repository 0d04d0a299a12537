//! Joins of columns where each device has an index of all right rows: nothing is dealt.
//!
//! ```text
//! indices    the right column on every device
//! left       a part of the left rows for each device, in batches; how many rows come of each batch is known first
//! rows       written by each device where they belong: parts are in the order of left rows
//! right      the right rows that nobody found, behind all of them
//! ```
//!
//! What it is not: the way of right columns that no device has room for (join.rs).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::devices::on_devices;
use super::join::{NO_ROW, WideJoinRows};
use crate::backend::Runs;
use crate::error::Result;
use crate::join::{self, ColumnIndex, ColumnJoin, JoinKind};
use crate::memory;
use crate::parallel::{append, each};
use crate::scheme::Key;
use crate::threads;

/// Left rows of a batch.
const LEFT_ROWS: usize = if cfg!(test) { 1 << 10 } else { 1 << 26 };

/// Rows of a piece of a batch's result.
const PIECE: usize = if cfg!(test) { 1 << 9 } else { 1 << 24 };

/// Rows that a thread writes at a time.
const ROWS_AT_ONCE: usize = 1 << 14;

/// What comes of a batch, and the number of its first left row.
struct Batch<'a, B: Runs<K::Rows>, K: Key> {
    join: ColumnJoin<'a, B, K>,
    first: u64,
}

/// Where rows of a part go.
struct Place<'a> {
    left: &'a mut [u64],
    /// Empty where there are no right rows.
    right: &'a mut [u64],
}

/// Joins columns.
///
/// # Errors
/// [`OutOfMemory`](crate::Error::OutOfMemory) where a device has no room for the right column; or what it reports.
pub(super) fn join_by_left_rows<B: Runs<K::Rows>, K: Key>(
    devices: &[B],
    left: &[K],
    right: &[K],
    kind: JoinKind,
) -> Result<WideJoinRows> {
    threads::ready()?;
    let found = if kind.keeps_right() { Some(Found::none(right.len())?) } else { None };
    // Right rows without partners come in the end.
    let of_batches = match kind {
        JoinKind::Right => JoinKind::Inner,
        JoinKind::Full => JoinKind::Left,
        other => other,
    };
    let indices = on_devices(devices.len(), devices.iter().collect(), |_, device| ColumnIndex::build(device, right))?;
    let share = left.len().div_ceil(devices.len()).max(1);
    let parts = left.chunks(share).collect();
    let batches = on_devices(devices.len(), parts, |device, part: &[K]| {
        let batches = part.chunks(LEFT_ROWS).enumerate().map(|(batch, rows)| {
            let first = (device * share + batch * LEFT_ROWS) as u64;
            Ok(Batch { join: indices[device].join(rows, of_batches)?, first })
        });
        batches.collect::<Result<Vec<Batch<'_, B, K>>>>()
    })?;
    let mut lengths = memory::reserved(batches.len())?;
    for batches in &batches {
        let len = batches.iter().map(|batch| batch.join.len()).sum::<u64>();
        lengths.push(usize::try_from(len).map_err(|_| memory::no_room::<u64>(usize::MAX))?);
    }
    let len = lengths.iter().fold(0, |sum: usize, &len| sum.saturating_add(len));
    let right_len = if kind.has_right() { len } else { 0 };
    let mut all = WideJoinRows { left: memory::zeroed(len)?, right: memory::zeroed(right_len)? };
    let (mut to_left, mut to_right) = (&mut all.left[..], &mut all.right[..]);
    let mut parts = memory::reserved(batches.len())?;
    for (batches, &len) in batches.iter().zip(&lengths) {
        let left = to_left.split_off_mut(..len).unwrap_or_default();
        parts.push((batches, Place { left, right: to_right.split_off_mut(..len).unwrap_or_default() }));
    }
    on_devices(devices.len(), parts, |_, (batches, place)| write(batches, place, found.as_ref()))?;
    if let Some(found) = found {
        found.add_others(right.len(), &mut all)?;
    }
    Ok(all)
}

/// Writes what comes of batches.
fn write<B: Runs<K::Rows>, K: Key>(
    batches: &[Batch<'_, B, K>],
    Place { mut left, mut right }: Place<'_>,
    found: Option<&Found>,
) -> Result<()> {
    for Batch { join, first } in batches {
        for rows in join.chunks(PIECE) {
            let rows = rows?;
            if let Some(found) = found {
                found.add(&rows.right);
            }
            widen(&rows.left, *first, left.split_off_mut(..rows.left.len()).unwrap_or_default());
            widen(&rows.right, 0, right.split_off_mut(..rows.right.len()).unwrap_or_default());
        }
    }
    Ok(())
}

/// Rows by numbers of 64 bits, of which the first has this one.
fn widen(rows: &[u32], first: u64, to: &mut [u64]) {
    each((to, rows), ROWS_AT_ONCE, |_, (to, rows): (&mut [u64], &[u32])| {
        to.iter_mut().zip(rows).for_each(|(to, &row)| {
            *to = if row == join::NO_ROW { NO_ROW } else { first + u64::from(row) };
        });
    });
}

/// Right rows that have partners, a bit each.
struct Found(Vec<AtomicU64>);

impl Found {
    fn none(rows: usize) -> Result<Found> {
        let mut bits = memory::reserved(rows.div_ceil(64))?;
        bits.resize_with(rows.div_ceil(64), AtomicU64::default);
        Ok(Found(bits))
    }

    fn add(&self, rows: &[u32]) {
        each(rows, ROWS_AT_ONCE, |_, rows: &[u32]| {
            for &row in rows.iter().filter(|&&row| row != join::NO_ROW) {
                let (word, bit) = (&self.0[row as usize / 64], 1 << (row % 64));
                // Rows of a heavy key come again and again.
                if word.load(Relaxed) & bit == 0 {
                    word.fetch_or(bit, Relaxed);
                }
            }
        });
    }

    /// Adds the right rows that nobody found, ascending.
    fn add_others(&self, rows: usize, all: &mut WideJoinRows) -> Result<()> {
        let is_other = |row: &usize| self.0[row / 64].load(Relaxed) >> (row % 64) & 1 == 0;
        let others = (0..rows).filter(is_other).count();
        memory::reserve(&mut all.left, others)?;
        memory::reserve(&mut all.right, others)?;
        append(&mut all.left, others, ROWS_AT_ONCE, |_| NO_ROW);
        all.right.extend((0..rows).filter(is_other).map(|row| row as u64));
        Ok(())
    }
}
