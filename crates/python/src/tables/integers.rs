//! Integer columns as words of tables, and words as NumPy's integers.
//!
//! ```text
//! int8 .. int32, uint8 .. uint32    words of 32 bits       int64, uint64    words of 64
//! keys with a sign                  the top bit turned over, so that words ascend as numbers do (KeyType::Signed)
//! values with a sign                as they are in memory (ValueType::Signed)
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int32Array, Int64Array, UInt32Array, UInt64Array};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use koel::scheme::{Key, Value};
use koel::{KeyType, ValueType};
use koel_arrow::{Column, Keys};
use numpy::{Element, PyArray1, PyArrayDescr};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::error::{Failure, Result};
use crate::input::{Given, Nan, Origin};
use crate::memory;
use crate::output::ArrowColumn;
use crate::run::CHUNK;

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

    /// A key by its word, as its owner knows it.
    pub(super) fn shown(self, word: u64) -> String {
        let key = word ^ self.turned(Role::Key);
        match (self.is_signed, self.bits) {
            (true, 32) => (key as i32).to_string(),
            (true, _) => (key as i64).to_string(),
            _ => key.to_string(),
        }
    }
}

/// The words of tables.
pub(super) trait Width: Key + Value + Element {
    fn column(words: Vec<Self>) -> Words;
    /// The words as an Arrow array, with a sign or without.
    fn array(words: Vec<Self>, is_signed: bool) -> ArrayRef;
}

impl Width for u32 {
    fn column(words: Vec<u32>) -> Words {
        Words::Narrow(words)
    }
    fn array(words: Vec<u32>, is_signed: bool) -> ArrayRef {
        let words = Buffer::from_vec(words);
        if is_signed {
            return Arc::new(Int32Array::new(words.into(), None));
        }
        Arc::new(UInt32Array::new(words.into(), None))
    }
}

impl Width for u64 {
    fn column(words: Vec<u64>) -> Words {
        Words::Wide(words)
    }
    fn array(words: Vec<u64>, is_signed: bool) -> ArrayRef {
        let words = Buffer::from_vec(words);
        if is_signed {
            return Arc::new(Int64Array::new(words.into(), None));
        }
        Arc::new(UInt64Array::new(words.into(), None))
    }
}

/// Words of either width.
pub(super) enum Words {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Words {
    /// As an array of NumPy, or an Arrow column where Arrow came in.
    pub(super) fn into_python(
        self,
        py: Python<'_>,
        of: Type,
        role: Role,
        is_arrow: bool,
    ) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Words::Narrow(words) => words_to_python(py, words, of, role, is_arrow),
            Words::Wide(words) => words_to_python(py, words, of, role, is_arrow),
        }
    }
}

/// A column of integers.
pub(super) struct Integers {
    pub(super) column: Column,
    pub(super) of: Type,
    /// Whether results are Arrow's.
    pub(super) is_arrow: bool,
}

/// A column of integers that was given as an argument.
pub(super) fn integers(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Integers> {
    let Given { column, origin } = Given::of(name, given, Nan::Value)?;
    if column.chunks().iter().any(|chunk| chunk.null_count() > 0) {
        return Err(PyTypeError::new_err(format!(
            "{name} has nulls, and tables hold integers alone: drop or fill them"
        )));
    }
    // Too many rows are refused before they are copied.
    Keys::new(vec![column.clone()]).map_err(Failure::from)?;
    memory::check_columns([&column])?;
    // What `[]` is to NumPy and to Arrow.
    let is_untyped = column.is_empty() && matches!(column.data_type(), DataType::Float64 | DataType::Null);
    let of = if is_untyped { Type { bits: 64, is_signed: true } } else { Type::of(&column)? };
    Ok(Integers { column, of, is_arrow: matches!(origin, Origin::Arrow(_)) })
}

/// The words of a column, for a table of this type.
///
/// # Errors
/// OverflowError for an integer that the type does not hold.
pub(super) fn words<K: Width>(column: &Column, to: Type, role: Role) -> Result<Vec<K>> {
    let fits = |value: i128| {
        let text = format!("{} has {value}, which {} of this table does not hold", column.name(), to.name());
        Err(PyOverflowError::new_err(text).into())
    };
    words_or(column, to, role, fits)
}

/// The words of keys that are asked for. One that the type does not hold is not there, and so is what stands for it: a
/// word that the table says it has not.
pub(super) fn asked<K: Width>(column: &Column, to: Type, has: impl Fn(&[K]) -> Result<Vec<bool>>) -> Result<Vec<K>> {
    let mut first = None;
    let keys = words_or(column, to, Role::Key, |_| Err(Failure::Strange));
    match keys {
        Err(Failure::Strange) => (),
        keys => return keys,
    }
    // A table has fewer keys than there are words, so one of this many and one more is not there.
    for start in (0..=u64::from(u32::MAX)).step_by(CHUNK) {
        let words: Vec<K> = (start..start + CHUNK as u64).map(K::low).collect();
        let there = has(&words)?;
        first = words.into_iter().zip(there).find(|&(_, there)| !there).map(|(word, _)| word);
        if first.is_some() {
            break;
        }
    }
    let absent = first.unwrap_or_default();
    words_or(column, to, Role::Key, |_| Ok(absent))
}

/// The words of a column; `other` says what becomes of an integer that the type does not hold.
fn words_or<K: Width>(
    column: &Column,
    to: Type,
    role: Role,
    other: impl Fn(i128) -> Result<K> + Sync,
) -> Result<Vec<K>> {
    fn part<T: ArrowPrimitiveType, K: Width>(
        chunk: &ArrayRef,
        to: Type,
        turned: u64,
        other: impl Fn(i128) -> Result<K> + Sync,
    ) -> Result<Vec<K>>
    where
        T::Native: Into<i128>,
    {
        let (least, most) = match to.is_signed {
            true => (-1_i128 << (to.bits - 1), (1_i128 << (to.bits - 1)) - 1),
            false => (0, (1_i128 << to.bits) - 1),
        };
        let word = |&value: &T::Native| {
            let value: i128 = value.into();
            if (least..=most).contains(&value) { Ok(K::low(value as u64 ^ turned)) } else { other(value) }
        };
        chunk.as_primitive::<T>().values().par_iter().with_min_len(CHUNK).map(word).collect()
    }
    let mut all = Vec::new();
    let turned = to.turned(role);
    for chunk in column.chunks().iter().filter(|chunk| !chunk.is_empty()) {
        let words = match chunk.data_type() {
            DataType::Int8 => part::<Int8Type, K>(chunk, to, turned, &other),
            DataType::Int16 => part::<Int16Type, K>(chunk, to, turned, &other),
            DataType::Int32 => part::<Int32Type, K>(chunk, to, turned, &other),
            DataType::Int64 => part::<Int64Type, K>(chunk, to, turned, &other),
            DataType::UInt8 => part::<UInt8Type, K>(chunk, to, turned, &other),
            DataType::UInt16 => part::<UInt16Type, K>(chunk, to, turned, &other),
            DataType::UInt32 => part::<UInt32Type, K>(chunk, to, turned, &other),
            DataType::UInt64 => part::<UInt64Type, K>(chunk, to, turned, &other),
            _ => {
                Err(Type::of(column).map(|_| PyTypeError::new_err("no integers")).unwrap_or_else(|error| error).into())
            }
        }?;
        if all.is_empty() { all = words } else { all.extend(words) }
    }
    Ok(all)
}

fn words_to_python<K: Width>(
    py: Python<'_>,
    mut words: Vec<K>,
    of: Type,
    role: Role,
    is_arrow: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let turned = of.turned(role);
    if turned != 0 {
        words.iter_mut().for_each(|word| *word = K::low(Into::<u64>::into(*word) ^ turned));
    }
    if is_arrow {
        let name = if role == Role::Key { "keys" } else { "values" };
        return Ok(Bound::new(py, ArrowColumn::named(name, K::array(words, of.is_signed)))?.into_any());
    }
    PyArray1::from_vec(py, words).call_method1("view", (dtype(py, of)?,))
}

/// The dtype of such integers.
pub(super) fn dtype(py: Python<'_>, of: Type) -> PyResult<Bound<'_, PyArrayDescr>> {
    PyArrayDescr::new(py, of.name())
}
