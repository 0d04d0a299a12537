//! The index of the build side's keys, on the chosen device or on the CPU.
//!
//! ```text
//! Prepared           pairs and first occurrences, for a build side that is shared (sharing.rs)
//! Pairs              a multimap: the build rows of each probe row; for inner and outer joins, and residual filters
//! FirstOccurrences   a map: the first build row of each probe row's key; for semi, anti, mark joins without a filter
//! ```
//!
//! After an error of a device, during the build or later, the device is not used again: the CPU builds the same index,
//! and the current batch is looked up again. koel returns the same rows in the same order on every device, so a partial
//! result continues without a difference.

use std::sync::{Arc, OnceLock};

use datafusion::error::{DataFusionError, Result};
use koel::{Any, JoinKind, JoinRows, NO_ROW};
use koel_arrow::{FirstKeys, Keys, NullEquality, PreparedJoin, Probe, RightKeys};
use log::warn;

use crate::device;
use crate::error::external;

/// Probe rows that are looked up at a time on a device on a bus.
const GATHERED: usize = 1 << 20;
/// Results of a batch that are buffered at once.
pub(super) const AT_ONCE: usize = 1 << 17;
/// Results of a larger batch for a device, if memory allows: the device looks up the whole batch again for each piece.
pub(super) const AT_ONCE_REMOTE: usize = 1 << 21;

/// An index of the build side's keys.
pub(super) struct Index {
    keys: Keys,
    nulls: NullEquality,
    pairs: bool,
    device: Any,
    /// The CPU with all of its threads, or with one.
    cpu: Any,
    strategy: Strategy,
    /// Built after the device has failed.
    on_cpu: OnceLock<std::result::Result<Strategy, String>>,
}

enum Strategy {
    Pairs(RightKeys),
    FirstOccurrences {
        keys: FirstKeys,
        of_row: Vec<u32>,
    },
    /// With the first row of each row's key, if matched rows are marked.
    Prepared {
        side: Arc<PreparedJoin>,
        of_row: Vec<u32>,
    },
}

impl Strategy {
    fn of(device: &Any, keys: &Keys, nulls: NullEquality, pairs: bool) -> koel_arrow::Result<Self> {
        if pairs {
            return Ok(Strategy::Pairs(RightKeys::new(device, keys, nulls)?));
        }
        let keys = FirstKeys::new(device, keys, nulls)?;
        Ok(Strategy::FirstOccurrences { of_row: keys.rows()?, keys })
    }

    fn of_prepared(side: Arc<PreparedJoin>, are_marked: bool) -> koel_arrow::Result<Self> {
        let of_row = if are_marked { side.first_rows(side.keys())? } else { Vec::new() };
        Ok(Strategy::Prepared { side, of_row })
    }
}

impl Index {
    /// Creates an index on a device, or on the CPU if the device fails.
    pub(super) fn new([device, cpu]: [Any; 2], keys: Keys, nulls: NullEquality, pairs: bool) -> Result<Self> {
        let on = |device: &Any| Strategy::of(device, &keys, nulls, pairs);
        let (device, strategy) = match on(&device) {
            Ok(strategy) => (device, strategy),
            Err(error) if may_be_mended(&device, &error) => {
                warn!("koel: {} cannot index {} rows ({error}): the CPU does", device::shown(&device), keys.len());
                let strategy = on(&cpu).map_err(external)?;
                (cpu.clone(), strategy)
            }
            Err(error) => return Err(external(error)),
        };
        Ok(Index { keys, nulls, pairs, device, cpu, strategy, on_cpu: OnceLock::new() })
    }

    /// The index of a build side that is shared, for joins of pairs or of first rows.
    pub(super) fn of_prepared(side: &Arc<PreparedJoin>, pairs: bool, are_marked: bool) -> Result<Self> {
        let (cpu, are_marked) = (device::cpu(), are_marked && !pairs);
        let strategy = match Strategy::of_prepared(Arc::clone(side), are_marked) {
            Err(error) if may_be_mended(side.device(), &error) => {
                let moved = side.on_device(&cpu);
                moved.and_then(|moved| Strategy::of_prepared(Arc::new(moved), are_marked))
            }
            strategy => strategy,
        };
        let strategy = strategy.map_err(external)?;
        let device = match &strategy {
            Strategy::Prepared { side, .. } => side.device().clone(),
            _ => cpu.clone(),
        };
        let (keys, nulls) = (side.keys().clone(), side.nulls());
        Ok(Index { keys, nulls, pairs, device, cpu, strategy, on_cpu: OnceLock::new() })
    }

    /// The maximum memory in bytes to build an index of this number of rows and key columns: words, their numbers, a
    /// table of them, the lists of rows, and on the CPU up to 64 bytes of bits per row, at most a megabyte.
    pub(super) fn bytes(rows: usize, columns: usize) -> usize {
        rows.saturating_mul(40 + 16 * columns).saturating_add(rows.saturating_mul(64).min(1 << 20))
    }

    /// The name of the device, for metrics and plans.
    pub(super) fn device(&self) -> String {
        match self.on_cpu.get() {
            Some(_) => format!("cpu, {} failed", device::shown(&self.device)),
            None => device::shown(&self.device),
        }
    }

    /// Whether the index is on a device on a bus: it is then probed in few large batches, by a blocking thread.
    pub(super) fn is_remote(&self) -> bool {
        !device::is_cpu(&self.device) && self.on_cpu.get().is_none()
    }

    /// The number of probe rows to gather for a lookup. On the CPU, each batch is looked up while it is in the caches.
    pub(super) fn gathered(&self) -> usize {
        if self.is_remote() { GATHERED } else { 1 }
    }

    /// Looks up a batch of probe keys; does not return results if there are more than `at_once`.
    pub(super) fn probe(&self, keys: &Keys, how: JoinKind, at_once: usize) -> Result<Probe> {
        self.ask(|strategy| match strategy {
            Strategy::Pairs(right) => right.probe(keys, how, at_once),
            Strategy::Prepared { side, .. } => side.index().probe(keys, how, at_once),
            Strategy::FirstOccurrences { .. } => Err(koel::Error::WrongIndex.into()),
        })
    }

    /// The results of a batch from number `first` on, at most `at_once`.
    pub(super) fn piece(&self, probe: &Probe, first: u64, at_once: usize) -> Result<JoinRows> {
        self.ask(|strategy| match strategy {
            Strategy::Pairs(right) => right.piece(probe, first, at_once),
            Strategy::Prepared { side, .. } => side.index().piece(probe, first, at_once),
            Strategy::FirstOccurrences { .. } => Err(koel::Error::WrongIndex.into()),
        })
    }

    /// The first build row of each probe row's key, or [`koel::NO_ROW`].
    pub(super) fn first_occurrences(&self, keys: &Keys) -> Result<Vec<u32>> {
        self.ask(|strategy| match strategy {
            Strategy::FirstOccurrences { keys: first_occurrences, .. } => first_occurrences.find(keys),
            Strategy::Prepared { side, .. } => side.first_rows(keys),
            Strategy::Pairs(_) => Err(koel::Error::WrongIndex.into()),
        })
    }

    /// The row whose bit records whether a build row has a match.
    pub(super) fn marked_by(&self, row: u32) -> u32 {
        match &self.strategy {
            Strategy::Pairs(_) => row,
            // A row without a key has no match, and no first row.
            Strategy::FirstOccurrences { of_row, .. } | Strategy::Prepared { of_row, .. } => {
                of_row.get(row as usize).copied().filter(|&first| first != NO_ROW).unwrap_or(row)
            }
        }
    }

    /// Runs `question` on the device's index, or on the CPU's after the device has failed.
    fn ask<T>(&self, question: impl Fn(&Strategy) -> koel_arrow::Result<T>) -> Result<T> {
        if self.on_cpu.get().is_none() {
            match question(&self.strategy) {
                Ok(answer) => return Ok(answer),
                Err(error) if may_be_mended(&self.device, &error) => {
                    warn!("koel: {} failed ({error}): the CPU continues", device::shown(&self.device));
                }
                Err(error) => return Err(external(error)),
            }
        }
        let made = self.on_cpu.get_or_init(|| {
            let strategy = match &self.strategy {
                // With the same hashes, because a probe may have begun.
                Strategy::Prepared { side, of_row } => side
                    .on_device(&self.cpu)
                    .map(|side| Strategy::Prepared { side: Arc::new(side), of_row: of_row.clone() }),
                _ => Strategy::of(&self.cpu, &self.keys, self.nulls, self.pairs),
            };
            strategy.map_err(|error| error.to_string())
        });
        match made {
            Ok(strategy) => question(strategy).map_err(external),
            Err(why) => Err(DataFusionError::Execution(format!("koel: the CPU cannot go on for a device: {why}"))),
        }
    }
}

/// Whether the CPU may succeed after this error: it has other memory and does not use a driver.
pub(super) fn may_be_mended(device: &Any, error: &koel_arrow::Error) -> bool {
    !device::is_cpu(device) && matches!(error, koel_arrow::Error::Koel(_))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use datafusion::arrow::array::{Int64Array, RecordBatch};
    use koel_arrow::{Column, PreparedOptions};

    use super::*;

    /// Fewer results than there are, so that they are returned in several pieces.
    const SOME: usize = 64;

    fn keys(of: impl Iterator<Item = i64>) -> Keys {
        Keys::new(vec![Column::new("k", Arc::new(of.collect::<Int64Array>()))]).expect("keys")
    }

    fn lost() -> koel::Error {
        koel::Error::Device { device: "a card".into(), doing: "a lookup".into(), message: "it is gone".into() }
    }

    /// All results of the index for these keys.
    fn said(index: &Index, of: &Keys) -> [Vec<u32>; 2] {
        if !index.pairs {
            return [index.first_occurrences(of).expect("rows"), vec![]];
        }
        let probe = index.probe(of, JoinKind::Full, SOME).expect("a probe");
        let [mut left, mut right] = [vec![], vec![]];
        while (left.len() as u64) < probe.len() {
            let JoinRows { left: more, right: of_them } =
                index.piece(&probe, left.len() as u64, SOME).expect("a piece");
            assert!((1..=SOME).contains(&more.len()));
            left.extend(more);
            right.extend(of_them);
        }
        [left, right]
    }

    /// The CPU continues to list the results of a batch that was looked up on a device, and later batches have equal
    /// results.
    #[test]
    fn the_cpu_goes_on_where_a_device_has_failed() {
        let device = match koel::device::choose("opencl:0", None) {
            Ok(found) => found.into_iter().next().expect("a device"),
            Err(error) => {
                assert!(std::env::var_os("KOEL_REQUIRE_OPENCL").is_none(), "an OpenCL device is required: {error}");
                return eprintln!("skipped: {error}");
            }
        };
        let (build, probe) = (keys((0..3000).map(|i| i * 7919 % 1000)), keys((0..2000).map(|i| i * 31 % 1100)));
        let columns = build.columns().iter().map(|column| Arc::clone(&column.chunks()[0]));
        let batch = RecordBatch::try_from_iter(columns.map(|column| ("k", column))).expect("a batch");
        let options = PreparedOptions::default();
        let side = PreparedJoin::build(&device, &batch.schema(), vec![batch], &["k"], options).expect("prepared");
        let side = Arc::new(side);
        for (pairs, is_prepared) in [(true, false), (false, false), (true, true), (false, true)] {
            let index = match is_prepared {
                true => Index::of_prepared(&side, pairs, true),
                false => {
                    Index::new([device.clone(), device::thread()], build.clone(), NullEquality::NothingEquals, pairs)
                }
            }
            .expect("an index");
            let before = said(&index, &probe);
            assert!(index.is_remote() && before[0].len() >= 2000);
            let begun = pairs.then(|| index.probe(&probe, JoinKind::Full, SOME).expect("a probe"));
            let is_lost = Cell::new(true);
            let question = |strategy: &Strategy| match (is_lost.replace(false), strategy) {
                (true, _) => Err(lost().into()),
                (false, Strategy::Pairs(_)) => Ok(true),
                (false, Strategy::FirstOccurrences { .. }) => Ok(false),
                (false, Strategy::Prepared { .. }) => Ok(pairs),
            };
            assert_eq!(index.ask(question).expect("the CPU's answer"), pairs);
            assert!(!index.is_remote() && index.device().contains("failed"), "{}", index.device());
            assert_eq!(said(&index, &probe), before);
            if let Some(begun) = begun {
                let next = index.piece(&begun, 100, SOME).expect("some more");
                assert_eq!([next.left, next.right], before.map(|rows| rows[100..100 + SOME].to_vec()));
            }
        }
    }
}
