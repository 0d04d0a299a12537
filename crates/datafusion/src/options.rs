//! Options of a session: `SET koel.device = 'cpu'`.

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};

use crate::device::is_name;

/// Whether koel executes joins and aggregates, and on which device. In SQL these are `koel.device` and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KoelOptions {
    /// `koel.enabled`: whether koel executes joins and aggregates.
    pub enabled: bool,
    /// `koel.device`: `auto`, the best OpenCL device or else the CPU; `cpu`; `opencl:NUMBER` or `opencl:NAME`. If the
    /// device is not available, the CPU is used.
    pub device: String,
    /// `koel.min_rows`: build sides with fewer rows are indexed, and partitions with fewer rows are grouped, on the
    /// CPU, whatever the device.
    pub min_rows: usize,
    /// `koel.ordered`: whether the rows of a plan have the same order in every run; the README lists the plans.
    /// Exchanges then read partitions by number. `datafusion.execution.enable_file_stream_work_stealing` must be off
    /// for scans of files.
    pub ordered: bool,
    /// `koel.merges`: whether koel also replaces sort-merge joins whose inputs are sorted for them only.
    pub merges: bool,
    /// `koel.notes`: whether plans say why koel does not execute a join or an aggregate.
    pub notes: bool,
    /// `koel.build_cache_bytes`: the memory of build sides of joins that are kept for other queries, if they are read
    /// from Parquet or Arrow files; 0 keeps none. See [`KoelBuildCache`](crate::KoelBuildCache).
    pub build_cache_bytes: usize,
    /// `koel.build_cache_folder`: a folder for these build sides, so that processes share them; empty for none. Only
    /// koel may write to its files, because they are mapped.
    pub build_cache_folder: String,
}

/// The prefix of all options.
const PREFIX: &str = "koel";
/// Below this number of rows, transfers to a device cost more than the device saves.
const MIN_ROWS: usize = 1 << 18;

impl Default for KoelOptions {
    fn default() -> Self {
        KoelOptions {
            enabled: true,
            device: "auto".into(),
            min_rows: MIN_ROWS,
            ordered: false,
            merges: true,
            notes: true,
            build_cache_bytes: 0,
            build_cache_folder: String::new(),
        }
    }
}

impl KoelOptions {
    /// Sets `koel.device`.
    #[must_use]
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.device = device.into();
        self
    }

    /// Sets `koel.min_rows`.
    #[must_use]
    pub fn min_rows(mut self, rows: usize) -> Self {
        self.min_rows = rows;
        self
    }

    /// Sets `koel.ordered`.
    #[must_use]
    pub fn ordered(mut self, ordered: bool) -> Self {
        self.ordered = ordered;
        self
    }

    /// Sets `koel.merges`.
    #[must_use]
    pub fn merges(mut self, merges: bool) -> Self {
        self.merges = merges;
        self
    }

    /// Sets `koel.notes`.
    #[must_use]
    pub fn notes(mut self, notes: bool) -> Self {
        self.notes = notes;
        self
    }

    /// Sets `koel.build_cache_bytes`.
    #[must_use]
    pub fn build_cache_bytes(mut self, bytes: usize) -> Self {
        self.build_cache_bytes = bytes;
        self
    }

    /// Sets `koel.build_cache_folder`.
    #[must_use]
    pub fn build_cache_folder(mut self, folder: impl Into<String>) -> Self {
        self.build_cache_folder = folder.into();
        self
    }
}

impl ConfigExtension for KoelOptions {
    const PREFIX: &'static str = PREFIX;
}

impl ExtensionOptions for KoelOptions {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "enabled" => self.enabled = parsed(key, value, "true or false")?,
            "device" if is_name(value) => self.device = value.into(),
            "device" => return Err(wrong(key, value, "auto, cpu, opencl:NUMBER or opencl:NAME")),
            "min_rows" => self.min_rows = parsed(key, value, "a number of rows")?,
            "ordered" => self.ordered = parsed(key, value, "true or false")?,
            "merges" => self.merges = parsed(key, value, "true or false")?,
            "notes" => self.notes = parsed(key, value, "true or false")?,
            "build_cache_bytes" => self.build_cache_bytes = parsed(key, value, "a number of bytes")?,
            "build_cache_folder" => self.build_cache_folder = value.into(),
            _ => {
                let known = self.entries().into_iter().map(|entry| entry.key).collect::<Vec<_>>().join(", ");
                return Err(DataFusionError::Configuration(format!(
                    "there is no option {PREFIX}.{key}: the options are {known}"
                )));
            }
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &str, value: String, description| ConfigEntry {
            key: format!("{PREFIX}.{key}"),
            value: Some(value),
            description,
        };
        vec![
            entry("enabled", self.enabled.to_string(), "Whether koel executes joins and aggregates"),
            entry("device", self.device.clone(), "Where koel works: auto, cpu, opencl:NUMBER or opencl:NAME"),
            entry(
                "min_rows",
                self.min_rows.to_string(),
                "The minimum number of rows to index or group at which koel uses a device other than the CPU",
            ),
            entry("ordered", self.ordered.to_string(), "Whether rows leave a plan in one order, run after run"),
            entry("merges", self.merges.to_string(), "Whether koel replaces sort-merge joins and their sorts"),
            entry(
                "notes",
                self.notes.to_string(),
                "Whether plans say why koel leaves a join or an aggregate to DataFusion",
            ),
            entry(
                "build_cache_bytes",
                self.build_cache_bytes.to_string(),
                "The memory of build sides that are kept for other queries; 0 keeps none",
            ),
            entry(
                "build_cache_folder",
                self.build_cache_folder.clone(),
                "A folder for kept build sides, to which only koel writes; empty for none",
            ),
        ]
    }
}

fn parsed<T: std::str::FromStr>(key: &str, value: &str, wanted: &str) -> Result<T> {
    value.trim().parse().map_err(|_| wrong(key, value, wanted))
}

fn wrong(key: &str, value: &str, wanted: &str) -> DataFusionError {
    DataFusionError::Configuration(format!("{PREFIX}.{key} = '{value}': give {wanted}"))
}
