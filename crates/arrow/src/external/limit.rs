//! The memory limit, and which work fits in it.

use std::path::{Path, PathBuf};

use arrow_schema::DataType;
use koel::backend::DeviceKind;
use koel::{Any, Cpu, HashBackend};

use super::result_type;

/// A memory limit, and the folder for data that exceeds it.
///
/// ```
/// use koel_arrow::external::Limit;
/// let limit = Limit::new(300_000_000).in_folder("/var/tmp");
/// assert_eq!(limit.bytes(), 300_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    bytes: u64,
    folder: PathBuf,
    /// The number of bytes per row in addition to its columns, for results.
    of_row: u64,
    /// Whether rows may be spilled.
    spills: bool,
    /// Whether `bytes` is a limit, and not only the memory of the machine.
    is_set: bool,
}

/// Bytes per row for words, a table of them, lists of rows, and scratch space.
const OF_A_ROW: u64 = 48;
/// Bytes per row for the values and results of an aggregate.
const OF_AN_AGGREGATE: u64 = 24;

impl Limit {
    /// Creates a limit of `bytes` bytes. Temporary files are created in the system's temporary folder.
    ///
    /// The limit applies to columns and to the tables of their keys. A process uses about 50 MB in addition, and more
    /// with an OpenCL driver.
    pub fn new(bytes: u64) -> Self {
        Limit { bytes, folder: std::env::temp_dir(), of_row: OF_A_ROW, spills: true, is_set: bytes < u64::MAX }
    }

    /// No limit: rows are never spilled, so the columns of results keep their types. A table may have up to 2^32 - 2
    /// rows.
    pub fn none() -> Self {
        Limit { spills: false, ..Limit::new(u64::MAX) }
    }

    /// The type of result columns for a column of this type: [`result_type`] if rows may be spilled.
    pub fn result_type(&self, of: &DataType) -> DataType {
        if self.spills { result_type(of) } else { of.clone() }
    }

    /// Sets the folder of temporary files. The files have no names there, and are removed when the process ends.
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// Whether there is a limit besides the memory of the machine.
    pub(super) fn is_set(&self) -> bool {
        self.is_set
    }

    /// The limit in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The folder of temporary files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// `1 / parts` of the limit, or of half of the memory of this machine if that is less.
    pub(crate) fn part(&self, parts: u64) -> Limit {
        let whole = self.of(&[], 0);
        Limit { bytes: whole.bytes / parts, ..whole }
    }

    /// The limit, but at most half of the memory of this machine and of the smallest device, for rows with this number
    /// of aggregates.
    pub(super) fn of(&self, devices: &[Any], aggregates: usize) -> Limit {
        self.share(devices, aggregates, 1)
    }

    /// The share of each device if all devices work on different rows at the same time.
    pub(super) fn each(&self, devices: &[Any], aggregates: usize) -> Limit {
        self.share(devices, aggregates, devices.len() as u64)
    }

    fn share(&self, devices: &[Any], aggregates: usize, shares: u64) -> Limit {
        let shares = shares.max(1);
        // A device that is listed twice has half of its memory for each occurrence.
        let times = |id: &str| devices.iter().filter(|device| device.info().id == id).count() as u64;
        let of_device = |device: &Any| device.info().memory.map(|bytes| bytes / times(&device.info().id).min(shares));
        let here = Cpu::of_caller().info().memory.map(|bytes| bytes / shares);
        let most = devices.iter().filter_map(of_device).chain(here).min().map_or(u64::MAX, |bytes| bytes / 2);
        let of_row = OF_A_ROW + OF_AN_AGGREGATE * aggregates as u64;
        Limit { bytes: (self.bytes / shares).min(most), of_row, ..self.clone() }
    }

    /// The same limit for rows with row numbers.
    pub(super) fn numbered(self) -> Limit {
        Limit { of_row: self.of_row + size_of::<u64>() as u64, ..self }
    }

    /// The same limit if every device stores all rows: the rows of all CPUs are in host memory.
    pub(super) fn of_copies(self, devices: &[Any]) -> Limit {
        let cpus = devices.iter().filter(|device| device.info().kind == DeviceKind::Cpu).count();
        Limit { of_row: self.of_row * cpus.max(1) as u64, ..self }
    }

    /// Whether this number of rows can be processed at once, with their columns and what is computed from them.
    pub(super) fn fits(&self, rows: u64, bytes: u64) -> bool {
        !self.spills || rows < ROWS_OF_A_PART && self.work_bytes(rows, bytes) <= self.bytes
    }

    /// An upper estimate of the memory for processing `rows` rows of `bytes` bytes at a time: the columns, both in
    /// batches and in one piece, and the results.
    pub(super) fn work_bytes(&self, rows: u64, bytes: u64) -> u64 {
        bytes.saturating_add(rows.saturating_mul(self.of_row)).saturating_mul(2)
    }

    /// The number of bytes of a block of results. During a merge, one block per run is in memory.
    pub(super) fn block_bytes(&self) -> u64 {
        (self.bytes / 1024).clamp(16 << 10, 512 << 10)
    }

    /// The number of bytes of the blocks of all runs during a merge.
    pub(super) fn merged_bytes(&self) -> u64 {
        self.bytes / 8
    }

    /// The number of bytes of rows that a GPU looks up at a time: many, because kernels are launched each time.
    pub(super) fn device_bytes(&self) -> u64 {
        if self.is_set { self.batch_bytes() } else { (self.bytes / 32).clamp(64 << 10, 64 << 20) }
    }

    /// The number of bytes of left rows, or of rows to aggregate, that are processed at a time.
    pub(super) fn batch_bytes(&self) -> u64 {
        (self.bytes / 32).clamp(64 << 10, 8 << 20)
    }
}

/// Row numbers within a part have 32 bits.
const ROWS_OF_A_PART: u64 = 1 << 31;
