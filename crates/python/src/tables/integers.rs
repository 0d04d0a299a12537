//! Converts integer columns to words of tables, and words to NumPy arrays or Arrow columns.
//!
//! ```text
//! int8 .. int32, uint8 .. uint32    words of 32 bits       int64, uint64    words of 64
//! signed keys                       the top bit is flipped, so that words sort like the numbers (KeyType::Signed)
//! signed values                     unchanged (ValueType::Signed)
//! ```

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int32Array, Int64Array, UInt32Array, UInt64Array};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use koel::backend::Queries;
#[cfg(feature = "opencl")]
use koel::device::AnyBuffer;
#[cfg(feature = "opencl")]
use koel::opencl::cuda::Cuda;
use koel::scheme::{Key, Value};
use koel::{Any, KeyType, ValueType};
use koel_arrow::{Column, Keys};
use numpy::{Element, PyArray1, PyArrayDescr};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use rayon::prelude::*;

#[cfg(feature = "opencl")]
use crate::cuda::{GpuColumn, Imported};
use crate::error::{Failure, Result};
use crate::input::{Given, Nan, Origin};
use crate::memory;
use crate::output::ArrowColumn;
use crate::run::{CHUNK, Stop};

/// The number of keys that a device looks up between two checks for cancellation. It is large, so that the first and
/// the last transfer, which do not overlap with other work, take a small part of the time.
const QUERIES_PER_PIECE: usize = 1 << 25;

/// The type of keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) bits: u32,
    pub(crate) is_signed: bool,
}

/// What a table uses a column for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Key,
    Value,
}

fn not_integers(name: &str, found: &DataType, shown: &str) -> PyErr {
    let advice = match found {
        DataType::Boolean => "convert it with .astype(\"uint8\") (NumPy, pandas) or .cast(..) (pyarrow, polars)",
        _ if name == "values" => "pass row numbers as values, such as numpy.arange(n)",
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            "drop missing values, then convert whole numbers with .astype(\"int64\") (NumPy, pandas) or .cast(..) \
             (pyarrow, polars); for fractions, use koel.join or koel.isin"
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            "use koel.join, koel.isin or koel.factorize, which accept text"
        }
        DataType::Date32 => "convert it with .cast(..) to int32, or use koel.join or koel.isin",
        _ => {
            "convert it with .astype(\"int64\") (NumPy, pandas), .cast(..) to int64 (pyarrow, polars) or .storage \
             (extension types of pyarrow), or use koel.join or koel.isin"
        }
    };
    PyTypeError::new_err(format!("{name} has type {shown}, but tables hold integers: {advice}"))
}

impl Type {
    /// The type in which a table stores a column.
    pub(super) fn of(column: &Column) -> PyResult<Self> {
        let (bits, is_signed) = match column.data_type() {
            DataType::Int8 | DataType::Int16 | DataType::Int32 => (32, true),
            DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => (32, false),
            DataType::Int64 => (64, true),
            DataType::UInt64 => (64, false),
            other => {
                return Err(not_integers(column.name(), other, &other.to_string()));
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

    /// The size of a word in bytes.
    pub(crate) fn bytes(self) -> usize {
        self.bits as usize / 8
    }

    pub(crate) fn name(self) -> String {
        format!("{}int{}", if self.is_signed { "" } else { "u" }, self.bits)
    }

    /// Whether all integers of another type fit in this one.
    #[cfg(feature = "opencl")]
    fn holds(self, other: Type) -> bool {
        if self.is_signed == other.is_signed {
            other.bits <= self.bits
        } else {
            self.is_signed && other.bits < self.bits
        }
    }

    /// The mask that converts a key or value to its word, and back, by XOR.
    fn sign_mask(self, role: Role) -> u64 {
        if self.is_signed && role == Role::Key { 1 << (self.bits - 1) } else { 0 }
    }

    /// The key that has this word, as a decimal number.
    pub(crate) fn shown(self, word: u64) -> String {
        let key = word ^ self.sign_mask(Role::Key);
        match (self.is_signed, self.bits) {
            (true, bits) => (((key << (64 - bits)) as i64) >> (64 - bits)).to_string(),
            _ => key.to_string(),
        }
    }
}

/// The type of the words of a table.
pub(super) trait Width: Key + Value + Element {
    fn column(words: Vec<Self>) -> Words;
    /// Converts words to an Arrow array of signed or unsigned integers.
    fn array(words: Vec<Self>, is_signed: bool) -> ArrayRef;
    /// The values of an array of unsigned integers of this width; `None` for other arrays.
    fn borrowed(array: &ArrayRef) -> Option<&[Self]>;
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
    fn borrowed(array: &ArrayRef) -> Option<&[u32]> {
        Some(array.as_primitive_opt::<UInt32Type>()?.values())
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
    fn borrowed(array: &ArrayRef) -> Option<&[u64]> {
        Some(array.as_primitive_opt::<UInt64Type>()?.values())
    }
}

/// Words of either width.
pub(super) enum Words {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Words {
    /// Converts the words to a NumPy array, or to an Arrow column if the input was Arrow.
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
    /// Whether results are returned as Arrow columns.
    pub(super) is_arrow: bool,
}

/// Reads the argument `name`, a column of integers.
pub(super) fn integers(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Integers> {
    let Given { column, origin } = Given::of(name, given, Nan::Value)?;
    if column.chunks().iter().any(|chunk| chunk.null_count() > 0) {
        return Err(PyTypeError::new_err(format!(
            "{name} has nulls, but tables hold only integers: drop or fill them"
        )));
    }
    // Returns an error for too many rows before they are copied.
    Keys::new(vec![column.clone()]).map_err(Failure::from)?;
    memory::check_columns([&column])?;
    // The types of `[]` in NumPy and in Arrow.
    let is_untyped = column.is_empty() && matches!(column.data_type(), DataType::Float64 | DataType::Null);
    if let Origin::Arrow(field) = &origin
        && let Some(extension) = field.extension_type_name()
    {
        return Err(not_integers(name, column.data_type(), extension));
    }
    let of = if is_untyped { Type { bits: 64, is_signed: true } } else { Type::of(&column)? };
    Ok(Integers { column, of, is_arrow: matches!(origin, Origin::Arrow(_)) })
}

/// Converts a column to words of the type `to`.
///
/// # Errors
/// OverflowError if an integer does not fit in the type.
pub(super) fn words<K: Width>(column: &Column, to: Type, role: Role) -> Result<Vec<K>> {
    let overflow = |value: i128| {
        let text =
            format!("{} has {value}, which does not fit in the type of this table, {}", column.name(), to.name());
        Err(PyOverflowError::new_err(text).into())
    };
    words_or(column, to, role, overflow)
}

/// Converts queried keys to words. A key that does not fit in the type cannot be in the table: it is replaced by a word
/// that the table does not contain, which is found with `has`.
pub(super) fn queried<K: Width>(column: &Column, to: Type, has: impl Fn(&[K]) -> Result<Vec<bool>>) -> Result<Vec<K>> {
    let absent = if all_fit(column.data_type(), to) { K::default() } else { absent_word(has)? };
    words_or(column, to, Role::Key, |_| Ok(absent))
}

/// The output of queries: a flag for each, and also a value for each unless `values` is empty.
pub(super) struct Answers<'a, V> {
    pub(super) flags: &'a mut [bool],
    pub(super) values: &'a mut [V],
}

impl<'a, V> Answers<'a, V> {
    /// Splits the output after this many rows.
    fn split(self, rows: usize) -> (Self, Self) {
        let values = rows.min(self.values.len());
        let ((flags, more_flags), (values, more_values)) =
            (self.flags.split_at_mut(rows), self.values.split_at_mut(values));
        (Answers { flags, values }, Answers { flags: more_flags, values: more_values })
    }
}

/// Calls `query` with each piece of a column and the output for the piece.
///
/// On the CPU, threads convert and look up pieces in parallel, each of which fits in the cache of a core. On other
/// devices, pieces are looked up one after the other. Their keys are converted in the memory that the device reads,
/// unless the column already consists of words.
pub(super) fn each_piece<K: Width, V: Send>(
    column: &Column,
    (to, device): (Type, &Any),
    stop: &Stop,
    has: impl Fn(&[K]) -> Result<Vec<bool>>,
    mut answers: Answers<'_, V>,
    query: impl Fn(Queries<'_, K>, Answers<'_, V>) -> Result<()> + Sync,
) -> Result<()> {
    let absent = if all_fit(column.data_type(), to) { K::default() } else { absent_word(has)? };
    let is_host = matches!(device, Any::Cpu(_));
    let rows = if is_host { CHUNK } else { QUERIES_PER_PIECE };
    let mut pieces = Vec::new();
    for chunk in column.chunks() {
        for start in (0..chunk.len()).step_by(rows) {
            let piece = chunk.slice(start, rows.min(chunk.len() - start));
            let (these, others) = answers.split(piece.len());
            pieces.push((piece, these));
            answers = others;
        }
    }
    let convert = |words: &mut [K], piece: &ArrayRef| fill(words, piece, to, Role::Key, |_| Ok(absent));
    let is_borrowed = to.sign_mask(Role::Key) == 0;
    if is_host {
        let work = |buffer: &mut Vec<K>, (piece, answers): (ArrayRef, Answers<'_, V>)| {
            stop.check()?;
            if let Some(words) = K::borrowed(&piece).filter(|_| is_borrowed) {
                return query(Queries::Words(words), answers);
            }
            buffer.resize(piece.len(), K::default());
            convert(buffer, &piece)?;
            query(Queries::Words(buffer), answers)
        };
        return pieces.into_par_iter().try_for_each_init(Vec::new, work);
    }
    for (piece, answers) in pieces {
        stop.check()?;
        // The conversion cannot fail, because keys that do not fit become `absent`. If it did, no key would be found.
        let write =
            |first, to: &mut [K]| convert(to, &piece.slice(first, to.len())).unwrap_or_else(|_| to.fill(absent));
        let computed = Queries::Computed { len: piece.len(), write: &write };
        let words = K::borrowed(&piece).filter(|_| is_borrowed);
        query(words.map_or(computed, Queries::Words), answers)?;
    }
    Ok(())
}

/// Like [`queried`], for keys in CUDA memory.
#[cfg(feature = "opencl")]
pub(super) fn on_gpu<K: Width>(
    cuda: &Cuda,
    keys: &GpuColumn,
    to: Type,
    has: impl Fn(&[K]) -> Result<Vec<bool>>,
) -> Result<AnyBuffer<K>> {
    let absent = if to.holds(keys.of) { K::default() } else { absent_word(has)? };
    Imported::of(cuda, keys)?.words::<K>(to, absent)
}

/// Returns a word that the table does not contain. It tries 2^32 multiples of an odd constant, which are distinct, and
/// of which few are among dense keys. A table has fewer keys than that, so one of them is absent.
fn absent_word<K: Width>(has: impl Fn(&[K]) -> Result<Vec<bool>>) -> Result<K> {
    for start in (0..=u64::from(u32::MAX)).step_by(CHUNK) {
        let words: Vec<K> =
            (start..start + CHUNK as u64).map(|i| K::low(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let found = has(&words)?;
        if let Some(word) = words.into_iter().zip(found).find_map(|(word, found)| (!found).then_some(word)) {
            return Ok(word);
        }
    }
    Ok(K::default())
}

/// Whether all values of an Arrow type fit in the type of a table.
fn all_fit(from: &DataType, to: Type) -> bool {
    match from {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => to.is_signed,
        DataType::Int64 => to.is_signed && to.bits == 64,
        DataType::UInt8 | DataType::UInt16 => to.bits == 64 || !to.is_signed,
        DataType::UInt32 => to.bits == 64 || !to.is_signed,
        DataType::UInt64 => !to.is_signed && to.bits == 64,
        _ => false,
    }
}

/// Converts a column to words. `other` returns the word, or the error, for an integer that does not fit in the type.
fn words_or<K: Width>(
    column: &Column,
    to: Type,
    role: Role,
    other: impl Fn(i128) -> Result<K> + Sync,
) -> Result<Vec<K>> {
    let mut all = vec![K::default(); column.len()];
    let mut rest = &mut all[..];
    for chunk in column.chunks() {
        let (words, remaining) = rest.split_at_mut(chunk.len());
        fill(words, chunk, to, role, &other)?;
        rest = remaining;
    }
    Ok(all)
}

/// Converts an array of integers to words, in parallel.
fn fill<K: Width>(
    words: &mut [K],
    array: &ArrayRef,
    to: Type,
    role: Role,
    other: impl Fn(i128) -> Result<K> + Sync,
) -> Result<()> {
    fn typed<T: ArrowPrimitiveType, K: Width>(
        words: &mut [K],
        array: &ArrayRef,
        (to, sign_mask): (Type, u64),
        other: impl Fn(i128) -> Result<K> + Sync,
    ) -> Result<()>
    where
        T::Native: Into<i128>,
    {
        let (least, most) = match to.is_signed {
            true => (-1_i128 << (to.bits - 1), (1_i128 << (to.bits - 1)) - 1),
            false => (0, (1_i128 << to.bits) - 1),
        };
        let fit = all_fit(array.data_type(), to);
        let values = array.as_primitive::<T>().values();
        words.par_chunks_mut(CHUNK).zip(values.par_chunks(CHUNK)).try_for_each(|(words, values)| {
            if fit {
                // Without branches, the loop is limited by the memory bandwidth.
                words.iter_mut().zip(values).for_each(|(word, &value)| {
                    let value: i128 = value.into();
                    *word = K::low(value as u64 ^ sign_mask);
                });
                return Ok(());
            }
            words.iter_mut().zip(values).try_for_each(|(word, &value)| {
                let value: i128 = value.into();
                *word = if (least..=most).contains(&value) { K::low(value as u64 ^ sign_mask) } else { other(value)? };
                Ok(())
            })
        })
    }
    let how = (to, to.sign_mask(role));
    match array.data_type() {
        _ if array.is_empty() => Ok(()),
        DataType::Int8 => typed::<Int8Type, K>(words, array, how, other),
        DataType::Int16 => typed::<Int16Type, K>(words, array, how, other),
        DataType::Int32 => typed::<Int32Type, K>(words, array, how, other),
        DataType::Int64 => typed::<Int64Type, K>(words, array, how, other),
        DataType::UInt8 => typed::<UInt8Type, K>(words, array, how, other),
        DataType::UInt16 => typed::<UInt16Type, K>(words, array, how, other),
        DataType::UInt32 => typed::<UInt32Type, K>(words, array, how, other),
        DataType::UInt64 => typed::<UInt64Type, K>(words, array, how, other),
        other => Err(not_integers("the column", other, &other.to_string()).into()),
    }
}

fn words_to_python<K: Width>(
    py: Python<'_>,
    mut words: Vec<K>,
    of: Type,
    role: Role,
    is_arrow: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let sign_mask = of.sign_mask(role);
    if sign_mask != 0 {
        words.iter_mut().for_each(|word| *word = K::low(Into::<u64>::into(*word) ^ sign_mask));
    }
    if is_arrow {
        let name = if role == Role::Key { "keys" } else { "values" };
        return Ok(Bound::new(py, ArrowColumn::named(name, K::array(words, of.is_signed)))?.into_any());
    }
    PyArray1::from_vec(py, words).call_method1("view", (dtype(py, of)?,))
}

/// The NumPy dtype of a type.
pub(super) fn dtype(py: Python<'_>, of: Type) -> PyResult<Bound<'_, PyArrayDescr>> {
    PyArrayDescr::new(py, of.name())
}
