//! The types of keys and values.

use std::fmt;
use std::hash::Hash;

use super::{Bucketized, BucketizedOf, Scheme};
use crate::backend::Word;

/// The keys that tables can have: `u32` and `u64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key: keys are `u32` or `u64`",
    note = "cast other integers: `key as u32` and `key as u64` keep keys of 32 and 64 bits distinct"
)]
pub trait Key: Word + Hash + Default + fmt::Display {
    /// The table that detects and numbers the distinct keys of a column: a row number for each key. Its builds keep one
    /// cell per duplicated key, with the greatest of its values.
    type Rows: Scheme<Key = Self, Value = u32> + Default;
}

/// The values that tables can have: `u32` and `u64`.
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
