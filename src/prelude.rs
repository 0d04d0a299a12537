//! The names that most programs need, for `use koel::prelude::*`. It does not contain names that std has, so import
//! [`HashSet`](crate::HashSet), [`Any`](crate::Any) and [`Result`](crate::Result) by name.
//!
//! ```
//! use koel::prelude::*;
//! let table = HashTable::builder(Cuckoo::canonical(4)).build(&auto().backend, &[1, 2], &[10, 20])?;
//! assert_eq!(table.get(&[2, 3])?, [Some(20), None]);
//! # Ok::<(), koel::Error>(())
//! ```

#[cfg(feature = "opencl")]
pub use crate::OpenCl;
pub use crate::{
    AnyScheme, Bucketized, BucketizedOf, CompactingTable, Cpu, Cuckoo, CuckooOf, CuckooSet, DeviceBuffer, Duplicates,
    HashBackend, HashTable, Horton, JoinIndex, JoinKind, Kind, MultiTable, NO_ROW, RobinHood, RobinHoodOf, Runs,
    Scheme, Sharded, Signpost, SignpostOf, Sorted, SortedOf, auto,
};
