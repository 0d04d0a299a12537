//! Columns of numbers in memory.
//!
//! Text shows the type of its numbers only at its end, and may be a pipe, which is read once. So a column is a list of
//! arrays, each of the narrowest type for its own numbers. They are concatenated when the type of all is known.

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

    /// Keeps the first rows only.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.words.truncate(rows);
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

    /// The words as they are.
    pub(crate) fn into_vec(self) -> Vec<u64> {
        self.words
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

/// A column of numbers.
#[derive(Debug, Default)]
pub struct Numbers {
    arrays: Vec<ArrayRef>,
    rows: usize,
    /// The type that the user or the file names.
    named: Option<Type>,
    span: Span,
}

impl Numbers {
    /// An empty column of a type; without one, it has the narrowest for its numbers.
    pub fn new(named: Option<Type>) -> Numbers {
        Numbers { named, ..Numbers::default() }
    }

    /// A column of these words, which are of this type.
    pub(crate) fn of(words: Vec<u64>, kind: Type) -> Numbers {
        let rows = words.len();
        Numbers { arrays: vec![array(words, kind)], rows, ..Numbers::new(Some(kind)) }
    }

    /// Appends numbers, all of which some type holds together with those that are there.
    pub(crate) fn append(&mut self, words: Words) {
        let span = words.span();
        self.span = self.span.and(span);
        self.rows += words.len();
        let kind = self.named.or(span.narrowest()).unwrap_or(Type::I64);
        self.arrays.push(array(words.into_vec(), kind));
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The type of the numbers.
    pub fn kind(&self) -> Type {
        self.named.or(self.span.narrowest()).unwrap_or(Type::I64)
    }

    /// Whether the user or the file names the type.
    pub fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// A span of all types that hold the numbers.
    pub fn span(&self) -> Span {
        self.span
    }

    /// All numbers.
    pub fn iter(&self) -> impl Iterator<Item = Number> {
        self.arrays.iter().flat_map(|array| {
            let mut words: Vec<u64> = Vec::with_capacity(array.len());
            let kind = extend(&mut words, array, 0);
            words.into_iter().map(move |word| kind.number(word))
        })
    }

    /// The numbers as an array of a type that holds them.
    pub(crate) fn into_array(self, kind: Type) -> ArrayRef {
        match kind.bits() {
            u32::BITS => narrow(self.into_words(0), kind),
            _ => wide(self.into_words(0), kind),
        }
    }

    /// The numbers as values of a table.
    pub fn into_values<V: Word>(self) -> Vec<V> {
        self.into_words(0)
    }

    /// The numbers as keys of a table.
    pub fn into_keys<K: Word>(self) -> Vec<K> {
        let turned = self.kind().turned();
        self.into_words(turned)
    }

    /// Words that differ from the numbers in the bits of `turned`.
    fn into_words<W: Word>(self, turned: u64) -> Vec<W> {
        let mut words = Vec::with_capacity(self.rows);
        // Each array is dropped when it is copied, so that all are in memory once.
        for array in self.arrays {
            extend(&mut words, &array, turned);
        }
        words
    }
}

/// Appends the numbers of an array as words, and returns their type.
fn extend<W: Word>(words: &mut Vec<W>, array: &ArrayRef, turned: u64) -> Type {
    fn of<T: ArrowPrimitiveType, W: Word>(
        words: &mut Vec<W>,
        array: &ArrayRef,
        turned: u64,
        word: impl Fn(T::Native) -> u64,
    ) {
        words.extend(array.as_primitive::<T>().values().iter().map(|&number| W::low(word(number) ^ turned)));
    }
    match array.data_type() {
        DataType::UInt32 => (of::<UInt32Type, W>(words, array, turned, u64::from), Type::U32).1,
        DataType::Int32 => (of::<Int32Type, W>(words, array, turned, |number| number as u64), Type::I32).1,
        DataType::Int64 => (of::<Int64Type, W>(words, array, turned, |number| number as u64), Type::I64).1,
        DataType::Float64 => (of::<Float64Type, W>(words, array, turned, f64::to_bits), Type::F64).1,
        _ => (of::<UInt64Type, W>(words, array, turned, |number| number), Type::U64).1,
    }
}

/// Words as an array of a type that holds their numbers.
fn array(words: Vec<u64>, kind: Type) -> ArrayRef {
    match kind.bits() {
        u32::BITS => narrow(words.into_iter().map(|word| word as u32).collect(), kind),
        _ => wide(words, kind),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn column(named: Option<Type>, batches: &[&[Number]]) -> Numbers {
        let mut column = Numbers::new(named);
        batches.iter().for_each(|batch| column.append(batch.iter().copied().collect()));
        column
    }

    #[test]
    fn columns_are_as_wide_as_a_number_needs() {
        let most = Number::from(u64::MAX);
        for (batches, kind) in [
            (&[&[][..]][..], Type::U32),
            (&[&[7, 4_294_967_295], &[0]], Type::U32),
            (&[&[7], &[-1], &[2_147_483_647]], Type::I32),
            (&[&[4_294_967_295], &[-1]], Type::I64),
            (&[&[-5], &[4_294_967_295], &[-9_223_372_036_854_775_808]], Type::I64),
            (&[&[7, 4_294_967_295], &[most], &[3]], Type::U64),
            (&[&[4_294_967_296], &[-3]], Type::I64),
        ] {
            let of = || column(None, batches);
            let numbers: Vec<Number> = batches.concat();
            assert_eq!((of().kind(), of().len(), of().is_named()), (kind, numbers.len(), false), "{batches:?}");
            assert!(of().iter().eq(numbers.iter().copied()), "{batches:?}");
            let mut words = Vec::new();
            assert_eq!(extend::<u64>(&mut words, &of().into_array(kind), 0), kind);
            assert!(words.into_iter().map(|word| kind.number(word)).eq(numbers.iter().copied()), "{batches:?}");
            let keys: Vec<u64> = match kind.bits() {
                u32::BITS => of().into_keys::<u32>().into_iter().map(u64::from).collect(),
                _ => of().into_keys::<u64>(),
            };
            assert!(keys.iter().map(|&key| kind.of_key(key)).eq(numbers), "{batches:?}");
        }
    }

    #[test]
    fn named_types_are_kept() {
        for kind in Type::ALL {
            let numbers = [kind.span().least, 5, kind.span().greatest];
            let column = column(Some(kind), &[&[], &numbers]);
            assert!(column.is_named() && column.kind() == kind && column.iter().eq(numbers));
        }
        for (from, to) in
            [(Type::I64, Type::U32), (Type::U32, Type::I64), (Type::I32, Type::I64), (Type::I64, Type::I32)]
        {
            let least = if from.is_signed() && to.is_signed() { -9 } else { 0 };
            let mut words = Vec::new();
            let found = extend::<u64>(&mut words, &column(Some(from), &[&[least, 5]]).into_array(to), 0);
            assert!(found == to && words.into_iter().map(|word| to.number(word)).eq([least, 5]), "{from:?} {to:?}");
        }
    }
}
