//! `--memory`.

use koel_arrow::external::Limit;

use crate::{memory, options};

/// How much memory may be used.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Memory {
    /// Approximate memory limit, e.g. 4G; at least 64Mi
    ///
    /// As 300M, 4G or 16Gi. Data that does not fit is stored in temporary files in the folder TMPDIR. The result is the
    /// same, except that columns of dictionaries are written as their values.
    #[arg(long, value_name = "BYTES", value_parser = options::memory)]
    memory: Option<u64>,
}

/// Bytes of a limit that are reserved for reading and writing, a fourth at most.
const WRITTEN: u64 = 32 << 20;

impl Memory {
    pub(crate) fn is_given(&self) -> bool {
        self.memory.is_some()
    }

    /// The limit for tables: by default the memory of the machine.
    pub(crate) fn limit(&self) -> Limit {
        if self.is_given() {
            memory::has_limit();
        }
        Limit::new(self.memory.map_or(u64::MAX, |bytes| bytes - (bytes / 4).min(WRITTEN)))
    }

    /// The memory limit of the options.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.memory
    }
}
