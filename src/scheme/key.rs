//! The types of keys and values.

use std::fmt;
use std::hash::Hash;

use super::{Bucketized, BucketizedOf, Scheme};
use crate::backend::Word;

/// The keys that tables can have: `u32` and `u64`. Other integers are cast:
///
/// ```
/// # use koel::{Cpu, IdOrder, group::wide::unique};
/// let keys = [-1_i64, 2, -1].map(|key| key as u64);
/// assert_eq!(unique(&Cpu::new(), &keys, IdOrder::FirstSeen)?, [u64::MAX, 2]);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// The compiler rejects others, and advises this:
///
/// ```compile_fail,E0277
/// # use koel::{Cpu, IdOrder, group::wide::unique};
/// // error: `i64` cannot be a key: keys are `u32` or `u64`
/// unique(&Cpu::new(), &[-1_i64, 2, -1], IdOrder::FirstSeen);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key: keys are `u32` or `u64`",
    note = "cast other integers: `key as u32` and `key as u64` keep keys of 32 and 64 bits distinct"
)]
pub trait Key: Word + Hash + Default + fmt::Display {
    /// The table that detects and numbers the distinct keys of a column: a row number for each key. Its builds keep one
    /// cell per duplicated key, with the greatest of its values.
    type Rows: Scheme<Key = Self, Value = u32> + Default;
}

/// The values that tables can have: `u32` and `u64`. Tables of other values store row numbers, or the bits of the
/// values:
///
/// ```
/// # use koel::prelude::*;
/// let values = [0.5_f64, 1.5].map(f64::to_bits);
/// let table = MultiTable::builder(Cuckoo::default()).values::<u64>().build(&Cpu::new(), &[1, 1], &values)?;
/// assert_eq!(table.retrieve(&[1])?.values, values);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// The compiler rejects others, and advises this:
///
/// ```compile_fail,E0277
/// # use koel::prelude::*;
/// // error: `f64` cannot be a value: values are `u32` or `u64`
/// MultiTable::builder(Cuckoo::default()).values::<f64>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a value: values are `u32` or `u64`",
    note = "store row numbers, or the bits of the values: `value as u32`, `value.to_bits()`"
)]
pub trait Value: Word + Default + fmt::Display {}

impl Key for u32 {
    type Rows = Bucketized;
}

impl Key for u64 {
    type Rows = BucketizedOf<u64, u32>;
}

impl Value for u32 {}
impl Value for u64 {}
