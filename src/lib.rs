//! Bulk hash tables for CPUs and GPUs that hold the same bytes on every device.
//!
//! A [`HashTable`] maps `u32` keys to `u32` values. It is built from whole arrays at once, on a device, and answers
//! arrays of queries. There is one API for all devices: the CPU ([`Cpu`]), OpenCL devices (`OpenCl`), or whichever
//! there is ([`auto`]).
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
//! are built by the papers' own algorithms, which are races or depend on the order: the same answers, other bytes.
//!
//! # Where to look
//!
//! - [`HashTable`] and [`TableBuilder`]: everything a table can do.
//! - [`Cuckoo`], [`Bucketized`], [`Horton`], [`RobinHood`], [`Fks`]: the schemes and their parameters (Alcantara et al. 2011;
//!   Breslow et al. 2016, both; Garcia et al. 2011; Alcantara et al. 2009). [`CuckooSet`]: keys alone. [`Sorted`],
//!   [`Perfect`], [`Quadratic`]: the baselines that the papers measure against. The README has a table of when to take which.
//! - [`AnyScheme`]: whichever scheme a file or an option names, at run time.
//! - [`HashSet`]: sets of keys that may repeat, and their algebra. [`CompactingTable`]: distinct keys as the numbers 0, 1, .., and back
//!   (Alcantara et al. 2011, Section 4.4). [`group`]: the distinct keys of a column, its inverse index, counts and sums by key.
//! - [`MultiTable`]: any number of values for a key (Alcantara et al. 2011, Section 4.4). [`JoinIndex`], [`fn@join`]: joins of two
//!   columns of keys, as pairs of row numbers in one order on every device, in pieces where they do not fit.
//! - [`device`]: the devices of this machine, by name or the best.
//! - [`backend`]: device-resident buffers; the traits a backend implements.
//! - [`layout`]: keys for the cells of pictures and boxes of voxels.
//! - [`scheme`]: layouts and arithmetic, the reference for every backend.
//! - [`Error`]: everything that can go wrong, with what to do.
//!
//! # Features
//!
//! - `opencl` (default): the OpenCL backend. It needs no OpenCL to build, link or start.
//!
//! Without it koel is the CPU library alone. The commands `koel` and `koel-bench` are packages of their own.

#[cfg(not(target_endian = "little"))]
compile_error!("koel's images and files are little-endian; this target is not supported");

pub mod backend;
pub mod compact;
pub mod cpu;
pub mod device;
mod error;
mod fault;
#[doc(hidden)]
pub mod file;
pub mod group;
pub mod join;
pub mod layout;
mod memory;
pub mod multi;
#[cfg(feature = "opencl")]
pub mod opencl;
pub mod prelude;
pub mod scheme;
mod sealed;
pub mod set;
pub mod table;
mod threads;
pub mod workload;

pub use backend::{DeviceBuffer, DeviceInfo, HashBackend, Kernels, Runs};
pub use compact::{CompactingBuilder, CompactingTable};
pub use cpu::Cpu;
pub use device::{Any, auto};
pub use error::{Error, Result};
pub use group::{Aggregate, DeviceGroups, Groups, IdOrder};
pub use join::{Join, JoinBuilder, JoinIndex, JoinKind, JoinRows, NO_ROW, join};
pub use multi::{MultiBuilder, MultiTable, Retrieved};
#[cfg(feature = "opencl")]
pub use opencl::OpenCl;
pub use scheme::{
    AnyScheme, Bucketized, Cuckoo, CuckooSet, Fks, FksFamily, HashFamily, Horton, HortonFamily, Insertion, Kind, Load,
    LookupMode, Perfect, Quadratic, Reinsertion, RobinHood, Scheme, Sequence, Sorted,
};
pub use set::{HashSet, SetBuilder};
pub use table::{Digest, Duplicates, HashTable, KeyType, TableBuilder, random_seed};

/// The README's example, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
