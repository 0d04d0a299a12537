//! Fuzz targets: functions that take any bytes as a file of users and must neither panic, hang, nor take memory that
//! the file does not account for.
//!
//! ```text
//! table.rs     table files of every scheme
//! multi.rs     files of sets, compacting tables and multivalue tables
//! file.rs      what both need: right checksums, a file for the bytes, keys to query
//! memory.rs    the limit on memory
//! seeds.rs     small valid inputs of each target; `cargo run --bin seeds` writes them to corpus/
//! mutate.rs    changed inputs for the smoke test
//! ```
//!
//! A target is a function here, a line in [`TARGETS`] and three lines in `fuzz_targets/`.

mod file;
pub mod memory;
mod multi;
pub mod mutate;
pub mod seeds;
mod table;

pub use multi::multi;
pub use table::table;

/// A target by its name.
pub struct Target {
    /// The name of its function, of its file in `fuzz_targets/` and of its folder in `corpus/`.
    pub name: &'static str,
    /// Panics if the library breaks a promise for these bytes.
    pub run: fn(&[u8]),
    /// Small valid inputs, by name.
    pub seeds: fn() -> Vec<(String, Vec<u8>)>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "table", run: table, seeds: seeds::tables },
    Target { name: "multi", run: multi, seeds: seeds::structures },
];
