//! Numbers of some rows of a column, and columns of all rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, UInt32Array, UInt64Array};
use arrow_schema::DataType;

use koel::scheme::{Key, Value};

use super::{Number, Span, Type};
use crate::failure::Result;

/// Numbers of some rows of a column, or the bits of doubles, as readers return them.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// Two's complement: the span shows whether the highest bit is a sign.
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

    /// Appends a number that is not negative, or the bits of a double.
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

    /// Keeps the first `rows` rows.
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

    /// The words without their span.
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

/// The type of a table's keys or values: `u32` or `u64`.
pub trait Word: Key + Value {
    /// The words of a column whose type has this width.
    fn of(column: Column) -> Vec<Self>;
}

impl Word for u32 {
    fn of(column: Column) -> Vec<u32> {
        column.narrow
    }
}

impl Word for u64 {
    fn of(column: Column) -> Vec<u64> {
        column.wide
    }
}

/// A column of numbers that widens when necessary: it begins with 32-bit words, and the first number that does not fit
/// converts them to 64-bit words. So text, whose types are known only at the end, need not be read twice.
#[derive(Debug, Default)]
pub struct Column {
    /// `narrow` or `wide` is empty.
    narrow: Vec<u32>,
    wide: Vec<u64>,
    /// The type that the user or the file states.
    pub(crate) named: Option<Type>,
    pub(crate) span: Span,
}

impl Column {
    /// Creates a column of this type from its words.
    pub(crate) fn of(words: impl Iterator<Item = u64>, kind: Type) -> Column {
        let (mut narrow, mut wide) = (Vec::new(), Vec::new());
        match kind.bits() {
            u32::BITS => narrow.extend(words.map(|word| word as u32)),
            _ => wide.extend(words),
        }
        Column { narrow, wide, named: Some(kind), span: Span::EMPTY }
    }

    /// The type of the numbers.
    pub(crate) fn kind(&self) -> Type {
        self.named.or(self.span.narrowest()).unwrap_or(Type::I64)
    }

    /// Appends numbers. Some type must hold them together with the earlier numbers.
    pub(crate) fn append(&mut self, words: Words) {
        let before = self.kind();
        self.span = self.span.and(words.span());
        if self.kind().bits() == u32::BITS {
            return self.narrow.extend(words.words.into_iter().map(|word| word as u32));
        }
        self.widen(before);
        self.wide.extend(words.words);
    }

    /// Converts 32-bit words of this type to 64-bit words.
    fn widen(&mut self, kind: Type) {
        if !self.narrow.is_empty() {
            self.wide =
                std::mem::take(&mut self.narrow).into_iter().map(|word| kind.number(word.into()) as u64).collect();
        }
    }

    /// The numbers as an array of this type, which holds all of them.
    pub(crate) fn into_array(mut self, kind: Type) -> ArrayRef {
        if kind.bits() > u32::BITS {
            self.widen(self.kind());
        } else if !self.wide.is_empty() {
            self.narrow = self.wide.into_iter().map(|word| word as u32).collect();
            self.wide = Vec::new();
        }
        match kind {
            Type::U32 => Arc::new(UInt32Array::from(self.narrow)),
            Type::I32 => Arc::new(Int32Array::from(bytemuck::cast_vec::<u32, i32>(self.narrow))),
            Type::U64 => Arc::new(UInt64Array::from(self.wide)),
            Type::I64 => Arc::new(Int64Array::from(bytemuck::cast_vec::<u64, i64>(self.wide))),
            Type::F64 => Arc::new(Float64Array::from(bytemuck::cast_vec::<u64, f64>(self.wide))),
        }
    }

    /// The numbers as keys of a table.
    pub(crate) fn into_keys<K: Word>(self) -> Vec<K> {
        let turned = self.kind().turned();
        let mut keys = K::of(self);
        if turned != 0 {
            keys.iter_mut().for_each(|key| *key = K::low((*key).into() ^ turned));
        }
        keys
    }

    /// All numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Number> {
        let (narrow, wide) = (self.narrow.iter().map(|&word| word.into()), self.wide.iter().copied());
        narrow.chain(wide).map(|word| self.kind().number(word))
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

/// Reserves memory for further words, or returns an error if there is not enough.
pub(crate) fn reserve<T>(words: &mut Vec<T>, more: usize) -> Result<()> {
    let bytes = (size_of::<T>() * words.len().max(more)) as u64;
    words.try_reserve(more).map_err(|_| koel::Error::OutOfMemory { device: "cpu".into(), bytes })?;
    Ok(())
}
