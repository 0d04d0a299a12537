//! Fuzz targets: functions that read arbitrary bytes as a user's file, and must neither panic, hang, nor use more
//! memory than the file justifies.
//!
//! ```text
//! table.rs     table files of every scheme
//! multi.rs     files of sets, compacting tables and multivalue tables
//! sharded.rs   files of sharded tables
//! file.rs      shared by these: valid checksums, a file for the bytes, keys to query
//! npy.rs, columns.rs, fasta.rs      inputs of the command, each compared with a second, simpler reader
//! named.rs     tables of named columns, in every format that the command reads
//! input.rs     shared by the input targets
//! memory.rs    the limit on memory
//! seeds.rs     small valid inputs of each target; `cargo run --bin seeds` writes them to corpus/
//! mutate.rs    changed inputs for the smoke test
//! ```
//!
//! A target is a function here, a line in [`TARGETS`] and three lines in `fuzz_targets/`.

mod columns;
mod fasta;
mod file;
mod input;
pub mod memory;
mod multi;
pub mod mutate;
mod named;
mod npy;
pub mod seeds;
mod sharded;
mod table;

pub use columns::columns;
pub use fasta::fasta;
pub use multi::multi;
pub use named::named;
pub use npy::npy;
pub use sharded::sharded;
pub use table::table;

/// A target by its name.
pub struct Target {
    /// The name of its function, of its file in `fuzz_targets/` and of its folder in `corpus/`.
    pub name: &'static str,
    /// Panics if the library violates a guarantee for these bytes.
    pub run: fn(&[u8]),
    /// Small valid inputs, by name.
    pub seeds: fn() -> Vec<(String, Vec<u8>)>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "table", run: table, seeds: seeds::tables },
    Target { name: "multi", run: multi, seeds: seeds::structures },
    Target { name: "sharded", run: sharded, seeds: seeds::shards },
    Target { name: "npy", run: npy, seeds: npy::seeds },
    Target { name: "columns", run: columns, seeds: columns::seeds },
    Target { name: "fasta", run: fasta, seeds: fasta::seeds },
    Target { name: "named", run: named, seeds: named::seeds },
];
