//! Bulk hash tables for CPUs and GPUs whose bytes are the same on every device.
//!
//! A [`HashTable`] maps keys to values. Both are `u32` by default; some schemes also have 64-bit keys or values, as in
//! `Bucketized::canonical(4).of::<u64, u64>()`. A table is built on a device from whole arrays, and looks up arrays of
//! keys. There is one API for all devices: the CPU ([`Cpu`]), OpenCL devices (`OpenCl`), or the best available
//! ([`auto`]).
//!
//! ```
//! use koel::{Cuckoo, HashTable, auto};
//!
//! let device = auto().backend;
//! let keys: Vec<u32> = (0..1000).map(|i| i * i).collect();
//! let values: Vec<u32> = (0..1000).collect();
//! let mut table = HashTable::builder(Cuckoo::canonical(4)).build(&device, &keys, &values)?;
//! assert_eq!(table.get(&[9, 10])?, [Some(3), None]);
//!
//! table.upsert(&[10], &[77])?;
//! assert_eq!(table.len(), 1001);
//! println!("{}", table.digest()?);
//! # Ok::<(), koel::Error>(())
//! ```
//!
//! # Two kinds
//!
//! [`Kind::Canonical`] tables (the default) are a pure function of parameters, seed and contents: the same bytes, the
//! same order of pairs and the same digest on every device, whatever the order of the input. [`Kind::Classic`] tables
//! are built by the algorithms of the papers, whose results depend on thread timing or on the order of the input: the
//! same answers, but other bytes.
//!
//! # Which scheme
//!
//! | goal | scheme | reads per hit, bytes per pair |
//! |---|---|---|
//! | fast lookups of pairs that are all known at build time | [`Signpost::new()`](Signpost) | 1.10 lines, 8.9 |
//! | fast builds, lookups, and batches | [`Bucketized::canonical(8)`](Bucketized) | 1.22 lines, 8.9 |
//! | least memory | `Bucketized::canonical(8)` at load 0.99 | 1.70 lines, 8.1 |
//! | single slots | [`Cuckoo::canonical(4)`](Cuckoo), the default | 2.0 slots, 10.0 |
//! | keys without values | [`CuckooSet::canonical(4)`](CuckooSet) | 2.0 slots, 5.0 per key |
//! | pixels, voxels and other keys with neighbours | [`RobinHood::canonical()`](RobinHood) | neighbours next to each other, 8.1 and more |
//! | a scheme chosen at run time, by a file or an option | [`AnyScheme`] | |
//!
//! [`Fks`], [`Perfect`], [`Quadratic`] and [`Sorted`] are the papers' other tables and baselines; docs/guide/tables.md
//! compares them.
//!
//! # Contents
//!
//! | | |
//! |---|---|
//! | [`HashTable`], [`TableBuilder`] | a map from keys to values, with all operations |
//! | [`HashSet`] | distinct keys, and set operations |
//! | [`MultiTable`] | any number of values per key |
//! | [`CompactingTable`] | distinct keys, numbered 0, 1, ..; looked up in both directions |
//! | [`JoinIndex`], [`fn@join`] | joins of two columns: pairs of row numbers, in the same order on every device |
//! | [`ColumnIndex`] | joins with a right column in memory: faster to build, but cannot be saved |
//! | [`Sharded`], [`Replicated`] | one table over several devices; a copy of a table on each device |
//! | [`ShardedSet`], [`ShardedMulti`] | sets and multivalue tables over several devices |
//! | [`ShardedFile`], [`SpilledBuild`] | sharded tables larger than memory: looked up in a file, built into a file |
//! | [`group`] | distinct keys, inverse indices, counts, sums, means, minima and maxima by key |
//! | [`Cpu`], `OpenCl`, [`Any`], [`auto`], [`device`] | devices, by type, by name, or the best one |
//! | [`backend`] | device-resident buffers, and the backend traits for generic code |
//! | [`scheme`] | layouts and arithmetic of tables: the reference for every backend |
//! | [`layout`] | keys for the cells of pictures and boxes of voxels, and for k-mers; readers of FASTA and FASTQ |
//! | [`Error`] | all errors, and how to resolve them |
//! | [`prelude`] | the names that most programs need |
//!
//! All names follow one rule: `x` takes and returns host slices, `x_on` takes and returns device buffers, and `x_into`
//! and `x_on_into` write to slices or buffers of the caller.
//!
//! # Features
//!
//! - `opencl` (default): the OpenCL backend. OpenCL is not needed to build, link or start a program.
//!
//! Without features, koel is a library for the CPU only. The commands `koel` and `koel-bench` are separate packages.

#[cfg(not(target_endian = "little"))]
compile_error!("koel's images and files are little-endian; this target is not supported");

pub mod backend;
#[doc(hidden)]
pub mod columns;
pub mod compact;
pub mod cpu;
pub mod device;
mod error;
mod exact;
#[cfg(feature = "fault-injection")]
#[doc(hidden)]
pub mod fault;
#[doc(hidden)]
pub mod file;
pub mod group;
pub mod join;
pub mod layout;
mod memory;
pub mod multi;
#[cfg(feature = "opencl")]
pub mod opencl;
mod parallel;
pub mod prelude;
pub mod scheme;
mod sealed;
pub mod set;
pub mod sharded;
pub mod table;
#[doc(hidden)]
pub mod threads;
mod tuning;
pub mod workload;

pub use backend::{DeviceBuffer, DeviceInfo, HashBackend, Kernels, Runs};
pub use compact::{CompactingBuilder, CompactingTable};
pub use cpu::Cpu;
pub use device::{Any, auto};
pub use error::{Error, Result};
pub use exact::{ExactSum, SumStates, exact_ratio};
pub use group::{Aggregate, DeviceGroups, Groups, IdOrder};
pub use join::{ColumnIndex, ColumnJoin, Join, JoinBuilder, JoinIndex, JoinKind, JoinRows, NO_ROW, join};
pub use multi::{MultiBuilder, MultiTable, Retrieved};
#[cfg(feature = "opencl")]
pub use opencl::OpenCl;
pub use scheme::{
    AnyScheme, AnySchemeOf, Bucketized, BucketizedOf, Cuckoo, CuckooOf, CuckooSet, Fks, FksFamily, HashFamily, Horton,
    HortonFamily, Insertion, Kind, Load, LookupMode, Perfect, Quadratic, Reinsertion, RobinHood, RobinHoodOf, Scheme,
    Sequence, Signpost, SignpostOf, Sorted, SortedOf,
};
pub use set::{HashSet, SetBuilder};
pub use sharded::{Replicated, Sharded, ShardedBuilder, ShardedFile, ShardedMulti, ShardedSet, SpilledBuild};
pub use table::{Digest, Duplicates, HashTable, KeyType, TableBuilder, ValueType, random_seed};

/// The examples of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../docs/guide/rust.md")]
struct Guide;
