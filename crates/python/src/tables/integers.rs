//! Integer columns as words of tables, and words as NumPy's integers.
//!
//! ```text
//! int8 .. int32, uint8 .. uint32    words of 32 bits       int64, uint64    words of 64
//! keys with a sign                  the top bit turned over, so that words ascend as numbers do (KeyType::Signed)
//! values with a sign                as they are in memory (ValueType::Signed)
//! ```

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use koel::scheme::{Key, Value};
use koel::{KeyType, ValueType};
use koel_arrow::{Column, Keys};
use numpy::{Element, PyArray1, PyArrayDescr};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::error::{Failure, Result};
use crate::input::{Given, Nan};

/// Elements that a thread turns at a time.
const CHUNK: usize = 1 << 14;

/// The type of keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) bits: u32,
    pub(super) is_signed: bool,
}

/// What a column is to a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Key,
    Value,
}

impl Type {
    /// Of a column.
    pub(super) fn of(column: &Column) -> PyResult<Self> {
        let (bits, is_signed) = match column.data_type() {
            DataType::Int8 | DataType::Int16 | DataType::Int32 => (32, true),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => (32, false),
            DataType::Int64 => (64, true),
            DataType::UInt64 => (64, false),
            other => {
                return Err(PyTypeError::new_err(format!(
                    "{} has type {other}, and tables hold integers: give numbers of rows (koel.factorize), or a view as int64",
                    column.name()
                )));
            }
        };
        Ok(Type { bits, is_signed })
    }

    pub(super) fn of_file(bits: u32, of: KeyType) -> Self {
        Type { bits, is_signed: of == KeyType::Signed }
    }

    pub(super) fn key_type(self) -> KeyType {
        if self.is_signed { KeyType::Signed } else { KeyType::Numbers }
    }

    pub(super) fn value_type(self) -> ValueType {
        if self.is_signed { ValueType::Signed } else { ValueType::Numbers }
    }

    pub(super) fn name(self) -> String {
        format!("{}int{}", if self.is_signed { "" } else { "u" }, self.bits)
    }

    /// What turns a key into its word, and back.
    fn turned(self, role: Role) -> u64 {
        if self.is_signed && role == Role::Key { 1 << (self.bits - 1) } else { 0 }
    }
}

/// The words of tables.
pub(super) trait Width: Key + Value + Element {
    fn column(words: Vec<Self>) -> Words;
}

impl Width for u32 {
    fn column(words: Vec<u32>) -> Words {
        Words::Narrow(words)
    }
}

impl Width for u64 {
    fn column(words: Vec<u64>) -> Words {
        Words::Wide(words)
    }
}

/// Words of either width.
pub(super) enum Words {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Words {
    /// As an array of NumPy.
    pub(super) fn into_python(self, py: Python<'_>, of: Type, role: Role) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Words::Narrow(words) => to_numpy(py, words, of, role),
            Words::Wide(words) => to_numpy(py, words, of, role),
        }
    }
}

/// A column of integers that was given as an argument.
pub(super) fn integers(name: &str, given: &Bound<'_, PyAny>) -> PyResult<(Column, Type)> {
    let column = Given::of(name, given, Nan::Value)?.column;
    if column.chunks().iter().any(|chunk| chunk.null_count() > 0) {
        return Err(PyTypeError::new_err(format!(
            "{name} has nulls, and tables hold integers alone: drop or fill them"
        )));
    }
    // Too many rows are refused before they are copied.
    Keys::new(vec![column.clone()]).map_err(Failure::from)?;
    let of = if column.is_empty() { Type { bits: 64, is_signed: true } } else { Type::of(&column)? };
    Ok((column, of))
}

/// The words of a column, for a table of this type.
pub(super) fn words<K: Width>(column: &Column, to: Type, role: Role) -> Result<Vec<K>> {
    fn part<T: ArrowPrimitiveType, K: Width>(
        chunk: &ArrayRef,
        to: Type,
        turned: u64,
    ) -> std::result::Result<Vec<K>, i128>
    where
        T::Native: Into<i128>,
    {
        let (least, most) = match to.is_signed {
            true => (-1_i128 << (to.bits - 1), (1_i128 << (to.bits - 1)) - 1),
            false => (0, (1_i128 << to.bits) - 1),
        };
        let word = |&value: &T::Native| {
            let value: i128 = value.into();
            if (least..=most).contains(&value) { Ok(K::low(value as u64 ^ turned)) } else { Err(value) }
        };
        chunk.as_primitive::<T>().values().par_iter().with_min_len(CHUNK).map(word).collect()
    }
    let mut all = Vec::new();
    let turned = to.turned(role);
    for chunk in column.chunks() {
        let words = match chunk.data_type() {
            DataType::Int8 => part::<Int8Type, K>(chunk, to, turned),
            DataType::Int16 => part::<Int16Type, K>(chunk, to, turned),
            DataType::Int32 => part::<Int32Type, K>(chunk, to, turned),
            DataType::Int64 => part::<Int64Type, K>(chunk, to, turned),
            DataType::UInt8 => part::<UInt8Type, K>(chunk, to, turned),
            DataType::UInt16 => part::<UInt16Type, K>(chunk, to, turned),
            DataType::UInt32 => part::<UInt32Type, K>(chunk, to, turned),
            DataType::UInt64 => part::<UInt64Type, K>(chunk, to, turned),
            _ => Ok(Vec::new()),
        };
        let words = words.map_err(|value| {
            PyOverflowError::new_err(format!(
                "{} has {value}, which {} of this table does not hold",
                column.name(),
                to.name()
            ))
        })?;
        if all.is_empty() { all = words } else { all.extend(words) }
    }
    Ok(all)
}

fn to_numpy<K: Width>(py: Python<'_>, mut words: Vec<K>, of: Type, role: Role) -> PyResult<Bound<'_, PyAny>> {
    let turned = of.turned(role);
    if turned != 0 {
        words.iter_mut().for_each(|word| *word = K::low(Into::<u64>::into(*word) ^ turned));
    }
    PyArray1::from_vec(py, words).call_method1("view", (dtype(py, of)?,))
}

/// The dtype of such integers.
pub(super) fn dtype(py: Python<'_>, of: Type) -> PyResult<Bound<'_, PyArrayDescr>> {
    PyArrayDescr::new(py, of.name())
}
