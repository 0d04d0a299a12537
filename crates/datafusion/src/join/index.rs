//! The keys of the build side, made ready to be asked by probe batches: on the chosen device, or on the CPU.
//!
//! ```text
//! Pairs    a multimap: for each probe row its build rows.    Inner and outer joins, and all with a residual filter
//! Firsts   a map: for each probe row the first build row of its key.    Semi, anti and mark joins without a filter
//! ```
//!
//! A device that fails, while building or later, is left for good: the same index is made on the CPU, and the batch at hand
//! is asked again. koel gives the same rows in the same order on every device, so a result that is half out goes on as if
//! nothing had happened.

use std::sync::OnceLock;

use datafusion::error::{DataFusionError, Result};
use koel::{Any, JoinKind, JoinRows};
use koel_arrow::{FirstKeys, Keys, NullEquality, Probe, RightKeys};
use log::warn;

use crate::device;
use crate::error::external;

/// Probe rows that are asked at a time of a device that is reached over a bus.
const GATHERED: usize = 1 << 20;
/// Results that are held at once: of a batch, and of what is gathered for a device, which looks all of it up again for each piece.
const AT_ONCE: usize = 1 << 17;
const AT_ONCE_REMOTE: usize = 1 << 21;

/// An index of the build side's keys.
pub(super) struct Index {
    keys: Keys,
    nulls: NullEquality,
    pairs: bool,
    device: Any,
    way: Way,
    /// Made when the device has failed.
    on_cpu: OnceLock<std::result::Result<Way, String>>,
}

enum Way {
    Pairs(RightKeys),
    Firsts { keys: FirstKeys, of_row: Vec<u32> },
}

impl Way {
    fn of(device: &Any, keys: &Keys, nulls: NullEquality, pairs: bool) -> koel_arrow::Result<Self> {
        if pairs {
            return Ok(Way::Pairs(RightKeys::new(device, keys, nulls)?));
        }
        let keys = FirstKeys::new(device, keys, nulls)?;
        Ok(Way::Firsts { of_row: keys.rows()?, keys })
    }
}

impl Index {
    /// An index on a device, or, should it fail, on the CPU.
    pub(super) fn new(device: Any, keys: Keys, nulls: NullEquality, pairs: bool) -> Result<Self> {
        let on = |device: &Any| Way::of(device, &keys, nulls, pairs);
        let (device, way) = match on(&device) {
            Ok(way) => (device, way),
            Err(error) if may_be_mended(&device, &error) => {
                warn!("koel: {} cannot index {} rows ({error}): the CPU does", device::shown(&device), keys.len());
                let cpu = device::cpu();
                let way = on(&cpu).map_err(external)?;
                (cpu, way)
            }
            Err(error) => return Err(external(error)),
        };
        Ok(Index { keys, nulls, pairs, device, way, on_cpu: OnceLock::new() })
    }

    /// Bytes that an index of so many rows and key columns takes while it is made, at most: words, their numbers, a table of
    /// them, the lists of rows, and on the CPU up to 64 bytes a row of bits, which are a megabyte at most.
    pub(super) fn bytes(rows: usize, columns: usize) -> usize {
        rows.saturating_mul(40 + 16 * columns).saturating_add(rows.saturating_mul(64).min(1 << 20))
    }

    /// The device that holds it, for metrics and plans.
    pub(super) fn device(&self) -> String {
        match self.on_cpu.get() {
            Some(_) => format!("cpu, {} failed", device::shown(&self.device)),
            None => device::shown(&self.device),
        }
    }

    /// Whether it is asked over a bus: then in few large batches, and by a thread that may wait.
    pub(super) fn is_remote(&self) -> bool {
        !device::is_cpu(&self.device) && self.on_cpu.get().is_none()
    }

    /// Probe rows to gather before it is asked; the CPU is asked for each batch, while that is in its caches.
    pub(super) fn gathered(&self) -> usize {
        if self.is_remote() { GATHERED } else { 1 }
    }

    /// The most results of a piece.
    fn at_once(&self) -> usize {
        if self.is_remote() { AT_ONCE_REMOTE } else { AT_ONCE }
    }

    /// What a batch of probe keys finds, without its results if they are many.
    pub(super) fn probe(&self, keys: &Keys, how: JoinKind) -> Result<Probe> {
        self.ask(|way| match way {
            Way::Pairs(right) => right.probe(keys, how, self.at_once()),
            Way::Firsts { .. } => Err(koel::Error::WrongIndex.into()),
        })
    }

    /// Some results of a batch.
    pub(super) fn piece(&self, probe: &Probe, first: u64) -> Result<JoinRows> {
        self.ask(|way| match way {
            Way::Pairs(right) => right.piece(probe, first, self.at_once()),
            Way::Firsts { .. } => Err(koel::Error::WrongIndex.into()),
        })
    }

    /// The first build row of each probe row's key, or [`koel::NO_ROW`].
    pub(super) fn firsts(&self, keys: &Keys) -> Result<Vec<u32>> {
        self.ask(|way| match way {
            Way::Firsts { keys: firsts, .. } => firsts.find(keys),
            Way::Pairs(_) => Err(koel::Error::WrongIndex.into()),
        })
    }

    /// The row whose bit says whether a build row was found.
    pub(super) fn marked_by(&self, row: u32) -> u32 {
        match &self.way {
            Way::Pairs(_) => row,
            Way::Firsts { of_row, .. } => of_row.get(row as usize).copied().unwrap_or(row),
        }
    }

    /// Asks the device, and after its failure the CPU.
    fn ask<T>(&self, question: impl Fn(&Way) -> koel_arrow::Result<T>) -> Result<T> {
        if self.on_cpu.get().is_none() {
            match question(&self.way) {
                Ok(answer) => return Ok(answer),
                Err(error) if may_be_mended(&self.device, &error) => {
                    warn!("koel: {} failed ({error}): the CPU goes on", device::shown(&self.device));
                }
                Err(error) => return Err(external(error)),
            }
        }
        let made = self.on_cpu.get_or_init(|| {
            Way::of(&device::cpu(), &self.keys, self.nulls, self.pairs).map_err(|error| error.to_string())
        });
        match made {
            Ok(way) => question(way).map_err(external),
            Err(why) => Err(DataFusionError::Execution(format!("koel: the CPU cannot go on for a device: {why}"))),
        }
    }
}

/// Whether the CPU may do better: it has other memory and no driver, but the same keys.
fn may_be_mended(device: &Any, error: &koel_arrow::Error) -> bool {
    !device::is_cpu(device) && matches!(error, koel_arrow::Error::Koel(_))
}
