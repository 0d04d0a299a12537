//! Errors planted on purpose, so that the checks themselves can be checked (`KOEL_FAULT`).
//!
//! `KOEL_FAULT=atomics` makes the self-test of a device's 64-bit atomics fail in every build: nothing can go wrong by
//! it but that OpenCL is refused. The others exist only with the feature `fault-injection` and name a side:
//! `opencl:hash`, `cpu:drop`, ..; a `verify` that does not exit 1 under them is broken.

/// The environment variable.
pub(crate) const VARIABLE: &str = "KOEL_FAULT";

/// What can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The self-test of 64-bit atomics fails (OpenCL).
    Atomics,
    /// One constant of one hash function is off.
    Hash,
    /// The image is left as it was before the last batch.
    Stale,
    /// The last key of a batch is not placed.
    Drop,
    /// One row is passed over where columns are marked, listed and added up.
    Rows,
}

/// Whether `fault` is planted in the backend called `side` (`cpu` or `opencl`).
pub(crate) fn planted(side: &str, fault: Fault) -> bool {
    if fault != Fault::Atomics && !cfg!(feature = "fault-injection") {
        return false;
    }
    let Ok(wanted) = std::env::var(VARIABLE) else { return false };
    let name = match fault {
        Fault::Atomics => return wanted == "atomics",
        Fault::Hash => "hash",
        Fault::Stale => "stale",
        Fault::Drop => "drop",
        Fault::Rows => "rows",
    };
    wanted == format!("{side}:{name}")
}
