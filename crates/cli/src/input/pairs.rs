//! Keys and values of all files, in memory or in a temporary file.
//!
//! Text shows the types of its numbers only at its end, and may be a pipe, which is read once. So each batch in memory has
//! the narrowest types for its own rows, and those in a file have 64 bits, until the types of all are known.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use koel_arrow::external::{Limit, Spooled};

use super::{Named, Sink, Want};
use crate::failure::Result;
use crate::number::words::{concatenated, extend};
use crate::number::{Number, Span, Type, Word, Words};

/// Rows of all files.
#[derive(Debug)]
pub struct Pairs {
    stored: Spooled,
    is_in_file: bool,
    columns: [Column; 2],
    /// Without values, only keys are stored.
    want: Want,
    rows: u64,
}

/// What is known of a column.
#[derive(Clone, Copy, Debug, Default)]
struct Column {
    named: Option<Type>,
    span: Span,
}

impl Column {
    fn kind(&self) -> Type {
        self.named.or(self.span.narrowest()).unwrap_or(Type::I64)
    }
}

impl Pairs {
    /// No rows yet.
    pub fn new(want: Want, is_in_file: bool) -> Pairs {
        // Batches have schemas of their own.
        let (schema, limit) = (Arc::new(Schema::empty()), Limit::new(u64::MAX));
        let stored = if is_in_file { Spooled::new(&schema, &limit) } else { Spooled::buffered(&schema, &limit) };
        Pairs { stored, is_in_file, columns: [Column::default(); 2], want, rows: 0 }
    }

    /// The types of keys and of values.
    pub fn types(&self) -> (Type, Type) {
        (self.columns[0].kind(), self.columns[1].kind())
    }

    /// The same where the numbers alone show them.
    pub(super) fn found_types(&self) -> [Option<Type>; 2] {
        self.columns.map(|column| column.named.is_none().then(|| column.kind()))
    }

    /// A span of all types that hold the keys.
    pub(crate) fn span_of_keys(&self) -> Span {
        self.columns[0].span
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// All rows as words of a table; without values if there are none.
    pub fn into_words<K: Word, V: Word>(self) -> Result<(Vec<K>, Vec<V>)> {
        let (turned, rows) = (self.types().0.turned(), self.rows as usize);
        let mut words = (Vec::with_capacity(rows), Vec::with_capacity((self.width() - 1) * rows));
        for batch in self.stored.into_batches() {
            append(&mut words, &batch?, turned);
        }
        Ok(words)
    }

    /// The same, batch by batch.
    pub(crate) fn words<K: Word, V: Word>(&self) -> impl Iterator<Item = Result<(Vec<K>, Vec<V>)>> {
        let turned = self.types().0.turned();
        self.stored.read().map(move |batch| {
            let mut words = (Vec::new(), Vec::new());
            append(&mut words, &batch?, turned);
            Ok(words)
        })
    }

    /// Keys as numbers of this type, and values if there are any, batch by batch.
    pub(crate) fn arrays(&self, keys: Type) -> impl Iterator<Item = Result<Vec<ArrayRef>>> {
        let kinds = [keys, self.types().1];
        self.stored.read().map(move |batch| {
            let batch = batch?;
            let columns = batch.columns().iter().zip(kinds);
            Ok(columns.map(|(column, kind)| concatenated(vec![Arc::clone(column)], kind)).collect())
        })
    }

    /// The same rows, in one batch if they are in memory.
    pub(crate) fn in_one(mut self, keys: Type) -> Result<Pairs> {
        if self.is_in_file {
            return Ok(self);
        }
        let mut columns = vec![Vec::new(); self.width()];
        let kinds = [keys, self.types().1];
        let stored = Pairs::new(self.want, false).stored;
        for batch in std::mem::replace(&mut self.stored, stored).into_batches() {
            columns.iter_mut().zip(batch?.columns()).for_each(|(arrays, column)| arrays.push(Arc::clone(column)));
        }
        let arrays = columns.into_iter().zip(kinds).map(|(arrays, kind)| concatenated(arrays, kind));
        self.store(arrays.collect())?;
        Ok(self)
    }

    /// Columns that are stored.
    fn width(&self) -> usize {
        if self.want == Want::Pairs { 2 } else { 1 }
    }

    fn store(&mut self, arrays: Vec<ArrayRef>) -> Result<()> {
        let fields: Vec<_> = arrays.iter().map(|array| Field::new("", array.data_type().clone(), false)).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        Ok(self.stored.push(&batch.map_err(koel_arrow::Error::from)?)?)
    }

    /// All rows. Values are 0 where there are none.
    pub fn numbers(&self) -> Result<Vec<(Number, Number)>> {
        let (keys, values) = self.types();
        let mut numbers = Vec::new();
        for words in self.words::<u64, u64>() {
            let (of_keys, mut of_values) = words?;
            of_values.resize(of_keys.len(), 0);
            let turned = keys.turned();
            let key = |key: u64| keys.number(key ^ turned);
            numbers.extend(of_keys.into_iter().map(key).zip(of_values.into_iter().map(|value| values.number(value))));
        }
        Ok(numbers)
    }
}

impl Default for Pairs {
    fn default() -> Pairs {
        Pairs::new(Want::Pairs, false)
    }
}

fn append<K: Word, V: Word>((keys, values): &mut (Vec<K>, Vec<V>), batch: &RecordBatch, turned: u64) {
    extend(keys, batch.column(0), turned);
    batch.columns().iter().skip(1).for_each(|column| extend(values, column, 0));
}

impl Sink for Pairs {
    fn begin(&mut self, named: Named) -> Result<()> {
        (self.columns[0].named, self.columns[1].named) = (named.keys, named.values);
        Ok(())
    }

    fn append(&mut self, keys: Words, values: Words) -> Result<()> {
        self.rows += keys.len() as u64;
        let mut arrays = Vec::new();
        let (width, is_in_file) = (self.width(), self.is_in_file);
        for (words, column) in [keys, values].into_iter().zip(&mut self.columns).take(width) {
            column.span = column.span.and(words.span());
            // All batches of a file have one schema.
            let kind = if is_in_file { Type::U64 } else { Column { span: words.span(), ..*column }.kind() };
            arrays.push(words.into_array(kind));
        }
        self.store(arrays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(named: Option<Type>, is_in_file: bool, batches: &[&[Number]]) -> Pairs {
        let mut pairs = Pairs::new(Want::Keys, is_in_file);
        let appended = pairs.begin(Named { keys: named, ..Named::default() }).and_then(|()| {
            batches.iter().try_for_each(|batch| pairs.append(batch.iter().copied().collect(), Words::default()))
        });
        appended.map_or_else(|failure| panic!("{failure}"), |()| pairs)
    }

    /// The keys of a table as numbers.
    fn keys_of(pairs: Pairs) -> Vec<Number> {
        let kind = pairs.types().0;
        let keys: Result<Vec<u64>> = match kind.bits() {
            u32::BITS => pairs.into_words::<u32, u32>().map(|(keys, _)| keys.into_iter().map(u64::from).collect()),
            _ => pairs.into_words::<u64, u32>().map(|(keys, _)| keys),
        };
        keys.unwrap_or_else(|failure| panic!("{failure}")).into_iter().map(|key| kind.of_key(key)).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_numbers() {
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
            for is_in_file in [false, true] {
                let of = || pairs(None, is_in_file, batches);
                let numbers: Vec<Number> = batches.concat();
                assert_eq!((of().types().0, of().rows()), (kind, numbers.len() as u64), "{batches:?}");
                let read = of().numbers().unwrap_or_else(|failure| panic!("{failure}"));
                assert!(read.into_iter().map(|(key, _)| key).eq(numbers.iter().copied()), "{batches:?}");
                assert_eq!(keys_of(of()), numbers, "{batches:?}");
            }
        }
        for kind in Type::ALL {
            let numbers = [kind.span().least, 5, kind.span().greatest];
            let pairs = pairs(Some(kind), false, &[&[], &numbers]);
            assert_eq!((pairs.types().0, keys_of(pairs)), (kind, numbers.to_vec()));
        }
    }

    #[test]
    fn arrays_are_of_any_type_that_holds_their_numbers() {
        for (from, to) in
            [(Type::I64, Type::U32), (Type::U32, Type::I64), (Type::I32, Type::I64), (Type::I64, Type::I32)]
        {
            let least = if from.is_signed() && to.is_signed() { -9 } else { 0 };
            let pairs = pairs(Some(from), false, &[&[least], &[5]]);
            let arrays = pairs.in_one(to).and_then(|pairs| pairs.arrays(to).collect::<Result<Vec<_>>>());
            let arrays = arrays.unwrap_or_else(|failure| panic!("{failure}")).concat();
            assert_eq!((arrays.len(), arrays[0].data_type()), (1, &to.data_type()));
            let mut words: Vec<u64> = Vec::new();
            extend(&mut words, &arrays[0], 0);
            assert!(words.into_iter().map(|word| to.number(word)).eq([least, 5]), "{from:?} {to:?}");
        }
    }
}
