//! Merge joins of tables that are partitioned into ascending ranges of their key, such as sorted Parquet files.
//!
//! ```text
//! window   one or two consecutive left morsels, and all right morsels whose ranges overlap theirs
//! plan     the windows of a join; none unless they ascend in both tables, if many right morsels would belong to several
//!          windows, or if there would be too few windows for all threads
//! task     reads the right morsels of a window, and joins each batch of its left morsels with them   (merge_join.rs)
//! ```
//!
//! Only the windows on which threads work are in memory, the keys of a window fit in a thread's caches, and threads
//! share nothing but right morsels of neighbouring windows. The result is the same as without windows: each left row is
//! compared with every right row that can match, in their order. Right rows in no window are read too, because they may
//! be damaged. Errors are reported in the order of windows, after the results of earlier windows.
//!
//! No task waits for another one, so a right morsel of two windows is read twice if both need it at the same time.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use koel::backend::DeviceKind;
use koel::{Any, HashBackend, threads};

use super::merge_join::{SortedKeys, is_supported};
use super::ordered::{Ahead, BatchWork, Input, in_order};
use super::right::RightRows;
use super::{Batches, KeyRange, Limit, MorselOf, RangedMorsel, Side, memory};
use crate::encode::NullEquality;
use crate::error::{Error, Result};
use crate::sizes::slot;

/// The windows of a join, and the morsels of both tables.
pub(super) struct Windows<'t, 'l, 'r, E> {
    left: &'t [RangedMorsel<'l, E>],
    right: Vec<RightMorsel<'t, 'r, E>>,
    windows: Vec<Window>,
}

/// The morsels of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) left: Range<usize>,
    pub(super) right: Range<usize>,
    /// Right morsels before these that belong to no window.
    pub(super) skipped: Range<usize>,
}

/// The range of keys of a morsel, and the estimated bytes for work on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) keys: Option<KeyRange>,
    pub(super) bytes: u64,
}

/// A right morsel. Its rows are kept until the last window that needs them.
struct RightMorsel<'t, 'a, E> {
    morsel: &'t RangedMorsel<'a, E>,
    kept: Mutex<Kept>,
}

struct Kept {
    /// The number of windows that have not used the rows yet.
    uses: usize,
    rows: Option<Vec<RecordBatch>>,
}

/// A batch of left rows, the range of its keys, and the right rows of its window.
pub(super) struct LeftBatch {
    pub(super) batch: RecordBatch,
    pub(super) range: Option<KeyRange>,
    pub(super) right: Arc<WindowRows>,
}

/// The right rows of a window, and their keys.
pub(super) struct WindowRows {
    pub(super) rows: RightRows,
    pub(super) keys: SortedKeys,
}

impl Input for LeftBatch {
    fn rows(&self) -> usize {
        self.batch.num_rows()
    }
}

/// The windows of two tables; `None` if there are fewer than `least`, if ranges do not ascend, if right morsels would
/// be read too often, or if a window would have more than `most` bytes.
pub(super) fn plan(left: &[Extent], right: &[Extent], least: usize, most: u64) -> Option<Vec<Window>> {
    let (mut ends, mut last) = (Vec::with_capacity(right.len()), (i128::MIN, i128::MIN));
    // The bytes of all morsels before each one.
    let mut before = vec![0_u64];
    for extent in right {
        // A morsel without keys has the range of the one before.
        let range = extent.keys.unwrap_or(last);
        if range.0 < last.0 || range.1 < last.1 {
            return None;
        }
        ends.push(range);
        last = range;
        before.push(before[before.len() - 1].checked_add(extent.bytes)?);
    }
    let bytes_of = |range: &Range<usize>| before[range.end] - before[range.start];
    // Tries windows of one left morsel, and then of two, because neighbouring windows of two share fewer right morsels.
    // Larger windows would have too many results, which are stored until earlier windows are finished.
    [1, 2].into_iter().filter(|per_window| left.len().div_ceil(*per_window) >= least.max(2)).find_map(|per_window| {
        let windows = windows(left, &ends, per_window);
        let (mut next, mut read, mut distinct) = (0..0, 0_u64, 0);
        for Window { left: own, right, .. } in &windows {
            let of_left = left[own.clone()].iter().try_fold(0, |sum: u64, extent| sum.checked_add(extent.bytes))?;
            // If ranges do not ascend, right rows would be stored for windows after the next one.
            let ascends = right.start >= next.start && right.end >= next.end;
            if !ascends || bytes_of(right).checked_add(of_left)? > most {
                return None;
            }
            read = read.checked_add(bytes_of(right))?;
            distinct += bytes_of(&(right.start.max(next.end)..right.end));
            next = right.clone();
        }
        // At most half of the right rows belong to two windows.
        (read <= distinct.saturating_add(distinct / 2)).then_some(windows)
    })
}

/// Windows of this number of left morsels. `ends` are the ranges of right morsels.
fn windows(left: &[Extent], ends: &[KeyRange], per_window: usize) -> Vec<Window> {
    let (mut windows, mut next) = (Vec::new(), 0);
    for start in (0..left.len()).step_by(per_window) {
        let own = start..left.len().min(start + per_window);
        let ranges = left[own.clone()].iter().filter_map(|extent| extent.keys);
        let range = ranges.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        let right = range.map_or(next..next, |(least, greatest)| {
            let first = ends.partition_point(|end| end.1 < least);
            first..ends.partition_point(|end| end.0 <= greatest).max(first)
        });
        windows.push(Window { left: own, skipped: next..next.max(right.start), right: right.clone() });
        next = next.max(right.end);
    }
    windows.push(Window { left: left.len()..left.len(), right: next..next, skipped: next..ends.len() });
    windows
}

impl<'t, 'l, 'r, E> Windows<'t, 'l, 'r, E> {
    /// The windows of these tables, if there is a plan and a CPU joins them by one key column that has known ranges.
    /// Nulls must not equal each other, because ranges do not cover nulls.
    ///
    /// # Errors
    /// Returns an error if no threads can be started.
    pub(super) fn of(
        on: &[(usize, usize)],
        nulls: NullEquality,
        limit: &Limit,
        devices: &[Any],
        (left, right): (&'t Batches<'l, E>, &'t Batches<'r, E>),
    ) -> Result<Option<Self>> {
        let is_on_cpu = matches!(devices, [device] if device.info().kind == DeviceKind::Cpu);
        let (Some((left_key, lefts)), Some((right_key, rights))) = (&left.ranged, &right.ranged) else {
            return Ok(None);
        };
        if !is_on_cpu || nulls == NullEquality::NullEquals || *on != [(*left_key, *right_key)] {
            return Ok(None);
        }
        let key_type = left.schema.field(*left_key).data_type();
        if right.schema.field(*right_key).data_type() != key_type || !is_supported(key_type) {
            return Ok(None);
        }
        threads::ready()?;
        let threads = rayon::current_num_threads();
        let extents = [extents(&left.schema, lefts, limit), extents(&right.schema, rights, limit)];
        // Each thread works on one window, and as many finished windows may have results that were not passed on.
        let most = limit.bytes() / (2 * threads as u64);
        let Some(windows) = plan(&extents[0], &extents[1], 2 * threads, most) else { return Ok(None) };
        let mut uses = vec![0; rights.len()];
        windows.iter().for_each(|window| uses[window.right.clone()].iter_mut().for_each(|uses| *uses += 1));
        let kept = |uses| Mutex::new(Kept { uses, rows: None });
        let right = rights.iter().zip(uses).map(|(morsel, uses)| RightMorsel { morsel, kept: kept(uses) }).collect();
        Ok(Some(Windows { left: lefts, right, windows }))
    }
}

/// The extents of the morsels of a table with this schema.
fn extents<E>(schema: &Schema, morsels: &[RangedMorsel<'_, E>], limit: &Limit) -> Vec<Extent> {
    let of_row: u64 = schema.fields().iter().map(|field| slot(field.data_type()) as u64).sum();
    let extent = |morsel: &RangedMorsel<'_, E>| {
        let bytes = morsel.rows.saturating_mul(of_row).saturating_add(morsel.bytes);
        // Morsels without rows take time too.
        Extent { keys: morsel.keys, bytes: limit.work_bytes(morsel.rows, bytes).max(SMALLEST) }
    };
    morsels.iter().map(extent).collect()
}

/// The number of bytes that is assumed for a morsel if it has fewer.
const SMALLEST: u64 = 1 << 10;

impl<E: From<Error>> RightMorsel<'_, '_, E> {
    /// The rows, for one of the windows.
    fn rows(&self, side: &Side) -> std::result::Result<Vec<RecordBatch>, E> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = lock().rows.clone();
        let rows = match kept {
            Some(rows) => rows,
            None => self.read(side)?,
        };
        let mut kept = lock();
        kept.uses -= 1;
        kept.rows = (kept.uses > 0).then(|| rows.clone());
        Ok(rows)
    }

    /// Reads the rows, without dictionaries.
    fn read(&self, side: &Side) -> std::result::Result<Vec<RecordBatch>, E> {
        let (mut batches, mut rows) = (Vec::new(), 0);
        memory::check(self.morsel.bytes)?;
        (self.morsel.read)(&mut |batch| {
            rows += batch.num_rows() as u64;
            batches.extend(side.cut(batch, u64::MAX).collect::<Result<Vec<_>>>()?);
            Ok(())
        })?;
        if rows != self.morsel.rows {
            let what = format!("a morsel has {rows} rows where {} were stated", self.morsel.rows);
            return Err(Error::from(ArrowError::InvalidArgumentError(what)).into());
        }
        Ok(batches)
    }
}

#[cfg(test)]
thread_local! {
    /// The number of times that this thread joined tables in windows.
    pub(super) static JOINED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

impl<E: From<Error> + Send> Windows<'_, '_, '_, E> {
    /// The number of right rows.
    pub(super) fn right_rows(&self) -> u64 {
        self.right.iter().map(|right| right.morsel.rows).sum()
    }

    /// Does the work on each batch of the left table, and calls `take` with the results in order. `shown` are the right
    /// columns that results have. Returns the number of left rows.
    pub(super) fn run(
        &self,
        right_side: &Side,
        limit: &Limit,
        shown: &[usize],
        work: &BatchWork<'_, LeftBatch>,
        take: &mut dyn FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<u64, E> {
        #[cfg(test)]
        JOINED.set(JOINED.get() + 1);
        let joined = |window: &Window| -> MorselOf<'_, E, LeftBatch> {
            let Window { left, right, .. } = window.clone();
            Box::new(move |take| {
                let right = Arc::new(self.read(right, right_side, shown)?);
                self.left[left].iter().try_for_each(|morsel| {
                    let left = |batch| LeftBatch { batch, range: morsel.keys, right: Arc::clone(&right) };
                    (morsel.read)(&mut |batch| take(left(batch)))
                })
            })
        };
        let skipped = |at: usize| -> MorselOf<'_, E, LeftBatch> {
            Box::new(move |_| {
                let right = &self.right[at];
                let check = |batch| right_side.range_keys(batch, right.morsel.keys, false).map(drop);
                Ok(right.read(right_side)?.iter().try_for_each(check)?)
            })
        };
        let mut morsels = self.windows.iter().flat_map(|window| {
            let after = (!window.left.is_empty()).then(|| joined(window));
            window.skipped.clone().map(skipped).chain(after).map(Ok)
        });
        in_order(&mut morsels, Ahead::of(limit)?, work, &mut |rows, _| take(rows))
    }

    /// The right rows of a window.
    fn read(&self, morsels: Range<usize>, side: &Side, shown: &[usize]) -> std::result::Result<WindowRows, E> {
        let (mut batches, mut keys) = (Vec::new(), Vec::new());
        for right in &self.right[morsels] {
            let rows = right.rows(side)?;
            for batch in &rows {
                keys.push(side.range_keys(batch, right.morsel.keys, false)?);
            }
            batches.extend(rows);
        }
        let rows = RightRows::alone(side, &batches, shown)?;
        Ok(WindowRows { rows, keys: SortedKeys::of(keys.into_iter()) })
    }
}
