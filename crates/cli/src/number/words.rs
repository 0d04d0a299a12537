//! Numbers of some rows, and the same as arrays.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, Float64Array, Int32Array, Int64Array, UInt32Array, UInt64Array};
use arrow_schema::DataType;

use koel::scheme::{Key, Value};

use super::{Number, Span, Type};
use crate::failure::Result;

/// Numbers of some rows of a column, or the bits of doubles, as readers return them.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// In two's complement: the span shows whether the highest bit is a sign.
    words: Vec<u64>,
    /// The least negative number, or 0.
    least: i64,
    /// The greatest number, or 0.
    greatest: u64,
}

impl Words {
    pub(crate) fn with_capacity(rows: usize) -> Words {
        Words { words: Vec::with_capacity(rows), ..Words::default() }
    }

    pub(crate) fn zeros(rows: usize) -> Words {
        Words { words: vec![0; rows], ..Words::default() }
    }

    /// A number from 0, or the bits of a double.
    #[inline]
    pub(crate) fn push(&mut self, number: u64) {
        self.words.push(number);
        self.greatest = self.greatest.max(number);
    }

    #[inline]
    pub(crate) fn push_negative(&mut self, number: i64) {
        self.words.push(number as u64);
        self.least = self.least.min(number);
    }

    pub(crate) fn push_number(&mut self, number: Number) {
        if number < 0 { self.push_negative(number as i64) } else { self.push(number as u64) }
    }

    /// The first rows.
    pub(crate) fn truncated(mut self, rows: usize) -> Words {
        self.words.truncate(rows);
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// A span of all types that hold the numbers.
    pub(crate) fn span(&self) -> Span {
        match self.words[..] {
            [] => Span::EMPTY,
            _ => Span { least: self.least.into(), greatest: self.greatest.into() },
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Number> {
        let kind = if self.least < 0 { Type::I64 } else { Type::U64 };
        self.words.iter().map(move |&word| kind.number(word))
    }

    /// The numbers as an array of a type that holds them.
    pub(crate) fn into_array(self, kind: Type) -> ArrayRef {
        match kind.bits() {
            u32::BITS => narrow(self.words.into_iter().map(|word| word as u32).collect(), kind),
            _ => wide(self.words, kind),
        }
    }
}

impl FromIterator<Number> for Words {
    fn from_iter<I: IntoIterator<Item = Number>>(numbers: I) -> Words {
        let numbers = numbers.into_iter();
        let mut words = Words::with_capacity(numbers.size_hint().0);
        numbers.for_each(|number| words.push_number(number));
        words
    }
}

/// What a table's columns hold: `u32` or `u64`.
pub trait Word: Key + Value {}

impl Word for u32 {}
impl Word for u64 {}

/// The numbers of arrays as one array of a type that holds them all. Each array is dropped when it is copied.
pub(crate) fn concatenated(arrays: Vec<ArrayRef>, kind: Type) -> ArrayRef {
    fn words<W: Word>(arrays: Vec<ArrayRef>) -> Vec<W> {
        let mut words = Vec::with_capacity(arrays.iter().map(|array| array.len()).sum());
        arrays.into_iter().for_each(|array| extend(&mut words, &array, 0));
        words
    }
    match &arrays[..] {
        [array] if *array.data_type() == kind.data_type() => Arc::clone(array),
        _ if kind.bits() == u32::BITS => narrow(words(arrays), kind),
        _ => wide(words(arrays), kind),
    }
}

/// Appends the numbers of an array as words that differ from them in the bits of `turned`.
pub(crate) fn extend<W: Word>(words: &mut Vec<W>, array: &ArrayRef, turned: u64) {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef) -> &[T::Native] {
        array.as_primitive::<T>().values()
    }
    let word = |word: u64| W::low(word ^ turned);
    match array.data_type() {
        DataType::UInt32 => words.extend(of::<UInt32Type>(array).iter().map(|&number| word(number.into()))),
        DataType::Int32 => words.extend(of::<Int32Type>(array).iter().map(|&number| word(number as u64))),
        DataType::Int64 => words.extend(of::<Int64Type>(array).iter().map(|&number| word(number as u64))),
        DataType::Float64 => words.extend(of::<Float64Type>(array).iter().map(|&number| word(number.to_bits()))),
        _ => words.extend(of::<UInt64Type>(array).iter().map(|&number| word(number))),
    }
}

impl Type {
    /// Arrow's type for such numbers.
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Type::U32 => DataType::UInt32,
            Type::I32 => DataType::Int32,
            Type::U64 => DataType::UInt64,
            Type::I64 => DataType::Int64,
            Type::F64 => DataType::Float64,
        }
    }
}

fn narrow(words: Vec<u32>, kind: Type) -> ArrayRef {
    match kind {
        Type::I32 => Arc::new(Int32Array::from(bytemuck::cast_vec::<u32, i32>(words))),
        _ => Arc::new(UInt32Array::from(words)),
    }
}

fn wide(words: Vec<u64>, kind: Type) -> ArrayRef {
    match kind {
        Type::I64 => Arc::new(Int64Array::from(bytemuck::cast_vec::<u64, i64>(words))),
        Type::F64 => Arc::new(Float64Array::from(bytemuck::cast_vec::<u64, f64>(words))),
        _ => Arc::new(UInt64Array::from(words)),
    }
}

/// Reserves memory for further words, or returns an error that says that there is not enough.
pub(crate) fn reserve<T>(words: &mut Vec<T>, more: usize) -> Result<()> {
    let bytes = (size_of::<T>() * words.len().max(more)) as u64;
    words.try_reserve(more).map_err(|_| koel::Error::OutOfMemory { device: "cpu".into(), bytes })?;
    Ok(())
}
