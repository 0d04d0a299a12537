//! Joins, groups, distinct rows and numbers of Arrow columns, with koel: the same result, in the same order, on every
//! device.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, Int64Array, StringArray};
//! use koel_arrow::{Column, JoinKind, Keys, NullEquality, join};
//!
//! let people: ArrayRef = Arc::new(StringArray::from(vec!["Ada", "Max", "Eva"]));
//! let lives: ArrayRef = Arc::new(Int64Array::from(vec![Some(20), None, Some(10)]));
//! let city: ArrayRef = Arc::new(Int64Array::from(vec![10, 20]));
//! let name: ArrayRef = Arc::new(StringArray::from(vec!["Bern", "Oslo"]));
//!
//! let device = koel::auto().backend;
//! let (left, right) = (Keys::of_arrays(&[lives])?, Keys::of_arrays(&[city])?);
//! let rows = join(&device, &left, &right, JoinKind::Left, NullEquality::NothingEquals)?;
//! let cities = Column::new("city", name).take(&rows.right.expect("left joins have right rows"))?;
//! assert_eq!(cities.as_ref(), &StringArray::from(vec![Some("Oslo"), None, Some("Bern")]));
//! # let _ = people;
//! # Ok::<(), koel_arrow::Error>(())
//! ```
//!
//! # Types of keys
//!
//! All integers, floats (-0 is 0, and NaN equals NaN), decimals, booleans, dates, times, timestamps, durations,
//! intervals, text and binary of every layout, dictionaries of any of these, structs, and several columns together.
//! Results are exact: hashes find candidates, and values are compared.
//!
//! The key types of the two sides of a join may differ, but must be of the same kind: integers of any width, text of
//! any layout, decimals of any scale, times, timestamps and durations of any unit. Values are compared exactly: 1.5 ms
//! equals 1500 us, but not any number of seconds. A column that has only nulls can be joined with any type. Keys of two
//! different kinds are [`Error::TypeMismatch`], which names a cast that fixes it.
//!
//! # Order
//!
//! The rows of a join are ordered by left row, then by right row; groups are in order of first occurrence, or
//! ascending. The order is the same for every device, thread count and run.
//!
//! # Limits
//!
//! A table in memory has at most 2^32 - 2 rows, because row numbers have 32 bits; a longer one is
//! [`koel::Error::TooLarge`]. The result of a join may have any number of rows ([`RightKeys::join_pieces`]). In
//! [`external`], tables may have any number of rows, and need not fit in memory.
//!
//! # Modules
//!
//! ```text
//! keys.rs                 columns in pieces, by name
//! kind.rs                 types that can be equal
//! leaf.rs                 columns split into plain values
//! encode.rs, own.rs       plain values as one word per row;  strings.rs, finder.rs: numbers for strings and for words
//! join.rs, group.rs       koel's joins and groups of words;  probe.rs: left keys in batches
//! aggregate.rs, values.rs sums, extremes, means of groups;  partial.rs: aggregates of chunks of rows, merged
//! prepared/               the right side of joins, which can be saved, mapped and shared
//! external/               joins and groups under a memory limit
//! dedup/                  duplicate texts, equal or similar
//! sizes.rs                the memory of rows
//! take.rs, concat.rs      gather rows of columns, and concatenate arrays, on all threads
//! canonical.rs            floats with a unique form, to sort groups;  plain.rs: replaces dictionaries by their values
//! wide.rs                 results that exceed the limits of their types: text of more than 2 GiB
//! written.rs              vectors that are written by all threads
//! ```
//!
//! Cost: a pass over each key column in addition to koel's work on words ([`koel::group`], [`mod@koel::join`]). A
//! column of 32-bit or 64-bit integers without nulls is used in place. The work on the host runs on rayon's threads.

mod aggregate;
#[cfg(test)]
mod aggregate_tests;
mod ascending;
mod canonical;
mod concat;
pub mod dedup;
#[cfg(test)]
mod edge_tests;
mod encode;
mod error;
pub mod external;
mod finder;
mod group;
mod groups;
mod join;
mod keys;
mod kind;
mod leaf;
mod name;
mod own;
mod partial;
mod plain;
mod prepared;
mod probe;
#[cfg(test)]
mod scale_tests;
mod sizes;
mod starts;
mod strings;
mod take;
#[cfg(test)]
mod tests;
mod values;
mod wide;
mod written;

pub use aggregate::{Aggregation, Function, group_by};
pub use encode::NullEquality;
pub use error::{Cast, Error, Result};
pub use group::{Factorized, NullKeys, distinct, factorize};
pub use join::{Joined, RightKeys, is_in, join};
pub use keys::{Column, Keys};
pub use kind::{can_be_equal, check_types};
pub use koel::{IdOrder, JoinKind};
#[doc(hidden)]
pub use name::shown_name;
pub use plain::plain_type;
pub use prepared::{PreparedJoin, PreparedOptions};
pub use probe::{FirstKeys, Probe, check_key};
pub use take::take;
#[doc(hidden)]
pub use written::{mapped, written_bits};
